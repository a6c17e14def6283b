// The stream of a family whose rows are dense: blocks of rows are screened together, and tables may have an index.
#pragma once

#include "stream.hpp"

namespace dyncrp {

inline constexpr Index SCRATCH = Index{1} << 21;  // entries of a block's product with the tables

template <Family F>
class StreamOf final : public Stream {
  public:
    StreamOf(const typename F::Settings& settings, Coordinates::Settings coordinates, std::vector<Mode> modes,
             const Rules& rules)
        : Stream(std::move(modes), rules), family_(settings, rules.variational), coordinates_(std::move(coordinates)),
          pass_(family_, seats_, rules_, work_) {
        reserve(FIRST_CAPACITY);
    }

    Index n_features() const override { return coordinates_.n_features(); }
    bool is_indexed() const override {
        if constexpr (Searches<F>) {
            return family_.is_indexed();
        } else {
            return false;
        }
    }
    Index stats_width() const override { return family_.stats_width(); }
    const char* extra() const override { return family_.extra(); }
    Index extra_width() const override { return family_.extra_width(); }
    void set_tuning(const Tuning& tuning) override { tuning_ = tuning; }
    void set_rules(const Rules& rules) override {
        Stream::set_rules(rules);
        pass_.read_rules();
    }

    Snapshot snapshot() const override {
        const Index K = seats_.n_tables, S = stats_width(), P = extra_width();
        Snapshot taken;
        taken.take(seats_, rules_);
        taken.stats.resize(static_cast<std::size_t>(K * S));
        taken.extra.resize(static_cast<std::size_t>(K * P));
        for (Index c = 0; c < K; ++c) family_.write(c, taken.stats.data() + c * S, taken.extra.data() + c * P);
        return taken;
    }

    void restore(const Snapshot& given) override {
        const Index K = given.n_tables, S = stats_width(), P = extra_width();
        reserve(std::max(FIRST_CAPACITY, 2 * K));
        for (Index c = 0; c < K; ++c) {
            const double* extra_numbers = given.extra.empty() ? nullptr : given.extra.data() + c * P;
            family_.read(c, given.stats.data() + c * S, extra_numbers);
        }
        given.give(seats_);
        work_.frame = Frame{};
        family_.recentre(K, nullptr);
    }

    void compare(const Rows& rows, double* screened, double* scores, double* slack) const override {
        Workspace work;
        const Index K = seats_.n_tables;
        take_block(rows, 0, rows.n, K, work);
        work.block.n_tables = K;
        work.block.weigh_all_alike(K);
        work.block.touch(0);  // as if the block had touched it
        family_.prepare(work.block);
        for (Index m = 0; m < rows.n; ++m) {
            slack[m] = family_.screen(work.block, m, K);
            for (Index c = 0; c < K; ++c) {
                screened[m * K + c] = work.block.screened[static_cast<std::size_t>(c)];
                scores[m * K + c] = family_.score(c, work.block.rows[static_cast<std::size_t>(m)]).log_likelihood;
            }
        }
    }

  private:
    /// How many rows to screen at once: more if there are more tables.
    Index block_size(Index K, Index capacity) const {
        if (tuning_.block > 0) return tuning_.block;
        if (is_indexed()) return 64;  // each row is searched for separately
        const Index wanted = std::min(F::MOST_ROWS, K <= 32 ? Index{64} : K < 512 ? Index{128} : LARGEST_BLOCK);
        return std::min(wanted, std::max<Index>(4, SCRATCH / capacity));
    }

    void reserve(Index capacity) {
        capacity = whole_vectors(capacity);
        family_.for_each([=](auto& array) { array.reserve(capacity); });
        seats_.reserve(capacity);
        capacity_ = capacity;
    }

    /// Put `size` rows from i on into the block, which is to be screened against at most `capacity` tables.
    void take_block(const Rows& rows, Index i, Index size, Index capacity, Workspace& work) const {
        const double* x = rows.x + i * coordinates_.n_features();
        work.block.fit(size, capacity, family_.screen_width());
        if (static_cast<Index>(work.occupancy.size()) < capacity) {
            work.occupancy.resize(static_cast<std::size_t>(capacity));
        }
        work.block.size = size;
        if constexpr (requires { family_.take(x, size, capacity, work.block); }) {
            family_.take(x, size, capacity, work.block);  // its parts have their own coordinates
            return;
        }
        // The caller has checked the rows, but another thread may change them, and a value that is not finite would
        // spoil all.
        if constexpr (!requires { F::CHECKS_ROWS; }) {
            if (sum_of<double>(size * coordinates_.n_features(), [=](Index d) { return 0.0 * x[d]; }) != 0.0) {
                throw std::invalid_argument("rows must hold finite numbers, as family.check returns them");
            }
        }
        coordinates_.take(x, size, work.rows);
        for (Index m = 0; m < size; ++m) {
            work.block.rows[static_cast<std::size_t>(m)] = coordinates_.row(x, m, work.rows);
        }
    }

