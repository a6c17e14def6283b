// The Gaussian with one ratio of prior variance to variance for all directions.
//
// In y = z/σ clusters have unit variance and means the prior precision p = σ²/ρ². A table with n = Σ r and s = Σ r z
// has precision q = p + n and mean μ = s/(σq) there. Its scores are
//
//     predictive:   −½ D log 2π(1 + 1/q) − ½ q/(q+1) |y − μ|²      (and −Σ log σ, both)
//     variational:  −½ D log 2π − ½ |y − μ|² − ½ D/q
//
// Screening expands |y − μ|² about a reference point near the data, where single precision loses little. When table c
// takes in r of row n, its mean moves by λ = r/q towards y_n, and so do its inner products with the rest of the block.
// A table that keeps only k of its statistics also moves by (1 − k) p/q towards the prior mean, where q = p + kn + r.
#pragma once

#include "family.hpp"
#include "moments.hpp"

namespace dyncrp {

inline constexpr double HUGE_SQUARE = 1e30;  // squares beyond this do not fit single precision

class Gaussian {
  public:
    static constexpr Index MOST_ROWS = LARGEST_BLOCK;

    struct Settings {
        Index width = 0;              // D, or the number of directions
        double precision = 0.0;       // p
        double log_normalizer = 0.0;  // −½ D log 2π − Σ log σ
        std::vector<double> scale;    // σ (D,), or none: all 1
    };

    Gaussian(const Settings& settings, bool variational)
        : D_(settings.width), p_(settings.precision), log_normalizer_(settings.log_normalizer),
          variational_(variational), moments_(D_), mean_(D_), center_(D_),
          reference_(static_cast<std::size_t>(D_), 0.0) {
        for (const double scale : settings.scale) inverse_scale_.push_back(1.0 / scale);
        log_empty_ = log_normalizer_ - 0.5 * static_cast<double>(D_) * std::log1p(1.0 / p_);
        half_empty_ = 0.5 * p_ / (p_ + 1.0);
    }

    template <class Each>
    void for_each(Each each) {
        each(moments_.array()), each(mean_), each(constant_), each(half_);
        each(center_), each(screen_constant_), each(screen_half_);
    }

    void open(Index c) { moments_.open(c); }

    void absorb(Index c, const Row& row, double r, double keep) {
        moments_.absorb(c, row, r, keep);
        refresh(c);
    }

    /// The score, and |y − μ|².
    Scored score(Index c, const Row& row) const {
        const double* mean = mean_.row(c);
        const double square = sum_of<double>(D_, [&](Index d) {
            const double gap = row.y[d] - mean[d];
            return gap * gap;
        });
        return {constant_[c] - half_[c] * square, square};
    }

    double score_empty(const Row& row) const {
        return log_empty_ - half_empty_ * sum_of<double>(D_, [&](Index d) { return row.y[d] * row.y[d]; });
    }

    double rescore(Index c, const Row& row, double r, double keep, const Scored& scored) const {
        const double *mean = mean_.row(c), n = moments_.row(c)[0], q = p_ + keep * n + r;
        const double shrink = keep * (p_ + n) / q, pull = (1.0 - keep) * p_ / q;
        double square = shrink * shrink * scored.aux;
        if (pull > 0.0) {
            square = sum_of<double>(D_, [&](Index d) {
                const double gap = shrink * (row.y[d] - mean[d]) + pull * row.y[d];
                return gap * gap;
            });
        }
        return log_normalizer_ - 0.5 * static_cast<double>(D_) / q - 0.5 * square;
    }

    Index screen_width() const { return D_; }

    void prepare(Block& block) const {
        const double* reference = reference_.data();
        block.prior.clear();
        for (Index m = 0; m < block.size; ++m) {
            const double* y = block.rows[static_cast<std::size_t>(m)].y;
            float* row = block.coordinates.data() + m * D_;
            const double norm = sum_of<double>(D_, [=](Index d) {
                const double gap = y[d] - reference[d];
                row[d] = static_cast<float>(gap);
                return gap * gap;
            });
            block.norm[static_cast<std::size_t>(m)] = norm;
            if (norm > HUGE_SQUARE) std::fill_n(row, D_, 0.0F);
        }
        if (one_by_one(block)) return;
        const float* rows = block.coordinates.data();
        if (block.n_tables > 0) {
            multiply(rows, block.size, center_.row(0), block.n_tables, D_, D_, block.products.data());
        }
        if (block.learns) multiply(rows, block.size, rows, block.size, D_, D_, block.gram.data());
    }

    double screen(Block& block, Index m, Index K) const {
        const double norm = block.norm[static_cast<std::size_t>(m)];
        const float square = norm < HUGE_SQUARE ? static_cast<float>(norm) : 0.0F;
        float* screened = block.screened.data();
        const auto bound = [&](Index c, float product) {
            screened[c] = screen_constant_[c] + screen_half_[c] * (2.0F * product - square);
        };
        if (one_by_one(block)) {
            const float* row = block.coordinates.data() + m * D_;
            switch (D_) {
                case 1:
                    for (Index c = 0; c < K; ++c) bound(c, row[0] * center_.row(c)[0]);
                    break;
                case 2:
                    for (Index c = 0; c < K; ++c) bound(c, short_dot<2>(row, center_.row(0) + 2 * c));
                    break;
                case 3:
                    for (Index c = 0; c < K; ++c) bound(c, short_dot<3>(row, center_.row(0) + 3 * c));
                    break;
                case 4:
                    for (Index c = 0; c < K; ++c) bound(c, short_dot<4>(row, center_.row(0) + 4 * c));
                    break;
                default:
                    for (Index c = 0; c < K; ++c) bound(c, dot(row, center_.row(c), D_));
                    break;
            }
        } else {
            const Index K0 = block.n_tables;
            const float* products = block.row_products(m);
            const float* opened = block.opened.data() + m * block.size;
            for (Index c = 0; c < K0; ++c) bound(c, products[c]);
            for (Index c = K0; c < K; ++c) bound(c, opened[c - K0]);
        }
        block.find_best(K);
        if (norm > HUGE_SQUARE) return INF;
        return rounding() * norm + 1e-6 * (1.0 + std::abs(log_normalizer_) + std::abs(log_empty_));
    }

