// The loop over a stream: one observation at a time, in the five steps of the reference.
//
// It computes the same as ``reference.step`` with less work. A block of rows is *screened* against all tables at once,
// by matrix products in single precision that give each table's log likelihood within a known slack. Only the tables
// that may still have a noticeable responsibility are then *scored*, exactly and in double precision. A table is
// dropped if even the total weight of all tables would leave its responsibility below exp(−MARGIN). Which tables are
// kept depends only on exact scores, so that no result depends on the screening, on blocks or on how a stream is
// divided.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "family.hpp"
#include "process.hpp"

namespace dyncrp {

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
    const double* weights = nullptr;  // (n,) how many rows each counts as; null if each counts as one

    bool tells() const { return tables != nullptr || marks != nullptr || weights != nullptr; }
    double weight(Index i) const { return weights == nullptr ? 1.0 : weights[i]; }
    std::int64_t table(Index i) const { return tables == nullptr ? UNKNOWN : tables[i]; }
    std::int64_t mark(Index i) const { return marks == nullptr ? UNKNOWN : marks[i]; }
};

/// A table that may hold some of the observation.
struct Candidate {
    double weight;
    double about;  // log weight, or up to LOG_EXCESS more: enough to decide which tables matter
    Scored scored;
    double responsibility;

    double score() const { return about + scored.log_likelihood; }
};

/// What an observation did, or would do.
struct Outcome {
    Index place = 0;  // of its table; the number of tables if it would open a new one
    double log_evidence = 0.0;
    double absence = 0.0;  // how long its table had been without a row; 0 if it never had one
    bool opened = false;
    bool ends_block = false;  // the rows after it must be screened again
};

/// Scratch space for one row after the other; nothing in it outlives the call.
struct Scratch {
    Frame frame;
    std::vector<double> occupancy;  // (capacity,)
    Index told = -1;                // the known place of the row's table, which may be a new one; −1 if it is unknown
    std::vector<Index> barred;      // places of the tables that the row cannot join, counting up
    double weight = 1.0;            // how many rows the row counts as
    List<Index> places;             // (n_kept,) of the tables with a responsibility, counting up,
    List<double> responsibilities;  // (n_kept,) and the responsibilities as kept
    std::vector<Index> closing;     // places of the tables to close

    /// Take what is known of row i; return false if its known table is not open.
    bool take_told(const Rows& rows, Index i, const Seats& seats) {
        const std::int64_t table = rows.table(i);
        told = table == UNKNOWN ? -1 : table == NEW ? seats.n_tables : seats.place_of(table);
        seats.find_barred(rows.mark(i), barred);
        weight = rows.weight(i);
        return table == UNKNOWN || told >= 0;
    }

    void forget_told() {
        told = -1;
        barred.clear();
        weight = 1.0;
    }

    /// Let the outcome be what is known, if anything is. K: the number of tables.
    void obey(Outcome& outcome, Index K) {
        if (told < 0) return;
        outcome.place = told;
        outcome.opened = told == K;
        places.be_only(told);
        responsibilities.be_only(1.0);
    }

    /// Count a row of weight 0, which changes no table and opens none. It keeps the label that it would get, if there
    /// is such a table, and the responsibilities of the tables that there are.
    void pass_by(Outcome& outcome, Seats& seats) {
        outcome.opened = outcome.ends_block = false;
        outcome.absence = seats.pass_by(outcome.place, frame.time, outcome.log_evidence);
        if (places.size() > 0 && places[places.size() - 1] == seats.n_tables) {
            places.shorten(places.size() - 1);
            responsibilities.shorten(responsibilities.size() - 1);
        }
        if (places.size() == 0 && seats.n_tables > 0) {  // every row is to have an entry
            places.be_only(0);
            responsibilities.be_only(0.0);
        }
        closing.clear();
    }
};

/// Scratch space of a pass.
struct Workspace : Scratch {
    Block block;
    Coordinates::Scratch rows;
    List<Candidate> candidates;  // (n_kept,) what is known of the tables at `places`
};

/// One pass over rows. With Learns, every row changes the state; otherwise each is predicted by itself.
template <Family F, bool Learns>
class Pass {
  public:
    template <class T>
    using Changed = std::conditional_t<Learns, T, const T>;

    Pass(Changed<F>& family, Changed<Seats>& seats, const Rules& rules, Workspace& work)
        : family_(family), seats_(seats), rules_(rules), work_(work) {
        read_rules();
    }

    /// The rules may have changed.
    void read_rules() { log_alpha_ = std::log(rules_.alpha); }

