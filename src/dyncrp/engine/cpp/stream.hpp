// A stream: the loop and its state, with the same interface for all families.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "loop.hpp"

namespace dyncrp {

/// Called about twenty times a second between two rows. If it throws, the rows so far are learned.
using Pause = std::function<void()>;

/// Results of a segment of learned rows: labels (n,), log evidence (n,), responsibilities as CSR with indptr (n + 1,).
struct Record {
    std::int64_t* labels;
    double* log_evidence;
    std::int64_t* indptr;
    double* absences;
    std::vector<std::int64_t> indices;
    std::vector<double> data;
    std::vector<std::int64_t> closed, closed_rows;

    void reserve(Index n) {
        indptr[0] = 0;
        indices.reserve(static_cast<std::size_t>(n + n / 8));
        data.reserve(static_cast<std::size_t>(n + n / 8));
    }

    /// Record the result of the i-th row of the call; tables are given by their ids.
    void write(Index i, const Outcome& outcome, std::span<const Index> places, std::span<const double> responsibilities,
               std::span<const Index> closing, const Seats& seats) {
        labels[i] = seats.label_of(outcome.place);
        log_evidence[i] = outcome.log_evidence;
        absences[i] = outcome.absence;
        for (std::size_t j = 0; j < places.size(); ++j) {
            indices.push_back(seats.ids[places[j]]);
            data.push_back(responsibilities[j]);
        }
        indptr[i + 1] = static_cast<std::int64_t>(indices.size());
        for (const Index c : closing) {
            closed.push_back(seats.ids[c]);
            closed_rows.push_back(i);
        }
    }
};

/// Where to write predictions; null for those that are not wanted. Shares are (n, K + 1).
struct Prediction {
    std::int64_t* labels = nullptr;
    double* log_evidence = nullptr;
    double* responsibilities = nullptr;

    double* shares(Index i, Index K) const {
        return responsibilities == nullptr ? nullptr : responsibilities + i * (K + 1);
    }
    void write(Index i, const Outcome& outcome, const Seats& seats) const {
        if (labels != nullptr) labels[i] = seats.label_of(outcome.place);
        if (log_evidence != nullptr) log_evidence[i] = outcome.log_evidence;
    }
};

/// The state that the next step needs, as arrays of the reference, with the names and units of docs/files.md.
struct Snapshot {
    Index n_tables = 0;
    std::vector<double> stats, extra;             // (K, S), and (K, P) or none
    std::vector<double> mode_states, mode_total;  // (K, 2M) and (2M,) or none, real and imaginary parts in turn
    std::vector<double> n_tables_posterior;       // (K + 1,)
    std::vector<std::int64_t> table_ids, sizes;   // (K,)
    std::vector<double> first_times, last_times;  // (K,)
    std::int64_t mark = UNKNOWN;
    std::vector<std::int64_t> taken;
    double mode_time = 0.0, time = 0.0, log_evidence = 0.0;
    Index n_opened = 0, n_observations = 0;
    // Of sparse rows, in place of stats: the counts of words of each table, as rows; and sums of mode states, see
    // Lengths.
    std::vector<std::int64_t> words_indptr, words_indices;
    std::vector<double> words_counts, mode_sums;

    void take(const Seats& seats, const Rules& rules) {
        const Index K = seats.n_tables;
        n_tables = K;
        if (K > 0) mode_states.assign(seats.states(0), seats.states(0) + 2 * seats.n_modes() * K);
        mode_total = seats.total();
        for (Index k = 0; k <= K; ++k) {
            n_tables_posterior.push_back(rules.posterior ? seats.posterior(k) : (k == K ? 1.0 : 0.0));
        }
        for (Index c = 0; c < K; ++c) {
            table_ids.push_back(seats.ids[c]);
            sizes.push_back(seats.seen[c].size);
            first_times.push_back(seats.seen[c].first_time);
            last_times.push_back(seats.seen[c].last_time);
        }
        mark = seats.mark;
        taken = seats.taken;
        mode_time = seats.origin();
        time = seats.time;
        log_evidence = seats.log_evidence;
        n_opened = seats.n_opened;
        n_observations = seats.n_observations;
    }

