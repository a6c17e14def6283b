// Categories: in every dimension a distribution over codes, of which those from C on share one count.
//
// A table with n = Σ r and counts s_kd = Σ r [cell of x_d is k], where the cell is min(x_d, C), scores
// Σ_d log (prior_kd + s_kd) at the cells of the row, minus Σ_d log (κ_d + n); for variational, digammas in place of
// logarithms. Cell C has a factor for the code within it: H(x)/Σ_{k ≥ C} H(k) = (C + 1)/((x + 1)(x + 2)).
//
// An exact score takes one number for each dimension, so screening computes the score itself.
#pragma once

#include "family.hpp"
#include "special.hpp"

namespace dyncrp {

/// Return the log share of code x in its cell, where all codes from C on share one cell.
inline double log_share_of_code(double x, Index C) {
    if (x < static_cast<double>(C)) return 0.0;
    return std::log(static_cast<double>(C) + 1.0) - std::log1p(x) - std::log(x + 2.0);
}

class Categorical : public Bookkeeping<Categorical> {
    friend Bookkeeping<Categorical>;

  public:
    static constexpr Index MOST_ROWS = 48;

    struct Settings {
        static constexpr const char* NAME = "Categorical";
        std::vector<double> concentration;  // κ (D,)
        std::vector<double> prior;          // κ H (C + 1, D) by rows

        void for_each(auto each) { each("concentration", concentration), each("prior", prior); }
    };

    Categorical(const Settings& settings, bool variational)
        : Bookkeeping(static_cast<Index>(settings.concentration.size()), 1 + static_cast<Index>(settings.prior.size()),
                      variational),
          C_(static_cast<Index>(settings.prior.size()) / D_ - 1), concentration_(settings.concentration),
          prior_(settings.prior), logs_((C_ + 1) * D_) {
        for (const double prior : prior_) logs_empty_.push_back(std::log(prior));
        for (const double kappa : concentration_) {
            alike_ = alike_ && kappa == concentration_[0];
            constant_empty_ -= std::log(kappa);
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(logs_), each(constant_);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        double* stats = stats_.row(c);
        if (keep < 1.0) stats_.scale(c, keep);
        stats[0] += r;
        for (Index d = 0; d < D_; ++d) {
            const Index at = cell(row.z[d]) * D_ + d;
            stats[1 + at] += r;
            logs_.row(c)[at] = log_or_digamma(prior_[static_cast<std::size_t>(at)] + stats[1 + at]);
        }
        if (keep < 1.0) {
            refresh(c);
        } else {
            refresh_constant(c);
        }
    }

    Scored score(Index c, const Row& row) const { return {constant_[c] + sum_at_codes(logs_.row(c), row), 0.0}; }

    double score_empty(const Row& row) const { return constant_empty_ + sum_at_codes(logs_empty_.data(), row); }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        const double *stats = stats_.row(c), n = keep * stats[0] + r;
        double total = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const Index at = cell(row.z[d]) * D_ + d;
            total += digamma(prior_[static_cast<std::size_t>(at)] + (keep * stats[1 + at] + r)) + log_share(row.z[d]);
            if (!alike_) total -= digamma(concentration_[static_cast<std::size_t>(d)] + n);
        }
        return alike_ ? total - static_cast<double>(D_) * digamma(concentration_[0] + n) : total;
    }

    Index screen_width() const { return 1; }
    void prepare(Block&) const {}

    double screen(Block& block, Index m, Index K) const {
        const Row& row = block.rows[static_cast<std::size_t>(m)];
        for (Index c = 0; c < K; ++c) {
            const double value = score(c, row).log_likelihood;
            block.screened[static_cast<std::size_t>(c)] = static_cast<float>(value + 2.0 * UNIT * std::abs(value));
        }
        block.find_best(K);
        return 1e-6;
    }

    void follow(Block&, Index, Index, double, double) const {}

  private:
    double log_or_digamma(double value) const { return dyncrp::log_or_digamma(value, variational_); }

    Index cell(double x) const { return x < static_cast<double>(C_) ? static_cast<Index>(x) : C_; }

    double log_share(double x) const { return log_share_of_code(x, C_); }

    double sum_at_codes(const double* logs, const Row& row) const {
        return sum_of<double>(D_, [&](Index d) { return logs[cell(row.z[d]) * D_ + d] + log_share(row.z[d]); });
    }

    void refresh(Index c) {
        const double* stats = stats_.row(c);
        for (Index at = 0; at < logs_.width(); ++at) {
            logs_.row(c)[at] = log_or_digamma(prior_[static_cast<std::size_t>(at)] + stats[1 + at]);
        }
        refresh_constant(c);
    }

    void refresh_constant(Index c) {
        const double n = stats_.row(c)[0];
        if (alike_) {
            constant_[c] = -static_cast<double>(D_) * log_or_digamma(concentration_[0] + n);
            return;
        }
        constant_[c] = 0.0;
        for (const double kappa : concentration_) constant_[c] -= log_or_digamma(kappa + n);
    }

    Index C_;
    std::vector<double> concentration_, prior_;
    bool alike_ = true;  // whether the concentration is the same in every dimension
    std::vector<double> logs_empty_;
    double constant_empty_ = 0.0;
    PerTable<double> logs_;      // log (prior + s)
    PerTable<double> constant_;  // −Σ_d log (κ + n)
};

}  // namespace dyncrp
