// A stream: the loop and its state, with the same interface for all families.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

#include "loop.hpp"

namespace dyncrp {

/// Called about twenty times a second between two rows. If it throws, the rows so far are learned.
using Pause = std::function<void()>;

/// Sparse rows: row i has the counts data[j] > 0 in ascending columns[j], for j from indptr[i] to indptr[i + 1].
struct Sparse {
    const std::int64_t* indptr = nullptr;
    const std::int64_t* columns = nullptr;
    const double* data = nullptr;
};

/// Rows x (n, D), or sparse ones, and their times (n,).
struct Rows {
    const double* x;
    const double* times;
    Index n;
    const std::int64_t* tables = nullptr;  // (n,) ids, UNKNOWN or NEW; null if none is known
    const std::int64_t* marks = nullptr;   // (n,) of rows that cannot share a table; null if there are none
    Sparse sparse = {};

    std::int64_t table(Index i) const { return tables == nullptr ? UNKNOWN : tables[i]; }
    std::int64_t mark(Index i) const { return marks == nullptr ? UNKNOWN : marks[i]; }
};

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
        labels[i] = seats.ids[outcome.place];
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

class Stream {
  public:
    virtual ~Stream() = default;

    virtual const Seats& seats() const = 0;
    virtual Index n_features() const = 0;
    virtual Index capacity() const = 0;
    virtual Index stats_width() const = 0;
    virtual bool is_sparse() const { return false; }
    virtual bool is_indexed() const { return false; }
    virtual const char* extra() const = 0;  // the name of the snapshot's extra array, or null
    virtual Index extra_width() const = 0;
    virtual void set_rules(const Rules& rules) = 0;
    virtual void set_tuning(const Tuning& tuning) = 0;

    /// Learn rows up to one whose known table is not open, and return how many.
    virtual Index learn(const Rows& rows, Record& record, const Pause& pause) = 0;
    /// One row: its label (its place, if it is only predicted) and its log evidence.
    virtual std::pair<std::int64_t, double> learn_one(const Rows& row) = 0;
    virtual std::pair<std::int64_t, double> predict_one(const Rows& row) = 0;
    /// As learning would score rows, or by their predictive density.
    virtual void predict(const Rows& rows, const Prediction& prediction, bool predictive, const Pause& pause) const = 0;

    virtual Snapshot snapshot() const = 0;
    virtual void restore(const Snapshot& snapshot) = 0;
    /// For tests: the screened bound and the score of every row under every table, both (n, K), and the slack, (n,).
    virtual void compare(const Rows& rows, double* screened, double* scores, double* slack) const = 0;

    /// Of sparse rows: the columns and counts of the words of an open table, and of all of them together.
    using Counts = std::vector<std::pair<std::int64_t, double>>;
    virtual Counts words_of(std::int64_t) const { return {}; }
    virtual Counts all_words() const { return {}; }
};

inline constexpr Index FIRST_CAPACITY = 64;
inline constexpr Index SCRATCH = Index{1} << 21;  // entries of a block's product with the tables

template <Family F>
class StreamOf final : public Stream {
  public:
    StreamOf(const typename F::Settings& settings, Coordinates::Settings coordinates, std::vector<Mode> modes,
             const Rules& rules)
        : family_(settings, rules.variational), coordinates_(std::move(coordinates)), seats_(std::move(modes)),
          rules_(rules) {
        reserve(FIRST_CAPACITY);
    }

    const Seats& seats() const override { return seats_; }
    Index n_features() const override { return coordinates_.n_features(); }
    Index capacity() const override { return capacity_; }
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
        rules_ = rules;
        quiet_until_ = -INF;
    }

    Index learn(const Rows& rows, Record& record, const Pause& pause) override {
        Pass<F, true> pass(family_, seats_, rules_, work_);
        auto last_pause = std::chrono::steady_clock::now();
        record.reserve(rows.n);
        Index i = 0;
        const MovesUp moves_up{*this};  // however this ends
        while (i < rows.n) {
            // If a block ends early, the rest of it was screened in vain.
            const Index size = std::min({block_size(seats_.n_tables, capacity_), usual_ * 2, rows.n - i});
            const Index learned = learn_block(pass, rows, i, size, &record);
            if (learned == 0) break;
            usual_ = learned < size ? std::max<Index>(2, learned) : std::max(usual_, size);
            i += learned;
            const auto now = std::chrono::steady_clock::now();
            if (now - last_pause > std::chrono::milliseconds(50)) {
                pause();
                last_pause = std::chrono::steady_clock::now();
            }
        }
        return i;
    }

    std::pair<std::int64_t, double> learn_one(const Rows& row) override {
        Pass<F, true> pass(family_, seats_, rules_, work_);
        const MovesUp moves_up{*this};
        learn_block(pass, row, 0, 1, nullptr);
        return {label_, outcome_.log_evidence};
    }

    std::pair<std::int64_t, double> predict_one(const Rows& row) override {
        if (seats_.out_of_reach(*row.times)) {
            Seats rebased = seats_;
            rebased.rebase(rebased.time);
            return predict_one(row, rebased);
        }
        return predict_one(row, seats_);
    }

