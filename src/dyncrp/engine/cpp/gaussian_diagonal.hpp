// The Gaussian with a ratio of prior variance to variance of its own for each direction.
//
// In y = z/σ direction d has prior precision p_d = σ_d²/ρ_d², and a table with n = Σ r and s = Σ r z has precision
// q_d = p_d + n and mean μ_d = s_d/(σ_d q_d) there. Its scores are
//
//     predictive:   −½ Σ_d log 2π(1 + 1/q_d) + q_d/(q_d+1) (y_d − μ_d)²      (and −Σ log σ, both)
//     variational:  −½ Σ_d log 2π + (y_d − μ_d)² + 1/q_d
//
// Screening is one product of (y, y²) with the tables' (a μ, −½ a), a = q/(q+1), relative to the reference point. A
// table that the block has touched is screened separately for the rest of the block.
#pragma once

#include "gaussian.hpp"

namespace dyncrp {

class GaussianDiagonal : public Bookkeeping<GaussianDiagonal, Moments> {
    friend Bookkeeping<GaussianDiagonal, Moments>;

  public:
    static constexpr Index MOST_ROWS = 48;

    struct Settings {
        static constexpr const char* NAME = "GaussianDiagonal";
        std::vector<double> precision;  // p (D,)
        double log_normalizer = 0.0;    // −½ D log 2π − Σ log σ
        std::vector<double> scale;      // σ (D,), or none: all 1

        void for_each(auto each) {
            each("precision", precision);
            each("log_normalizer", log_normalizer);
            each("scale", scale);
        }
    };

    GaussianDiagonal(const Settings& settings, bool variational)
        : Bookkeeping(static_cast<Index>(settings.precision.size()), static_cast<Index>(settings.precision.size()),
                      variational),
          p_(settings.precision), log_normalizer_(settings.log_normalizer), mean_(D_), gain_(D_), weights_(2 * D_),
          reference_(static_cast<std::size_t>(D_), 0.0) {
        for (const double scale : settings.scale) inverse_scale_.push_back(1.0 / scale);
        log_empty_ = log_normalizer_;
        for (const double p : p_) {
            largest_precision_ = std::max(largest_precision_, p);
            log_empty_ -= 0.5 * std::log1p(1.0 / p);
            gain_empty_.push_back(p / (p + 1.0));
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(mean_), each(gain_);
        each(constant_), each(weights_), each(screen_constant_);
    }

    void open(Index c) { stats_.open(c); }

    void absorb(Index c, const Row& row, double r, double keep) {
        stats_.absorb(c, row, r, keep);
        refresh(c);
    }

    Scored score(Index c, const Row& row) const {
        const double square = wide::weighted_squared_distance(row.y, mean_.row(c), gain_.row(c), D_);
        return {constant_[c] - 0.5 * square, 0.0};
    }

    double score_empty(const Row& row) const {
        const double* gain = gain_empty_.data();
        return log_empty_ - 0.5 * sum_of<double>(D_, [&](Index d) { return gain[d] * row.y[d] * row.y[d]; });
    }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        const double *mean = mean_.row(c), n = stats_.row(c)[0];
        return log_normalizer_ - 0.5 * sum_of<double>(D_, [&](Index d) {
                                     const double p = p_[static_cast<std::size_t>(d)], q = p + keep * n + r;
                                     const double shrink = keep * (p + n) / q, pull = (1.0 - keep) * p / q;
                                     const double gap = shrink * (row.y[d] - mean[d]) + pull * row.y[d];
                                     return gap * gap + 1.0 / q;
                                 });
    }

    Index screen_width() const { return 2 * D_; }