    /// Learn a block of rows from i on, or less if the rest must be screened again.
    Index learn_block(const Rows& rows, Index i, Record* record) override {
        if constexpr (Searches<F>) keep_index();
        // If a block ends early, the rest of it was screened in vain.
        const Index size = std::min({block_size(seats_.n_tables, capacity_), usual_ * 2, rows.n - i});
        while (seats_.n_tables + size > capacity_) reserve(2 * capacity_);
        take_block(rows, i, size, capacity_, work_);
        if (seats_.n_tables == 0) family_.recentre(0, work_.block.rows.data());
        pass_.prepare();
        const bool tells = rows.tells();
        if (!tells) work_.forget_told();
        Index m = 0;
        do {
            if (tells && !work_.take_told(rows, i + m, seats_)) break;
            outcome_ = pass_.observe(m, rows.times[i + m]);
            note(rows, i + m, work_, record);
            if (!work_.closing.empty()) close();
            ++m;
        } while (m < size && !outcome_.ends_block);
        if constexpr (Finishes<F>) family_.finish(work_.block, m, pass_.in_vain, seats_.n_tables);
        pass_.in_vain = 0;
        rows_with_index_ += m;
        if (8 * seats_.n_open() < 7 * seats_.n_tables) remove_closed();
        if (pass_.blunt >= tuning_.blunt_rows && m > 0) {
            pass_.blunt = 0;
            family_.recentre(seats_.n_tables, &work_.block.rows[static_cast<std::size_t>(m - 1)]);
        }
        usual_ = m < size ? std::max<Index>(2, m) : std::max(usual_, size);
        return m;
    }

    /// Between calls there are no closed tables.
    void end_learning() override { remove_closed(); }

    std::pair<std::int64_t, double> judge_one(const Rows& row, const Seats& seats) override {
        Pass<F, false> pass(family_, seats, rules_, work_);
        take_block(row, 0, 1, capacity_, work_);
        pass.prepare();
        const Outcome outcome = pass.observe(0, *row.times);
        return {seats.label_of(outcome.place), outcome.log_evidence};
    }

    void judge(const Rows& rows, const Seats& seats, const Prediction& prediction, bool predictive,
               const Pause& pause) const override {
        Workspace work;
        std::unique_ptr<F> other;
        Rules rules = rules_;
        if (predictive && rules.variational) {
            rules.variational = false;
            other = std::make_unique<F>(family_);
            other->set_variational(false, seats_.n_tables);
        }
        Pass<F, false> pass(other ? *other : family_, seats, rules, work);
        const Index K = seats_.n_tables;
        Pauses pauses(pause);
        for (Index i = 0; i < rows.n; pauses.look()) {
            const Index size = std::min(block_size(K, K + 1), rows.n - i);
            take_block(rows, i, size, K + 1, work);
            pass.prepare();
            for (Index m = 0; m < size; ++m, ++i) {
                prediction.write(i, pass.observe(m, rows.times[i]), seats_);
                double* shares = prediction.shares(i, K);
                if (shares == nullptr) continue;
                std::fill_n(shares, K + 1, 0.0);
                for (std::size_t j = 0; j < work.places.size(); ++j) shares[work.places[j]] = work.responsibilities[j];
            }
        }
    }

    void close() {
        seats_.close(work_.closing);
        if constexpr (Searches<F>) {
            if (!family_.is_indexed()) return;
            for (const Index c : work_.closing) family_.close_in_index(c);
        }
    }

    void remove_closed() {
        if (seats_.closed().empty()) return;
        if constexpr (Searches<F>) {
            if (family_.is_indexed()) rename_in_index();
        }
        family_.for_each([&](auto& array) { array.remove(seats_.closed(), seats_.n_tables); });
        seats_.remove_closed();
    }

    /// Tell the index that the tables after closed ones move up.
    void rename_in_index() {
        const std::span<const Index> closed = seats_.closed();
        std::size_t n = 0;
        for (Index c = closed[0]; c < seats_.n_tables; ++c) {
            if (n < closed.size() && closed[n] == c) {
                ++n;
            } else {
                family_.rename_in_index(c, c - static_cast<Index>(n));
            }
        }
    }

    /// Use an index if there are many tables, as long as it pays. If it does not, try again later.
    void keep_index()
        requires Searches<F>
    {
        constexpr Index TRIAL = 64;          // rows after which an index must have paid
        constexpr double MOST_COST = 0.7;    // of a scan of all tables
        constexpr double MOST_DECAY = 64.0;  // nats that bounds of weights may fall before they are computed again
        const Index K = seats_.n_tables;
        if (!family_.is_indexed()) {
            if (K < tuning_.index_from || rules_.posterior || rows_with_index_ < wait_) return;
        } else if (rows_with_index_ >= TRIAL && !tuning_.keeps_index) {
            rows_with_index_ = 0;
            if (family_.index_cost(work_.block) > MOST_COST) {
                family_.drop_index(K);
                wait_ = std::max(2 * wait_, 256 * TRIAL);
                return;
            }
            wait_ = 0;
            if (K < 4 * indexed_at_ && -seats_.log_decay(seats_.time) < MOST_DECAY) return;
        } else {
            return;
        }
        remove_closed();
        seats_.anchor();
        indexed_at_ = seats_.n_tables;
        bounds_.clear();
        for (Index c = 0; c < indexed_at_; ++c) bounds_.push_back(seats_.lasting_bound(c));
        family_.build_index(indexed_at_, bounds_.data());
        if (!family_.is_indexed()) wait_ = std::max(2 * wait_, 256 * TRIAL);
        rows_with_index_ = 0;
    }

    F family_;
    Coordinates coordinates_;
    Tuning tuning_;
    Workspace work_;
    Pass<F, true> pass_;
    Index usual_ = LARGEST_BLOCK;  // how many rows recent blocks reached
    // Of an index: rows since it was built, or since there is none; how many it waits for; tables when it was built.
    Index rows_with_index_ = 0, wait_ = 0, indexed_at_ = 0;
    std::vector<float> bounds_;
};

}  // namespace dyncrp
