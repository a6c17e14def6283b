// Unit vectors: the von Mises–Fisher family with a uniform prior over mean directions.
//
// A table with s = Σ r x has h = κ s, a = |h|; with b = |h + κx| and F the scaled Bessel function of special.hpp,
//
//     predictive:   log C(κ) + log F(b) − log F(a) = log C(0) + e(b) − e(a) − e(κ) + (b − a − κ),  e = log F − identity
//     variational:  log C(κ) + κ A(a) (h·x)/a,     A = F'/F, the Bessel ratio.
//
// log F is convex, so that log F(b) − log F(a) ≤ A(b) (b − a) whichever is larger. Screening bounds A(b) from the right
// side by Amos's (1974) x/(ν + ½ + √(x² + (ν + ½)²)) ≥ A(x) ≥ x/(ν + ½ + √(x² + (ν + 3/2)²)), so it takes square roots
// only, and needs a Bessel function only for the tables that are left.
#pragma once

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

class VonMisesFisher {
  public:
    static constexpr Index MOST_ROWS = LARGEST_BLOCK;

    struct Settings {
        Index width = 0;              // D
        double concentration = 0.0;   // κ
        double log_normalizer = 0.0;  // log C(κ)
        double log_uniform = 0.0;     // log C(0)
        Bessel::Settings bessel;
    };

    VonMisesFisher(const Settings& settings, bool variational)
        : D_(settings.width), kappa_(settings.concentration), log_normalizer_(settings.log_normalizer),
          log_uniform_(settings.log_uniform), variational_(variational), bessel_(settings.bessel), stats_(1 + D_),
          natural_(D_) {}

    template <class Each>
    void for_each(Each each) {
        each(stats_), each(norm_), each(excess_), each(pull_), each(natural_), each(length_);
    }

    void open(Index c) { std::fill_n(stats_.row(c), stats_.width(), 0.0); }

    void absorb(Index c, const Row& row, double r, double keep) {
        double* stats = stats_.row(c);
        stats[0] = keep * stats[0] + r;
        for (Index d = 0; d < D_; ++d) stats[1 + d] = keep * stats[1 + d] + r * row.z[d];
        refresh(c);
    }

    /// The score, and for variational also s·x.
    Scored score(Index c, const Row& row) const {
        const double* s = stats_.row(c) + 1;
        const double product = sum_of<double>(D_, [&](Index d) { return s[d] * row.z[d]; });
        if (variational_) return {log_normalizer_ + pull_[c] * kappa_ * product, product};
        const double norm = std::sqrt(sum_of<double>(D_, [&](Index d) {
            const double total = s[d] + row.z[d];
            return total * total;
        }));
        const double growth = kappa_ * ((2.0 * product + 1.0) / (norm + norm_[c]) - 1.0);
        return {log_normalizer_ + kappa_ + bessel_.excess(kappa_ * norm) - excess_[c] + growth, product};
    }

    double score_empty(const Row&) const { return log_uniform_; }

    double rescore(Index c, const Row& row, double r, double keep, const Scored& scored) const {
        const double* s = stats_.row(c) + 1;
        const double norm = std::sqrt(sum_of<double>(D_, [&](Index d) {
            const double total = keep * s[d] + r * row.z[d];
            return total * total;
        }));
        return log_normalizer_ + kappa_ * ratio_over(kappa_ * norm) * kappa_ * (keep * scored.aux + r);
    }

    Index screen_width() const { return D_; }

    void prepare(Block& block) const {
        for (Index m = 0; m < block.size; ++m) {
            const double* x = block.rows[static_cast<std::size_t>(m)].z;
            float* row = block.coordinates.data() + m * D_;
            for (Index d = 0; d < D_; ++d) row[d] = static_cast<float>(x[d]);
        }
        if (block.size == 1) return;
        const float* rows = block.coordinates.data();
        if (block.n_tables > 0) {
            multiply(rows, block.size, natural_.row(0), block.n_tables, D_, D_, block.products.data());
        }
        if (block.learns) multiply(rows, block.size, rows, block.size, D_, D_, block.gram.data());
    }

