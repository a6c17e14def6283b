// The Gaussian whose tables each have their own covariance matrix.
//
// In y = z/σ₀ the prior precision p = σ₀²/ρ² is one number. A table with n = Σ r, s = Σ r z and its scatter S has ν + n
// degrees of freedom, precision q = p + n, mean μ = s/(σ₀ q) and Ψ = ν I + S/σ₀σ₀ᵀ. With g = y − μ, Q = gᵀ Ψ⁻¹ g and
// a = (ν + n)/2 its scores are
//
//     predictive:   Σ_{i<D} log Γ(a + (i+1)/2) − log Γ(a + i/2) − ½ D log π(1 + 1/q) − ½ log|Ψ|
//                   − (a + D/2) log(1 + q/(q+1) Q)
//     variational:  −½ (D log π + log|Ψ| − Σ_{i<D} ψ(a + i/2) + (ν + n + D − 1) Q + D/q)      (and −Σ log σ₀, both)
//
// The scatter Σ r z zᵀ − s sᵀ/q is a sum of its own, as in normal_gamma.hpp: an observation of weight r adds
// r q/(q + r) g gᵀ to it, and forgetting adds a multiple of s sᵀ. Ψ is factored anew each time that a table changes,
// so that the factor depends on the scatter alone and not on what came before: a state that was saved goes on to the
// bit. This takes D³/3 steps, few beside the D²/2 for each table that a row is scored with. What is kept is the
// inverse of the factor, so that a score is a product of a triangle with g, without divisions.
//
// Screening uses that Ψ ≤ λ diag Ψ, if λ is at least the largest eigenvalue of the correlation matrix of Ψ. So
// Q ≥ Σ_d g_d²/(λ Ψ_dd), which is bounded as in normal_gamma.hpp.
#pragma once

#include "family.hpp"
#include "normal_gamma.hpp"
#include "special.hpp"

namespace dyncrp {

class NormalWishart {
  public:
    static constexpr Index MOST_ROWS = 16;

    struct Settings {
        static constexpr const char* NAME = "NormalWishart";
        double precision = 0.0;        // p
        std::vector<double> variance;  // σ₀² (D,)
        double degrees = 0.0;          // ν
        double log_normalizer = 0.0;   // −½ D log 2π − Σ log σ₀

        void for_each(auto each) {
            each("precision", precision);
            each("variance", variance);
            each("degrees", degrees);
            each("log_normalizer", log_normalizer);
        }
    };

    NormalWishart(const Settings& settings, bool variational)
        : strips_(static_cast<Index>(settings.variance.size())), D_(strips_.width()), triangle_(D_ * (D_ + 1) / 2),
          p_(settings.precision), nu_(settings.degrees), log_normalizer_(settings.log_normalizer),
          variational_(variational), stats_(1 + D_), scatter_(triangle_), mean_(D_), inverse_(strips_.size()),
          weights_(2 * D_ + 1), reference_(static_cast<std::size_t>(D_), 0.0), scratch_(D_) {
        for (const double variance : settings.variance) inverse_scale_.push_back(1.0 / std::sqrt(variance));
        log_empty_ = log_normalizer_ + gammas(nu_) - 0.5 * static_cast<double>(D_) * std::log1p(1.0 / p_);
        gain_empty_ = p_ / (p_ + 1.0) / nu_;
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_), each(scatter_), each(mean_), each(inverse_), each(constant_), each(power_), each(log_det_);
        each(weights_), each(screen_constant_), each(screen_power_), each(screen_scale_), each(steepest_);
    }

    void open(Index c) {
        std::fill_n(stats_.row(c), stats_.width(), 0.0);
        std::fill_n(scatter_.row(c), triangle_, 0.0);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        double *stats = stats_.row(c), *gap = scratch_.gap.data();
        if (keep < 1.0) fade(stats, scatter_.row(c), keep);
        const double q = p_ + stats[0];
        for (Index d = 0; d < D_; ++d) gap[d] = row.z[d] - stats[1 + d] / q;
        add_square(scatter_.row(c), r * (q / (q + r)), gap);
        stats[0] += r;
        for (Index d = 0; d < D_; ++d) stats[1 + d] += r * row.z[d];
        refresh(c);
    }

    /// The score, and Q, for predictive ones with the factor q/(q + 1).
    Scored score(Index c, const Row& row) const {
        const double square = wide::square_of_product(row.y, mean_.row(c), inverse_.row(c), D_);
        if (variational_) return {constant_[c] - power_[c] * square, square};
        return {constant_[c] - power_[c] * std::log1p(square), square};
    }

    double score_empty(const Row& row) const {
        const double* y = row.y;
        const double square = sum_of<double>(D_, [=](Index d) { return y[d] * y[d]; });
        return log_empty_ - 0.5 * (nu_ + static_cast<double>(D_)) * std::log1p(gain_empty_ * square);
    }

