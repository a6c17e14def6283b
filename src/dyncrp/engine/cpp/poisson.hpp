// Counts: a product of Poisson distributions with a Gamma prior in every dimension.
//
// A table with n = Σ r and s = Σ r x has Gamma(A_d, B_d) in dimension d, A_d = shape + s_d and B_d = rate + n. Its
// score is that of a row of zeros, plus a term in each dimension with x_d > 0:
//
//     predictive:   −Σ_d A_d log(1 + 1/B_d)  and  log (A_d)_x / x! (B_d + 1)^x,   (A)_x = A (A + 1) ⋯ (A + x − 1)
//     variational:  −Σ_d A_d/B_d             and  x (ψ(A_d) − log B_d) − log x!
//
// A small count is scored by this product of x factors, with one logarithm for all dimensions together; a large count
// is scored as in the reference.
//
// Screening uses that log (A)_x ≤ log A + (x − 1) log(A + 1) + (x − 1)(x − 2)/2 log(1 + 1/(A + 1)) for x ≥ 1, which is
// exact for x ≤ 3: log(1 + j/a)/j falls as j grows. So the bound is a product of three numbers for each count with
// three weights of the table. A table that the block has touched is screened separately for the rest of the block.
#pragma once

#include <array>

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

class Poisson : public Bookkeeping<Poisson> {
    friend Bookkeeping<Poisson>;

  public:
    static constexpr Index MOST_ROWS = 48;

    struct Settings {
        static constexpr const char* NAME = "Poisson";
        std::vector<double> shape, rate;  // (D,) both

        void for_each(auto each) { each("shape", shape), each("rate", rate); }
    };

    Poisson(const Settings& settings, bool variational)
        : Bookkeeping(static_cast<Index>(settings.shape.size()), 1 + static_cast<Index>(settings.shape.size()),
                      variational),
          shape_(settings.shape), rate_(settings.rate), first_(D_), second_(D_), weights_(3 * D_),
          nothing_(static_cast<std::size_t>(1 + D_), 0.0) {
        for (Index i = 0; i < SMALL; ++i) inverse_[at(i)] = 1.0 / static_cast<double>(i + 1);
        for (const double rate : rate_) alike_ = alike_ && rate == rate_[0];
        zeros_empty_ = zeros(nothing_.data(), false);
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(first_), each(second_), each(weights_), each(constant_), each(screen_constant_);
        each(steepest_), each(bent_);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        double* stats = stats_.row(c);
        if (keep < 1.0) stats_.scale(c, keep);
        stats[0] += r;
        for (Index d = 0; d < D_; ++d) {
            if (row.z[d] > 0.0) stats[1 + d] += r * row.z[d];
            if (row.z[d] > 0.0 || keep < 1.0) refresh_logs(c, d);
        }
        refresh_weights(c);
    }

    Scored score(Index c, const Row& row) const {
        if (!variational_) return {predictive(stats_.row(c), constant_[c], row), 0.0};
        const double *psi = first_.row(c), *stats = stats_.row(c);
        double total = constant_[c];
        for (Index d = 0; d < D_; ++d) {
            if (row.z[d] > 0.0) total += row.z[d] * (psi[d] - log_rate(stats[0], d)) - log_factorial(row.z[d]);
        }
        return {total, 0.0};
    }

