// The Gaussian with one ratio of prior variance to variance for all directions.
//
// In y = z/σ clusters have unit variance and means the prior precision p = σ²/ρ². A table with n = Σ r and s = Σ r z
// has precision q = p + n and mean μ = s/(σq) there. Its scores are
//
//     predictive:   −½ D log 2π(1 + 1/q) − ½ q/(q+1) |y − μ|²      (and −Σ log σ, both)
//     variational:  −½ D log 2π − ½ |y − μ|² − ½ D/q
//
// Screening expands |y − μ|² about a reference point near the data, where single precision loses little. In many
// dimensions, it uses only the few coordinates in which the tables differ most. For the others, lengths are enough,
// since an inner product is at most the product of the lengths: the length of the rest is one more coordinate.
//
// A table that learns a row moves. As long as it is near, it is screened at its place at the start of the block, since
// |y − μ|² ≥ (1 − ε) |y − μ'|² − (1/ε − 1) |μ − μ'|² for 0 < ε < 1. If it has moved far, it is screened separately.
#pragma once

#include <optional>

#include "family.hpp"
#include "moments.hpp"
#include "vectors.hpp"

namespace dyncrp {

inline constexpr double HUGE_SQUARE = 1e30;  // squares beyond this do not fit into single precision

class Gaussian : public Bookkeeping<Gaussian, Moments> {
    friend Bookkeeping<Gaussian, Moments>;

  public:
    static constexpr Index MOST_ROWS = LARGEST_BLOCK;
    static constexpr bool CHECKS_ROWS = true;  // `prepare` does

    struct Settings {
        static constexpr const char* NAME = "Gaussian";
        Index width = 0;              // D, or the number of directions
        double precision = 0.0;       // p
        double log_normalizer = 0.0;  // −½ D log 2π − Σ log σ
        std::vector<double> scale;    // σ (D,), or none: all 1

        void for_each(auto each) {
            each("width", width);
            each("precision", precision);
            each("log_normalizer", log_normalizer);
            each("scale", scale);
        }
    };

    Gaussian(const Settings& settings, bool variational)
        : Bookkeeping(settings.width, settings.width, variational), p_(settings.precision),
          log_normalizer_(settings.log_normalizer), reference_(static_cast<std::size_t>(D_), 0.0) {
        for (const double scale : settings.scale) inverse_scale_.push_back(1.0 / scale);
        log_empty_ = log_normalizer_ - 0.5 * static_cast<double>(D_) * std::log1p(1.0 / p_);
        half_empty_ = 0.5 * p_ / (p_ + 1.0);
        far_ = std::sqrt(static_cast<double>(D_) + 80.0);
        along_.resize(static_cast<std::size_t>(D_ <= FEW ? D_ : 0));
        focus(0, FIRST_HEAD);
    }

    template <class Each>
    void for_each(Each each) {
        each(stats_.array()), each(derived_), each(center_), each(center_square_), each(moved_);
        each(screen_constant_), each(screen_half_);
        for (auto& coordinate : along_) each(coordinate);
    }

    void open(Index c) {
        stats_.open(c);
        derive(c);
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        const double before = derived_[c].scale;
        stats_.count(c, r, keep);
        derive(c);
        const double square = add_row(stats_.sums(c), row.z, units(), r, keep, before, derived_[c].scale, D_);
        stats_.absorb_squares(c, row, r, keep);
        moved_[c] += static_cast<float>(1.0001 * std::sqrt(square));
    }

    /// The score, and |y − μ|².
    Scored score(Index c, const Row& row) const {
        const double square = squared_distance(row.y, table(c), D_);
        return {derived_[c].constant - derived_[c].half * square, square};
    }

    double score_empty(const Row& row) const { return log_empty_ - half_empty_ * row.square; }

    double rescore(Index c, const Row& row, double r, double keep, const Scored& scored) const {
        const double n = stats_.row(c)[0], q = p_ + keep * n + r;
        const double shrink = keep * (p_ + n) / q, pull = (1.0 - keep) * p_ / q;
        double square = shrink * shrink * scored.aux;
        if (pull > 0.0) {
            const Sums sums = table(c);
            square = sum_of<double>(D_, [&](Index d) {
                const double gap = shrink * (row.y[d] - sums.mean(d)) + pull * row.y[d];
                return gap * gap;
            });
        }
        return log_normalizer_ - 0.5 * static_cast<double>(D_) / q - 0.5 * square;
    }