    /// How many consecutive rows were screened with too much slack.
    Index blunt = 0;
    /// How many tables were scored in vain in this block.
    Index in_vain = 0;

    /// Screen the rows in work.block against all tables.
    void prepare() {
        work_.block.n_tables = seats_.n_tables;
        work_.block.forget_touched();
        family_.prepare(work_.block);
    }

    /// Take in row m of the block, at time t. Afterwards work.places and work.responsibilities hold its
    /// responsibilities.
    Outcome observe(Index m, double t) {
        const Row& row = work_.block.rows[static_cast<std::size_t>(m)];
        Outcome outcome;
        if constexpr (Learns) {  // 1. Let time pass.
            bars_ = !work_.barred.empty();
            seats_.advance(t, work_.frame);
        } else {
            seats_.look(t, work_.frame);
        }
        weigh(row);
        screen_and_score(row, m);
        assign(row, outcome);
        if constexpr (Learns) {
            work_.obey(outcome, seats_.n_tables);
            if (work_.weight == 0.0) {
                work_.pass_by(outcome, seats_);
                return outcome;
            }
            update(row, m, outcome);
            // The caller closes them after it has recorded their ids.
            seats_.find_closing(outcome.place, outcome.opened, rules_, work_.frame, work_.occupancy.data(),
                                work_.closing);
        }
        return outcome;
    }

  private:
    /// 2. Prior weights: their total. Those of single tables are computed when needed, unless they may be clipped.
    void weigh(const Row& row) {
        double total = 0.0;
        if (rules_.clip || (Learns && bars_)) {
            for (Index c = 0; c < seats_.n_tables; ++c) {
                const double occupancy = barred(c) ? 0.0 : seats_.occupancy(c, work_.frame);
                work_.occupancy[static_cast<std::size_t>(c)] = occupancy;
                total += occupancy;
            }
        } else {
            total = seats_.total_occupancy(work_.frame);
        }
        total_ = total + rules_.alpha;
        if (rules_.posterior) log_total_ = about(total_);
        fresh_weight_ = rules_.alpha;
        fresh_likelihood_ = family_.score_empty(row);
        fresh_ = fresh_likelihood_ + log_alpha_;
        if (rules_.posterior) {
            fresh_weight_ *= seats_.posterior(seats_.n_tables);
            fresh_ = fresh_likelihood_ + about(fresh_weight_);
        }
    }

    bool barred(Index c) const {
        return Learns && bars_ && std::binary_search(work_.barred.begin(), work_.barred.end(), c);
    }

    static double about(double weight) { return static_cast<double>(log_from_above(weight)); }

    /// occupancy + alpha q(C = c) of table c.
    double weight_of(Index c) const {
        if (barred(c)) return 0.0;
        double weight = rules_.clip ? work_.occupancy[static_cast<std::size_t>(c)] : seats_.occupancy(c, work_.frame);
        if (rules_.posterior) weight += rules_.alpha * seats_.posterior(c);
        return weight;
    }

    Candidate candidate(Index c, const Row& row) const {
        const double weight = weight_of(c);
        return {weight, about(weight), family_.score(c, row), 0.0};
    }

    /// 3. Screen all tables, and score those that matter.
    void screen_and_score(const Row& row, Index m) {
        const Index K = seats_.n_tables;
        work_.places.clear();
        work_.candidates.clear();
        slack_ = 0.0;
        if (K == 0) return;
        if constexpr (Searches<F>) {
            if (is_indexed() && search(row, m)) return;
        }
        // Bounds of the weights hold from an earlier moment on; log_decay takes them to the present.
        const bool weighed = !rules_.posterior;
        if (weighed) {
            work_.block.weights = seats_.log_bounds();
        } else {
            work_.block.weigh_all_alike(K);
        }
        slack_ = family_.screen(work_.block, m, K);
        if constexpr (Learns) blunt += slack_ > BLUNT ? 1 : 0;
        const float *screened = work_.block.screened.data(), *best_of_span = work_.block.best.data();
        const float top = work_.block.top;
        const double lift = (weighed ? work_.frame.log_decay : log_total_) + slack_, reach = lift + MARGIN;
        if (fresh_ > static_cast<double>(top) + reach) return;

        // The table with the best bound sets the bar. The error of its bound is estimated from the row before.
        std::int32_t* found = work_.block.found.data();
        const bool sharp = slack_ < INF && top < INF32;
        const float bar = sharp ? rounded_down(static_cast<double>(top) - MARGIN - 2.0 * slack_ - loose_) : -INF32;
        Index n = find_those_above(screened, best_of_span, bar, found, K);
        if (n == 0) return;
        Index first = found[0];
        for (Index j = 1; j < n && screened[first] < top; ++j) first = found[j];
        const Candidate of_first = candidate(first, row);
        double best = of_first.score();
        if (sharp && best > -INF) loose_ = 1.0 + 1.25 * std::max(static_cast<double>(top) + lift - best, 0.0);
        float cutoff = rounded_down(best - reach);
        if (cutoff < bar) n = find_those_above(screened, best_of_span, cutoff, found, K);
        for (Index j = 0; j < n; ++j) {
            const Index c = found[j];
            if (!(screened[c] >= cutoff)) continue;
            const Candidate now = c == first ? of_first : candidate(c, row);
            const double score = now.score();
            if (!(score >= best - MARGIN)) {
                if constexpr (Learns) ++in_vain;
                continue;
            }
            if (score > best) {
                best = score;
                cutoff = rounded_down(best - reach);
            }
            work_.places.push_back(c);
            work_.candidates.push_back(now);
        }
        keep_those_above(best < fresh_ - MARGIN ? INF : best - MARGIN);
    }

