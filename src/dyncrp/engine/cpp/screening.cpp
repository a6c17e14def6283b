#include "screening.hpp"

#include "normal_gamma.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dyncrp {
namespace {

constexpr float LARGEST_SQUARE = 1e36F;  // so that no gain, however small, is multiplied by infinity

inline float bounded(float value, float most) { return value < most ? value : most; }

/// bound(c, out) gives the bounds of LANES tables from c on; by reference, since how vectors are returned depends on
/// the processor.
template <class Bound>
DYNCRP_INLINE float screen(Bound bound, float* __restrict screened, float* __restrict best, Index K) {
    float top = -INF32;
    for (Index begin = 0; begin < K; begin += SPAN, ++best) {
        const Index end = begin + SPAN < K ? begin + SPAN : K;
        Floats most = Floats{} - INF32;
        for (Index c = begin; c < end; c += LANES) {
            Floats now;
            bound(c, now);
            floats_at(screened + c) = now;
            keep_larger(most, now);
        }
        *best = largest_lane(most);
        top = *best > top ? *best : top;
    }
    return top;
}

template <int D>
DYNCRP_INLINE float screen_in(const float* row, const float* const* along, const float* __restrict constant,
                              const float* __restrict half, const float* __restrict weights, float square,
                              float* __restrict screened, float* __restrict best, Index K) {
    const auto bound = [=](Index c, Floats& out) DYNCRP_INLINE_LAMBDA {
        Floats product = row[0] * floats_at(along[0] + c);
        for (int d = 1; d < D; ++d) product += row[d] * floats_at(along[d] + c);
        out = (floats_at(weights + c) + floats_at(constant + c)) + floats_at(half + c) * (2.0F * product - square);
    };
    return screen(bound, screened, best, K);
}

/// Which of LANES values are at least `bar`, as bits.
DYNCRP_INLINE std::uint32_t bits_above(const float* values, float bar) {
    std::uint32_t bits = 0;
#if defined(__SSE2__)
    const __m128 bars = _mm_set1_ps(bar);
    for (int j = 0; j < LANES; j += 4) {
        bits |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_cmpge_ps(_mm_loadu_ps(values + j), bars))) << j;
    }
#else
    for (int j = 0; j < LANES; ++j) bits |= static_cast<std::uint32_t>(values[j] >= bar) << j;
#endif
    return bits;
}

}  // namespace

DYNCRP_CLONES float screen_likelihoods(const float* __restrict weights, float* __restrict screened,
                                       float* __restrict best, Index K) {
    const auto bound = [=](Index c, Floats& out)
                           DYNCRP_INLINE_LAMBDA { out = floats_at(weights + c) + floats_at(screened + c); };
    return screen(bound, screened, best, K);
}

DYNCRP_CLONES float screen_products(const float* __restrict products, const float* __restrict constant,
                                    const float* __restrict half, const float* __restrict weights, float square,
                                    float* __restrict screened, float* __restrict best, Index K) {
    const auto bound = [=](Index c, Floats& out) DYNCRP_INLINE_LAMBDA {
        out = (floats_at(weights + c) + floats_at(constant + c)) +
              floats_at(half + c) * (2.0F * floats_at(products + c) - square);
    };
    return screen(bound, screened, best, K);
}

DYNCRP_CLONES float screen_along(const float* row, const float* const* along, Index D, const float* constant,
                                 const float* half, const float* weights, float square, float* screened, float* best,
                                 Index K) {
    switch (D) {
        case 1:
            return screen_in<1>(row, along, constant, half, weights, square, screened, best, K);
        case 2:
            return screen_in<2>(row, along, constant, half, weights, square, screened, best, K);
        case 3:
            return screen_in<3>(row, along, constant, half, weights, square, screened, best, K);
        case 4:
            return screen_in<4>(row, along, constant, half, weights, square, screened, best, K);
        case 5:
            return screen_in<5>(row, along, constant, half, weights, square, screened, best, K);
        case 6:
            return screen_in<6>(row, along, constant, half, weights, square, screened, best, K);
        case 7:
            return screen_in<7>(row, along, constant, half, weights, square, screened, best, K);
        default:
            return screen_in<8>(row, along, constant, half, weights, square, screened, best, K);
    }
}

