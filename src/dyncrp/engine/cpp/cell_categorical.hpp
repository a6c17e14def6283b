// A column of a Categorical: log (prior_k + s_k) − log (κ + n) at the cell k of the code, which the codes from C on
// share; for variational, digammas in place of logarithms. The share of the code within its cell is left to the row.
#pragma once

#include "categorical.hpp"
#include "cells.hpp"

namespace dyncrp {

class CategoricalCell {
  public:
    CategoricalCell(const Categorical::Settings& settings, const Coordinates::Settings&)
        : D_(static_cast<Index>(settings.concentration.size())), C_(static_cast<Index>(settings.prior.size()) / D_ - 1),
          kappa_(settings.concentration), prior_(settings.prior), logs_(D_ * (C_ + 2)) {}

    Index n_sums() const { return C_ + 2; }     // n and the counts
    Index n_derived() const { return C_ + 2; }  // log (κ + n) and log (prior + count)
    Index n_stats() const { return C_ + 2; }    // as the sums
    static constexpr Index n_extra() { return 0; }

    /// The value is the place of the cell among the sums.
    double take(Index, double x, double& value) const {
        value = 1.0 + std::min(x, static_cast<double>(C_));
        return log_share_of_code(x, C_);
    }

    void absorb(Index, double* sums, double value, double r, double keep) const {
        if (keep < 1.0) {
            for (Index j = 0; j < C_ + 2; ++j) sums[j] *= keep;
        }
        sums[0] += r;
        sums[static_cast<Index>(value)] += r;
    }

    void derive(Index d, const double* sums, bool variational, double* out) const {
        for (Index j = 0; j < C_ + 2; ++j) out[j] = log_or_digamma(prior(d, j) + sums[j], variational);
    }

    void weigh(Index d, Index c, const double* of, bool) {
        for (Index j = 0; j < C_ + 2; ++j) logs_.of(d * (C_ + 2) + j)[c] = static_cast<float>(of[j]);
    }
    void weigh_all(Index, const double*, bool) {}

    /// Derive both, if only this value has been counted.
    void derive_at(Index d, Index c, const double* sums, double value, bool variational, double* out) {
        for (const Index j : {Index{0}, static_cast<Index>(value)}) {
            out[j] = log_or_digamma(prior(d, j) + sums[j], variational);
            logs_.of(d * (C_ + 2) + j)[c] = static_cast<float>(out[j]);
        }
    }

    void score(Index, const double* of, double value, bool, ScoreSum& sum) const {
        sum.add(of[static_cast<Index>(value)] - of[0]);
    }

    double rescore(Index d, const double* sums, double value, double r, double keep) const {
        const auto j = static_cast<Index>(value);
        return digamma(prior(d, j) + (keep * sums[j] + r)) - digamma(prior(d, 0) + (keep * sums[0] + r));
    }

    void screen(const double* values, bool, Index K, float*, float* totals) const {
        for (Index d = 0; d < D_; ++d) {
            if (std::isnan(values[d])) continue;
            const Index first = d * (C_ + 2);
            add_differences(logs_.of(first + static_cast<Index>(values[d])), logs_.of(first), totals, K);
        }
    }

    template <class Each>
    void for_each(Each each) {
        each(logs_);
    }

    void write(Index, const double* sums, double* stats, double*) const { std::copy_n(sums, C_ + 2, stats); }
    void read(Index, const double* stats, double, double* sums) const { std::copy_n(stats, C_ + 2, sums); }

  private:
    /// What the prior adds to the j-th sum of column d.
    double prior(Index d, Index j) const {
        return j == 0 ? kappa_[static_cast<std::size_t>(d)] : prior_[static_cast<std::size_t>((j - 1) * D_ + d)];
    }

    Index D_, C_;
    std::vector<double> kappa_, prior_;  // κ (D,) and κ H (C + 1, D) by rows
    ByNumber<float> logs_;               // as derived
};

}  // namespace dyncrp
