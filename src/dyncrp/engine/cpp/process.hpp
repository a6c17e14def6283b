// Seating: the occupancies of the tables over time. Section 1 of the model, and q(C) of section 3.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

inline constexpr std::int64_t UNKNOWN = -1, NEW = -2;  // in place of a known table
inline constexpr double REBASE_AT = 500.0;             // the origin moves when exp of this would be the largest factor

/// kernel(Δ) = Re Σ_m amplitude_m exp(−rate_m Δ).
struct Mode {
    double amplitude_real, amplitude_imag;
    double rate_real, rate_imag;
};

/// How observations are assigned: ``Rules`` and the rest of ``Model`` in engine/types.py, except the family.
struct Rules {
    double alpha = 1.0;
    bool variational = false;  // assignment: E_q[log p(x | φ)] in place of log p(x | stats)
    bool posterior = false;    // table_count: alpha is spread over q(C) instead of given to a new table
    Index n_iter = 3;          // coordinate steps of variational
    double new_table_threshold = 0.5;
    Index max_tables = 0;      // 0: any number
    double prune_below = 0.0;  // 0: never
    bool clip = true;          // whether an occupancy can be negative before it is clipped
    double memory = INF;       // how many of its members a table remembers

    /// The share of a table's statistics that is left when it learns r of an observation.
    double keep(double r) const { return memory == INF ? 1.0 : 1.0 - r / memory; }

    /// Let a table learn r of an observation `weight` times: r becomes what is added of it then, and keep what is left.
    void repeat(double weight, double& r, double& keep) const {
        if (memory == INF) {
            r *= weight;
            return;
        }
        const double log_keep = weight * std::log1p(-r / memory);
        keep = std::exp(log_keep);
        r = -memory * std::expm1(log_keep);
    }
};

/// The factors of the present time: those to read mode states out, and those by which a customer is added to them.
struct Frame {
    struct Factor {
        double readout_real, readout_imag;  // amplitude exp(−rate Δ)
        double growth_real, growth_imag;    // exp(rate Δ)
    };
    double time = std::numeric_limits<double>::quiet_NaN();  // of the factors
    double origin = 0.0;
    double log_decay = 0.0;  // of the slowest mode: every kernel falls at least as much
    std::vector<Factor> factors;
};

/// The rows with a table's label: how many there are, and the times of the first and the last.
struct Seen {
    std::int64_t size;
    double first_time, last_time;
};

/// The state of the process. Mode states are stored as they would be at `origin`, so that time alone changes nothing,
/// and only the tables that an observation touches are written.
///
/// Tables have places, in order of opening. A table that closes keeps its place, without weight, until `remove_closed`,
/// which removes many at once.
class Seats {
  public:
    explicit Seats(std::vector<Mode> modes)
        : modes_(std::move(modes)), states_(2 * n_modes()), total_(static_cast<std::size_t>(2 * n_modes())),
          posterior_{1.0} {
        for (const Mode& mode : modes_) {
            fastest_ = std::max(fastest_, mode.rate_real);
            slowest_ = std::min(slowest_, mode.rate_real);
        }
    }

    Index n_tables = 0;
    Index n_opened = 0;
    Index n_observations = 0;
    double time = -INF;         // of the latest observation
    double log_evidence = 0.0;  // summed in order of arrival
    PerTable<std::int64_t> ids;
    PerTable<Seen> seen;
    std::int64_t mark = UNKNOWN;      // of the latest row,
    std::vector<std::int64_t> taken;  // and the ids that it and the rows before it with the same mark got

    Index n_modes() const { return static_cast<Index>(modes_.size()); }
    Index n_open() const { return n_tables - static_cast<Index>(closed_.size()); }
    std::span<const Index> closed() const { return closed_; }  // their places, ascending
    double origin() const { return origin_; }
    const double* states(Index c) const { return states_.row(c); }  // (2M,): real and imaginary parts in turn
    const std::vector<double>& total() const { return total_; }
    /// For each table, a bound of log_from_above(N_c) − frame.log_decay at any time from now on; −inf beyond the
    /// tables.
    const float* log_bounds() const { return log_bounds_.row(0); }
    /// The same for an index, which does not follow a new origin: a bound of log_from_above(N_c) − log_decay(t) at any
    /// time t from now on.
    float lasting_bound(Index c) const { return log_bounds_[c] - static_cast<float>(log_decay(origin_)); }
    double log_decay(double t) const { return -slowest_ * (t - anchor_); }
    /// Let log_decay be 0 now.
    void anchor() { anchor_ = time; }
    double posterior(Index k) const { return posterior_[static_cast<std::size_t>(k)]; }

