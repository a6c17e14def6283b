// A column of a Poisson; see poisson.hpp for the scores and for the bound that screening takes. A = shape + s and
// B = rate + n.
#pragma once

#include "cells.hpp"
#include "poisson.hpp"

namespace dyncrp {

class PoissonCell {
  public:
    PoissonCell(const Poisson::Settings& settings, const Coordinates::Settings&)
        : shape_(settings.shape), rate_(settings.rate), weights_(4 * static_cast<Index>(shape_.size())) {}

    static constexpr Index n_sums() { return 2; }     // n, s
    static constexpr Index n_derived() { return 6; }  // A, B, the score of a 0, and three weights, see `screen`
    static constexpr Index n_stats() { return 2; }    // n, s
    static constexpr Index n_extra() { return 0; }

    double take(Index, double, double&) const { return 0.0; }

    void absorb(Index, double* sums, double x, double r, double keep) const {
        sums[0] = keep * sums[0] + r;
        sums[1] = keep * sums[1] + r * x;
    }

    void derive(Index d, const double* sums, bool variational, double* out) const {
        const double A = shape_[static_cast<std::size_t>(d)] + sums[1],
                     B = rate_[static_cast<std::size_t>(d)] + sums[0];
        const double log_B = std::log(variational ? B : B + 1.0);
        out[0] = A;
        out[1] = B;
        out[2] = variational ? -A / B : -A * std::log1p(1.0 / B);
        out[3] = log_or_digamma(A, variational) - log_B;
        out[4] = variational ? out[3] : std::log(A + 1.0) - log_B;
        out[5] = variational ? 0.0 : std::log1p(1.0 / (A + 1.0));
    }

    void score(Index, const double* of, double x, bool variational, ScoreSum& sum) const {
        if (!(x > 0.0)) {
            sum.add(of[2]);
        } else if (variational) {
            sum.add(of[2] + x * of[3] - log_factorial(x));
        } else if (x > LARGEST_SMALL) {
            sum.add(log_negative_binomial(x, of[0], of[1]));
        } else {
            LogProduct product;
            const double ratio = 1.0 / (of[1] + 1.0);
            for (double i = 0.0; i < x; ++i) product.take(static_cast<Index>(i), (of[0] + i) * ratio / (i + 1.0));
            sum.add(of[2] + product.log());
        }
    }

    double rescore(Index d, const double* sums, double x, double r, double keep) const {
        return rescore_of<2, 6>(*this, d, sums, x, r, keep);
    }

    /// Beyond single precision, the only bound is 0.
    void weigh(Index d, Index c, const double* of, bool) {
        const bool fits = of[2] > LEAST_BOUND;
        const double weights[4] = {fits ? of[2] : 0.0, fits ? of[3] : -LEAST_BOUND, of[4], of[5]};
        for (Index j = 0; j < 4; ++j) weights_.of(4 * d + j)[c] = static_cast<float>(weights[j]);
    }
    void weigh_all(Index, const double*, bool) {}

    void screen(const double* x, bool, Index K, float*, float* totals) const {
        for (Index d = 0; d < static_cast<Index>(shape_.size()); ++d) {
            if (std::isnan(x[d])) continue;
            const float* weights[4];
            for (Index j = 0; j < 4; ++j) weights[j] = weights_.of(4 * d + j);
            if (x[d] > 0.0) {
                add_counts(x[d], weights, totals, K);
            } else {
                add_values(weights[0], totals, K);
            }
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(weights_);
    }

    void write(Index, const double* sums, double* stats, double*) const { std::copy_n(sums, 2, stats); }
    void read(Index, const double* stats, double, double* sums) const { std::copy_n(stats, 2, sums); }

  private:
    static constexpr double LARGEST_SMALL = 16.0;  // counts up to this are scored by a product

    std::vector<double> shape_, rate_;
    ByNumber<float> weights_;  // the score of a 0, and the three weights
};

}  // namespace dyncrp
