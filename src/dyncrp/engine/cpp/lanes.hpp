// Short vectors of numbers, which the compiler turns into the widest instructions of the processor.
//
// A function with DYNCRP_CLONES is compiled for several processors, and the right one is chosen when the module is
// loaded. Nothing is fused and every sum has a fixed order, so all of them give the same bits.
#pragma once

#include "numbers.hpp"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define DYNCRP_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DYNCRP_CLONES
#endif
#if defined(__GNUC__)
#define DYNCRP_INLINE inline __attribute__((always_inline))
#define DYNCRP_INLINE_LAMBDA __attribute__((always_inline))
#else
#define DYNCRP_INLINE inline
#define DYNCRP_INLINE_LAMBDA
#endif

namespace dyncrp {

inline constexpr Index LANES = 16;  // floats in a vector; half as many doubles

#if defined(__GNUC__)

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef float HalfFloats __attribute__((vector_size(32), aligned(4), may_alias));
typedef float QuarterFloats __attribute__((vector_size(16), aligned(4), may_alias));

DYNCRP_INLINE void keep_larger(Floats& best, const Floats& values) { best = values > best ? values : best; }
DYNCRP_INLINE void store_single(float* out, const Doubles& values) {
    *reinterpret_cast<HalfFloats*>(out) = __builtin_convertvector(values, HalfFloats);
}

#else

template <class T, int N>
struct Lanes {
    T at[N];

    T& operator[](int j) { return at[j]; }
    T operator[](int j) const { return at[j]; }
    Lanes& operator+=(const Lanes& other) { return *this = *this + other; }
    friend Lanes operator+(const Lanes& a, const Lanes& b) {
        return make([&](int j) { return a[j] + b[j]; });
    }
    friend Lanes operator-(const Lanes& a, const Lanes& b) {
        return make([&](int j) { return a[j] - b[j]; });
    }
    friend Lanes operator*(const Lanes& a, const Lanes& b) {
        return make([&](int j) { return a[j] * b[j]; });
    }
    friend Lanes operator+(const Lanes& a, T b) {
        return make([&](int j) { return a[j] + b; });
    }
    friend Lanes operator-(const Lanes& a, T b) {
        return make([&](int j) { return a[j] - b; });
    }
    friend Lanes operator*(T a, const Lanes& b) {
        return make([&](int j) { return a * b[j]; });
    }

    template <class Value>
    static Lanes make(Value value) {
        Lanes made;
        for (int j = 0; j < N; ++j) made.at[j] = value(j);
        return made;
    }
};
using Floats = Lanes<float, 16>;
using Doubles = Lanes<double, 8>;

inline void keep_larger(Floats& best, const Floats& values) {
    for (int j = 0; j < 16; ++j) best[j] = values[j] > best[j] ? values[j] : best[j];
}
inline void store_single(float* out, const Doubles& values) {
    for (int j = 0; j < 8; ++j) out[j] = static_cast<float>(values[j]);
}

#endif

DYNCRP_INLINE const Floats& floats_at(const float* values) { return *reinterpret_cast<const Floats*>(values); }
DYNCRP_INLINE Floats& floats_at(float* values) { return *reinterpret_cast<Floats*>(values); }
DYNCRP_INLINE const Doubles& doubles_at(const double* values) { return *reinterpret_cast<const Doubles*>(values); }
DYNCRP_INLINE Doubles& doubles_at(double* values) { return *reinterpret_cast<Doubles*>(values); }

/// The sum of all lanes, in the order of ``sum_of``.
DYNCRP_INLINE double sum_of_lanes(const Doubles& lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/// The largest of all lanes.
DYNCRP_INLINE float largest_lane(const Floats& lane) {
#if defined(__GNUC__)
    // By halves; otherwise the compiler would extract the lanes one by one.
    const HalfFloats* half = reinterpret_cast<const HalfFloats*>(&lane);
    const HalfFloats eight = half[0] > half[1] ? half[0] : half[1];
    const QuarterFloats* quarter = reinterpret_cast<const QuarterFloats*>(&eight);
    const QuarterFloats best = quarter[0] > quarter[1] ? quarter[0] : quarter[1];
#else
    float best[4];
    for (int j = 0; j < 4; ++j) best[j] = std::max(std::max(lane[j], lane[j + 4]), std::max(lane[j + 8], lane[j + 12]));
#endif
    const float left = best[0] > best[1] ? best[0] : best[1], right = best[2] > best[3] ? best[2] : best[3];
    return left > right ? left : right;
}

}  // namespace dyncrp