    Index screen_width() const { return n_head_ < D_ ? n_head_ + 1 : D_; }

    void prepare(Block& block) const {
        const Index width = screen_width();
        const double* reference = reference_.data();
        for (Index m = 0; m < block.size; ++m) {
            Row& row = block.rows[static_cast<std::size_t>(m)];
            float* out = block.coordinates.data() + m * width;
            const Squares squares = square_row(row.y, reference, n_head_ < D_ ? nullptr : out, D_);
            const double norm = squares.from_reference;
            if (!(norm < INF)) check_finite(row);
            row.square = squares.from_origin;
            block.norm[static_cast<std::size_t>(m)] = norm;
            if (!(norm < HUGE_SQUARE)) {
                std::fill_n(out, width, 0.0F);
            } else if (n_head_ < D_) {
                shorten([&](Index d) { return row.y[d] - reference[d]; }, norm, out);
            }
        }
        if (one_by_one(block) || is_indexed() || block.n_tables == 0) return;
        multiply(block.coordinates.data(), block.size, center_.row(0), block.n_tables, width, width,
                 block.products.data(), block.stride());
    }

    double screen(Block& block, Index m, Index K) const {
        const double norm = block.norm[static_cast<std::size_t>(m)];
        const float square = norm < HUGE_SQUARE ? static_cast<float>(norm) : 0.0F;
        const Index width = screen_width();
        const float* row = block.coordinates.data() + m * width;
        if (D_ <= FEW) {
            const float* along[FEW];
            for (std::size_t d = 0; d < along_.size(); ++d) along[d] = along_[d].row(0);
            block.top = screen_along(row, along, D_, screen_constant_.row(0), screen_half_.row(0), block.weights,
                                     square, block.screened.data(), block.best.data(), K);
        } else {
            float* products = block.row_products(m);
            if (block.size == 1 || is_indexed()) {
                for (Index c = 0; c < K; ++c) products[c] = dot(row, center_.row(c), width);
            } else {
                for (const Index c : block.touched) products[c] = dot(row, center_.row(c), width);
            }
            block.top = screen_products(products, screen_constant_.row(0), screen_half_.row(0), block.weights, square,
                                        block.screened.data(), block.best.data(), K);
        }
        if (!(norm < HUGE_SQUARE)) return INF;
        return rounding() * norm + 1e-6 * (1.0 + std::abs(log_normalizer_) + std::abs(log_empty_));
    }

    void follow_opening(Block&, Index, Index c) { moved_[c] = INF32; }

    void follow(Block& block, Index, Index c, double, double) {
        const bool alone = one_by_one(block) || is_indexed() || block.is_touched[static_cast<std::size_t>(c)] != 0;
        const double moved = moved_[c], norm = center_square_[c];
        if (alone || moved * far_ > loss_ || moved > 0.5 * far_) {
            if (!alone) block.touch(c);
            settle(c);
            return;
        }
        block.moved.push_back(c);
        if (!(norm < HUGE_SQUARE)) return;
        // Most rows of a table are about `far` from its mean. This ε loses the least there, moved · far nats. It is
        // below 1, so that an inner product that is too large does no harm.
        const Derived& at = derived_[c];
        const double share = std::max(moved / far_, 1e-9), half = at.half * (1.0 - share);
        screen_constant_[c] = static_cast<float>(at.constant - half * norm + rounding() * norm +
                                                 at.half * (1.0 / share - 1.0) * moved * moved);
        screen_half_[c] = static_cast<float>(half);
    }

    void finish(Block& block, Index n_rows, Index n_in_vain, Index K) {
        for (const Index c : block.moved) {
            if (moved_[c] > 0.0F) settle(c);
        }
        block.moved.clear();
        // Bounds that let too much through are tightened: first by moving tables earlier, then by more coordinates.
        if (2 * n_in_vain > n_rows) loss_ = std::max(LEAST_LOSS, 0.5 * loss_);
        if (16 * n_in_vain < n_rows && n_rows > 1) loss_ = std::min(MOST_LOSS, 2.0 * loss_);
        if (n_head_ == D_ || is_indexed()) return;
        rows_ += n_rows;
        in_vain_ += n_in_vain;
        // A score in vain costs as much as so many coordinates of as many products. Where that is far too much, there
        // is no need to wait.
        const Index wasted = 16 * in_vain_ * (D_ + 64), spent = rows_ * K * n_head_;
        if (rows_ < PATIENCE && wasted < 8 * spent) return;
        if (wasted > spent) {
            focus(K, wasted > 64 * spent ? D_ : wasted > 8 * spent ? 4 * n_head_ : 2 * n_head_);
            scan_head_ = n_head_;
        } else if (K > 4 * focused_at_) {
            focus(K, n_head_);
        }
        rows_ = in_vain_ = 0;
    }

