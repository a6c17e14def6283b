// The words of tables: an inverted index from words to the tables that have them, and the tables by their lengths.
//
// Tables are identified by *slots* here, which are numbered as tables open and stay when others close, so that lists of
// tables by slot are lists by age. A closed table leaves its slot empty until more slots are empty than not; then all
// move up. So the order of tables, and with it every bit, is the same in a stream that was saved and restored.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "process.hpp"

namespace dyncrp {

using Slot = std::uint32_t;

/// The counts of words in tables. Words are identified by columns outside, and by numbers that are reused inside.
class Words {
  public:
    static constexpr std::uint32_t NONE = 0xFFFFFFFF;

    /// A word that some open table has, and the tables that have it, oldest first; some of them may have closed.
    struct Word {
        std::int64_t column = -1;
        double total = 0.0;  // its count in the open tables
        Index holders = 0;   // how many open tables have it
        std::vector<Slot> slots;
        std::vector<double> counts;
    };

    Index n_words() const { return static_cast<Index>(of_column_.size()); }
    double total() const { return total_; }
    const Word& word(std::uint32_t number) const { return words_[number]; }

    /// The number of the word in a column; NONE if no open table has it.
    std::uint32_t find(std::int64_t column) const {
        const auto found = of_column_.find(column);
        return found == of_column_.end() ? NONE : found->second;
    }

    /// Add x to the count of the word in a column, in the table in this slot.
    void add(Slot slot, std::int64_t column, double x) {
        if (slot >= of_slot_.size()) of_slot_.resize(slot + 1);
        const auto [entry, is_new] = of_column_.try_emplace(column, NONE);
        if (is_new) entry->second = fresh(column);
        Word& word = words_[entry->second];
        const auto where = place(word, slot);
        if (where < word.slots.size() && word.slots[where] == slot) {
            word.counts[where] += x;
        } else {
            word.slots.insert(word.slots.begin() + static_cast<std::ptrdiff_t>(where), slot);
            word.counts.insert(word.counts.begin() + static_cast<std::ptrdiff_t>(where), x);
            of_slot_[slot].push_back(entry->second);
            ++word.holders;
        }
        word.total += x;
        total_ += x;
    }

    /// Forget the table in this slot, and words that no other open table has.
    void close(Slot slot) {
        if (slot >= of_slot_.size()) return;
        for (const std::uint32_t number : of_slot_[slot]) {
            Word& word = words_[number];
            const double count = word.counts[place(word, slot)];
            total_ -= count;
            word.total -= count;
            if (--word.holders > 0) continue;
            of_column_.erase(word.column);
            word = Word{};
            free_.push_back(number);
        }
        std::vector<std::uint32_t>().swap(of_slot_[slot]);
    }

    /// Move tables from their old slots to the slots `now`, in the same order; −1 if a table has closed.
    void renumber(std::span<const std::int32_t> now, Index n_tables) {
        std::vector<std::vector<std::uint32_t>> of_slot(static_cast<std::size_t>(n_tables));
        for (std::size_t slot = 0; slot < of_slot_.size(); ++slot) {
            if (now[slot] >= 0) of_slot[static_cast<std::size_t>(now[slot])] = std::move(of_slot_[slot]);
        }
        of_slot_ = std::move(of_slot);
        for (Word& word : words_) {
            std::size_t kept = 0;
            for (std::size_t j = 0; j < word.slots.size(); ++j) {
                if (now[word.slots[j]] < 0) continue;
                word.slots[kept] = static_cast<Slot>(now[word.slots[j]]);
                word.counts[kept++] = word.counts[j];
            }
            word.slots.resize(kept);
            word.counts.resize(kept);
        }
    }

    /// The numbers of all words, by their columns.
    std::vector<std::uint32_t> by_column() const {
        std::vector<std::pair<std::int64_t, std::uint32_t>> pairs(of_column_.begin(), of_column_.end());
        std::sort(pairs.begin(), pairs.end());
        std::vector<std::uint32_t> numbers;
        for (const auto& [column, number] : pairs) numbers.push_back(number);
        return numbers;
    }

