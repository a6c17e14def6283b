// The statistics of the tables of a Gaussian: counts, sums, and the second moments that groups of tables need.
#pragma once

#include "coordinates.hpp"
#include "vectors.hpp"

namespace dyncrp {

/// Up to this many coordinates, all products are kept; beyond it, only the sum of squares. See families/gaussian.py.
inline constexpr Index MOST_PRODUCTS = 8;

/// For each table n = Σ r, s = Σ r z, and its squares: Σ r y_i y_j for i ≥ j, or Σ r |y|².
class Moments {
  public:
    explicit Moments(Index D) : D_(D), sums_(1 + D + extra_width()) {}

    Index stats_width() const { return 1 + D_; }
    static const char* extra() { return "squares"; }
    Index extra_width() const { return D_ <= MOST_PRODUCTS ? D_ * (D_ + 1) / 2 : 1; }
    PerTable<double>& array() { return sums_; }
    const double* row(Index c) const { return sums_.row(c); }  // n, s, squares

    void open(Index c) { std::fill_n(sums_.row(c), sums_.width(), 0.0); }

    double* sums(Index c) { return sums_.row(c) + 1; }

    void count(Index c, double r, double keep) { *sums_.row(c) = keep * *sums_.row(c) + r; }

    void absorb(Index c, const Row& row, double r, double keep) {
        count(c, r, keep);
        add_row(sums(c), row.z, nullptr, r, keep, 0.0, 0.0, D_);
        absorb_squares(c, row, r, keep);
    }

    void absorb_squares(Index c, const Row& row, double r, double keep) {
        double* squares = sums_.row(c) + stats_width();
        const double* y = row.y;
        if (D_ > MOST_PRODUCTS) {
            *squares = keep * *squares + r * row.square;
            return;
        }
        for (Index i = 0; i < D_; ++i) {
            const double share = r * y[i];
            for (Index j = 0; j <= i; ++j, ++squares) *squares = keep * *squares + share * y[j];
        }
    }

    void write(Index c, double* stats, double* squares) const {
        std::copy_n(sums_.row(c), stats_width(), stats);
        std::copy_n(sums_.row(c) + stats_width(), extra_width(), squares);
    }

    void read(Index c, const double* stats, const double* squares) {
        open(c);
        std::copy_n(stats, stats_width(), sums_.row(c));
        if (squares != nullptr) std::copy_n(squares, extra_width(), sums_.row(c) + stats_width());
    }

  private:
    Index D_;
    PerTable<double> sums_;
};

}  // namespace dyncrp
