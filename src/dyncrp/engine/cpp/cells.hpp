// Columns of one kind that are independent given their table, each with a count of its own, in which cells may be
// missing.
//
// A kind (cell_*.hpp) has the formulas of one column: the sums that a table keeps, the first of which is the count;
// what is derived from them; and the score of a cell. A missing cell is NaN: it does not change the sums, and scores 0.
//
// Screening uses weights in single precision, one array over all tables for each number, so that a row is screened by
// loops over the tables for the cells that are present. All weights are up to date, so tables that the block has
// touched need no special treatment.
#pragma once

#include "family.hpp"
#include "screening.hpp"
#include "special.hpp"

namespace dyncrp {

/// `width` numbers for each table, stored number by number for all tables.
template <class T>
class ByNumber {
  public:
    explicit ByNumber(Index width = 1) : width_(width) {}

    T* of(Index j) { return data_.data() + j * stride_; }
    const T* of(Index j) const { return data_.data() + j * stride_; }
    Index width() const { return width_; }

    void reserve(Index capacity) {
        const Index stride = capacity + PAD, kept = std::min(stride, stride_);
        std::vector<T> data(static_cast<std::size_t>(width_ * stride));
        for (Index j = 0; j < width_; ++j) std::copy_n(of(j), kept, data.data() + j * stride);
        data_ = std::move(data);
        stride_ = stride;
    }

    /// Remove the tables at ascending `places`; later ones of the first n move up.
    void remove(std::span<const Index> places, Index n) {
        for (Index j = 0; j < width_; ++j) remove_places(of(j), Index{1}, places, n);
    }

  private:
    static constexpr Index PAD =
        16;  // a power of two as the distance between the numbers of a table would leave most of a cache unused

    Index width_;
    Index stride_ = 0;
    std::vector<T> data_;
};

inline constexpr double LEAST_BOUND = -1e30;  // of a cell, so that sums of many fit into single precision

/// A sum of scores. Terms log(1 + t) with the same factor take one logarithm together.
class ScoreSum {
  public:
    void add(double score) { total_ += score; }

    void subtract_log(double factor, double t) {
        if (factor != factor_ || product_ > LARGE) flush(factor);
        if (t > LARGE) {
            total_ -= factor * std::log1p(t);
        } else {
            product_ += t + t * product_;
        }
    }

    double total() {
        flush(0.0);
        return total_;
    }

  private:
    static constexpr double LARGE = 1e100;

    void flush(double factor) {
        if (product_ > 0.0) total_ -= factor_ * std::log1p(product_);
        product_ = 0.0;
        factor_ = factor;
    }

    double total_ = 0.0, factor_ = 0.0;
    double product_ = 0.0;  // of the 1 + t, minus 1
};

template <class Kind>
class CellsOf {
  public:
    /// `at`: the positions of the columns in a row; `first`: where their values begin among those of a taken row.
    CellsOf(Kind kind, std::vector<Index> at, Index first, bool variational)
        : kind_(std::move(kind)), at_(std::move(at)), D_(static_cast<Index>(at_.size())), first_(first),
          variational_(variational), sums_(D_ * kind_.n_sums()), derived_(D_ * kind_.n_derived()),
          empty_(static_cast<std::size_t>(D_ * kind_.n_derived())) {
        const std::vector<double> nothing(static_cast<std::size_t>(kind_.n_sums()), 0.0);
        for (Index d = 0; d < D_; ++d) kind_.derive(d, nothing.data(), false, empty_.data() + d * kind_.n_derived());
    }

    Index n_values() const { return D_; }

    template <class Each>
    void for_each(Each each) {
        each(sums_), each(derived_);
        kind_.for_each(each);
    }

    /// Turn the cells of a row x into values; return the log density that is the same for all tables.
    double take(const double* x, double* values) const {
        double offset = 0.0;
        for (Index d = 0; d < D_; ++d) {
            const double cell = x[at_[static_cast<std::size_t>(d)]];
            values[first_ + d] = cell;
            if (!std::isnan(cell)) offset += kind_.take(d, cell, values[first_ + d]);
        }
        return offset;
    }