    /// The seats have room.
    void give(Seats& seats) const {
        seats.n_tables = n_tables;
        for (Index c = 0; c < n_tables; ++c) {
            const auto at = static_cast<std::size_t>(c);
            seats.restore(c, mode_states.data() + 2 * seats.n_modes() * c);
            seats.ids[c] = table_ids[at];
            seats.seen[c] = {sizes[at], first_times[at], last_times[at]};
        }
        if (mode_total.empty()) {
            seats.sum_total();
        } else {
            seats.restore_total(mode_total.data());
        }
        seats.restore_posterior(n_tables_posterior.data());
        seats.restore_origin(mode_time);
        seats.time = time;
        seats.log_evidence = log_evidence;
        seats.n_opened = n_opened;
        seats.n_observations = n_observations;
        seats.mark = mark;
        seats.taken = taken;
    }
};

/// Settings on which no result may depend; tests vary them.
struct Tuning {
    Index block = 0;           // rows in a block; 0: chosen by the number of tables
    Index blunt_rows = 256;    // after this many rows of blunt screening, a new reference point is worth its cost
    Index index_from = 4096;   // number of tables from which an index is tried,
    bool keeps_index = false;  // whatever it costs
};

/// The loops over rows to learn and rows to predict are the same for all families; what happens with a block of rows,
/// or with a single one, is not.
class Stream {
  public:
    Stream(std::vector<Mode> modes, const Rules& rules) : seats_(std::move(modes)), rules_(rules) {}
    virtual ~Stream() = default;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    const Seats& seats() const { return seats_; }
    Index capacity() const { return capacity_; }
    virtual Index n_features() const = 0;
    virtual Index stats_width() const = 0;
    virtual bool is_sparse() const { return false; }
    virtual bool is_indexed() const { return false; }
    virtual const char* extra() const { return nullptr; }  // the name of the snapshot's extra array, or null
    virtual Index extra_width() const { return 0; }
    virtual void set_tuning(const Tuning&) {}
    virtual void set_rules(const Rules& rules) {
        rules_ = rules;
        seats_.expect_closing();
    }

    /// Learn rows up to one whose known table is not open, and return how many.
    Index learn(const Rows& rows, Record& record, const Pause& pause) {
        record.reserve(rows.n);
        const Learning learning{*this};
        Pauses pauses(pause);
        Index i = 0;
        while (i < rows.n) {
            const Index learned = learn_block(rows, i, &record);
            if (learned == 0) break;
            i += learned;
            pauses.look();
        }
        return i;
    }

    /// One row: its label and its log evidence.
    std::pair<std::int64_t, double> learn_one(const Rows& row) {
        const Learning learning{*this};
        learn_block(row, 0, nullptr);
        return {label_, outcome_.log_evidence};
    }

    std::pair<std::int64_t, double> predict_one(const Rows& row) {
        if (seats_.out_of_reach(*row.times)) {
            std::optional<Seats> copy;
            return judge_one(row, reaching(*row.times, copy));
        }
        return judge_one(row, seats_);
    }

    /// As learning would score rows, or by their predictive density.
    void predict(const Rows& rows, const Prediction& prediction, bool predictive, const Pause& pause) const {
        if (rows.n == 0) return;
        std::optional<Seats> copy;
        judge(rows, reaching(*std::max_element(rows.times, rows.times + rows.n), copy), prediction, predictive, pause);
    }

    virtual Snapshot snapshot() const = 0;
    virtual void restore(const Snapshot& snapshot) = 0;
    /// For tests: the screened bound and the score of every row under every table, both (n, K), and the slack, (n,).
    virtual void compare(const Rows&, double*, double*, double*) const {}

    /// Of sparse rows: the columns and counts of the words of an open table, and of all of them together.
    using Counts = std::vector<std::pair<std::int64_t, double>>;
    virtual Counts words_of(std::int64_t) const { return {}; }
    virtual Counts all_words() const { return {}; }

  protected:
    /// Calls a pause about twenty times a second.
    class Pauses {
      public:
        explicit Pauses(const Pause& pause) : pause_(pause), last_(Clock::now()) {}
        void look() {
            if (Clock::now() - last_ <= std::chrono::milliseconds(50)) return;
            pause_();
            last_ = Clock::now();
        }

      private:
        using Clock = std::chrono::steady_clock;
        const Pause& pause_;
        Clock::time_point last_;
    };

    /// Learn some rows from i on, and return how many; none if the known table of the first is not open.
    virtual Index learn_block(const Rows& rows, Index i, Record* record) = 0;
    /// However a call that learns ends, this comes after it.
    virtual void end_learning() {}
    virtual std::pair<std::int64_t, double> judge_one(const Rows& row, const Seats& seats) = 0;
    /// Judge rows, and pause between blocks of them.
    virtual void judge(const Rows& rows, const Seats& seats, const Prediction& prediction, bool predictive,
                       const Pause& pause) const = 0;

    /// Note what the outcome of row i was, before tables close.
    void note(const Rows& rows, Index i, const Scratch& work, Record* record) {
        label_ = seats_.label_of(outcome_.place);
        if (work.weight > 0.0) seats_.note(rows.mark(i), label_);
        if (record != nullptr) {
            record->write(i, outcome_, work.places, work.responsibilities, work.closing, seats_);
        }
    }

    Seats seats_;
    Rules rules_;
    Outcome outcome_;  // of the latest row that was learned,
    std::int64_t label_ = -1;
    Index capacity_ = 0;

  private:
    struct Learning {
        Stream& stream;
        ~Learning() { stream.end_learning(); }
    };

    /// The seats, if a frame of time t is within their reach; otherwise a copy that begins at the latest observation.
    const Seats& reaching(double t, std::optional<Seats>& copy) const {
        if (!seats_.out_of_reach(t)) return seats_;
        copy.emplace(seats_).rebase(seats_.time);
        return *copy;
    }
};

inline constexpr Index FIRST_CAPACITY = 64;

}  // namespace dyncrp
