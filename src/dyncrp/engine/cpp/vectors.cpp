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

}  // namespace dyncrp::wide