    void prepare(Block& block) const {
        const double* reference = reference_.data();
        for (Index m = 0; m < block.size; ++m) {
            Row& row = block.rows[static_cast<std::size_t>(m)];
            const double* y = row.y;
            float *linear = block.coordinates.data() + 2 * m * D_, *quadratic = linear + D_;
            for (Index d = 0; d < D_; ++d) {
                const double gap = y[d] - reference[d];
                linear[d] = static_cast<float>(gap);
                quadratic[d] = static_cast<float>(gap * gap);
            }
            const double norm = sum_of<double>(D_, [=](Index d) {
                const double gap = y[d] - reference[d];
                return gap * gap;
            });
            block.norm[static_cast<std::size_t>(m)] = norm;
            row.square = sum_of<double>(D_, [=](Index d) { return y[d] * y[d]; });
            if (norm > HUGE_SQUARE) std::fill_n(linear, 2 * D_, 0.0F);
        }
        multiply_all(block, weights_);
    }

    double screen(Block& block, Index m, Index K) const {
        screen_products_of(block, m, K, weights_, [constant = screen_constant_.row(0)](Index c, float product) {
            return constant[c] + product;
        });
        const double norm = block.norm[static_cast<std::size_t>(m)];
        if (norm > HUGE_SQUARE) return INF;
        return rounding() * norm + 1e-6 * (1.0 + std::abs(log_normalizer_) + std::abs(log_empty_));
    }

    bool recentre(Index K, const Row* row) {
        std::copy_n(row != nullptr ? row->y : mean_.row(0), D_, reference_.begin());
        for (Index c = 0; c < K; ++c) refresh(c);
        return true;
    }

  private:
    double rounding() const { return static_cast<double>(2 * D_ + 8) * UNIT; }

    /// The logarithm of a product of n numbers of at most 1: one logarithm, unless the product is too small for a
    /// float.
    static double log_product(const double* factors, Index n) {
        constexpr Index LANES = 4;
        double lane[LANES] = {1.0, 1.0, 1.0, 1.0};
        Index d = 0;
        for (; d + LANES <= n; d += LANES) {
            for (Index j = 0; j < LANES; ++j) lane[j] *= factors[d + j];
        }
        for (; d < n; ++d) lane[0] *= factors[d];
        const double product = (lane[0] * lane[1]) * (lane[2] * lane[3]);
        if (product > 1e-200) return std::log(product);
        LogProduct careful;
        for (d = 0; d < n; ++d) careful.take(d, factors[d]);
        return careful.log();
    }

    bool moderate(double n) const { return n > 1e-100 && n + largest_precision_ < 1e100; }

    void refresh(Index c) {
        const double *stats = stats_.row(c), *p = p_.data(), n = stats[0];
        double* gain = gain_.row(c);
        float* linear = weights_.row(c);
        const double* unit = inverse_scale_.empty() ? nullptr : inverse_scale_.data();
        const auto [norm, square] = wide::refresh(
            {p, stats + 1, unit, reference_.data(), n, moderate(n), mean_.row(c), gain, linear, linear + D_},
            variational_, D_);
        const double constant =
            variational_ ? sum_of<double>(D_, [=](Index d) { return 1.0 / (p[d] + n); }) : -log_product(gain, D_);
        constant_[c] = log_normalizer_ - 0.5 * constant;
        if (norm > HUGE_SQUARE) {
            screen_constant_[c] = INF32;
            std::fill_n(linear, 2 * D_, 0.0F);
        } else {
            screen_constant_[c] = static_cast<float>(constant_[c] - 0.5 * square + rounding() * norm);
        }
    }

    std::vector<double> p_;
    double largest_precision_ = 0.0;
    double log_normalizer_;
    double log_empty_;  // an empty table's score is log_empty − ½ Σ gain_empty y²
    std::vector<double> gain_empty_;
    std::vector<double> inverse_scale_;
    PerTable<double> mean_;      // μ
    PerTable<double> gain_;      // a; variational: 1
    PerTable<double> constant_;  // the score is constant − ½ Σ a (y − μ)²
    PerTable<float> weights_;    // a (μ − reference), −½ a
    PerTable<float> screen_constant_;
    std::vector<double> reference_;
};

}  // namespace dyncrp
