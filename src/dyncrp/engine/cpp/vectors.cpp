#include "vectors.hpp"

#include "lanes.hpp"

namespace dyncrp::wide {

constexpr Index STEP = LANES / 2;

DYNCRP_CLONES double squared_distance(const double* y, const Sums& table, Index D) {
    Doubles lanes = {};
    Index d = 0;
    if (table.unit == nullptr) {
        for (; d + STEP <= D; d += STEP) {
            const Doubles gap = doubles_at(y + d) - table.scale * doubles_at(table.s + d);
            lanes += gap * gap;
        }
    } else {
        for (; d + STEP <= D; d += STEP) {
            const Doubles gap =
                doubles_at(y + d) - table.scale * (doubles_at(table.unit + d) * doubles_at(table.s + d));
            lanes += gap * gap;
        }
    }
    return one_by_one::squared_distance(y, table, d, D, sum_of_lanes(lanes));
}

DYNCRP_CLONES Squares square_row(const double* __restrict y, const double* __restrict reference, float* __restrict out,
                                 Index D) {
    Doubles gaps = {}, squares = {};
    Index d = 0;
    for (; d + STEP <= D; d += STEP) {
        const Doubles at = doubles_at(y + d), gap = at - doubles_at(reference + d);
        if (out != nullptr) store_single(out + d, gap);
        gaps += gap * gap;
        squares += at * at;
    }
    return one_by_one::square_row(y, reference, out, d, D, {sum_of_lanes(gaps), sum_of_lanes(squares)});
}

DYNCRP_CLONES double square_table(const Sums& table, const double* __restrict reference, float* __restrict out,
                                  Index D) {
    Doubles lanes = {};
    Index d = 0;
    for (; d + STEP <= D; d += STEP) {
        const Doubles gap =
            (table.unit == nullptr ? table.scale * doubles_at(table.s + d)
                                   : table.scale * (doubles_at(table.unit + d) * doubles_at(table.s + d))) -
            doubles_at(reference + d);
        if (out != nullptr) store_single(out + d, gap);
        lanes += gap * gap;
    }
    return one_by_one::square_table(table, reference, out, d, D, sum_of_lanes(lanes));
}

DYNCRP_CLONES double add_row(double* __restrict s, const double* __restrict z, const double* __restrict unit, double r,
                             double keep, double before, double scale, Index D) {
    Doubles lanes = {};
    Index d = 0;
    for (; d + STEP <= D; d += STEP) {
        const Doubles old = doubles_at(s + d), now = keep * old + r * doubles_at(z + d);
        doubles_at(s + d) = now;
        Doubles step = scale * now - before * old;
        if (unit != nullptr) step = doubles_at(unit + d) * step;
        lanes += step * step;
    }
    return one_by_one::add_row(s, z, unit, r, keep, before, scale, d, D, sum_of_lanes(lanes));
}

DYNCRP_CLONES void add_multiple(double* __restrict out, double by, const double* __restrict values, Index n) {
    Index i = 0;
    for (; i + STEP <= n; i += STEP) doubles_at(out + i) += by * doubles_at(values + i);
    for (; i < n; ++i) out[i] += by * values[i];
}

DYNCRP_CLONES float dot(const float* left, const float* right, Index n) {
    Floats lanes = {};
    Index i = 0;
    for (; i + LANES <= n; i += LANES) lanes += floats_at(left + i) * floats_at(right + i);
    float total = 0.0F;
    for (; i < n; ++i) total += left[i] * right[i];
    for (int j = 0; j < LANES / 2; ++j) total += lanes[j] + lanes[j + LANES / 2];
    return total;
}

DYNCRP_CLONES double weighted_squared_distance(const double* y, const double* mean, const double* gain, Index D) {
    return sum_of<double>(D, [=](Index d) {
        const double gap = y[d] - mean[d];
        return gap * gap * gain[d];
    });
}

DYNCRP_CLONES DiagonalSquares refresh(const DiagonalTable& table, bool variational, Index D) {
    const double* __restrict p = table.p, * __restrict s = table.s, * __restrict unit = table.unit, n = table.n;
    const double* __restrict reference = table.reference;
    double* __restrict mean = table.mean, * __restrict gain = table.gain;
    float* __restrict linear = table.linear, * __restrict quadratic = table.quadratic;
    if (table.moderate && !variational) {  // one division in place of two
        for (Index d = 0; d < D; ++d) {
            const double q = p[d] + n, inverse = 1.0 / (q * (q + 1.0));
            mean[d] = s[d] * ((q + 1.0) * inverse);
            gain[d] = q * (q * inverse);
        }
    } else {
        for (Index d = 0; d < D; ++d) mean[d] = s[d] / (p[d] + n);
        for (Index d = 0; d < D; ++d) gain[d] = variational ? 1.0 : (p[d] + n) / (p[d] + n + 1.0);
    }
    for (Index d = 0; unit != nullptr && d < D; ++d) mean[d] *= unit[d];
    for (Index d = 0; d < D; ++d) {
        linear[d] = static_cast<float>(gain[d] * (mean[d] - reference[d]));
        quadratic[d] = static_cast<float>(-0.5 * gain[d]);
    }
    const auto square = [=](Index d) { return (mean[d] - reference[d]) * (mean[d] - reference[d]); };
    return {sum_of<double>(D, square), sum_of<double>(D, [=](Index d) { return gain[d] * square(d); })};
}

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

DYNCRP_CLONES void invert_factor(double* __restrict work, double* __restrict pivots, double* __restrict scratch,
                                 double least, Index D) {
    // Row k holds L⁻¹ in the columns that are done, and what is left of Ψ in the others; what is beyond k is not used.
    // Rounding must not make what is left of Ψ − least · I indefinite: entries are cut to what is possible given those
    // on the diagonal.
    const Index width = Strips::padded(D);
    for (Index j = 0; j < D; ++j) {
        double* done = work + j * width;
        const double own = std::max(done[j] - least, 0.0), pivot = least + own, inverse = 1.0 / pivot;
        pivots[j] = pivot;
        for (Index m = 0; m < j; ++m) scratch[m] = done[m];
        scratch[j] = 0.0;
        for (Index k = j + 1; k < D; ++k) {
            const double entry = work[k * width + j], most = own * std::max(work[k * width + k] - least, 0.0);
            scratch[k] = entry * entry > most ? std::copysign(std::sqrt(most), entry) : entry;
        }
        for (Index k = j + 1; k < D; ++k) {
            double* row = work + k * width;
            const double slope = scratch[k] * inverse;
            for (Index m = 0; m <= k; m += STEP) {
                doubles_at(row + m) = doubles_at(row + m) - slope * doubles_at(scratch + m);
            }
            row[j] = -slope;
        }
    }
}

DYNCRP_CLONES double most_correlation(const double* __restrict work, double* __restrict scratch, Index D) {
    const Index width = Strips::padded(D);
    // For any positive v, the largest of (|C| v)_i/v_i is not below the largest eigenvalue; take v = |C| 1.
    double* __restrict unit = scratch, * __restrict first = scratch + D, * __restrict second = scratch + 2 * D;
    for (Index i = 0; i < D; ++i) unit[i] = 1.0 / std::sqrt(work[i * width + i]);
    for (Index i = 0; i < D; ++i) first[i] = 1.0;
    for (Index i = 0; i < D; ++i) {
        double total = 0.0;
        for (Index j = 0; j < i; ++j) {
            const double size = std::abs(work[i * width + j]) * unit[i] * unit[j];
            first[j] += size;
            total += size;
        }
        first[i] += total;
    }
    for (Index i = 0; i < D; ++i) second[i] = first[i];
    for (Index i = 0; i < D; ++i) {
        double total = 0.0;
        for (Index j = 0; j < i; ++j) {
            const double size = std::abs(work[i * width + j]) * unit[i] * unit[j];
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
