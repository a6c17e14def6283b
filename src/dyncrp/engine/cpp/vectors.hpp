// Loops over the coordinates of a row or a table, for the widest vectors of the processor. Short rows are done inline.
#pragma once

#include "numbers.hpp"

namespace dyncrp {

/// The squares of a row relative to the reference point, and relative to the origin.
struct Squares {
    double from_reference = 0.0, from_origin = 0.0;
};

/// The sums s (D,) of a table, their units (D,) or null if all are 1, and the scale that gives its mean,
/// scale · unit · s.
struct Sums {
    const double* s;
    const double* unit;
    double scale;

    double mean(Index d) const { return unit == nullptr ? scale * s[d] : scale * (unit[d] * s[d]); }
};

/// A table with its own precision q = p + n in each direction: all (D,). See ``GaussianDiagonal``.
struct DiagonalTable {
    const double *p, *s, *unit, *reference;  // unit is null if all are 1
    double n;
    bool moderate;              // whether q² is far from overflow and underflow
    double *mean, *gain;        // results: unit · s/q and q/(q + 1)
    float *linear, *quadratic;  // gain (mean − reference) and −½ gain
};

/// Σ (mean − reference)², and the same weighted with the gains.
struct DiagonalSquares {
    double plain, weighted;
};

/// The four functions below from coordinate d on, one coordinate at a time.
namespace one_by_one {

inline double squared_distance(const double* y, const Sums& table, Index d, Index D, double total) {
    for (; d < D; ++d) {
        const double gap = y[d] - table.mean(d);
        total += gap * gap;
    }
    return total;
}

inline Squares square_row(const double* y, const double* reference, float* out, Index d, Index D, Squares total) {
    for (; d < D; ++d) {
        const double gap = y[d] - reference[d];
        if (out != nullptr) out[d] = static_cast<float>(gap);
        total.from_reference += gap * gap;
        total.from_origin += y[d] * y[d];
    }
    return total;
}

inline double square_table(const Sums& table, const double* reference, float* out, Index d, Index D, double total) {
    for (; d < D; ++d) {
        const double gap = table.mean(d) - reference[d];
        if (out != nullptr) out[d] = static_cast<float>(gap);
        total += gap * gap;
    }
    return total;
}

inline double add_row(double* s, const double* z, const double* unit, double r, double keep, double before,
                      double scale, Index d, Index D, double total) {
    for (; d < D; ++d) {
        const double old = s[d];
        s[d] = keep * old + r * z[d];
        const double step = (unit == nullptr ? 1.0 : unit[d]) * (scale * s[d] - before * old);
        total += step * step;
    }
    return total;
}

}  // namespace one_by_one

/// Lower triangles of D rows, in strips of eight rows that are stored column by column.
class Strips {
  public:
    static constexpr Index ROWS = 8;

    explicit Strips(Index D) : D_(D) {
        for (Index first = 0; first < D; first += ROWS) size_ += ROWS * columns(first);
    }
    /// D rounded up to whole strips.
    static Index padded(Index D) { return (D + ROWS - 1) / ROWS * ROWS; }
    /// How many columns the strip from this row on has.
    Index columns(Index first) const { return std::min(first + ROWS, D_); }
    Index size() const { return size_; }
    Index width() const { return D_; }

  private:
    Index D_, size_ = 0;
};

namespace wide {

double squared_distance(const double* y, const Sums& table, Index D);
Squares square_row(const double* y, const double* reference, float* out, Index D);
double square_table(const Sums& table, const double* reference, float* out, Index D);
double add_row(double* s, const double* z, const double* unit, double r, double keep, double before, double scale,
               Index D);
/// out += by · values.
void add_multiple(double* out, double by, const double* values, Index n);
float dot(const float* left, const float* right, Index n);
/// Σ gain (y − mean)².
double weighted_squared_distance(const double* y, const double* mean, const double* gain, Index D);
/// Compute everything for screening and scoring; a variational table has gains of 1.
DiagonalSquares refresh(const DiagonalTable& table, bool variational, Index D);
/// Return |T (y − mean)|² for the triangle T in strips.
double square_of_product(const double* y, const double* mean, const double* strips, Index D);

/// Factor Ψ = L diag(pivots) Lᵀ, whose lower triangle is in the rows of `work`, each padded to whole strips, and leave
/// L⁻¹ there without its diagonal of ones. No pivot is below the least one; those that rounding would make smaller have
/// it. `scratch` has room for a padded row.
void invert_factor(double* work, double* pivots, double* scratch, double least, Index D);

/// Return a number that the largest eigenvalue of the correlation matrix of Ψ, laid out as above, does not
/// exceed. `scratch` has room for 3 D numbers.
double most_correlation(const double* work, double* scratch, Index D);

}  // namespace wide

inline constexpr Index SHORT = 8;  // fewer coordinates are not worth a call

/// out += by · values.
inline void add_multiple(double* out, double by, const double* values, Index n) {
    if (n >= SHORT) return wide::add_multiple(out, by, values, n);
    for (Index i = 0; i < n; ++i) out[i] += by * values[i];
}
/// The inner product, for screening: the order of its sum is not that of other sums.
inline float dot(const float* left, const float* right, Index n) {
    return n < 2 * SHORT ? sum_of<float>(n, [=](Index i) { return left[i] * right[i]; }) : wide::dot(left, right, n);
}
/// |y − mean|².
inline double squared_distance(const double* y, const Sums& table, Index D) {
    return D < SHORT ? one_by_one::squared_distance(y, table, 0, D, 0.0) : wide::squared_distance(y, table, D);
}
/// The squares of row y (D,); and its gaps y − reference, in single precision, unless `out` is null.
inline Squares square_row(const double* y, const double* reference, float* out, Index D) {
    return D < SHORT ? one_by_one::square_row(y, reference, out, 0, D, {}) : wide::square_row(y, reference, out, D);
}
/// |mean − reference|²; and the gaps, in single precision, unless `out` is null.
inline double square_table(const Sums& table, const double* reference, float* out, Index D) {
    return D < SHORT ? one_by_one::square_table(table, reference, out, 0, D, 0.0)
                     : wide::square_table(table, reference, out, D);
}
/// s = keep s + r z. Returns |scale · unit · s − before · unit · s'|², where s' is the old s: the squared distance that
/// the mean has moved.
inline double add_row(double* s, const double* z, const double* unit, double r, double keep, double before,
                      double scale, Index D) {
    return D < SHORT ? one_by_one::add_row(s, z, unit, r, keep, before, scale, 0, D, 0.0)
                     : wide::add_row(s, z, unit, r, keep, before, scale, D);
}

}  // namespace dyncrp