DYNCRP_CLONES void screen_directions(const float* __restrict products, const float* __restrict moved,
                                     const float* __restrict length, float kappa, float low, float constant,
                                     float* __restrict screened, Index K) {
    const float below = low * low, above = (low + 1.0F) * (low + 1.0F);
    for (Index c = 0; c < K; ++c) {
        const float a = length[c], rise = kappa * (2.0F * (products[c] + moved[c]) + kappa);  // b² − a²
        const float square = a * a + rise > 0.0F ? a * a + rise : 0.0F, b = std::sqrt(square);
        const float step = rise / (a + b + 1e-30F), edge = step >= 0.0F ? below : above;
        screened[c] = constant + step * b / (low + std::sqrt(square + edge));
    }
}

Index find_those_above(const float* screened, const float* best, float bar, std::int32_t* found, Index K) {
    Index n = 0;
    for (Index begin = 0; begin < K; begin += SPAN, ++best) {
        if (!(*best >= bar)) continue;
        const Index end = begin + SPAN < K ? begin + SPAN : K;
        for (Index c = begin; c < end; c += LANES) {
            std::uint32_t bits = bits_above(screened + c, bar);
            if (end - c < LANES) bits &= (1U << (end - c)) - 1U;
            for (; bits != 0; bits &= bits - 1) found[n++] = static_cast<std::int32_t>(c) + std::countr_zero(bits);
        }
    }
    return n;
}

DYNCRP_CLONES void add_values(const float* __restrict values, float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] += values[c];
}

DYNCRP_CLONES void subtract_values(const float* __restrict values, float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] -= values[c];
}

DYNCRP_CLONES void add_differences(const float* __restrict values, const float* __restrict others,
                                   float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] += values[c] - others[c];
}

DYNCRP_CLONES void subtract_squares(double y, const double* __restrict mean, const float* __restrict gain, float most,
                                    float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) {
        const float gap = static_cast<float>(y - mean[c]);
        const float part = gain[c] * bounded(gap * gap, LARGEST_SQUARE);
        totals[c] -= bounded(part, most);
    }
}

DYNCRP_CLONES void multiply_squares(double y, const double* __restrict mean, const float* __restrict gain, float most,
                                    float* __restrict products, Index n) {
    for (Index c = 0; c < n; ++c) {
        const float gap = static_cast<float>(y - mean[c]);
        const float term = bounded(gain[c] * bounded(gap * gap, LARGEST_SQUARE), most);
        products[c] += term + term * products[c];
    }
}

DYNCRP_CLONES void subtract_logs(const float* __restrict power, float* __restrict products, float* __restrict totals,
                                 Index n) {
    for (Index c = 0; c < n; ++c) {
        totals[c] -= power[c] * log1p_from_below(products[c]);
        products[c] = 0.0F;
    }
}

DYNCRP_CLONES void add_counts(double x, const float* const* weights, float* __restrict totals, Index n) {
    constexpr float ROUNDING = 1e-6F;
    const float *zero = weights[0], *first = weights[1], *second = weights[2], *third = weights[3];
    const auto more = static_cast<float>(x - 1.0), two = static_cast<float>(0.5 * (x - 1.0) * (x - 2.0));
    const auto factorial = static_cast<float>(log_factorial(x));
    for (Index c = 0; c < n; ++c) {
        const float bent = two * third[c];
        const float size = more * std::abs(second[c]) + std::abs(first[c]) + bent + factorial - zero[c];
        const float bound = zero[c] + first[c] + more * second[c] + bent - factorial + ROUNDING * size;
        totals[c] += bound < 0.0F ? bound : 0.0F;
    }
}

}  // namespace dyncrp