    /// The columns and counts of one table, by column.
    std::vector<std::pair<std::int64_t, double>> of(Slot slot) const {
        std::vector<std::pair<std::int64_t, double>> found;
        if (slot >= of_slot_.size()) return found;
        for (const std::uint32_t number : of_slot_[slot]) {
            const Word& word = words_[number];
            found.emplace_back(word.column, word.counts[place(word, slot)]);
        }
        std::sort(found.begin(), found.end());
        return found;
    }

  private:
    static std::size_t place(const Word& word, Slot slot) {
        if (word.slots.empty() || word.slots.back() < slot) return word.slots.size();
        return static_cast<std::size_t>(std::lower_bound(word.slots.begin(), word.slots.end(), slot) -
                                        word.slots.begin());
    }

    std::uint32_t fresh(std::int64_t column) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(words_.size()));
            words_.emplace_back();
        }
        const std::uint32_t number = free_.back();
        free_.pop_back();
        words_[number].column = column;
        return number;
    }

    std::unordered_map<std::int64_t, std::uint32_t> of_column_;
    std::vector<Word> words_;
    std::vector<std::uint32_t> free_;                  // numbers of words that were forgotten
    std::vector<std::vector<std::uint32_t>> of_slot_;  // the words of each table
    double total_ = 0.0;                               // all counts
};

/// The open tables by their lengths n_c, with the sum of the mode states for each length. Only the length matters for a
/// table that shares no word with a document.
class Lengths {
  public:
    static constexpr std::uint32_t CLOSED = 0;  // the number of the length of tables that have closed

    explicit Lengths(Index n_modes) : width_(2 * static_cast<std::size_t>(n_modes)) { clear(); }

    void clear() {
        lengths_.assign(1, -1.0);
        members_.assign(1, 0);
        sums_.assign(width_, 0.0);
        free_.clear();
        order_.clear();
    }

    std::size_t n_numbers() const { return lengths_.size(); }
    double length(std::uint32_t number) const { return lengths_[number]; }
    const double* sum(std::uint32_t number) const { return sums_.data() + number * width_; }
    double* sum(std::uint32_t number) { return sums_.data() + number * width_; }
    /// The numbers of the lengths that some table has, the shortest first.
    const std::vector<std::uint32_t>& order() const { return order_; }

    /// Add a table with these mode states to this length; return the number of the length.
    std::uint32_t enter(double length, const double* states) {
        auto at = where(length);
        if (at == order_.end() || lengths_[*at] != length) {
            at = order_.insert(at, fresh(length));
        }
        const std::uint32_t number = *at;
        ++members_[number];
        for (std::size_t j = 0; j < width_; ++j) sum(number)[j] += states[j];
        return number;
    }

    void leave(std::uint32_t number, const double* states) {
        for (std::size_t j = 0; j < width_; ++j) sum(number)[j] -= states[j];
        if (--members_[number] > 0) return;
        order_.erase(where(lengths_[number]));
        std::fill_n(sum(number), width_, 0.0);
        free_.push_back(number);
    }

    /// Sum again: `each(add)` calls add(number, states) for all open tables.
    template <class Each>
    void sum_up(Each each) {
        std::fill(sums_.begin(), sums_.end(), 0.0);
        each([this](std::uint32_t number, const double* states) {
            for (std::size_t j = 0; j < width_; ++j) sum(number)[j] += states[j];
        });
    }

  private:
    std::vector<std::uint32_t>::iterator where(double length) {
        return std::lower_bound(order_.begin(), order_.end(), length,
                                [this](std::uint32_t number, double value) { return lengths_[number] < value; });
    }

    std::uint32_t fresh(double length) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(lengths_.size()));
            lengths_.push_back(0.0);
            members_.push_back(0);
            sums_.resize(sums_.size() + width_, 0.0);
        }
        const std::uint32_t number = free_.back();
        free_.pop_back();
        lengths_[number] = length;
        return number;
    }

    std::size_t width_;
    std::vector<double> lengths_, sums_;
    std::vector<Index> members_;
    std::vector<std::uint32_t> free_, order_;
};

}  // namespace dyncrp
