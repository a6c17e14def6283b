#include "index.hpp"

// The lanes of a record are side by side in a vector. Unrolled, the compiler would put the coordinates there, at great
// cost.
namespace dyncrp {

namespace {

constexpr Index STEP = 8;  // coordinates after which it is seen whether all are below the bar

/// add(d, sum) adds the squares of gaps in coordinate d.
template <class Add>
DYNCRP_INLINE float bounds_of(Add add, const float* __restrict record, Index n, float bar, float* __restrict bounds,
                              Index& n_seen) {
    const float *a = record, *h = record + LANES;
    float sum[LANES], most[LANES];
    for (Index j = 0; j < LANES; ++j) sum[j] = 0.0F;
    for (Index d = 0;;) {
        for (const Index end = d + STEP < n ? d + STEP : n; d < end; ++d) add(d, sum);
        for (Index j = 0; j < LANES; ++j) bounds[j] = most[j] = a[j] - h[j] * sum[j];
        for (Index half = LANES / 2; half > 0; half /= 2) {
            for (Index j = 0; j < half; ++j) most[j] = most[j] > most[j + half] ? most[j] : most[j + half];
        }
        n_seen = d;
        if (d == n || most[0] < bar) return most[0];
    }
}

}  // namespace

DYNCRP_CLONES float bounds_of_boxes(const float* __restrict y, const float* __restrict record, Index n, float bar,
                                    float* __restrict bounds, Index& n_seen) {
    const auto add = [=](Index d, float* __restrict sum) DYNCRP_INLINE_LAMBDA {
        const float at = y[d], *lo = record + (2 + 2 * d) * LANES, *hi = lo + LANES;
#pragma GCC unroll 1
        for (Index j = 0; j < LANES; ++j) {
            const float below = lo[j] - at, above = at - hi[j];
            const float outside = below > above ? below : above;
            const float gap = outside > 0.0F ? outside : 0.0F;
            sum[j] += gap * gap;
        }
    };
    return bounds_of(add, record, n, bar, bounds, n_seen);
}

DYNCRP_CLONES float bounds_of_points(const float* __restrict y, const float* __restrict record, Index n, float bar,
                                     float* __restrict bounds, Index& n_seen) {
    const auto add = [=](Index d, float* __restrict sum) DYNCRP_INLINE_LAMBDA {
        const float at = y[d], *points = record + (2 + d) * LANES;
#pragma GCC unroll 1
        for (Index j = 0; j < LANES; ++j) {
            const float gap = at - points[j];
            sum[j] += gap * gap;
        }
    };
    return bounds_of(add, record, n, bar, bounds, n_seen);
}

DYNCRP_CLONES void reflect(const double* __restrict v, double* __restrict y, Index n) {
    const double along = sum_of<double>(n, [=](Index d) { return v[d] * y[d]; });
    for (Index d = 0; d < n; ++d) y[d] -= along * v[d];
}

}  // namespace dyncrp