    bool is_indexed() const {
        if constexpr (Searches<F>) {
            return family_.is_indexed();
        } else {
            return false;
        }
    }

    /// Score the tables that an index finds; return false if the search is not worth its cost.
    bool search(const Row& row, Index m)
        requires Searches<F>
    {
        const double decay = seats_.log_decay(work_.frame.time);
        const auto score = [&](Index c) { return candidate(c, row).score() - decay; };
        if (!family_.search(work_.block, m, fresh_ - decay, score)) return false;
        double best = -INF;
        for (const Index c : work_.block.search.found) {
            work_.places.push_back(c);
            work_.candidates.push_back(candidate(c, row));
            best = std::max(best, work_.candidates[work_.candidates.size() - 1].score());
        }
        keep_those_above(best < fresh_ - MARGIN || best == -INF ? INF : best - MARGIN);
        return true;
    }

    void keep_those_above(double bar) {
        if (work_.places.size() == 1 && work_.candidates[0].score() >= bar) return;
        std::size_t kept = 0;
        for (std::size_t j = 0; j < work_.places.size(); ++j) {
            if (work_.candidates[j].score() < bar) continue;
            work_.places[kept] = work_.places[j];
            work_.candidates[kept] = work_.candidates[j];
            ++kept;
        }
        work_.places.shorten(kept);
        work_.candidates.shorten(kept);
    }

    /// 4. Responsibilities, r = softmax(scores); whether a new table opens; the label.
    void assign(const Row& row, Outcome& outcome) {
        const Index K = seats_.n_tables;
        // A new table with a smaller share than this changes no bit of a sum that is at least 1.
        constexpr double NOTHING = -40.1, NO_ROOM = 1e18;
        const bool alone = work_.candidates.size() == 1 && !rules_.variational;
        if (alone && fresh_ - work_.candidates[0].score() < NOTHING) {
            const Candidate& only = work_.candidates[0];
            outcome.log_evidence = only.scored.log_likelihood + log_ratio(only.weight, total_) + row.offset;
            outcome.place = work_.places[0];
            work_.responsibilities.be_only(1.0);
            return;
        }
        // Beyond this, a log likelihood plus a log weight rounds to the log likelihood, in the reference too.
        if (std::abs(fresh_likelihood_) > NO_ROOM) {
            fresh_weight_ = 1.0;
            for (Candidate& candidate : work_.candidates) candidate.weight = candidate.weight > 0.0 ? 1.0 : 0.0;
        }
        double base = 0.0, seated = 0.0, norm = 1.0, fresh = 0.0;
        for (Index iteration = 0; iteration < (rules_.variational ? rules_.n_iter : 1); ++iteration) {
            // r ∝ weight · exp(log likelihood − base), base being that of the best.
            double best = -INF;
            base = fresh_likelihood_;
            for (std::size_t j = 0; j < work_.candidates.size(); ++j) {
                Candidate& candidate = work_.candidates[j];
                if (iteration > 0) {
                    const double r = candidate.responsibility / norm;
                    candidate.scored.log_likelihood =
                        family_.rescore(work_.places[j], row, r, rules_.keep(r), candidate.scored);
                }
                if (candidate.score() > best) {
                    best = candidate.score();
                    base = candidate.scored.log_likelihood;
                }
            }
            fresh = fresh_ - best < NOTHING ? 0.0 : times_exp(fresh_weight_, fresh_likelihood_ - base);
            seated = 0.0;
            for (Candidate& candidate : work_.candidates) {
                candidate.responsibility = times_exp(candidate.weight, candidate.scored.log_likelihood - base);
                seated += candidate.responsibility;
            }
            norm = fresh + seated;
        }
        outcome.log_evidence = base + log_ratio(norm, total_) + row.offset;
        const bool passes = K == 0 || fresh / norm >= rules_.new_table_threshold * (1.0 - TIE);
        outcome.opened = passes;
        if (Learns && !passes) norm = seated;  // renormalised among the open tables
        if (passes || !Learns) {
            work_.places.push_back(K);
            work_.candidates.push_back({0.0, 0.0, {}, fresh});
        }
        divide_and_drop(norm, passes, outcome);
    }

