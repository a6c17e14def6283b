// The loops over tables that screen rows. They only decide which tables to score, and are compiled for the widest
// vectors of the processor.
#pragma once

#include "lanes.hpp"

namespace dyncrp {

inline constexpr Index SPAN = 128;  // tables that share a best bound, so that most are never looked at again
inline constexpr Index FEW = 8;     // dimensions in which inner products are not left to BLAS

/// K rounded up to whole vectors.
inline Index whole_vectors(Index K) { return (K + LANES - 1) / LANES * LANES; }

// Each of the next three fills `screened`, a bound of the log weight plus log likelihood of each of K tables; `best`,
// the best of every SPAN of them; and returns the best of all. Arrays go on to whole vectors, beyond K with weights of
// −inf.

/// screened += weights.
float screen_likelihoods(const float* weights, float* screened, float* best, Index K);
/// screened = weights + constant + half (2 products − square).
float screen_products(const float* products, const float* constant, const float* half, const float* weights,
                      float square, float* screened, float* best, Index K);
/// The same in D ≤ FEW dimensions; the products are of row (D,) with the tables, given along each dimension.
float screen_along(const float* row, const float* const* along, Index D, const float* constant, const float* half,
                   const float* weights, float square, float* screened, float* best, Index K);

/// Upper bounds of log F(b) − log F(a), see von_mises_fisher.hpp, plus a constant. The tables have the lengths a, and
/// inner products with the row of at most products + moved.
void screen_directions(const float* products, const float* moved, const float* length, float kappa, float low,
                       float constant, float* screened, Index K);

/// Fill `found` with the ascending indices of the K bounds that are at least `bar`, and return how many there are.
Index find_those_above(const float* screened, const float* best, float bar, std::int32_t* found, Index K);

/// totals += values, for n tables.
void add_values(const float* values, float* totals, Index n);
/// totals −= values.
void subtract_values(const float* values, float* totals, Index n);
/// totals += values − others.
void add_differences(const float* values, const float* others, float* totals, Index n);
/// totals −= gain (y − mean)², which is at most `most`. The difference is in double precision, so that it loses no
/// digits.
void subtract_squares(double y, const double* mean, const float* gain, float most, float* totals, Index n);
/// products are of numbers 1 + t, less 1; let gain (y − mean)², but at most `most`, be another t.
void multiply_squares(double y, const double* mean, const float* gain, float most, float* products, Index n);
/// totals −= power log(1 + products), from below; and the products are those of no numbers.
void subtract_logs(const float* power, float* products, float* totals, Index n);
/// totals += the bound of a count under a Poisson, see poisson.hpp, or 0 if that is less; weights (4,) of each table.
void add_counts(double x, const float* const* weights, float* totals, Index n);

}  // namespace dyncrp