    bool recentre(Index K, const Row* row) {
        const Sums first = table(0);
        for (Index d = 0; d < D_; ++d) {
            reference_[static_cast<std::size_t>(d)] = row != nullptr ? row->y[d] : K > 0 ? first.mean(d) : 0.0;
        }
        drop_index(K);
        return true;
    }

    bool is_indexed() const { return index_.has_value(); }

    /// Build an index of the tables, unless one of them is too far away for single precision.
    void build_index(Index K, const float* log_weights) {
        focus(K, D_);
        const auto n = static_cast<std::size_t>(K);
        std::vector<float> centers(n * static_cast<std::size_t>(D_)), a(n), h(n);
        for (Index c = 0; c < K; ++c) {
            if (!(center_square_[c] < HUGE_SQUARE)) return;
            copy_center(c, centers.data() + c * D_);
            a[static_cast<std::size_t>(c)] = height(c, log_weights[c]);
            h[static_cast<std::size_t>(c)] = static_cast<float>(derived_[c].half);
        }
        index_.emplace(D_);
        index_->build(K, centers.data(), a.data(), h.data());
    }

    void drop_index(Index K) {
        index_.reset();
        focus(K, scan_head_);
    }

    double index_cost(Block& block) const { return index_->cost(block.search); }

    /// Find the tables that matter for row m; return false if a search is not worth its cost.
    template <class Score>
    bool search(Block& block, Index m, double fresh, Score score) const {
        const double norm = block.norm[static_cast<std::size_t>(m)];
        const float* row = block.coordinates.data() + m * D_;
        return norm < HUGE_SQUARE && index_->search(row, norm, fresh, score, block.search);
    }

    void index(Index c, float log_weight) {
        if (!(center_square_[c] < HUGE_SQUARE)) {
            index_.reset();
            return;
        }
        float few[FEW];
        const float* center = D_ <= FEW ? copy_center(c, few) : center_.row(c);
        const float a = height(c, log_weight), h = static_cast<float>(derived_[c].half);
        if (index_->has(c)) {
            index_->update(c, center, a, h);
        } else {
            index_->open(c, center, a, h);
        }
    }
    void close_in_index(Index c) { index_->close(c); }
    void rename_in_index(Index from, Index to) { index_->rename(from, to); }

    void set_variational(bool variational, Index K) {
        index_.reset();
        Bookkeeping::set_variational(variational, K);
    }

  private:
    // Nats that screening may lose when a table moves within a block.
    static constexpr double LEAST_LOSS = 2.0, MOST_LOSS = 4096.0;
    static constexpr Index FIRST_HEAD = 15;  // coordinates at first; with the length of the rest, a whole vector
    static constexpr Index PATIENCE = 1024;  // rows before more coordinates are taken

    /// Derived from the count of a table: the score is constant − half |y − μ|², and μ = scale · s/σ.
    struct Derived {
        double constant, half, scale;
    };

    void refresh(Index c) {
        derive(c);
        settle(c);
    }

    void check_finite(const Row& row) const {
        if (sum_of<double>(D_, [&](Index d) { return 0.0 * row.y[d]; }) == 0.0) return;
        throw std::invalid_argument("rows must hold finite numbers, as family.check returns them");
    }

    /// Whether inner products are cheaper one by one than as a matrix product with its corrections.
    bool one_by_one(const Block& block) const { return block.size == 1 || D_ <= FEW; }

    double rounding() const { return static_cast<double>(D_ + 16) * UNIT; }

    /// The highest score of a table, which is at its mean.
    float height(Index c, float log_weight) const {
        constexpr float LEAST = -1e30F;
        return std::max(static_cast<float>(derived_[c].constant + static_cast<double>(log_weight)), LEAST);
    }

    float* copy_center(Index c, float* out) const {
        if (D_ > FEW) return std::copy_n(center_.row(c), D_, out) - D_;
        for (std::size_t d = 0; d < along_.size(); ++d) out[d] = along_[d][c];
        return out;
    }