    void reserve(Index capacity) {
        states_.reserve(capacity);
        log_bounds_.reserve(capacity);
        std::fill(log_bounds_.row(n_tables), log_bounds_.row(capacity), -INF32);
        ids.reserve(capacity);
        seen.reserve(capacity);
        is_closed_.reserve(capacity);
        posterior_.resize(static_cast<std::size_t>(capacity + 1));
    }

    void restore(Index c, const double* states) {
        std::copy(states, states + 2 * n_modes(), states_.row(c));
        is_closed_[c] = 0;
    }
    void restore_posterior(const double* values) { std::copy(values, values + n_tables + 1, posterior_.begin()); }
    void restore_origin(double origin) {
        origin_ = origin;
        bound_all();
        expect_closing();
    }
    void restore_total(const double* total) { std::copy(total, total + 2 * n_modes(), total_.begin()); }
    void sum_total() {
        std::fill(total_.begin(), total_.end(), 0.0);
        for (Index c = 0; c < n_tables; ++c) {
            for (Index j = 0; j < 2 * n_modes(); ++j) total_[static_cast<std::size_t>(j)] += states_.row(c)[j];
        }
    }

    /// Whether the factors of time t would leave the range of floats.
    bool out_of_reach(double t) const { return fastest_ * (t - origin_) > REBASE_AT; }

    /// Move the origin to t: multiply every mode state by exp(−rate Δ).
    ///
    /// In two halves: after a pause, exp(−rate Δ) may be too small for a float, but its product with a state may not.
    void rebase(double t) {
        const double half = 0.5 * (t - origin_);
        origin_ = t;
        for (Index m = 0; m < n_modes(); ++m) {
            const Mode& mode = modes_[static_cast<std::size_t>(m)];
            const double decay = std::exp(-mode.rate_real * half);
            const double cosine = std::cos(mode.rate_imag * half), sine = -std::sin(mode.rate_imag * half);
            const auto turn = [=](double* state) {
                const double a = state[0] * decay, b = state[1] * decay;
                state[0] = a * cosine - b * sine;
                state[1] = a * sine + b * cosine;
            };
            for (int twice = 0; twice < 2; ++twice) {
                for (Index c = 0; c < n_tables; ++c) turn(states_.row(c) + 2 * m);
                turn(total_.data() + 2 * m);
            }
        }
        bound_all();
    }

    /// Let time pass up to t, at which a row is learned; return whether the origin has moved.
    bool advance(double t, Frame& frame) {
        const bool moves = n_tables > 0 && out_of_reach(t);
        if (n_tables == 0) origin_ = t;
        if (moves) rebase(t);
        look(t, frame);
        return moves;
    }

    /// Compute the factors of time t, always from Δ and never from those of the row before, so that no bit depends on
    /// how a stream is divided.
    void look(double t, Frame& frame) const {
        if (t == frame.time && origin_ == frame.origin) return;
        frame.time = t;
        frame.origin = origin_;
        frame.factors.resize(modes_.size());
        const double delta = t - origin_;
        frame.log_decay = -slowest_ * delta;
        for (std::size_t m = 0; m < modes_.size(); ++m) {
            const Mode& mode = modes_[m];
            Frame::Factor& factor = frame.factors[m];
            const double decay = mode.rate_real == 0.0 ? 1.0 : std::exp(-mode.rate_real * delta);
            const double growth = 1.0 / std::max(decay, 1e-300);
            if (mode.rate_imag == 0.0) {
                factor = {decay * mode.amplitude_real, decay * mode.amplitude_imag, growth, 0.0};
            } else {
                const double cosine = std::cos(mode.rate_imag * delta), sine = -std::sin(mode.rate_imag * delta);
                factor = {decay * (mode.amplitude_real * cosine - mode.amplitude_imag * sine),
                          decay * (mode.amplitude_real * sine + mode.amplitude_imag * cosine), growth * cosine,
                          -growth * sine};
            }
        }
    }

    /// N_c = max(0, Re Σ_m a_m s_cm) at the frame's time.
    double occupancy(Index c, const Frame& frame) const { return occupancy_of(states_.row(c), frame); }
    static double occupancy_of(const double* states, const Frame& frame) {
        const double value = readout(states, frame);
        return value > NEGLIGIBLE ? value : 0.0;
    }

    /// Σ_c N_c, for kernels that are never negative.
    double total_occupancy(const Frame& frame) const {
        return n_tables == 0 ? 0.0 : std::max(readout(total_.data(), frame), 0.0);
    }

    /// Open a table without customers at time t.
    void open(double t) {
        std::fill_n(states_.row(n_tables), 2 * n_modes(), 0.0);
        posterior_[static_cast<std::size_t>(n_tables + 1)] = 0.0;
        ids[n_tables] = n_opened;
        seen[n_tables] = {0, t, t};
        is_closed_[n_tables] = 0;
        ++n_opened;
        ++n_tables;
    }