    void open(Index c) {
        std::fill_n(sums_.row(c), sums_.width(), 0.0);
        refresh(c);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        for_present(row, [&](Index d, double value) {
            double *sums = sums_.row(c) + d * kind_.n_sums(), *derived = derived_.row(c) + d * kind_.n_derived();
            kind_.absorb(d, sums, value, r, keep);
            if constexpr (requires { kind_.derive_at(d, c, sums, value, true, derived); }) {
                // A code changes only two of many numbers, unless all of them fade.
                if (keep == 1.0) return kind_.derive_at(d, c, sums, value, variational_, derived);
            }
            kind_.derive(d, sums, variational_, derived);
            kind_.weigh(d, c, derived, variational_);
        });
        kind_.weigh_all(c, derived_.row(c), variational_);
    }

    double score(Index c, const Row& row) const {
        ScoreSum sum;
        for_present(row, [&](Index d, double value) {
            kind_.score(d, derived_.row(c) + d * kind_.n_derived(), value, variational_, sum);
        });
        return sum.total();
    }

    double score_empty(const Row& row) const {
        ScoreSum sum;
        for_present(row, [&](Index d, double value) {
            kind_.score(d, empty_.data() + d * kind_.n_derived(), value, false, sum);
        });
        return sum.total();
    }

    double rescore(Index c, const Row& row, double r, double keep) const {
        double total = 0.0;
        for_present(row, [&](Index d, double value) {
            total += kind_.rescore(d, sums_.row(c) + d * kind_.n_sums(), value, r, keep);
        });
        return total;
    }

    void prepare(Block&) const {}
    /// Add an upper bound of the score of row m to the totals of K tables; return the slack.
    double screen(Block& block, Index m, Index K, float* totals) const {
        Block::grow(block.part, static_cast<std::size_t>(K));
        kind_.screen(block.rows[static_cast<std::size_t>(m)].z + first_, variational_, K, block.part.data(), totals);
        return 5e-5 * static_cast<double>(D_);
    }
    void follow_opening(Block&, Index, Index) const {}
    void follow(Block&, Index, Index, const Row&, double, double) const {}
    void finish(Block&, Index, Index, Index) const {}
    void recentre(Index, const Row*) {}

    void set_variational(bool variational, Index K) {
        variational_ = variational;
        for (Index c = 0; c < K; ++c) refresh(c);
    }

    Index stats_width() const { return D_ * kind_.n_stats(); }
    Index extra_width() const { return D_ * kind_.n_extra(); }

    void write(Index c, double* stats, double* extra) const {
        for (Index d = 0; d < D_; ++d) {
            kind_.write(d, sums_.row(c) + d * kind_.n_sums(), stats + d * kind_.n_stats(), extra + d * kind_.n_extra());
        }
    }

    /// An extra number that was not recorded is NaN.
    void read(Index c, const double* stats, const double* extra) {
        for (Index d = 0; d < D_; ++d) {
            const double more = extra == nullptr || kind_.n_extra() == 0 ? NAN : extra[d];
            kind_.read(d, stats + d * kind_.n_stats(), more, sums_.row(c) + d * kind_.n_sums());
        }
        refresh(c);
    }

  private:
    template <class Each>
    void for_present(const Row& row, Each each) const {
        const double* values = row.z + first_;
        for (Index d = 0; d < D_; ++d) {
            if (!std::isnan(values[d])) each(d, values[d]);
        }
    }

    void refresh(Index c) {
        for (Index d = 0; d < D_; ++d) {
            double* derived = derived_.row(c) + d * kind_.n_derived();
            kind_.derive(d, sums_.row(c) + d * kind_.n_sums(), variational_, derived);
            kind_.weigh(d, c, derived, variational_);
        }
        kind_.weigh_all(c, derived_.row(c), variational_);
    }

    Kind kind_;
    std::vector<Index> at_;
    Index D_, first_;
    bool variational_;
    PerTable<double> sums_, derived_;
    std::vector<double> empty_;  // what is derived for an empty table, predictive
};

/// The score of a value after a table has learned it with responsibility r, for kinds with few sums.
template <Index N_SUMS, Index N_DERIVED, class Kind>
double rescore_of(const Kind& kind, Index d, const double* sums, double value, double r, double keep) {
    double after[N_SUMS], derived[N_DERIVED];
    std::copy_n(sums, N_SUMS, after);
    kind.absorb(d, after, value, r, keep);
    kind.derive(d, after, true, derived);
    ScoreSum sum;
    kind.score(d, derived, value, true, sum);
    return sum.total();
}

}  // namespace dyncrp
