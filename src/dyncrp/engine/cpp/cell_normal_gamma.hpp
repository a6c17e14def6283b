// A column of a NormalGamma; see normal_gamma.hpp. With −½ log 2πσ₀² left to the row, a = (ν + n)/2, and e(a) for
// log Γ(a+½) − log Γ(a) − ½ log a,
//
//     predictive:   e(a) − ½ log B/2a (1 + 1/q) − (a + ½) log(1 + q/(q+1) (y − μ)²/B)
//     variational:  ½ (ψ(a) − log a) − ½ log B/2a − ½/q − a/B (y − μ)²
//
// Screening takes one logarithm for up to eight columns, as a lower bound: with the least power P = a + ½ of a table's
// columns, (1 + z)^p ≥ (1 + z p/P)^P for any other power p.
#pragma once

#include "cells.hpp"
#include "normal_gamma.hpp"

namespace dyncrp {

class NormalGammaCell {
  public:
    NormalGammaCell(const NormalGamma::Settings& settings, const Coordinates::Settings& at)
        : D_(static_cast<Index>(settings.precision.size())), p_(settings.precision), nu_(settings.degrees),
          shift_(at.shift), mean_(D_), gain_(D_), constant_(D_) {
        shift_.resize(p_.size(), 0.0);
        for (const double variance : settings.variance) {
            inverse_variance_.push_back(1.0 / variance);
            inverse_scale_.push_back(1.0 / std::sqrt(variance));
            log_normalizer_.push_back(-0.5 * (LOG_2PI + std::log(variance)));
        }
    }

    static constexpr Index n_sums() { return 3; }     // n, s and the scatter
    static constexpr Index n_derived() { return 4; }  // μ, the gain, the constant and the power a + ½
    static constexpr Index n_stats() { return 3; }    // n, s, Σ r z²
    static constexpr Index n_extra() { return 1; }    // the scatter

    double take(Index d, double x, double& value) const {
        value = x - shift_[static_cast<std::size_t>(d)];
        return log_normalizer_[static_cast<std::size_t>(d)];
    }

    void absorb(Index d, double* sums, double z, double r, double keep) const {
        const double p = p_[static_cast<std::size_t>(d)];
        if (keep < 1.0) {
            const double n = sums[0], s = sums[1];
            sums[0] = keep * n;
            sums[1] = keep * s;
            sums[2] = keep * sums[2] + keep * (1.0 - keep) * (p / (p + keep * n)) * s * (s / (p + n));
        }
        const double q = p + sums[0], gap = z - sums[1] / q;
        sums[0] += r;
        sums[1] += r * z;
        sums[2] += r * (q / (q + r)) * gap * gap;
    }

    void derive(Index d, const double* sums, bool variational, double* out) const {
        const auto at = static_cast<std::size_t>(d);
        const double spread = 1.0 / (p_[at] + sums[0]), degrees = nu_ + sums[0], half = 0.5 * degrees;
        const double B = nu_ + sums[2] * inverse_variance_[at];
        out[0] = inverse_scale_[at] * sums[1] * spread;
        if (variational) {
            out[1] = half / B;
            out[2] = 0.5 * (digamma(half) - std::log(half) - std::log(B / degrees) - spread);
        } else {
            out[1] = 1.0 / ((1.0 + spread) * B);
            out[2] = (half < GAMMA_SHIFT ? log_gamma_half(half) : log_gamma_half_series(half)) +
                     0.5 * std::log(degrees * out[1]);
        }
        out[3] = half + 0.5;
    }

    void score(Index d, const double* of, double z, bool variational, ScoreSum& sum) const {
        const double gap = z * inverse_scale_[static_cast<std::size_t>(d)] - of[0], square = of[1] * (gap * gap);
        sum.add(of[2]);
        if (variational) {
            sum.add(-square);
        } else {
            sum.subtract_log(of[3], square);
        }
    }

    double rescore(Index d, const double* sums, double z, double r, double keep) const {
        return rescore_of<3, 4>(*this, d, sums, z, r, keep);
    }

    void weigh(Index d, Index c, const double* of, bool) {
        mean_.of(d)[c] = of[0];
        constant_.of(d)[c] = static_cast<float>(of[2]);
    }

    /// The gains depend on the least power, which may have changed.
    void weigh_all(Index c, const double* of, bool variational) {
        double least = LARGEST_POWER, total = 0.0, size = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const double* cell = of + n_derived() * d;
            least = std::min(least, cell[3]);
            total += cell[2];
            size += std::abs(cell[2]);
        }
        const double inverse = variational ? 1.0 : 1.0 / least;
        for (Index d = 0; d < D_; ++d) {
            const double *cell = of + n_derived() * d, power = variational ? 1.0 : cell[3];
            gain_.of(d)[c] =
                static_cast<float>(std::min((1.0 - ROUNDING) * cell[1] * (power * inverse), LARGEST_POWER));
        }
        power_.of(0)[c] = static_cast<float>((1.0 - ROUNDING) * least);
        total_.of(0)[c] = static_cast<float>(total + UNIT * static_cast<double>(D_ + 4) * size);
    }

    /// `products`: scratch for K tables.
    void screen(const double* z, bool variational, Index K, float* products, float* totals) const {
        std::fill_n(products, K, 0.0F);
        add_values(total_.of(0), totals, K);
        Index n = 0;  // columns in the products
        for (Index d = 0; d < D_; ++d) {
            if (std::isnan(z[d])) {
                subtract_values(constant_.of(d), totals, K);
                continue;
            }
            const double y = z[d] * inverse_scale_[static_cast<std::size_t>(d)];
            if (variational) {
                subtract_squares(y, mean_.of(d), gain_.of(d), MOST, totals, K);
                continue;
            }
            multiply_squares(y, mean_.of(d), gain_.of(d), LARGEST_TERM, products, K);
            if (++n % GROUP == 0) subtract_logs(power_.of(0), products, totals, K);
        }
        if (n % GROUP != 0) subtract_logs(power_.of(0), products, totals, K);
    }

    template <class Each>
    void for_each(Each each) {
        each(mean_), each(gain_), each(constant_), each(total_), each(power_);
    }

    void write(Index d, const double* sums, double* stats, double* scatter) const {
        const double s = sums[1], q = p_[static_cast<std::size_t>(d)] + sums[0];
        std::copy_n(sums, 2, stats);
        stats[2] = sums[2] + s * (s / q);
        *scatter = sums[2];
    }

    void read(Index d, const double* stats, double scatter, double* sums) const {
        const double n = stats[0], s = stats[1], p = p_[static_cast<std::size_t>(d)];
        std::copy_n(stats, 2, sums);
        sums[2] = std::isnan(scatter) ? scatter_of(n, s, stats[2], p) : scatter;
    }

  private:
    static constexpr Index GROUP = 8;            // columns per logarithm
    static constexpr float LARGEST_TERM = 1e4F;  // in a product, which must fit into single precision
    static constexpr auto MOST = static_cast<float>(-LEAST_BOUND);
    static constexpr double LARGEST_POWER = 1e30;
    static constexpr double ROUNDING = 4e-6;

    Index D_;
    std::vector<double> p_;
    double nu_;
    std::vector<double> shift_, inverse_variance_, inverse_scale_, log_normalizer_;
    ByNumber<double> mean_;  // in double precision, so that differences are accurate
    ByNumber<float> gain_, constant_;
    ByNumber<float> total_;  // of the constants, plus what rounding may take from it
    ByNumber<float> power_;  // the least of the table, minus rounding
};

}  // namespace dyncrp