    void predict(const Rows& rows, const Prediction& prediction, bool predictive, const Pause& pause) const override {
        Workspace work;
        std::unique_ptr<F> other;
        Rules rules = rules_;
        if (predictive && rules.variational) {
            rules.variational = false;
            other = std::make_unique<F>(family_);
            other->set_variational(false, seats_.n_tables);
        }
        // The frame must reach all times; if it does not, a copy begins at the latest observation.
        std::unique_ptr<Seats> rebased;
        if (rows.n > 0 && seats_.out_of_reach(*std::max_element(rows.times, rows.times + rows.n))) {
            rebased = std::make_unique<Seats>(seats_);
            rebased->rebase(seats_.time);
        }
        Pass<F, false> pass(other ? *other : family_, rebased ? *rebased : seats_, rules, work);
        auto last_pause = std::chrono::steady_clock::now();
        const Index K = seats_.n_tables;
        for (Index i = 0; i < rows.n;) {
            const Index size = std::min(block_size(K, K + 1), rows.n - i);
            take_block(rows, i, size, K + 1, work);
            pass.prepare();
            for (Index m = 0; m < size; ++m, ++i) {
                const Outcome outcome = pass.observe(m, rows.times[i]);
                if (prediction.labels != nullptr) prediction.labels[i] = label_of(outcome.place);
                if (prediction.log_evidence != nullptr) prediction.log_evidence[i] = outcome.log_evidence;
                if (prediction.responsibilities == nullptr) continue;
                double* responsibilities = prediction.responsibilities + i * (K + 1);
                std::fill_n(responsibilities, K + 1, 0.0);
                for (std::size_t j = 0; j < work.places.size(); ++j)
                    responsibilities[work.places[j]] = work.responsibilities[j];
            }
            const auto now = std::chrono::steady_clock::now();
            if (now - last_pause > std::chrono::milliseconds(50)) {
                pause();
                last_pause = std::chrono::steady_clock::now();
            }
        }
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
        quiet_until_ = -INF;
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

    /// Learn at most `size` rows from i on, and return how many: fewer if the rest must be screened again.
    Index learn_block(Pass<F, true>& pass, const Rows& rows, Index i, Index size, Record* record) {
        if constexpr (Searches<F>) keep_index();
        while (seats_.n_tables + size > capacity_) reserve(2 * capacity_);
        take_block(rows, i, size, capacity_, work_);
        if (seats_.n_tables == 0) family_.recentre(0, work_.block.rows.data());
        pass.quiet_until = quiet_until_;
        pass.prepare();
        const bool tells = rows.tables != nullptr || rows.marks != nullptr;
        if (!tells) {
            pass.told = -1;
            pass.bars = false;
            seats_.note(UNKNOWN, UNKNOWN);
        }
        Index m = 0;
        do {
            if (tells && !take_told(pass, rows, i + m)) break;
            outcome_ = pass.observe(m, rows.times[i + m]);
            label_ = seats_.ids[outcome_.place];
            if (tells) seats_.note(rows.mark(i + m), label_);
            if (record != nullptr) {
                record->write(i + m, outcome_, work_.places, work_.responsibilities, work_.closing, seats_);
            }
            if (!work_.closing.empty()) close();
            ++m;
        } while (m < size && !outcome_.ends_block);
        finish(pass, m);
        rows_with_index_ += m;
        if (8 * seats_.n_open() < 7 * seats_.n_tables) remove_closed();
        quiet_until_ = pass.quiet_until;
        blunt_ += pass.blunt;
        pass.blunt = 0;
        if (blunt_ >= tuning_.blunt_rows && m > 0) {
            blunt_ = 0;
            family_.recentre(seats_.n_tables, &work_.block.rows[static_cast<std::size_t>(m - 1)]);
        }
        return m;
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

    /// Between calls there are no closed tables.
    struct MovesUp {
        StreamOf& stream;
        ~MovesUp() { stream.remove_closed(); }
    };

    /// Tell the family that the block is over.
    void finish(Pass<F, true>& pass, Index n_rows) {
        if constexpr (Finishes<F>) family_.finish(work_.block, n_rows, pass.in_vain, seats_.n_tables);
        pass.in_vain = 0;
    }

    /// Tell the pass the constraints on row i; return false if its known table is not open.
    bool take_told(Pass<F, true>& pass, const Rows& rows, Index i) {
        const std::int64_t table = rows.table(i);
        pass.told = table == UNKNOWN ? -1 : table == NEW ? seats_.n_tables : seats_.place_of(table);
        seats_.find_barred(rows.mark(i), work_.barred);
        pass.bars = !work_.barred.empty();
        return table == UNKNOWN || pass.told >= 0;
    }

    /// The id of the table at a place; −1 for a new one.
    std::int64_t label_of(Index place) const { return place < seats_.n_tables ? seats_.ids[place] : -1; }

    std::pair<std::int64_t, double> predict_one(const Rows& row, const Seats& seats) {
        Pass<F, false> pass(family_, seats, rules_, work_);
        take_block(row, 0, 1, capacity_, work_);
        pass.prepare();
        const Outcome outcome = pass.observe(0, *row.times);
        return {label_of(outcome.place), outcome.log_evidence};
    }

    F family_;
    Coordinates coordinates_;
    Seats seats_;
    Rules rules_;
    Tuning tuning_;
    Workspace work_;
    Outcome outcome_;  // of the latest row that was learned,
    std::int64_t label_ = -1;
    Index capacity_ = 0;
    Index blunt_ = 0;
    Index usual_ = LARGEST_BLOCK;  // how many rows recent blocks reached
    double quiet_until_ = -INF;
    // Of an index: rows since it was built, or since there is none; how many it waits for; tables when it was built.
    Index rows_with_index_ = 0, wait_ = 0, indexed_at_ = 0;
    std::vector<float> bounds_;
};

}  // namespace dyncrp
