// Constants that all parts of the loop share, and fast sums in a fixed order.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace dyncrp {

using Index = std::ptrdiff_t;

inline constexpr double INF = std::numeric_limits<double>::infinity();
inline constexpr float INF32 = std::numeric_limits<float>::infinity();

// The constants of the reference, see engine/types.py.
inline constexpr double TIE = 1e-9;
inline constexpr double NEGLIGIBLE = 1e-300;
inline constexpr double DROPPED = 1e-12;

// The constants of screening.
inline constexpr double MARGIN = 32.0;  // nats: exp(-32) is about 1e-14
inline constexpr double BLUNT = 4.0;    // nats of slack at which screening begins to let too many tables through
inline constexpr double UNIT = 6.0e-8;  // unit roundoff of single precision
inline constexpr Index LARGEST_BLOCK = 256;

/// Return term(0) + … + term(n − 1), always in the same order. Some partial sums go on side by side, which the
/// compiler turns into vector instructions; it may not do so with one, since that would change the rounding.
template <class T, class Term>
inline T sum_of(Index n, Term term) {
    constexpr Index LANES = 8;
    T total{0};
    Index i = 0;
    if (n >= LANES) {
        T lane[LANES] = {};
        for (; i + LANES <= n; i += LANES) {
            for (Index j = 0; j < LANES; ++j) lane[j] += term(i + j);
        }
        for (Index half = LANES / 2; half > 0; half /= 2) {
            for (Index j = 0; j < half; ++j) lane[j] += lane[j + half];
        }
        total = lane[0];
    }
    for (; i < n; ++i) total += term(i);
    return total;
}

/// Return the largest of n values, −inf if there are none.
inline float largest(const float* values, Index n) {
    float lane[8];
    for (float& value : lane) value = -INF32;
    Index i = 0;
    for (; i + 8 <= n; i += 8) {
        for (Index j = 0; j < 8; ++j) lane[j] = values[i + j] > lane[j] ? values[i + j] : lane[j];
    }
    for (; i < n; ++i) lane[0] = values[i] > lane[0] ? values[i] : lane[0];
    float best = lane[0];
    for (Index j = 1; j < 8; ++j) best = lane[j] > best ? lane[j] : best;
    return best;
}

inline constexpr float LOG_EXCESS = 0.07F;  // nats by which the next may be too large

/// A float that is not below log x, and less than LOG_EXCESS above; −inf for 0.
///
/// Read as an integer, the bits of a number are its exponent and its mantissa. This is log₂ x, except for straight
/// lines between powers of 2, which lie at most 0.0861 below it.
inline float log_from_above(double x) {
    if (!(x > 0.0)) return -INF32;
    constexpr double LOG_2 = 0.693147180559945309, STEP = LOG_2 / 4503599627370496.0;
    const auto bits = static_cast<double>(std::bit_cast<std::int64_t>(x));
    return static_cast<float>(bits * STEP + (0.0861 - 1023.0) * LOG_2) + 1e-4F;
}

/// log(1 + x) for x ≥ 0, to some units in the last place of 1; for small x, by the first terms of its series.
inline double log_of_more_than_one(double x) {
    if (x > 0.01) return std::log(1.0 + x);
    const double square = x * x;
    const double even = 1.0 / 2.0 + square * (1.0 / 4.0 + square * (1.0 / 6.0 + square * (1.0 / 8.0)));
    const double odd = 1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0 + square * (1.0 / 9.0)));
    return x - square * even + x * square * odd;
}

/// A float that is not above x, and only slightly below.
inline float rounded_down(double x) { return static_cast<float>(x - 1e-7 * std::abs(x)); }

/// The logarithm of a product of positive numbers, taken before another factor can make it overflow. Four products
/// go on side by side, so that none waits for the one before.
class LogProduct {
  public:
    void take(Index d, double factor) {
        double& product = products_[d % 4];
        product *= factor;
        if (product > 1e20 || product < 1e-20) {
            logs_ += std::log(product);
            product = 1.0;
        }
    }
    double log() const { return logs_ + std::log((products_[0] * products_[1]) * (products_[2] * products_[3])); }

  private:
    double products_[4] = {1.0, 1.0, 1.0, 1.0};
    double logs_ = 0.0;
};

/// Remove the rows of `width` at ascending `places`; later ones of the first n move up.
template <class T>
inline void remove_places(T* data, Index width, std::span<const Index> places, Index n) {
    Index to = places[0];
    for (std::size_t j = 0; j < places.size(); ++j) {
        const Index end = j + 1 < places.size() ? places[j + 1] : n;
        std::copy(data + (places[j] + 1) * width, data + end * width, data + to * width);
        to += end - places[j] - 1;
    }
}

/// A list that never frees its memory, so that appending costs one comparison.
template <class T>
class List {
  public:
    void push_back(const T& value) {
        if (size_ == room_.size()) room_.resize(2 * size_ + 16);
        room_[size_++] = value;
    }
    void be_only(const T& value) {
        clear();
        push_back(value);
    }
    void clear() { size_ = 0; }
    void shorten(std::size_t size) { size_ = size; }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t j) { return room_[j]; }
    const T& operator[](std::size_t j) const { return room_[j]; }
    T* begin() { return room_.data(); }
    T* end() { return room_.data() + size_; }
    const T* begin() const { return room_.data(); }
    const T* end() const { return room_.data() + size_; }

  private:
    std::vector<T> room_;
    std::size_t size_ = 0;
};

/// One row of `width` numbers for each table. A column of single numbers has width 1.
template <class T>
class PerTable {
  public:
    explicit PerTable(Index width = 1) : width_(width) {}

    T* row(Index c) { return data_.data() + c * width_; }
    const T* row(Index c) const { return data_.data() + c * width_; }
    T& operator[](Index c) { return data_[static_cast<std::size_t>(c)]; }
    const T& operator[](Index c) const { return data_[static_cast<std::size_t>(c)]; }
    T* end() { return row(capacity_); }
    Index width() const { return width_; }

    void scale(Index c, T factor) {
        for (Index j = 0; j < width_; ++j) row(c)[j] *= factor;
    }

    void reserve(Index capacity) {
        capacity_ = capacity;
        data_.resize(static_cast<std::size_t>(capacity * width_));
    }

    /// Change the width of the rows; their contents are lost.
    void reshape(Index width) {
        width_ = width;
        reserve(capacity_);
    }

    /// Remove the rows at ascending `places`; later ones of the first n move up.
    void remove(std::span<const Index> places, Index n) { remove_places(data_.data(), width_, places, n); }

  private:
    Index width_;
    Index capacity_ = 0;
    std::vector<T> data_;
};

}  // namespace dyncrp
