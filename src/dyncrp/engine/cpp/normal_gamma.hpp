// The Gaussian whose tables each have their own variance in each direction.
//
// In y = z/σ₀ direction d has prior precision p_d = σ₀²/ρ². A table with n = Σ r, s = Σ r z and its scatter has ν + n
// degrees of freedom, precision q_d = p_d + n, mean μ_d = s_d/(σ₀ q_d) and B_d = ν + scatter_d/σ₀² there. With
// a = (ν + n)/2 its scores are
//
//     predictive:   Σ_d log Γ(a+½) − log Γ(a) − ½ log πB_d(1 + 1/q_d) − (a + ½) log(1 + q_d/(q_d+1) (y_d − μ_d)²/B_d)
//     variational:  −½ Σ_d log π + log B_d − ψ(a) + 2a/B_d (y_d − μ_d)² + 1/q_d              (and −Σ log σ₀, both)
//
// The scatter Σ r z² − s²/q is not computed as that difference but as a separate sum, which loses no digits far from
// the prior mean: an observation of weight r adds r q/(q + r) (z − s/q)² to it, with q and s from before. If a table
// keeps only k of its statistics, with f = p + kn, the scatter becomes k scatter + k (1 − k) p/f s²/q.
//
// Screening uses that Π_d (1 + z_d) ≥ Π_g (1 + Σ_{d in g} z_d) for groups g of directions. That leaves one sum of
// squares per group, which is a product of (1, y, y²) with the tables' weights as for a known variance, and a lower
// bound of one logarithm in all. Smaller groups rule out small tables sooner; if few tables are small, one group is
// enough. A table that the block has touched is screened separately for the rest of the block.
#pragma once

#include <bit>

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

/// Return a lower bound of log(1 + t) for t ≥ 0, up to rounding by less than one part in a million.
///
/// From below, a logarithm is log 2 times exponent and mantissa of its argument, which are the chords of log₂, with a
/// parabola added, log₂(1 + f) ≥ f + 0.27 f(1 − f); and log(1 + t) ≥ t − t²/2, the better one for small t.
inline float log1p_from_below(float t) {
    constexpr float LOG_2 = 0.6931471F, BEND = 0.27F, ONE = static_cast<float>(1.0 - 3e-7);
    constexpr float STEP = 1.0F / 8388608.0F;  // 2⁻²³
    const std::int32_t bits = std::bit_cast<std::int32_t>(ONE + t) - 0x3F800000;
    const float f = static_cast<float>(bits & 0x7FFFFF) * STEP;
    const float chord = LOG_2 * (static_cast<float>(bits) * STEP + BEND * f * (1.0F - f));
    const float small = t * (1.0F - 0.5F * t);
    return chord > small ? chord : small;
}

/// Return Σ r z² − s²/q from the reference's n, s = Σ r z and w = Σ r z²: the scatter about the table's own mean, and
/// the mean's part in it.
inline double scatter_of(double n, double s, double w, double p) {
    const double mean = n > 0.0 ? s / n : 0.0;
    return std::max(w - s * mean, 0.0) + n * (p / (p + n)) * mean * mean;
}

class NormalGamma : public Bookkeeping<NormalGamma> {
    friend Bookkeeping<NormalGamma>;

  public:
    static constexpr Index MOST_ROWS = 16;

    struct Settings {
        static constexpr const char* NAME = "NormalGamma";
        std::vector<double> precision;  // p (D,)
        std::vector<double> variance;   // σ₀² (D,)
        double degrees = 0.0;           // ν
        double log_normalizer = 0.0;    // −½ D log 2π − Σ log σ₀

        void for_each(auto each) {
            each("precision", precision);
            each("variance", variance);
            each("degrees", degrees);
            each("log_normalizer", log_normalizer);
        }
    };

