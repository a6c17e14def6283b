// Binary rows: a product of Bernoullis with a Beta prior in every dimension.
//
// A table with n = Σ r, s = Σ r x and misses n − s = Σ r (1 − x) has Beta(a + s_d, b + n − s_d) in dimension d, and its
// score is Σ_d log (a + s_d) or log (b + n − s_d), as x_d is 1 or 0, less log (a + b + n); for variational, digammas in
// place of logarithms. It is linear in x: a constant plus Σ_d x_d (one − zero)_d. The misses are a separate sum, so
// that an observation changes only one of the two logarithms in each dimension. A table that the block has touched is
// screened separately for the rest of the block.
#pragma once

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

class Bernoulli : public Bookkeeping<Bernoulli> {
    friend Bookkeeping<Bernoulli>;

  public:
    static constexpr Index MOST_ROWS = 48;

    struct Settings {
        static constexpr const char* NAME = "Bernoulli";
        std::vector<double> a, b;  // (D,) both

        void for_each(auto each) { each("a", a), each("b", b); }
    };

    Bernoulli(const Settings& settings, bool variational)
        : Bookkeeping(static_cast<Index>(settings.a.size()), 1 + static_cast<Index>(settings.a.size()), variational),
          a_(settings.a), b_(settings.b), misses_(D_), one_(D_), zero_(D_), odds_(D_) {
        for (std::size_t d = 0; d < a_.size(); ++d) {
            const double both = a_[d] + b_[d];
            alike_ = alike_ && both == a_[0] + b_[0];
            one_empty_.push_back(std::log(a_[d] / both));
            zero_empty_.push_back(std::log(b_[d] / both));
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(misses_), each(one_), each(zero_), each(odds_), each(constant_),
            each(screen_constant_);
    }

    void open(Index c) {
        std::fill_n(misses_.row(c), D_, 0.0);
        Bookkeeping::open(c);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        double *stats = stats_.row(c), *misses = misses_.row(c), *one = one_.row(c), *zero = zero_.row(c);
        if (keep < 1.0) {  // both logarithms change in each dimension
            stats_.scale(c, keep);
            misses_.scale(c, keep);
            stats[0] += r;
            for (Index d = 0; d < D_; ++d) (row.z[d] > 0.5 ? stats[1 + d] : misses[d]) += r;
            refresh(c);
            return;
        }
        stats[0] += r;
        for (Index d = 0; d < D_; ++d) {
            const auto at = static_cast<std::size_t>(d);
            if (row.z[d] > 0.5) {
                stats[1 + d] += r;
                one[d] = log_or_digamma(a_[at] + stats[1 + d]);
            } else {
                misses[d] += r;
                zero[d] = log_or_digamma(b_[at] + misses[d]);
            }
        }
        refresh_constant(c);
    }

    Scored score(Index c, const Row& row) const {
        const double *one = one_.row(c), *zero = zero_.row(c);
        return {constant_[c] + sum_of<double>(D_, [&](Index d) { return row.z[d] * (one[d] - zero[d]); }), 0.0};
    }

    double score_empty(const Row& row) const {
        const double *one = one_empty_.data(), *zero = zero_empty_.data();
        return sum_of<double>(D_, [&](Index d) { return row.z[d] * one[d] + (1.0 - row.z[d]) * zero[d]; });
    }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        const double *stats = stats_.row(c), *misses = misses_.row(c), n = keep * stats[0] + r;
        double total = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const auto at = static_cast<std::size_t>(d);
            total += digamma(row.z[d] > 0.5 ? a_[at] + keep * stats[1 + d] + r : b_[at] + keep * misses[d] + r);
            if (!alike_) total -= digamma(a_[at] + b_[at] + n);
        }
        return alike_ ? total - static_cast<double>(D_) * digamma(a_[0] + b_[0] + n) : total;
    }

    Index screen_width() const { return D_; }

    void prepare(Block& block) const {
        for (Index m = 0; m < block.size; ++m) {
            const double* x = block.rows[static_cast<std::size_t>(m)].z;
            float* row = block.coordinates.data() + m * D_;
            for (Index d = 0; d < D_; ++d) row[d] = static_cast<float>(x[d]);
        }
        multiply_all(block, odds_);
    }

    double screen(Block& block, Index m, Index K) const {
        screen_products_of(block, m, K, odds_, [constant = screen_constant_.row(0)](Index c, float product) {
            return constant[c] + product;
        });
        return 1e-4;
    }

    static const char* extra() { return "misses"; }
    Index extra_width() const { return D_; }
    void write(Index c, double* stats, double* misses) const {
        Bookkeeping::write(c, stats, nullptr);
        std::copy_n(misses_.row(c), D_, misses);
    }
    void read(Index c, const double* stats, const double* misses) {
        for (Index d = 0; d < D_; ++d) {
            misses_.row(c)[d] = misses != nullptr ? misses[d] : std::max(stats[0] - stats[1 + d], 0.0);
        }
        Bookkeeping::read(c, stats, nullptr);
    }

  private:
    double log_or_digamma(double value) const { return dyncrp::log_or_digamma(value, variational_); }

    void refresh(Index c) {
        const double* stats = stats_.row(c);
        for (Index d = 0; d < D_; ++d) {
            const auto at = static_cast<std::size_t>(d);
            one_.row(c)[d] = log_or_digamma(a_[at] + stats[1 + d]);
            zero_.row(c)[d] = log_or_digamma(b_[at] + misses_.row(c)[d]);
        }
        refresh_constant(c);
    }

    void refresh_constant(Index c) {
        const double *one = one_.row(c), *zero = zero_.row(c), n = stats_.row(c)[0];
        float* odds = odds_.row(c);
        for (Index d = 0; d < D_; ++d) odds[d] = static_cast<float>(one[d] - zero[d]);
        const double size = sum_of<double>(D_, [=](Index d) { return std::abs(one[d] - zero[d]); });
        double constant = sum_of<double>(D_, [=](Index d) { return zero[d]; });
        if (alike_) {
            constant -= static_cast<double>(D_) * log_or_digamma(a_[0] + b_[0] + n);
        } else {
            for (std::size_t d = 0; d < a_.size(); ++d) constant -= log_or_digamma(a_[d] + b_[d] + n);
        }
        constant_[c] = constant;
        screen_constant_[c] =
            static_cast<float>(constant + UNIT * (static_cast<double>(D_ + 8) * size + 4.0 * std::abs(constant)));
    }

    std::vector<double> a_, b_;
    bool alike_ = true;  // whether a + b is the same in every dimension
    std::vector<double> one_empty_, zero_empty_;
    PerTable<double> misses_;      // n − s
    PerTable<double> one_, zero_;  // log (a + s), log (b + n − s)
    PerTable<float> odds_;         // one − zero
    PerTable<double> constant_;    // Σ_d zero − log (a + b + n)
    PerTable<float> screen_constant_;
};

}  // namespace dyncrp
