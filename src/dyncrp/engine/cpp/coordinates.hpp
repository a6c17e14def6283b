// The coordinates of rows x (D,) in which tables are learned and scored.
#pragma once

#include "vectors.hpp"

namespace dyncrp {

/// One row: z in the units of the reference's statistics T(x), and y = z / scale, in which a cluster has unit variance.
struct Row {
    const double* z = nullptr;
    const double* y = nullptr;
    double offset = 0.0;          // the log density of what z leaves out of x; the same for all tables
    double square = 0.0;          // |y|², of a Gaussian
    const Row* wholes = nullptr;  // for columns: the rows of the parts that are present or missing as a whole
};

/// z = x − shift, or W (x − shift) with directions W (Q, D); y = z / scale.
///
/// The projection goes row by row. A matrix product by BLAS would round differently for different numbers of rows, but
/// a row must get the same coordinates, to the bit, however the stream is divided.
class Coordinates {
  public:
    struct Settings {
        Index n_features = 0;            // D
        std::vector<double> shift;       // (D,), or none
        std::vector<double> scale;       // (Q,), or none
        std::vector<double> directions;  // Wᵀ (D, Q) by rows, or none
        std::vector<double> inverse;     // the pseudo-inverse of W, transposed, (Q, D)
        double log_scale = 0.0;          // ½ log det W Wᵀ, and the constant of the residual's log density
        double half_precision = 0.0;     // ½ / residual variance, 0 if W leaves nothing out

        void for_each(auto each) {
            each("n_features", n_features);
            each("shift", shift);
            each("scale", scale);
            each("directions", directions);
            each("inverse", inverse);
            each("log_scale", log_scale);
            each("half_precision", half_precision);
        }
    };

    explicit Coordinates(Settings settings) : at_(std::move(settings)) {
        width_ = at_.directions.empty() ? at_.n_features : static_cast<Index>(at_.directions.size()) / at_.n_features;
        for (const double scale : at_.scale) inverse_scale_.push_back(1.0 / scale);
    }

    Index n_features() const { return at_.n_features; }
    Index width() const { return width_; }  // Q

    struct Scratch {
        std::vector<double> z, y, offset, rest;
    };

    /// Turn n rows of x into coordinates, which `row` then returns; `scratch` and x must stay valid.
    void take(const double* x, Index n, Scratch& scratch) const {
        const auto room = static_cast<std::size_t>(n * width_);
        if (!at_.directions.empty()) {
            grow(scratch.z, room);
            grow(scratch.offset, static_cast<std::size_t>(n));
            grow(scratch.rest, static_cast<std::size_t>(at_.n_features));
            for (Index i = 0; i < n; ++i) project(x + i * at_.n_features, i, scratch);
        } else if (!at_.shift.empty()) {
            grow(scratch.z, room);
            for (Index i = 0; i < n; ++i) {
                for (Index d = 0; d < width_; ++d) {
                    scratch.z[static_cast<std::size_t>(i * width_ + d)] =
                        x[i * width_ + d] - at_.shift[static_cast<std::size_t>(d)];
                }
            }
        }
        if (inverse_scale_.empty()) return;
        grow(scratch.y, room);
        const double* z = as_z(x, scratch);
        for (Index i = 0; i < n; ++i) {
            for (Index d = 0; d < width_; ++d) {
                scratch.y[static_cast<std::size_t>(i * width_ + d)] =
                    z[i * width_ + d] * inverse_scale_[static_cast<std::size_t>(d)];
            }
        }
    }

    /// Row i of the rows that were taken.
    Row row(const double* x, Index i, const Scratch& scratch) const {
        const double* z = as_z(x, scratch) + i * width_;
        return {z, inverse_scale_.empty() ? z : scratch.y.data() + i * width_,
                at_.directions.empty() ? 0.0 : scratch.offset[static_cast<std::size_t>(i)], 0.0, nullptr};
    }

  private:
    static void grow(std::vector<double>& room, std::size_t size) {
        if (room.size() < size) room.resize(size);
    }

    const double* as_z(const double* x, const Scratch& scratch) const {
        return at_.directions.empty() && at_.shift.empty() ? x : scratch.z.data();
    }

    void project(const double* x, Index i, Scratch& scratch) const {
        const Index D = at_.n_features, Q = width_;
        double* z = scratch.z.data() + i * Q;
        double* rest = scratch.rest.data();
        std::fill(z, z + Q, 0.0);
        for (Index d = 0; d < D; ++d) {
            rest[d] = at_.shift.empty() ? x[d] : x[d] - at_.shift[static_cast<std::size_t>(d)];
            add_multiple(z, rest[d], at_.directions.data() + d * Q, Q);
        }
        double square = 0.0;
        if (at_.half_precision > 0.0) {
            for (Index j = 0; j < Q; ++j) add_multiple(rest, -z[j], at_.inverse.data() + j * D, D);
            square = sum_of<double>(D, [=](Index d) { return rest[d] * rest[d]; });
        }
        scratch.offset[static_cast<std::size_t>(i)] = at_.log_scale - at_.half_precision * square;
    }

    Settings at_;
    Index width_ = 0;
    std::vector<double> inverse_scale_;
};

}  // namespace dyncrp
