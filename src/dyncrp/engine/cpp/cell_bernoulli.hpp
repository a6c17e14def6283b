// A column of a Bernoulli: log (a + s)/(a + b + n) of a 1 and log (b + n − s)/(a + b + n) of a 0; for variational,
// digammas in place of logarithms.
#pragma once

#include "bernoulli.hpp"
#include "cells.hpp"

namespace dyncrp {

class BernoulliCell {
  public:
    BernoulliCell(const Bernoulli::Settings& settings, const Coordinates::Settings&)
        : a_(settings.a), b_(settings.b), scores_(2 * static_cast<Index>(a_.size())) {}

    static constexpr Index n_sums() { return 3; }     // n, s and the misses n − s
    static constexpr Index n_derived() { return 2; }  // the scores of a 0 and of a 1
    static constexpr Index n_stats() { return 2; }    // n, s
    static constexpr Index n_extra() { return 1; }    // the misses

    double take(Index, double, double&) const { return 0.0; }

    void absorb(Index, double* sums, double x, double r, double keep) const {
        for (Index j = 0; j < 3; ++j) sums[j] *= keep;
        sums[0] += r;
        sums[x > 0.5 ? 1 : 2] += r;
    }

    void derive(Index d, const double* sums, bool variational, double* out) const {
        const double a = a_[static_cast<std::size_t>(d)], b = b_[static_cast<std::size_t>(d)];
        const double total = log_or_digamma(a + b + sums[0], variational);
        out[0] = log_or_digamma(b + sums[2], variational) - total;
        out[1] = log_or_digamma(a + sums[1], variational) - total;
    }

    void score(Index, const double* of, double x, bool, ScoreSum& sum) const { sum.add(of[x > 0.5 ? 1 : 0]); }

    double rescore(Index d, const double* sums, double x, double r, double keep) const {
        return rescore_of<3, 2>(*this, d, sums, x, r, keep);
    }

    void weigh(Index d, Index c, const double* of, bool) {
        for (Index x = 0; x < 2; ++x) scores_.of(2 * d + x)[c] = static_cast<float>(of[x]);
    }
    void weigh_all(Index, const double*, bool) {}

    void screen(const double* x, bool, Index K, float*, float* totals) const {
        for (Index d = 0; d < static_cast<Index>(a_.size()); ++d) {
            if (std::isnan(x[d])) continue;
            add_values(scores_.of(2 * d + (x[d] > 0.5 ? 1 : 0)), totals, K);
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(scores_);
    }

    void write(Index, const double* sums, double* stats, double* misses) const {
        std::copy_n(sums, 2, stats);
        *misses = sums[2];
    }

    void read(Index, const double* stats, double misses, double* sums) const {
        std::copy_n(stats, 2, sums);
        sums[2] = std::isnan(misses) ? std::max(stats[0] - stats[1], 0.0) : misses;
    }

  private:
    std::vector<double> a_, b_;
    ByNumber<float> scores_;  // of a 0 and of a 1
};

}  // namespace dyncrp