    double screen(Block& block, Index m, Index K) const {
        float* screened = block.screened.data();
        const float constant = static_cast<float>(log_normalizer_);
        const auto bound_all = [&](Index first, Index last, const float* product) {
            if (variational_) {
                for (Index c = first; c < last; ++c) {
                    screened[c] = constant + static_cast<float>(pull_[c]) * product[c - first];
                }
            } else {
                for (Index c = first; c < last; ++c) screened[c] = constant + bound(c, product[c - first]);
            }
        };
        if (block.size == 1) {
            for (Index c = 0; c < K; ++c) {
                const float product = dot(block.coordinates.data(), natural_.row(c), D_);
                bound_all(c, c + 1, &product);
            }
        } else {
            bound_all(0, block.n_tables, block.row_products(m));
            bound_all(block.n_tables, K, block.opened.data() + m * block.size);
        }
        block.find_best(K);
        const double D = static_cast<double>(D_), worst = std::max(2.0, 2.0 * kappa_ / D);
        return (D + static_cast<double>(LARGEST_BLOCK + 16)) * UNIT * kappa_ * worst +
               1e-6 * (1.0 + std::abs(log_normalizer_));
    }

    void follow_opening(Block& block, Index m, Index c) const {
        for (Index later = m + 1; later < block.size; ++later) {
            block.opened[static_cast<std::size_t>(later * block.size + c - block.n_tables)] = 0.0F;
        }
    }

    void follow(Block& block, Index m, Index c, double r, double keep) const {
        if (block.size == 1) return;
        const float move = static_cast<float>(r * kappa_), rest = static_cast<float>(keep);
        const float* gram = block.gram.data() + m * block.size;
        const bool old = c < block.n_tables;
        float* product = old ? block.products.data() + c : block.opened.data() + c - block.n_tables;
        const Index step = old ? block.n_tables : block.size;
        for (Index later = m + 1; later < block.size; ++later) {
            product[later * step] = rest * product[later * step] + move * gram[later];
        }
    }

    bool recentre(Index, const Row*) { return false; }

    void set_variational(bool variational, Index K) {
        variational_ = variational;
        for (Index c = 0; c < K; ++c) refresh(c);
    }

    Index stats_width() const { return stats_.width(); }
    static const char* extra() { return nullptr; }
    static Index extra_width() { return 0; }
    void write(Index c, double* stats, double*) const { std::copy_n(stats_.row(c), stats_.width(), stats); }
    void read(Index c, const double* stats, const double*) {
        std::copy_n(stats, stats_.width(), stats_.row(c));
        refresh(c);
    }

  private:
    /// An upper bound of log F(b) − log F(a), given h·x.
    float bound(Index c, float product) const {
        const float kappa = static_cast<float>(kappa_), low = static_cast<float>(bessel_.order() + 0.5);
        const float a = length_[c];
        const float rise = kappa * (2.0F * product + kappa);  // b² − a²
        const float square = a * a + rise;
        const float b = std::sqrt(square > 0.0F ? square : 0.0F);
        const float step = rise / (a + b + 1e-30F);
        const float edge = step >= 0.0F ? low : low + 1.0F;
        return step * b / (low + std::sqrt(b * b + edge * edge));
    }

    /// A(a)/a, which is 1/D at a = 0.
    double ratio_over(double length) const {
        return length < 1e-8 ? 1.0 / static_cast<double>(D_) : bessel_.ratio(length) / length;
    }

    void refresh(Index c) {
        const double* s = stats_.row(c) + 1;
        float* natural = natural_.row(c);
        const double kappa = kappa_;
        for (Index d = 0; d < D_; ++d) natural[d] = static_cast<float>(kappa * s[d]);
        norm_[c] = std::sqrt(sum_of<double>(D_, [=](Index d) { return s[d] * s[d]; }));
        const double length = kappa_ * norm_[c];
        length_[c] = static_cast<float>(length);
        if (variational_) {
            pull_[c] = kappa_ * ratio_over(length);
        } else {
            excess_[c] = bessel_.excess(length);
        }
    }

    Index D_;
    double kappa_, log_normalizer_, log_uniform_;
    bool variational_;
    Bessel bessel_;
    PerTable<double> stats_;   // n, s
    PerTable<double> norm_;    // |s|
    PerTable<double> excess_;  // log F(a) − a
    PerTable<double> pull_;    // κ A(a)/a
    PerTable<float> natural_;  // h
    PerTable<float> length_;   // a
};

}  // namespace dyncrp