    const double* units() const { return inverse_scale_.empty() ? nullptr : inverse_scale_.data(); }
    Sums table(Index c) const { return {stats_.row(c) + 1, units(), derived_[c].scale}; }

    void derive(Index c) {
        const double scale = 1.0 / (p_ + stats_.row(c)[0]), D = static_cast<double>(D_);
        derived_[c] = {log_normalizer_ - 0.5 * D * (variational_ ? scale : log_of_more_than_one(scale)),
                       variational_ ? 0.5 : 0.5 / (1.0 + scale), scale};
    }

    /// Screen by the first n_head coordinates of those in which the means of K tables differ most.
    void focus(Index K, Index n_head) {
        n_head_ = n_head + 8 < D_ ? n_head : D_;
        center_.reshape(D_ <= FEW ? 0 : screen_width());
        focused_at_ = K;
        if (n_head_ < D_) {
            const auto D = static_cast<std::size_t>(D_);
            std::vector<double> sum(D), square(D);
            for (Index c = 0; c < K; ++c) {
                const Sums sums = table(c);
                for (std::size_t d = 0; d < D; ++d) {
                    const double gap = sums.mean(static_cast<Index>(d)) - reference_[d];
                    sum[d] += gap;
                    square[d] += gap * gap;
                }
            }
            for (std::size_t d = 0; d < D; ++d)
                square[d] -= sum[d] * sum[d] / static_cast<double>(std::max<Index>(K, 1));
            order_.resize(D);
            for (std::size_t d = 0; d < D; ++d) order_[d] = static_cast<Index>(d);
            const auto differ_more = [&](Index a, Index b) {
                return square[static_cast<std::size_t>(a)] > square[static_cast<std::size_t>(b)];
            };
            std::stable_sort(order_.begin(), order_.end(), differ_more);
        }
        for (Index c = 0; c < K; ++c) settle(c);
    }

    /// out = the leading coordinates of gap (D,), whose square is norm, and the length of the rest.
    template <class Gap>
    void shorten(Gap gap, double norm, float* out) const {
        double head = 0.0;
        for (Index j = 0; j < n_head_; ++j) {
            const double value = gap(order_[static_cast<std::size_t>(j)]);
            out[j] = static_cast<float>(value);
            head += value * value;
        }
        out[n_head_] = static_cast<float>(std::sqrt(std::max(norm - head, 0.0)));
    }

    /// Screen table c at its present place.
    void settle(Index c) {
        const Sums sums = table(c);
        const double* reference = reference_.data();
        float few[FEW], *out = D_ <= FEW ? few : center_.row(c);
        const double norm = square_table(sums, reference, n_head_ < D_ ? nullptr : out, D_);
        const bool fits = norm < HUGE_SQUARE;
        if (!fits) {
            std::fill_n(out, screen_width(), 0.0F);
        } else if (n_head_ < D_) {
            shorten([&](Index d) { return sums.mean(d) - reference[d]; }, norm, out);
        }
        for (std::size_t d = 0; d < along_.size(); ++d) along_[d][c] = out[d];
        const Derived& at = derived_[c];
        moved_[c] = 0.0F;
        center_square_[c] = norm;
        screen_constant_[c] = fits ? static_cast<float>(at.constant - at.half * norm + rounding() * norm) : INF32;
        screen_half_[c] = fits ? static_cast<float>(at.half) : 0.0F;
    }

    double p_, log_normalizer_;
    double log_empty_, half_empty_;  // an empty table's score is log_empty − half_empty |y|²
    std::vector<double> inverse_scale_;
    PerTable<Derived> derived_;

    // Of screening.
    std::vector<double> reference_;
    Index scan_head_ = FIRST_HEAD;        // coordinates that are used without an index
    Index n_head_ = 0;                    // coordinates that are used; D if all are
    std::vector<Index> order_;            // (D,) those in which tables differ most come first, unless all are
    PerTable<float> center_;              // μ − reference in these coordinates, as it was when the table settled,
    std::vector<PerTable<float>> along_;  // or each coordinate by itself, if they are few
    PerTable<double> center_square_;      // |μ − reference|² then,
    PerTable<float> moved_;               // and at most how far μ has moved since
    PerTable<float> screen_constant_, screen_half_;
    std::optional<TableIndex> index_;
    double far_ = 0.0;    // the typical distance of a row from the mean of its table
    double loss_ = 32.0;  // see LEAST_LOSS
    Index focused_at_ = 0, rows_ = 0, in_vain_ = 0;
};

}  // namespace dyncrp