    /// With w = r q/(q + r), Ψ + w g gᵀ has the determinant |Ψ| (1 + w Q), and g has Q/(1 + w Q) there.
    double rescore(Index c, const Row& row, double r, double keep, const Scored& scored) const {
        const double n = stats_.row(c)[0], degrees = nu_ + keep * n + r, f = p_ + keep * n;
        double square = scored.aux, log_det = log_det_[c];
        if (keep < 1.0) {  // every entry has changed
            std::vector<double> stats(stats_.row(c), stats_.row(c) + 1 + D_);
            std::vector<double> scatter(scatter_.row(c), scatter_.row(c) + triangle_);
            std::vector<double> mean(static_cast<std::size_t>(D_)), inverse(static_cast<std::size_t>(strips_.size()));
            Scratch scratch(D_);
            fade(stats.data(), scatter.data(), keep);
            log_det = factor(stats.data(), scatter.data(), mean.data(), scratch);
            lay_out(scratch, 1.0, inverse.data());
            square = wide::square_of_product(row.y, mean.data(), inverse.data(), D_);
        }
        const double shrink = f / (f + r), more = r * shrink * square, D = static_cast<double>(D_);
        const double spread = (degrees + D - 1.0) * shrink * shrink * (square / (1.0 + more)) + D / (f + r);
        log_det += std::log1p(more) + D * std::log1p(-r / degrees);
        return log_normalizer_ + 0.5 * (digammas(degrees) - log_det - spread);
    }

    Index screen_width() const { return weights_.width(); }

    void prepare(Block& block) const {
        const double* reference = reference_.data();
        const Index width = weights_.width();
        for (Index m = 0; m < block.size; ++m) {
            const double* y = block.rows[static_cast<std::size_t>(m)].y;
            float* row = block.coordinates.data() + m * width;
            row[0] = 1.0F;
            double norm = 0.0;
            for (Index d = 0; d < D_; ++d) {
                const double gap = y[d] - reference[d];
                row[1 + d] = static_cast<float>(gap);
                row[1 + D_ + d] = static_cast<float>(gap * gap);
                norm += gap * gap;
            }
            block.norm[static_cast<std::size_t>(m)] = norm;
            if (norm > FAR) std::fill_n(row, width, 0.0F);
        }
        const Index b = block.size, K = block.n_tables;
        if (K == 0 || b == 1) return;
        multiply(block.coordinates.data(), b, weights_.row(0), K, width, width, block.products.data(), block.stride());
    }

    double screen(Block& block, Index m, Index K) const {
        float* screened = block.screened.data();
        const float *row = block.coordinates.data() + m * weights_.width(), *products = block.row_products(m);
        const bool alone = block.size == 1;
        const Index K0 = alone ? 0 : block.n_tables;
        for (Index c = 0; c < K0; ++c) screened[c] = bound(c, products[c]);
        if (alone) {
            for (Index c = 0; c < K; ++c) screened[c] = bound(c, dot(row, weights_.row(c), weights_.width()));
        } else {
            for (const Index c : block.touched) screened[c] = bound(c, dot(row, weights_.row(c), weights_.width()));
        }
        block.find_best(K);
        const double norm = block.norm[static_cast<std::size_t>(m)];
        if (norm > FAR) return INF;
        // Rounding is in the bounds already. A nearer reference point is asked for where it takes the edge off them.
        if (2.0 * rounding() * norm * largest(&steepest_[0], K) > BLUNT) return 1.001 * BLUNT;
        return 1e-6 * (1.0 + std::abs(log_normalizer_) + std::abs(log_empty_));
    }

    void follow_opening(Block&, Index, Index) const {}
    void follow(Block& block, Index, Index c, double, double) const { block.touch(c); }

    bool recentre(Index K, const Row* row) {
        std::copy_n(row != nullptr ? row->y : mean_.row(0), D_, reference_.begin());
        for (Index c = 0; c < K; ++c) refresh(c);
        return true;
    }

    void set_variational(bool variational, Index K) {
        variational_ = variational;
        for (Index c = 0; c < K; ++c) refresh(c);
    }

    Index stats_width() const { return 1 + D_ + triangle_; }
    static const char* extra() { return "scatter"; }
    Index extra_width() const { return triangle_; }

    /// The reference's Σ r z zᵀ, which may have lost the scatter's digits, is scatter + s sᵀ/q.
    void write(Index c, double* stats, double* scatter) const {
        std::copy_n(stats_.row(c), 1 + D_, stats);
        std::copy_n(scatter_.row(c), triangle_, scatter);
        const double *s = stats + 1, q = p_ + stats[0];
        double* products = stats + 1 + D_;
        for (Index i = 0; i < D_; ++i) {
            for (Index j = 0; j <= i; ++j) *products++ = *scatter++ + s[i] * (s[j] / q);
        }
    }