    NormalGamma(const Settings& settings, bool variational)
        : Bookkeeping(static_cast<Index>(settings.precision.size()), 1 + static_cast<Index>(settings.precision.size()),
                      variational),
          groups_(std::clamp<Index>(D_ / GROUP, 1, MOST_GROUPS)), p_(settings.precision), nu_(settings.degrees),
          log_normalizer_(settings.log_normalizer), scatter_(D_), mean_(D_), gain_(D_), weights_(2 * D_ + groups_),
          reference_(static_cast<std::size_t>(D_), 0.0) {
        log_empty_ = log_normalizer_ + static_cast<double>(D_) * log_gamma_half(0.5 * nu_);
        for (const double p : p_) {
            log_empty_ -= 0.5 * std::log1p(1.0 / p);
            gain_empty_.push_back(p / (p + 1.0) / nu_);
        }
        for (const double variance : settings.variance) {
            inverse_variance_.push_back(1.0 / variance);
            inverse_scale_.push_back(1.0 / std::sqrt(variance));
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(scatter_), each(mean_), each(gain_), each(constant_), each(power_), each(weights_);
        each(screen_constant_), each(screen_power_), each(screen_scale_), each(steepest_);
    }

    void open(Index c) {
        stats_.open(c);
        std::fill_n(scatter_.row(c), D_, 0.0);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        double *stats = stats_.row(c), *scatter = scatter_.row(c);
        if (keep < 1.0) fade(c, keep);
        const double n = stats[0];
        stats[0] += r;
        for (Index d = 0; d < D_; ++d) {
            const double q = p_[static_cast<std::size_t>(d)] + n;
            const double gap = row.z[d] - stats[1 + d] / q;
            scatter[d] += r * (q / (q + r)) * gap * gap;
            stats[1 + d] += r * row.z[d];
        }
        refresh(c);
    }

    Scored score(Index c, const Row& row) const {
        const double *mean = mean_.row(c), *gain = gain_.row(c);
        const auto square = [&](Index d) {
            const double gap = row.y[d] - mean[d];
            return gain[d] * gap * gap;
        };
        if (variational_) return {constant_[c] - 0.5 * sum_of<double>(D_, square), 0.0};
        return {constant_[c] - power_[c] * log_of_product(square), 0.0};
    }

    double score_empty(const Row& row) const {
        const double* gain = gain_empty_.data();
        return log_empty_ - 0.5 * (nu_ + 1.0) * log_of_product([&](Index d) { return gain[d] * row.y[d] * row.y[d]; });
    }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        const double n = stats_.row(c)[0], degrees = nu_ + keep * n + r;
        const double *mean = mean_.row(c), *scatter = scatter_.row(c);
        LogProduct logs;
        double total = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const auto at = static_cast<std::size_t>(d);
            const double p = p_[at], f = p + keep * n, shrink = f / (f + r);
            const double left = keep * (p + n) / f;  // what is left of the mean after the table has faded
            const double faded =
                keep * scatter[d] * inverse_variance_[at] + (1.0 - keep) * p * left * mean[d] * mean[d];
            const double gap = row.y[d] - left * mean[d];
            const double B = nu_ + (faded + r * shrink * gap * gap);
            logs.take(d, B / degrees);
            total += degrees / B * (shrink * gap) * (shrink * gap) + 1.0 / (f + r);
        }
        const double half = 0.5 * degrees, D = static_cast<double>(D_);
        return log_normalizer_ + 0.5 * D * (digamma(half) - std::log(half)) - 0.5 * (total + logs.log());
    }

    Index screen_width() const { return weights_.width(); }

    void prepare(Block& block) const {
        const double* reference = reference_.data();
        const Index width = weights_.width();
        for (Index m = 0; m < block.size; ++m) {
            const double* y = block.rows[static_cast<std::size_t>(m)].y;
            float* row = block.coordinates.data() + m * width;
            for_each_group([&](Index first, Index size, Index column) {
                row[column] = 1.0F;
                float *linear = row + column + 1, *quadratic = linear + size;
                for (Index j = 0; j < size; ++j) {
                    const double gap = y[first + j] - reference[first + j];
                    linear[j] = static_cast<float>(gap);
                    quadratic[j] = static_cast<float>(gap * gap);
                }
            });
            const double norm = sum_of<double>(D_, [=](Index d) {
                const double gap = y[d] - reference[d];
                return gap * gap;
            });
            block.norm[static_cast<std::size_t>(m)] = norm;
            if (norm > FAR) std::fill_n(row, width, 0.0F);
        }
        const Index b = block.size, K = block.n_tables;
        if (K == 0 || b == 1) return;
        Index n_small = 0;
        for (Index c = 0; c < K; ++c) n_small += power_[c] < static_cast<double>(D_) ? 1 : 0;
        const bool by_groups =
            groups_ > 1 && !variational_ && static_cast<double>(n_small) > FEW * static_cast<double>(K);
        block.by_groups = by_groups;
        if (!by_groups) {
            multiply(block.coordinates.data(), b, weights_.row(0), K, width, width, block.products.data(),
                     block.stride());
            return;
        }
        Block::grow(block.part, static_cast<std::size_t>(b * K));
        for_each_group([&](Index first, Index size, Index column) {
            multiply(block.coordinates.data() + column, b, weights_.row(0) + column, K, 1 + 2 * size, width,
                     block.part.data(), K);
            for (Index m = 0; m < b; ++m) {
                const float* part = block.part.data() + m * K;
                float* product = block.row_products(m);
                const float* scale = &screen_scale_[0];
                if (first == 0) {
                    for (Index c = 0; c < K; ++c) product[c] = group_sum(part[c], scale[c], LARGEST_SUM);
                } else {
                    for (Index c = 0; c < K; ++c) {
                        const float sum = group_sum(part[c], scale[c], LARGEST_SUM);
                        product[c] += sum + sum * product[c];
                    }
                }
            }
        });
    }

    double screen(Block& block, Index m, Index K) const {
        float* screened = block.screened.data();
        const float* row = block.coordinates.data() + m * weights_.width();
        const Index K0 = block.size == 1 ? 0 : block.n_tables;
        const float* products = block.row_products(m);
        if (variational_) {
            for (Index c = 0; c < K0; ++c) screened[c] = linear_bound(c, products[c]);
        } else if (!block.by_groups) {  // one group
            for (Index c = 0; c < K0; ++c) {
                screened[c] = bound(c, group_sum(products[c], screen_scale_[c], LARGEST_LONE_SUM));
            }
        } else {
            for (Index c = 0; c < K0; ++c) screened[c] = bound(c, products[c]);
        }
        if (block.size == 1) {
            for (Index c = 0; c < K; ++c) screened[c] = screen_alone(c, row);
        } else {
            for (const Index c : block.touched) screened[c] = screen_alone(c, row);
        }
        block.find_best(K);
        const double norm = block.norm[static_cast<std::size_t>(m)];
        if (norm > FAR) return INF;
        // Rounding is in the bounds already. A nearer reference point is asked for where it takes the edge off them.
        if (2.0 * rounding() * norm * largest(&steepest_[0], K) > BLUNT) return 1.001 * BLUNT;
        return 1e-6 * (1.0 + std::abs(log_normalizer_) + std::abs(log_empty_));
    }

    bool recentre(Index K, const Row* row) {
        std::copy_n(row != nullptr ? row->y : mean_.row(0), D_, reference_.begin());
        for (Index c = 0; c < K; ++c) refresh(c);
        return true;
    }

    Index stats_width() const { return 1 + 2 * D_; }
    static const char* extra() { return "scatter"; }
    Index extra_width() const { return D_; }

    /// The reference's Σ r z², which may have lost the scatter's digits, is scatter + s²/q.
    void write(Index c, double* stats, double* scatter) const {
        std::copy_n(stats_.row(c), 1 + D_, stats);
        std::copy_n(scatter_.row(c), D_, scatter);
        for (Index d = 0; d < D_; ++d) {
            const double q = p_[static_cast<std::size_t>(d)] + stats[0];
            stats[1 + D_ + d] = scatter[d] + stats[1 + d] * (stats[1 + d] / q);
        }
    }

    void read(Index c, const double* stats, const double* scatter) {
        std::copy_n(stats, 1 + D_, stats_.row(c));
        for (Index d = 0; d < D_; ++d) {
            scatter_.row(c)[d] = scatter != nullptr ? scatter[d]
                                                    : scatter_of(stats[0], stats[1 + d], stats[1 + D_ + d],
                                                                 p_[static_cast<std::size_t>(d)]);
        }
        refresh(c);
    }

  private:
    static constexpr double FAR = 1e20;      // squares beyond this, and
    static constexpr double STEEP = 1e14;    // weights beyond this, are not screened: too much for single precision
    static constexpr Index GROUP = 16;       // directions that are screened as one, if there are
    static constexpr Index MOST_GROUPS = 8;  // at most
    static constexpr double FEW = 0.1;       // share of small tables that is cheaper to score than to screen by groups
    static constexpr float LARGEST_SUM = 1e4F;        // of one of several groups, whose product must fit a float,
    static constexpr float LARGEST_LONE_SUM = 1e32F;  // and of a single group
    static constexpr double LARGEST_POWER = 1e30;

    /// Call each(first direction, size, first column) for every group; a group has 1 + 2 size columns.
    template <class Each>
    void for_each_group(Each each) const {
        Index column = 0;
        for (Index g = 0; g < groups_; ++g) {
            const Index first = g * D_ / groups_, size = (g + 1) * D_ / groups_ - first;
            each(first, size, column);
            column += 1 + 2 * size;
        }
    }

    /// Return log Π_d (1 + square_d) by one logarithm: eight products, less 1, go on side by side, to which small
    /// squares add up without loss.
    template <class Square>
    double log_of_product(Square square) const {
        constexpr Index LANES = 8;
        double lane[LANES] = {};
        Index d = 0;
        for (; d + LANES <= D_; d += LANES) {
            for (Index j = 0; j < LANES; ++j) {
                const double z = square(d + j);
                lane[j] += z + z * lane[j];
            }
        }
        for (; d < D_; ++d) {
            const double z = square(d);
            lane[d % LANES] += z + z * lane[d % LANES];
        }
        for (Index half = LANES / 2; half > 0; half /= 2) {
            for (Index j = 0; j < half; ++j) lane[j] += lane[j + half] + lane[j + half] * lane[j];
        }
        const double product = lane[0];
        if (product < 1e300) return std::log1p(product);
        return sum_of<double>(D_, [&](Index j) { return std::log1p(square(j)); });
    }

    /// Keep this share of the statistics of table c; the scatter stays a sum of nonnegative terms.
    void fade(Index c, double keep) {
        const double *stats = stats_.row(c), *p = p_.data(), n = stats[0];
        double* scatter = scatter_.row(c);
        for (Index d = 0; d < D_; ++d) {
            const double weight = keep * (1.0 - keep) * (p[d] / (p[d] + keep * n));
            scatter[d] = keep * scatter[d] + weight * stats[1 + d] * (stats[1 + d] / (p[d] + n));
        }
        stats_.scale(c, keep);
    }

    /// The relative rounding error of a sum of squares.
    double rounding() const { return 2.0 * static_cast<double>(2 * D_ + groups_ + 20) * UNIT; }

    /// A lower bound of a group's Σ z_d from the product of its weights with the row.
    static float group_sum(float product, float scale, float most) {
        const float sum = scale * product;
        const float positive = sum > 0.0F ? sum : 0.0F;
        return positive < most ? positive : most;
    }

    /// An upper bound of the score of table c, from Π_g (1 + Σ z_d) − 1, in single precision.
    float bound(Index c, float product) const {
        return screen_constant_[c] - screen_power_[c] * log1p_from_below(product);
    }

    /// The same for variational scores.
    float linear_bound(Index c, float product) const {
        return screen_constant_[c] + static_cast<float>(2.0 * (1.0 - 1e-6)) * (product < 0.0F ? product : 0.0F);
    }

    float screen_alone(Index c, const float* row) const {
        const float* weights = weights_.row(c);
        if (variational_) return linear_bound(c, dot(row, weights, weights_.width()));
        float product = 0.0F;
        const float most = groups_ == 1 ? LARGEST_LONE_SUM : LARGEST_SUM;
        for_each_group([&](Index, Index size, Index column) {
            const float sum = group_sum(dot(row + column, weights + column, 1 + 2 * size), screen_scale_[c], most);
            product += sum + sum * product;
        });
        return bound(c, product);
    }

    void refresh(Index c) {
        const double *stats = stats_.row(c), *scatter = scatter_.row(c), *reference = reference_.data();
        const double *p = p_.data(), *inverse_scale = inverse_scale_.data(),
                     *inverse_variance = inverse_variance_.data();
        double *mean = mean_.row(c), *gain = gain_.row(c);
        const double n = stats[0], degrees = nu_ + n, power = 0.5 * (degrees + 1.0);
        LogProduct logs;
        double uncertainty = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const double spread = 1.0 / (p[d] + n);  // 1/q
            mean[d] = inverse_scale[d] * stats[1 + d] * spread;
            const double B = nu_ + scatter[d] * inverse_variance[d];
            if (variational_) {
                gain[d] = degrees / B;
                logs.take(d, B / degrees);
                uncertainty += spread;
            } else {
                gain[d] = 1.0 / ((1.0 + spread) * B);
                logs.take(d, B / degrees * (1.0 + spread));
            }
        }
        double steepest = 0.0;
        for (Index d = 0; d < D_; ++d) steepest = std::max(steepest, gain[d]);
        const double norm = sum_of<double>(D_, [=](Index d) {
            const double gap = mean[d] - reference[d];
            return gap * gap;
        });
        const double scale = variational_ ? 0.5 : power;
        steepest *= scale;
        const double kept = 1.0 - rounding();  // what rounding leaves of a sum of squares
        float* weights = weights_.row(c);
        for_each_group([&](Index first, Index size, Index column) {
            float *linear = weights + column + 1, *quadratic = linear + size;
            for (Index j = 0; j < size; ++j) {
                const double v = scale * gain[first + j];
                linear[j] = static_cast<float>(v * (mean[first + j] - reference[first + j]));
                quadratic[j] = static_cast<float>(-0.5 * kept * v);
            }
            const double square = sum_of<double>(size, [=](Index j) {
                const double gap = mean[first + j] - reference[first + j];
                return scale * gain[first + j] * gap * gap;
            });
            weights[column] = static_cast<float>(-0.5 * kept * square);
        });
        const double half = 0.5 * degrees, D = static_cast<double>(D_);
        const double excess = variational_ ? 0.5 * (digamma(half) - std::log(half)) : log_gamma_half(half);
        const double constant = log_normalizer_ + D * excess - 0.5 * (logs.log() + uncertainty);
        constant_[c] = constant;
        power_[c] = power;
        const double coarse = std::min(power, LARGEST_POWER);
        screen_power_[c] = static_cast<float>((1.0 - 1e-6) * coarse);
        screen_scale_[c] = static_cast<float>(-2.0 * (1.0 - 4e-6) / coarse);
        if (norm > FAR || steepest > STEEP) {
            screen_constant_[c] = INF32;
            steepest_[c] = 0.0F;
            std::fill_n(weights, weights_.width(), 0.0F);
        } else {
            screen_constant_[c] = static_cast<float>(constant + 4.0 * UNIT * std::abs(constant));
            steepest_[c] = static_cast<float>(steepest);
        }
    }

    Index groups_;
    std::vector<double> p_;
    double nu_, log_normalizer_, log_empty_;
    std::vector<double> gain_empty_, inverse_variance_, inverse_scale_;
    PerTable<double> scatter_;           // Σ r z² − s²/q
    PerTable<double> mean_;              // μ
    PerTable<double> gain_;              // q/(q+1)/B; variational: (ν+n)/B
    PerTable<double> constant_, power_;  // the score is constant − power log Π (1 + gain (y − μ)²), power = a + ½
    PerTable<float> weights_;            // −½ Σ v (μ − reference)², v (μ − reference), −½ v of each group, less
                                         // rounding, where v is power · gain; variational: ½ gain
    PerTable<float> screen_constant_, screen_power_, screen_scale_;  // power rounded down, −2/power towards 0
    PerTable<float> steepest_;                                       // the largest v
    std::vector<double> reference_;
};

}  // namespace dyncrp
