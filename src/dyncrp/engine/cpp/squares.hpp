// The second moments of the tables of a Gaussian, which inference does not need and groups of tables do.
#pragma once

#include "coordinates.hpp"

namespace dyncrp {

/// Up to so many coordinates all products are kept, beyond it the sum of squares alone; as in families/gaussian.py.
inline constexpr Index MOST_PRODUCTS = 8;

/// Σ r y_i y_j for i ≥ j, (K, D(D + 1)/2), or Σ r |y|², (K, 1), about the prior mean.
class Squares {
  public:
    explicit Squares(Index D) : D_(D), sums_(D <= MOST_PRODUCTS ? D * (D + 1) / 2 : 1) {}

    Index width() const { return sums_.width(); }
    double* row(Index c) { return sums_.row(c); }
    const double* row(Index c) const { return sums_.row(c); }
    PerTable<double>& array() { return sums_; }

    void absorb(Index c, const double* y, double r, double keep) {
        double* sum = sums_.row(c);
        if (D_ > MOST_PRODUCTS) {
            *sum = keep * *sum + r * sum_of<double>(D_, [=](Index d) { return y[d] * y[d]; });
            return;
        }
        for (Index i = 0; i < D_; ++i) {
            const double share = r * y[i];
            for (Index j = 0; j <= i; ++j, ++sum) *sum = keep * *sum + share * y[j];
        }
    }

  private:
    Index D_;
    PerTable<double> sums_;
};

}  // namespace dyncrp