    void read(Index c, const double* stats, const double* scatter) {
        std::copy_n(stats, 1 + D_, stats_.row(c));
        if (scatter != nullptr && !std::isnan(scatter[0])) {
            std::copy_n(scatter, triangle_, scatter_.row(c));
        } else {
            find_scatter(stats, scatter_.row(c));
        }
        refresh(c);
    }

  private:
    static constexpr double FAR = 1e20;    // squares beyond this, and
    static constexpr double STEEP = 1e14;  // weights beyond this, are not screened: too much for single precision
    static constexpr double LARGEST_POWER = 1e30;
    static constexpr float LARGEST_SUM = 1e32F;

    struct Scratch {
        explicit Scratch(Index D)
            : work(static_cast<std::size_t>(D * Strips::padded(D))), pivots(static_cast<std::size_t>(D)),
              variances(static_cast<std::size_t>(D)), gap(static_cast<std::size_t>(3 * Strips::padded(D))) {}
        std::vector<double> work, pivots, variances, gap;
        double correlation = 1.0;  // at least the largest eigenvalue of the correlation matrix
    };

    /// log Γ(a + D/2) − log Γ(a) − ½ D log a, a = degrees/2, by Stirling's formula.
    double gammas(double degrees) const {
        const double a = 0.5 * degrees, half = 0.5 * static_cast<double>(D_);
        return (a + half - 0.5) * std::log1p(half / a) - half + stirling_remainder(a + half) - stirling_remainder(a);
    }

    /// Σ_{i<D} ψ(a + i/2) − log a, a = degrees/2.
    double digammas(double degrees) const {
        double total = 0.0;
        for (Index i = 0; i < D_; ++i) total += digamma(0.5 * (degrees + static_cast<double>(i)));
        return total - static_cast<double>(D_) * std::log(0.5 * degrees);
    }

    /// triangle += by · g gᵀ.
    void add_square(double* triangle, double by, const double* gap) const {
        for (Index i = 0; i < D_; ++i) {
            const double slope = by * gap[i];
            for (Index j = 0; j <= i; ++j) triangle[j] += slope * gap[j];
            triangle += i + 1;
        }
    }

    /// Keep this share of the statistics of a table; the scatter stays a sum of positive semi-definite matrices.
    void fade(double* stats, double* scatter, double keep) const {
        const double n = stats[0];
        for (Index j = 0; j < triangle_; ++j) scatter[j] *= keep;
        add_square(scatter, keep * (1.0 - keep) * (p_ / (p_ + keep * n)) / (p_ + n), stats + 1);
        for (Index j = 0; j <= D_; ++j) stats[j] *= keep;
    }

    /// Find the scatter from the reference's n, s and Σ r z zᵀ: that about the table's own mean, and the mean's part.
    void find_scatter(const double* stats, double* scatter) const {
        const double n = stats[0], *s = stats + 1, *products = stats + 1 + D_, share = n * (p_ / (p_ + n));
        std::vector<double> mean, own;
        for (Index i = 0, at = 0; i < D_; at += ++i) {
            mean.push_back(n > 0.0 ? s[i] / n : 0.0);
            own.push_back(std::max(products[at + i] - s[i] * mean.back(), 0.0));
        }
        for (std::size_t i = 0; i < own.size(); ++i) {
            for (std::size_t j = 0; j <= i; ++j) {
                const double most = std::sqrt(own[i]) * std::sqrt(own[j]);
                const double rest = std::clamp(*products++ - s[i] * mean[j], -most, most);
                *scatter++ = (i == j ? own[i] : rest) + share * mean[i] * mean[j];
            }
        }
    }

    /// Compute the mean, the inverse factor of Ψ and all that is found on the way; return log |Ψ/(ν + n)|.
    double factor(const double* stats, const double* scatter, double* mean, Scratch& scratch) const {
        const double n = stats[0], spread = 1.0 / (p_ + n), *unit = inverse_scale_.data();
        const Index width = Strips::padded(D_);
        double* work = scratch.work.data();
        for (Index i = 0; i < D_; ++i) {
            mean[i] = unit[i] * stats[1 + i] * spread;
            for (Index j = 0; j <= i; ++j) work[i * width + j] = unit[i] * unit[j] * scatter[j];
            scatter += i + 1;
            work[i * width + i] += nu_;
            scratch.variances[static_cast<std::size_t>(i)] = work[i * width + i];
        }
        scratch.correlation = wide::most_correlation(work, scratch.gap.data(), D_);
        wide::invert_factor(work, scratch.pivots.data(), scratch.gap.data(), nu_, D_);
        LogProduct logs;
        for (Index i = 0; i < D_; ++i) logs.take(i, scratch.pivots[static_cast<std::size_t>(i)] / (nu_ + n));
        return logs.log();
    }