    /// Add r of a customer to table c; and to the total.
    void seat(Index c, double r, const Frame& frame) {
        add(states_.row(c), r, frame);
        bound(c, frame);
    }
    void seat_in_all(double r, const Frame& frame) { add(total_.data(), r, frame); }

    /// Count a row at time t that no table learns; return how long table c, which may be a new one, had no row.
    double pass_by(Index c, double t, double row_log_evidence) {
        time = t;
        log_evidence += row_log_evidence;
        ++n_observations;
        return c >= n_tables || seen[c].size == 0 ? 0.0 : t - seen[c].last_time;
    }

    /// Give a row at time t the label of table c; return how long the table had no row, or 0 if this is its first.
    double see(Index c, double t, double row_log_evidence) {
        const double absence = pass_by(c, t, row_log_evidence);
        Seen& rows = seen[c];
        if (rows.size == 0) rows.first_time = t;
        rows.last_time = t;
        ++rows.size;
        return absence;
    }

    /// The id of the table at a place, −1 for a new one.
    std::int64_t label_of(Index c) const { return c < n_tables ? ids[c] : -1; }

    /// The place of the open table with this id, −1 if there is none.
    Index place_of(std::int64_t id) const {
        const std::int64_t *begin = ids.row(0), *end = begin + n_tables;
        const std::int64_t* found = std::lower_bound(begin, end, id);
        return found != end && *found == id && is_closed_[found - begin] == 0 ? found - begin : -1;
    }

    /// Fill `barred` with the places, ascending, of the tables that a row with this mark cannot join.
    void find_barred(std::int64_t row_mark, std::vector<Index>& barred) const {
        barred.clear();
        if (row_mark == UNKNOWN || row_mark != mark) return;
        for (const std::int64_t id : taken) {
            if (const Index place = place_of(id); place >= 0) barred.push_back(place);
        }
        std::sort(barred.begin(), barred.end());
    }

    /// Note the mark of the latest row, whose label is `id`, so that the next ones with this mark take other tables.
    void note(std::int64_t row_mark, std::int64_t id) {
        if (row_mark != mark) taken.clear();
        mark = row_mark;
        if (mark != UNKNOWN) taken.push_back(id);
    }

    /// q_n(k) = q(k) S_k + q(k−1)(1 − S_{k−1}), S_k the responsibility of the first k tables, given place by place.
    void update_posterior(std::span<const Index> places, const double* responsibilities) {
        double seated = 0.0;
        double carried = posterior_[0];  // q(k−1)(1 − S_{k−1}), from k − 1 = 0
        posterior_[0] = 0.0;
        std::size_t j = 0;
        for (Index k = 1; k <= n_tables; ++k) {
            if (j < places.size() && places[j] == k - 1) seated += responsibilities[j++];
            const double share = k == n_tables ? 1.0 : std::min(seated, 1.0);
            double& q = posterior_[static_cast<std::size_t>(k)];
            const double before = q;
            q = before * share + carried;
            carried = before * (1.0 - share);
        }
    }

    /// Fill `closing` with the places of the tables that must close after a row, see ``reference.closing``: those below
    /// prune_below, and the least occupied if there are too many. The table at `stays` stays, the one that has just
    /// opened if one has. `value` is scratch, (K,).
    void find_closing(Index stays, bool opened, const Rules& rules, const Frame& frame, double* value,
                      std::vector<Index>& closing) {
        closing.clear();
        const bool prunes = rules.prune_below > 0.0 && (opened || frame.time >= quiet_until_);
        const bool too_many = rules.max_tables > 0 && n_open() > rules.max_tables;
        if (!prunes && !too_many) return;
        const double quiet = list_closing(opened ? n_tables - 1 : stays, rules, frame, value, closing);
        quiet_until_ = closing.empty() ? quiet : -INF;  // the table that has just opened may be the next to close
    }

    /// Look for tables to close after the next row, whatever is known of the time until then.
    void expect_closing() { quiet_until_ = -INF; }

    /// Close the tables at `places`.
    void close(std::span<const Index> places) {
        for (const Index c : places) {
            std::fill_n(states_.row(c), 2 * n_modes(), 0.0);
            log_bounds_[c] = -INF32;
            is_closed_[c] = 1;
            closed_.insert(std::upper_bound(closed_.begin(), closed_.end(), c), c);
        }
        sum_total();  // again, so that closed tables leave no rounding errors behind
    }

