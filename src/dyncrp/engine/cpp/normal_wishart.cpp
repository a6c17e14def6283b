#include "families.hpp"
#include "lanes.hpp"

dyncrp::StreamPointer dyncrp::make_stream(const NormalWishart::Settings& settings, Coordinates::Settings coordinates,
                                          std::vector<Mode> modes, const Rules& rules) {
    return std::make_unique<StreamOf<NormalWishart>>(settings, std::move(coordinates), std::move(modes), rules);
}

namespace dyncrp::wide {

DYNCRP_CLONES double square_of_product(const double* __restrict y, const double* __restrict mean,
                                       const double* __restrict strips, Index D) {
    Doubles lanes = {};
    for (Index first = 0; first < D; first += Strips::ROWS) {
        const Index columns = std::min(first + Strips::ROWS, D);
        Doubles even = {}, odd = {};
        Index j = 0;
        for (; j + 2 <= columns; j += 2, strips += 2 * Strips::ROWS) {
            even += (y[j] - mean[j]) * doubles_at(strips);
            odd += (y[j + 1] - mean[j + 1]) * doubles_at(strips + Strips::ROWS);
        }
        if (j < columns) {
            even += (y[j] - mean[j]) * doubles_at(strips);
            strips += Strips::ROWS;
        }
        even += odd;
        lanes += even * even;
    }
    return sum_of_lanes(lanes);
}

DYNCRP_CLONES void invert_factor(double* __restrict work, double* __restrict pivots, double* __restrict column,
                                 double least, Index D) {
    // Row k holds L⁻¹ in the columns that are done, and what is left of Ψ in the others. Rounding must not make what is
    // left of Ψ − least · I indefinite: entries are cut to what is possible given those on the diagonal.
    for (Index j = 0; j < D; ++j) {
        const double* done = work + j * D;
        const double own = std::max(done[j] - least, 0.0), pivot = least + own, inverse = 1.0 / pivot;
        pivots[j] = pivot;
        for (Index k = j + 1; k < D; ++k) {
            double* row = work + k * D;
            const double most = own * std::max(row[k] - least, 0.0);
            column[k] = row[j] * row[j] > most ? std::copysign(std::sqrt(most), row[j]) : row[j];
        }
        for (Index k = j + 1; k < D; ++k) {
            double* __restrict row = work + k * D;
            const double slope = column[k] * inverse;
            for (Index m = 0; m < j; ++m) row[m] -= slope * done[m];
            row[j] = -slope;
            for (Index m = j + 1; m <= k; ++m) row[m] -= slope * column[m];
        }
    }
}

DYNCRP_CLONES double most_correlation(const double* __restrict work, double* __restrict scratch, Index D) {
    // For any positive v, the largest of (|C| v)_i/v_i is not below the largest eigenvalue; take v = |C| 1.
    double *__restrict unit = scratch, *__restrict first = scratch + D, *__restrict second = scratch + 2 * D;
    for (Index i = 0; i < D; ++i) unit[i] = 1.0 / std::sqrt(work[i * D + i]);
    for (Index i = 0; i < D; ++i) first[i] = 1.0;
    for (Index i = 0; i < D; ++i) {
        double total = 0.0;
        for (Index j = 0; j < i; ++j) {
            const double size = std::abs(work[i * D + j]) * unit[i] * unit[j];
            first[j] += size;
            total += size;
        }
        first[i] += total;
    }
    for (Index i = 0; i < D; ++i) second[i] = first[i];
    for (Index i = 0; i < D; ++i) {
        double total = 0.0;
        for (Index j = 0; j < i; ++j) {
            const double size = std::abs(work[i * D + j]) * unit[i] * unit[j];
            second[j] += size * first[i];
            total += size * first[j];
        }
        second[i] += total;
    }
    double most = 1.0;
    for (Index i = 0; i < D; ++i) most = std::max(most, second[i] / first[i]);
    return most;
}

}  // namespace dyncrp::wide
