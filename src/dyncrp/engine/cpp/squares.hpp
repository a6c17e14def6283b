// The second moments of the tables of a Gaussian, which inference does not need and groups of tables do.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

/// Up to so many coordinates all products are kept, beyond it the sum of squares alone; as in families/gaussian.py.
inline constexpr Index MOST_PRODUCTS = 8;

/// How many numbers they are: Σ r y_i y_j for i ≥ j, or Σ r |y|².
inline Index squares_width(Index D) { return D <= MOST_PRODUCTS ? D * (D + 1) / 2 : 1; }

/// sums = keep sums + r y yᵀ.
inline void absorb_squares(double* sums, const double* y, Index D, double r, double keep) {
    if (D > MOST_PRODUCTS) {
        *sums = keep * *sums + r * sum_of<double>(D, [=](Index d) { return y[d] * y[d]; });
        return;
    }
    for (Index i = 0; i < D; ++i) {
        const double share = r * y[i];
        for (Index j = 0; j <= i; ++j, ++sums) *sums = keep * *sums + share * y[j];
    }
}

}  // namespace dyncrp