    /// weight · exp(x), also where exp(x) is too large for a float.
    static double times_exp(double weight, double x) {
        if (x == 0.0) return weight;
        return x < 600.0 ? weight * std::exp(x) : std::exp(x + std::log(weight));
    }

    /// log(a/b), also where a/b is too small for a float.
    static double log_ratio(double a, double b) {
        return a > 1e-200 && b < 1e100 ? std::log(a / b) : std::log(a) - std::log(b);
    }

    /// Divide by the norm, find the label, and drop negligible responsibilities.
    void divide_and_drop(double norm, bool passes, Outcome& outcome) {
        const Index K = seats_.n_tables;
        double most = 0.0;
        for (std::size_t j = 0; j < work_.places.size(); ++j) {
            double& r = work_.candidates[j].responsibility;
            r /= norm;
            if (passes || work_.places[j] < K) most = std::max(most, r);
        }
        work_.responsibilities.clear();
        outcome.place = -1;
        std::size_t kept = 0;
        for (std::size_t j = 0; j < work_.places.size(); ++j) {
            const double r = work_.candidates[j].responsibility;
            if (outcome.place < 0 && r >= most * (1.0 - TIE)) outcome.place = work_.places[j];
            if (r < DROPPED) continue;
            work_.places[kept++] = work_.places[j];
            work_.responsibilities.push_back(r);
        }
        work_.places.shorten(kept);
        // If numbers are not finite, no share is the largest. Nothing has been changed yet.
        if (outcome.place < 0)
            throw std::invalid_argument("a row must hold finite numbers, as family.check returns it");
    }

    /// 5. Add the observation to the tables, by its responsibilities.
    void update(const Row& row, Index m, Outcome& outcome)
        requires Learns
    {
        const Index K = seats_.n_tables;
        const bool indexed = is_indexed();
        bool blind = slack_ == INF;
        if (outcome.opened) {
            family_.open(K);
            family_.follow_opening(work_.block, m, K);
            seats_.open(work_.frame.time);
        }
        const double weight = work_.weight;
        double seated = 0.0;
        for (std::size_t j = 0; j < work_.places.size(); ++j) {
            const Index c = work_.places[j];
            const double share = weight * work_.responsibilities[j];
            double r = work_.responsibilities[j], keep = rules_.keep(r);
            if (weight != 1.0) rules_.repeat(weight, r, keep);
            blind = blind || (c < K && work_.block.screened[static_cast<std::size_t>(c)] == INF32);
            family_.absorb(c, row, r, keep);
            family_.follow(work_.block, m, c, r, keep);
            seats_.seat(c, share, work_.frame);
            if constexpr (Searches<F>) {
                if (is_indexed()) family_.index(c, seats_.lasting_bound(c));
            }
            seated += share;
        }
        seats_.seat_in_all(seated, work_.frame);
        if (rules_.posterior) seats_.update_posterior(work_.places, work_.responsibilities.begin());
        outcome.absence = seats_.see(outcome.place, work_.frame.time, outcome.log_evidence);
        // A row or table that cannot be screened cannot correct the screening of the rows after it.
        outcome.ends_block = blind || indexed != is_indexed();
    }

    Changed<F>& family_;
    Changed<Seats>& seats_;
    const Rules& rules_;
    Workspace& work_;
    double log_alpha_ = 0.0;
    bool bars_ = false;       // whether the row cannot join the tables at work.barred
    double total_ = 0.0;      // weight, alpha included
    double log_total_ = 0.0;  // its log, or up to LOG_EXCESS more
    double fresh_ = 0.0;      // score of a new table,
    double fresh_weight_ = 0.0, fresh_likelihood_ = 0.0;
    double slack_ = 0.0;  // of the screening,
    double loose_ = 1.0;  // and the additional error of the best bound in the row before
};

}  // namespace dyncrp
