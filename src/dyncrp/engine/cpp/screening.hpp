// The loops over tables by which cells are screened. They decide nothing but whom to look at, so that it does no harm
// that they are compiled for the widest vectors of the processor at hand.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

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
