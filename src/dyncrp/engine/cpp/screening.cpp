#include "screening.hpp"

#include "normal_gamma.hpp"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define DYNCRP_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define DYNCRP_WIDE
#endif

namespace dyncrp {
namespace {

constexpr float LARGEST_SQUARE = 1e36F;  // so that no gain, however small, is multiplied by infinity

inline float bounded(float value, float most) { return value < most ? value : most; }

}  // namespace

DYNCRP_WIDE void add_values(const float* __restrict values, float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] += values[c];
}

DYNCRP_WIDE void subtract_values(const float* __restrict values, float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] -= values[c];
}

DYNCRP_WIDE void add_differences(const float* __restrict values, const float* __restrict others,
                                 float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) totals[c] += values[c] - others[c];
}

DYNCRP_WIDE void subtract_squares(double y, const double* __restrict mean, const float* __restrict gain, float most,
                                  float* __restrict totals, Index n) {
    for (Index c = 0; c < n; ++c) {
        const float gap = static_cast<float>(y - mean[c]);
        const float part = gain[c] * bounded(gap * gap, LARGEST_SQUARE);
        totals[c] -= bounded(part, most);
    }
}

DYNCRP_WIDE void multiply_squares(double y, const double* __restrict mean, const float* __restrict gain, float most,
                                  float* __restrict products, Index n) {
    for (Index c = 0; c < n; ++c) {
        const float gap = static_cast<float>(y - mean[c]);
        const float term = bounded(gain[c] * bounded(gap * gap, LARGEST_SQUARE), most);
        products[c] += term + term * products[c];
    }
}

DYNCRP_WIDE void subtract_logs(const float* __restrict power, float* __restrict products, float* __restrict totals,
                               Index n) {
    for (Index c = 0; c < n; ++c) {
        totals[c] -= power[c] * log1p_from_below(products[c]);
        products[c] = 0.0F;
    }
}

DYNCRP_WIDE void add_counts(double x, const float* const* weights, float* __restrict totals, Index n) {
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
