// Unit vectors: the von Mises–Fisher family with a uniform prior over mean directions.
//
// A table with s = Σ r x has h = κ s, a = |h|; with b = |h + κx| and F the scaled Bessel function of special.hpp,
//
//     predictive:   log C(κ) + log F(b) − log F(a) = log C(0) + e(b) − e(a) − e(κ) + (b − a − κ),  e = log F − identity
//     variational:  log C(κ) + κ A(a) (h·x)/a,     A = F'/F, the Bessel ratio.
//
// log F is convex, so log F(b) − log F(a) ≤ A(b) (b − a), whichever is larger. Screening bounds A(b) on the appropriate
// side by Amos's (1974) x/(ν + ½ + √(x² + (ν + ½)²)) ≥ A(x) ≥ x/(ν + ½ + √(x² + (ν + 3/2)²)). So it takes only square
// roots, and Bessel functions are needed only for the tables that are left.
#pragma once

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

class VonMisesFisher : public Bookkeeping<VonMisesFisher> {
    friend Bookkeeping<VonMisesFisher>;

  public:
    static constexpr Index MOST_ROWS = LARGEST_BLOCK;

    struct Settings {
        static constexpr const char* NAME = "VonMisesFisher";
        Index width = 0;              // D
        double concentration = 0.0;   // κ
        double log_normalizer = 0.0;  // log C(κ)
        double log_uniform = 0.0;     // log C(0)
        Bessel::Settings bessel;

        void for_each(auto each) {
            each("width", width);
            each("concentration", concentration);
            each("log_normalizer", log_normalizer);
            each("log_uniform", log_uniform);
            each("bessel", bessel);
        }
    };

    VonMisesFisher(const Settings& settings, bool variational)
        : Bookkeeping(settings.width, 1 + settings.width, variational), kappa_(settings.concentration),
          log_normalizer_(settings.log_normalizer), log_uniform_(settings.log_uniform), bessel_(settings.bessel),
          natural_(D_) {}

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(norm_), each(excess_), each(pull_), each(natural_), each(length_), each(moved_);
    }

    void open(Index c) { stats_.open(c); }

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
        multiply_all(block, natural_);
    }

    double screen(Block& block, Index m, Index K) const {
        const float *row = block.coordinates.data() + m * D_, constant = static_cast<float>(log_normalizer_);
        float *products = block.row_products(m), *screened = block.screened.data();
        if (block.size == 1) {
            for (Index c = 0; c < K; ++c) products[c] = dot(row, natural_.row(c), D_);
        } else {
            for (const Index c : block.touched) products[c] = dot(row, natural_.row(c), D_);
        }
        if (variational_) {
            for (Index c = 0; c < K; ++c) {
                screened[c] = constant + static_cast<float>(pull_[c]) * (products[c] + moved_[c]);
            }
        } else {
            screen_directions(products, moved_.row(0), length_.row(0), static_cast<float>(kappa_),
                              static_cast<float>(bessel_.order() + 0.5), constant, screened, K);
        }
        block.find_best(K);
        const double D = static_cast<double>(D_), worst = std::max(2.0, 2.0 * kappa_ / D);
        return (D + 16.0) * UNIT * kappa_ * worst + 1e-6 * (1.0 + std::abs(log_normalizer_));
    }

    void follow_opening(Block& block, Index, Index c) {
        moved_[c] = 0.0F;
        block.touch(c);
    }

    /// Table c has moved. Since rows have length 1, its inner products with later rows exceed those from the start of
    /// the block by at most the distance that its natural parameter has moved.
    void follow(Block& block, Index, Index c, double r, double keep) {
        if (block.size == 1 || block.is_touched[static_cast<std::size_t>(c)] != 0) return;
        const double length = static_cast<double>(length_[c]);
        const double step = r * kappa_, shrunk = (1.0 - keep) / keep * (length + step);
        const double moved = static_cast<double>(moved_[c]) + 1.0001 * (step + shrunk);
        if (keep <= 0.0 || moved * kappa_ > loss_ * std::max(length, kappa_)) {
            moved_[c] = 0.0F;
            block.touch(c);
        } else {
            if (moved_[c] == 0.0F) block.moved.push_back(c);
            moved_[c] = static_cast<float>(moved);
        }
    }

    void finish(Block& block, Index n_rows, Index n_in_vain, Index) {
        for (const Index c : block.moved) moved_[c] = 0.0F;
        block.moved.clear();
        if (2 * n_in_vain > n_rows) loss_ = std::max(LEAST_LOSS, 0.5 * loss_);
        if (16 * n_in_vain < n_rows) loss_ = std::min(MOST_LOSS, 2.0 * loss_);
    }

  private:
    static constexpr double LEAST_LOSS = 0.5, MOST_LOSS = 64.0;

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

    double kappa_, log_normalizer_, log_uniform_;
    Bessel bessel_;
    PerTable<double> norm_;    // |s|
    PerTable<double> excess_;  // log F(a) − a
    PerTable<double> pull_;    // κ A(a)/a
    PerTable<float> natural_;  // h
    PerTable<float> length_;   // a
    PerTable<float> moved_;    // at most how far h has moved since the start of the block
    double loss_ = 8.0;        // nats that screening may lose by that
};

}  // namespace dyncrp