    /// Remove closed tables; later ones move up.
    void remove_closed() {
        const auto remove = [&](auto& array) { array.remove(closed_, n_tables); };
        remove(states_), remove(log_bounds_), remove(ids), remove(seen), remove(is_closed_);
        n_tables = n_open();
        std::fill_n(log_bounds_.row(n_tables), closed_.size(), -INF32);
        closed_.clear();
    }

  private:
    /// Fill `closing` with all tables that must close but one. Returns the time before which none can fall below
    /// prune_below.
    double list_closing(Index stays, const Rules& rules, const Frame& frame, double* value,
                        std::vector<Index>& closing) const {
        constexpr double GONE = -1.0;
        double least = INF, most = 0.0;
        for (Index c = 0; c < n_tables; ++c) {
            if (is_closed_[c] != 0) {
                value[c] = GONE;
                continue;
            }
            value[c] = occupancy(c, frame);
            least = std::min(least, value[c]);
            most = std::max(most, value[c]);
        }
        const double slack = rules.clip ? TIE * most : 0.0;
        value[stays] = INF;
        for (Index c = 0; c < n_tables; ++c) {
            if (value[c] >= 0.0 && value[c] < rules.prune_below * (1.0 - TIE)) {
                closing.push_back(c);
                value[c] = GONE;
            }
        }
        while (rules.max_tables > 0 && n_open() - static_cast<Index>(closing.size()) > rules.max_tables) {
            double lowest = INF;
            for (Index c = 0; c < n_tables; ++c) {
                if (value[c] >= 0.0) lowest = std::min(lowest, value[c]);
            }
            for (Index c = 0; c < n_tables; ++c) {
                if (value[c] >= 0.0 && value[c] <= lowest * (1.0 + TIE) + slack) {  // in a tie, the oldest
                    value[c] = GONE;
                    closing.push_back(c);
                    break;
                }
            }
        }
        std::sort(closing.begin(), closing.end());
        return rules.prune_below > 0.0 ? quiet_until(frame.time, least, rules.prune_below) : INF;
    }

    /// |Re Σ_m a_m s_m exp(−rate_m Δ)| ≤ exp(−slowest Δ) Σ_m |a_m| |s_m|, where Δ is the time since the origin. At a
    /// later time, the faster modes have fallen further.
    void bound(Index c, const Frame& frame) {
        const double* state = states_.row(c);
        double value = 0.0;
        for (std::size_t m = 0; m < modes_.size(); ++m) {
            const Frame::Factor& factor = frame.factors[m];
            value += (std::abs(factor.readout_real) + std::abs(factor.readout_imag)) *
                     (std::abs(state[2 * m]) + std::abs(state[2 * m + 1]));
        }
        log_bounds_[c] = log_from_above(value) - static_cast<float>(frame.log_decay) + 1e-4F + LOG_EXCESS;
    }

    /// The same for all tables, from the origin on.
    void bound_all() {
        Frame frame;
        look(origin_, frame);
        for (Index c = 0; c < n_tables; ++c) bound(c, frame);
        std::fill(log_bounds_.row(n_tables), log_bounds_.end(), -INF32);
    }

    static double readout(const double* state, const Frame& frame) {
        const Frame::Factor* factor = frame.factors.data();
        double value = factor->readout_real * state[0] - factor->readout_imag * state[1];  // most have one mode
        for (std::size_t m = 1; m < frame.factors.size(); ++m) {
            value += factor[m].readout_real * state[2 * m] - factor[m].readout_imag * state[2 * m + 1];
        }
        return value;
    }

    void add(double* state, double r, const Frame& frame) const {
        for (std::size_t m = 0; m < modes_.size(); ++m) {
            state[2 * m] += r * frame.factors[m].growth_real;
            state[2 * m + 1] += r * frame.factors[m].growth_imag;
        }
    }

    /// A sum of positive modes that do not oscillate falls no faster than its fastest mode.
    double quiet_until(double now, double least, double prune_below) const {
        for (const Mode& mode : modes_) {
            if (mode.amplitude_real < 0.0 || mode.amplitude_imag != 0.0 || mode.rate_imag != 0.0) return now;
        }
        if (least <= prune_below) return now;
        return fastest_ > 0.0 ? now + 0.999 * std::log(least / prune_below) / fastest_ : INF;
    }

    std::vector<Mode> modes_;
    PerTable<double> states_;
    PerTable<float> log_bounds_;
    PerTable<char> is_closed_;
    std::vector<Index> closed_;
    std::vector<double> total_;
    std::vector<double> posterior_;  // q(C = k)
    double origin_ = 0.0, anchor_ = 0.0;
    double fastest_ = 0.0, slowest_ = INF;
    double quiet_until_ = -INF;  // no table can fall below prune_below before, unless one opens
};

}  // namespace dyncrp