    void follow_opening(Block& block, Index m, Index c) const {
        if (one_by_one(block)) return;
        // Beyond single precision an empty table is never screened out.
        const double* prior = with_empty_table(block);
        for (Index later = m + 1; later < block.size; ++later) {
            block.opened[static_cast<std::size_t>(later * block.size + c - block.n_tables)] =
                std::abs(prior[later]) < HUGE_SQUARE ? static_cast<float>(prior[later]) : 0.0F;
        }
    }

    void follow(Block& block, Index m, Index c, double r, double keep) const {
        if (one_by_one(block)) return;
        const double q = p_ + moments_.row(c)[0], pull = (1.0 - keep) * p_ / q;
        const float move = static_cast<float>(r / q), rest = 1.0F - move - static_cast<float>(pull);
        const float* gram = block.gram.data() + m * block.size;
        const bool old = c < block.n_tables;
        float* product = old ? block.products.data() + c : block.opened.data() + c - block.n_tables;
        const Index step = old ? block.n_tables : block.size;
        for (Index later = m + 1; later < block.size; ++later) {
            product[later * step] = rest * product[later * step] + move * gram[later];
        }
        if (pull == 0.0) return;
        const double* prior = with_empty_table(block);
        for (Index later = m + 1; later < block.size; ++later) {
            const double pulled = pull * prior[later];
            if (std::abs(pulled) < HUGE_SQUARE) product[later * step] += static_cast<float>(pulled);
        }
    }

    bool recentre(Index K, const Row* row) {
        std::copy_n(row != nullptr ? row->y : mean_.row(0), D_, reference_.begin());
        for (Index c = 0; c < K; ++c) refresh(c);
        return true;
    }

    void set_variational(bool variational, Index K) {
        variational_ = variational;
        for (Index c = 0; c < K; ++c) refresh(c);
    }

    Index stats_width() const { return moments_.stats_width(); }
    static const char* extra() { return "squares"; }
    Index extra_width() const { return moments_.squares_width(); }
    void write(Index c, double* stats, double* squares) const { moments_.write(c, stats, squares); }
    void read(Index c, const double* stats, const double* squares) {
        moments_.read(c, stats, squares);
        refresh(c);
    }

  private:
    template <int N>
    static float short_dot(const float* left, const float* right) {
        float total = 0.0F;
        for (int d = 0; d < N; ++d) total += left[d] * right[d];
        return total;
    }

    /// The inner products of the block's rows with an empty table, whose mean is 0, seen from the reference point.
    const double* with_empty_table(Block& block) const {
        for (Index m = static_cast<Index>(block.prior.size()); m < block.size; ++m) {
            const float* row = block.coordinates.data() + m * D_;
            block.prior.push_back(
                -sum_of<double>(D_, [&](Index d) { return row[d] * reference_[static_cast<std::size_t>(d)]; }));
        }
        return block.prior.data();
    }

    /// Whether inner products are cheaper one by one than as a matrix product with its corrections.
    bool one_by_one(const Block& block) const { return block.size == 1 || D_ <= 4; }

    double rounding() const { return static_cast<double>(D_ + LARGEST_BLOCK + 8) * UNIT; }

    /// Compute what is derived from the statistics of table c.
    void refresh(Index c) {
        const double *stats = moments_.row(c), *inverse = inverse_scale_.data(), *reference = reference_.data();
        double* mean = mean_.row(c);
        float* center = center_.row(c);
        const double q = p_ + stats[0], scale = 1.0 / q, D = static_cast<double>(D_);
        const bool plain = inverse_scale_.empty();
        const double norm = sum_of<double>(D_, [=](Index d) {
            mean[d] = plain ? scale * stats[1 + d] : scale * (inverse[d] * stats[1 + d]);
            const double gap = mean[d] - reference[d];
            center[d] = static_cast<float>(gap);
            return gap * gap;
        });
        const double half = variational_ ? 0.5 : 0.5 * q / (q + 1.0);
        const double constant = log_normalizer_ - 0.5 * D * (variational_ ? 1.0 / q : std::log1p(1.0 / q));
        constant_[c] = constant;
        half_[c] = half;
        if (norm > HUGE_SQUARE) {
            screen_constant_[c] = INF32;
            screen_half_[c] = 0.0F;
            std::fill_n(center, D_, 0.0F);
        } else {
            screen_constant_[c] = static_cast<float>(constant - half * norm + rounding() * norm);
            screen_half_[c] = static_cast<float>(half);
        }
    }

    Index D_;
    double p_, log_normalizer_;
    double log_empty_, half_empty_;  // an empty table's score is log_empty − half_empty |y|²
    bool variational_;
    std::vector<double> inverse_scale_;
    Moments moments_;
    PerTable<double> mean_;             // μ
    PerTable<double> constant_, half_;  // the score is constant − half |y − μ|²
    PerTable<float> center_;            // μ − reference
    PerTable<float> screen_constant_, screen_half_;
    std::vector<double> reference_;
};

}  // namespace dyncrp