    /// Lay out the inverse factor in strips, so that |T g|² is gain · gᵀ Ψ⁻¹ g.
    void lay_out(Scratch& scratch, double gain, double* out) const {
        const Index width = Strips::padded(D_);
        for (Index i = 0; i < D_; ++i) {
            const double scale = std::sqrt(gain / scratch.pivots[static_cast<std::size_t>(i)]);
            double* row = scratch.work.data() + i * width;
            for (Index j = 0; j < i; ++j) row[j] *= scale;
            row[i] = scale;
        }
        for (Index first = 0; first < D_; first += Strips::ROWS) {
            for (Index j = 0; j < strips_.columns(first); ++j) {
                for (Index i = first; i < first + Strips::ROWS; ++i) {
                    *out++ = i < D_ && j <= i ? scratch.work[static_cast<std::size_t>(i * width + j)] : 0.0;
                }
            }
        }
    }

    /// The relative rounding error of a sum of squares.
    double rounding() const { return 2.0 * static_cast<double>(2 * D_ + 21) * UNIT; }

    /// An upper bound of the score of table c from the product of its weights with the row, in single precision.
    float bound(Index c, float product) const {
        const float sum = screen_scale_[c] * product, positive = sum > 0.0F ? sum : 0.0F;
        const float square = positive < LARGEST_SUM ? positive : LARGEST_SUM;
        return screen_constant_[c] - screen_power_[c] * (variational_ ? square : log1p_from_below(square));
    }

    void refresh(Index c) {
        const double *stats = stats_.row(c), *mean = mean_.row(c), *reference = reference_.data();
        const double n = stats[0], q = p_ + n, degrees = nu_ + n, D = static_cast<double>(D_);
        const double log_det = factor(stats, scatter_.row(c), mean_.row(c), scratch_);
        const double gain = variational_ ? 1.0 : q / (q + 1.0);
        lay_out(scratch_, gain, inverse_.row(c));
        log_det_[c] = log_det;
        double constant = log_normalizer_ - 0.5 * log_det;
        if (variational_) {
            constant += 0.5 * (digammas(degrees) - D / q);
            power_[c] = 0.5 * (degrees + D - 1.0);
        } else {
            constant += gammas(degrees) - 0.5 * D * std::log1p(1.0 / q);
            power_[c] = 0.5 * (degrees + D);
        }
        constant_[c] = constant;

        // v_d = power · gain/(λ Ψ_dd) for the sum of squares that screening is by.
        const double power = std::min(power_[c], LARGEST_POWER), kept = 1.0 - rounding();
        float* weights = weights_.row(c);
        double steepest = 0.0, norm = 0.0, total = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const double v = power * gain / (scratch_.correlation * scratch_.variances[static_cast<std::size_t>(d)]);
            const double gap = mean[d] - reference[d];
            weights[1 + d] = static_cast<float>(v * gap);
            weights[1 + D_ + d] = static_cast<float>(-0.5 * kept * v);
            steepest = std::max(steepest, v);
            norm += gap * gap;
            total += v * gap * gap;
        }
        weights[0] = static_cast<float>(-0.5 * kept * total);
        screen_power_[c] = static_cast<float>((1.0 - 1e-6) * power);
        screen_scale_[c] = static_cast<float>(-2.0 * (1.0 - 4e-6) / power);
        if (!(norm <= FAR && steepest <= STEEP)) {
            screen_constant_[c] = INF32;
            steepest_[c] = 0.0F;
            std::fill_n(weights, weights_.width(), 0.0F);
        } else {
            screen_constant_[c] = static_cast<float>(constant + 4.0 * UNIT * std::abs(constant));
            steepest_[c] = static_cast<float>(steepest);
        }
    }

    Strips strips_;
    Index D_, triangle_;
    double p_, nu_, log_normalizer_, log_empty_ = 0.0, gain_empty_ = 0.0;
    std::vector<double> inverse_scale_;
    bool variational_;
    PerTable<double> stats_;             // n, s
    PerTable<double> scatter_;           // Σ r z zᵀ − s sᵀ/q, its lower triangle row by row
    PerTable<double> mean_;              // μ
    PerTable<double> inverse_;           // T, in strips
    PerTable<double> constant_, power_;  // the score is constant − power log(1 + |T g|²); variational: power |T g|²
    PerTable<double> log_det_;           // log |Ψ/(ν + n)|
    PerTable<float> weights_;            // −½ Σ v (μ − reference)², v (μ − reference), −½ v, less rounding
    PerTable<float> screen_constant_, screen_power_, screen_scale_;  // power rounded down, −2/power towards 0
    PerTable<float> steepest_;                                       // the largest v
    std::vector<double> reference_;
    Scratch scratch_;
};

}  // namespace dyncrp
