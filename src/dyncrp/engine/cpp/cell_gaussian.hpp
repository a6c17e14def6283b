// A column of a Gaussian; see gaussian_diagonal.hpp. With q = p + n and μ = s/(σq), and −½ log 2πσ² left to the row,
//
//     predictive:   −½ log(1 + 1/q) − ½ q/(q+1) (y − μ)²
//     variational:  −½/q − ½ (y − μ)²
#pragma once

#include "cells.hpp"
#include "gaussian_diagonal.hpp"

namespace dyncrp {

class GaussianCell {
  public:
    GaussianCell(const Gaussian::Settings& settings, const Coordinates::Settings& at)
        : GaussianCell(std::vector<double>(static_cast<std::size_t>(settings.width), settings.precision), at) {}
    GaussianCell(const GaussianDiagonal::Settings& settings, const Coordinates::Settings& at)
        : GaussianCell(settings.precision, at) {}

    static constexpr Index n_sums() { return 3; }     // n, s and Σ r y²
    static constexpr Index n_derived() { return 3; }  // μ, half of the gain q/(q+1), and the constant
    static constexpr Index n_stats() { return 2; }    // n, s
    static constexpr Index n_extra() { return 1; }    // Σ r y²

    double take(Index d, double x, double& value) const {
        value = x - shift_[static_cast<std::size_t>(d)];
        return log_normalizer_[static_cast<std::size_t>(d)];
    }

    void absorb(Index d, double* sums, double z, double r, double keep) const {
        const double y = z * inverse_scale_[static_cast<std::size_t>(d)];
        sums[0] = keep * sums[0] + r;
        sums[1] = keep * sums[1] + r * z;
        sums[2] = keep * sums[2] + r * (y * y);
    }

    void derive(Index d, const double* sums, bool variational, double* out) const {
        const double q = p_[static_cast<std::size_t>(d)] + sums[0];
        out[0] = inverse_scale_[static_cast<std::size_t>(d)] * sums[1] / q;
        out[1] = variational ? 0.5 : 0.5 * q / (q + 1.0);
        out[2] = variational ? -0.5 / q : -0.5 * std::log1p(1.0 / q);
    }

    void score(Index d, const double* of, double z, bool, ScoreSum& sum) const {
        const double gap = z * inverse_scale_[static_cast<std::size_t>(d)] - of[0];
        sum.add(of[2] - of[1] * (gap * gap));
    }

    double rescore(Index d, const double* sums, double z, double r, double keep) const {
        return rescore_of<3, 3>(*this, d, sums, z, r, keep);
    }

    void weigh(Index d, Index c, const double* of, bool) {
        mean_.of(d)[c] = of[0];
        half_.of(d)[c] = static_cast<float>(of[1]);
        constant_.of(d)[c] = static_cast<float>(of[2]);
    }
    void weigh_all(Index, const double*, bool) {}

    void screen(const double* z, bool, Index K, float*, float* totals) const {
        for (Index d = 0; d < static_cast<Index>(p_.size()); ++d) {
            if (std::isnan(z[d])) continue;
            const double y = z[d] * inverse_scale_[static_cast<std::size_t>(d)], *mean = mean_.of(d);
            subtract_squares(y, mean, half_.of(d), MOST, totals, K);
            add_values(constant_.of(d), totals, K);
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(mean_), each(half_), each(constant_);
    }

    void write(Index, const double* sums, double* stats, double* square) const {
        std::copy_n(sums, 2, stats);
        *square = sums[2];
    }

    void read(Index, const double* stats, double square, double* sums) const {
        std::copy_n(stats, 2, sums);
        sums[2] = std::isnan(square) ? 0.0 : square;
    }

  private:
    GaussianCell(std::vector<double> precision, const Coordinates::Settings& at)
        : p_(std::move(precision)), shift_(at.shift), mean_(static_cast<Index>(p_.size())), half_(mean_.width()),
          constant_(mean_.width()) {
        shift_.resize(p_.size(), 0.0);
        for (std::size_t d = 0; d < p_.size(); ++d) {
            const double scale = at.scale.empty() ? 1.0 : at.scale[d];
            inverse_scale_.push_back(1.0 / scale);
            log_normalizer_.push_back(-0.5 * LOG_2PI - std::log(scale));
        }
    }

    static constexpr auto MOST = static_cast<float>(-LEAST_BOUND);

    std::vector<double> p_, shift_, inverse_scale_, log_normalizer_;
    ByNumber<double> mean_;  // in double precision, so that differences are accurate
    ByNumber<float> half_, constant_;
};

}  // namespace dyncrp