    double score_empty(const Row& row) const { return predictive(nothing_.data(), zeros_empty_, row); }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        const double *stats = stats_.row(c), n = keep * stats[0] + r;
        double total = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const double x = row.z[d], A = shape_[at(d)] + (keep * stats[1 + d] + r * x);
            if (x > 0.0) total += x * (digamma(A) - log_rate(n, d)) - log_factorial(x);
            total -= A / (rate_[at(d)] + n);
        }
        return total;
    }

    Index screen_width() const { return 3 * D_; }

    void prepare(Block& block) const {
        Block::grow(block.norm, 2 * at(block.size));
        Block::grow(block.prior, at(block.size));
        for (Index m = 0; m < block.size; ++m) {
            const double* x = block.rows[at(m)].z;
            float* row = block.coordinates.data() + m * 3 * D_;
            double sum = 0.0, pairs = 0.0, factorials = 0.0;
            for (Index d = 0; d < D_; ++d) {
                const double some = x[d] > 0.0 ? 1.0 : 0.0, more = x[d] - some, two = 0.5 * more * (x[d] - 2.0 * some);
                row[d] = static_cast<float>(some);
                row[D_ + d] = static_cast<float>(more);
                row[2 * D_ + d] = static_cast<float>(two);
                sum += x[d];
                pairs += two;
                if (x[d] > 1.0) factorials += log_factorial(x[d]);
            }
            if (pairs > FAR) std::fill_n(row, 3 * D_, 0.0F);
            block.norm[2 * at(m)] = sum;
            block.norm[2 * at(m) + 1] = pairs;
            block.prior[at(m)] = factorials;
        }
        multiply_all(block, weights_);
    }

    double screen(Block& block, Index m, Index K) const {
        const double sum = block.norm[2 * at(m)], pairs = block.norm[2 * at(m) + 1], factorials = block.prior[at(m)];
        const auto base = static_cast<float>(factorials);
        screen_products_of(block, m, K, weights_, [base, constant = screen_constant_.row(0)](Index c, float product) {
            return constant[c] + product - base;
        });
        if (pairs > FAR) return INF;
        const double size = sum * largest(&steepest_[0], K) + pairs * largest(&bent_[0], K) + factorials;
        return 1e-4 + UNIT * static_cast<double>(3 * D_ + 16) * size;
    }

  private:
    static constexpr double FAR = 1e20;    // pairs of counts beyond this, and
    static constexpr double STEEP = 1e30;  // constants beyond this, are not screened: too much for single precision
    static constexpr Index SMALL = 16;     // counts up to this are scored by a product
    static constexpr auto LARGEST_SMALL = static_cast<double>(SMALL);

    double log_rate(double n, Index d) const { return std::log(rate_[at(d)] + n); }

    /// Return the score of a row of zeros under statistics n, s.
    double zeros(const double* stats, bool variational) const {
        const double *shape = shape_.data(), *s = stats + 1, n = stats[0];
        const auto chance = [=](double rate) { return variational ? 1.0 / rate : std::log1p(1.0 / rate); };
        if (alike_) return -chance(rate_[0] + n) * sum_of<double>(D_, [=](Index d) { return shape[d] + s[d]; });
        double total = 0.0;
        for (Index d = 0; d < D_; ++d) total -= (shape[d] + s[d]) * chance(rate_[at(d)] + n);
        return total;
    }

    /// Return the predictive score under statistics n, s, given the score of a row of zeros.
    double predictive(const double* stats, double zeros, const Row& row) const {
        LogProduct product;
        bool has_large = false;
        double B = rate_[0] + stats[0], ratio = 1.0 / (B + 1.0);
        for (Index d = 0; d < D_; ++d) {
            const double x = row.z[d];
            if (!(x > 0.0)) continue;
            has_large = has_large || x > LARGEST_SMALL;
            if (x > LARGEST_SMALL) continue;
            if (!alike_) ratio = 1.0 / (rate_[at(d)] + stats[0] + 1.0);
            const double A = shape_[at(d)] + stats[1 + d];
            const auto count = static_cast<Index>(x);
            for (Index i = 0; i < count; ++i) {
                product.take(i, (A + static_cast<double>(i)) * ratio * inverse_[at(i)]);
            }
        }
        if (!has_large) return zeros + product.log();
        // For a large count, the score of a zero is large too, and must not be part of the sum.
        double total = product.log(), chance = std::log1p(1.0 / B);
        for (Index d = 0; d < D_; ++d) {
            const double x = row.z[d], A = shape_[at(d)] + stats[1 + d];
            if (!alike_) B = rate_[at(d)] + stats[0];
            if (x > LARGEST_SMALL) {
                total += log_negative_binomial(x, A, B);
            } else {
                total -= A * (alike_ ? chance : std::log1p(1.0 / B));
            }
        }
        return total;
    }

    void refresh_logs(Index c, Index d) {
        const double A = shape_[at(d)] + stats_.row(c)[1 + d];
        first_.row(c)[d] = variational_ ? digamma(A) : std::log(A);
        second_.row(c)[d] = variational_ ? first_.row(c)[d] : std::log(A + 1.0);
        weights_.row(c)[2 * D_ + d] = variational_ ? 0.0F : static_cast<float>(std::log1p(1.0 / (A + 1.0)));
    }

    void refresh_weights(Index c) {
        const double *stats = stats_.row(c), *first = first_.row(c), *second = second_.row(c);
        const double constant = zeros(stats, variational_), more = variational_ ? 0.0 : 1.0;
        float* weights = weights_.row(c);
        double log_B = std::log(rate_[0] + stats[0] + more), steepest = 0.0;
        bent_[c] = largest(weights + 2 * D_, D_);
        for (Index d = 0; d < D_; ++d) {
            if (!alike_) log_B = std::log(rate_[at(d)] + stats[0] + more);
            weights[d] = static_cast<float>(first[d] - log_B);
            weights[D_ + d] = static_cast<float>(second[d] - log_B);
            steepest = std::max({steepest, std::abs(first[d] - log_B), std::abs(second[d] - log_B)});
        }
        constant_[c] = constant;
        if (std::abs(constant) > STEEP || steepest > STEEP) {
            screen_constant_[c] = INF32;
            steepest_[c] = 0.0F;
            std::fill_n(weights, 2 * D_, 0.0F);
        } else {
            screen_constant_[c] = static_cast<float>(constant + 8.0 * UNIT * std::abs(constant));
            steepest_[c] = static_cast<float>(steepest);
        }
    }

    void refresh(Index c) {
        for (Index d = 0; d < D_; ++d) refresh_logs(c, d);
        refresh_weights(c);
    }

    std::vector<double> shape_, rate_;
    bool alike_ = true;                    // whether the rate is the same in every dimension
    std::array<double, SMALL> inverse_{};  // 1/(i + 1)
    PerTable<double> first_, second_;      // log A, log(A + 1); variational: ψ(A), twice
    PerTable<float> weights_;              // first − log(B + 1), second − log(B + 1), log(1 + 1/(A + 1)); see above
    PerTable<double> constant_;            // the score of a row of zeros
    PerTable<float> screen_constant_;
    PerTable<float> steepest_, bent_;  // the largest of the first two weights, and of the third
    std::vector<double> nothing_;      // the statistics of an empty table
    double zeros_empty_ = 0.0;
};

}  // namespace dyncrp
