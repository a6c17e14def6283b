// What a family must provide so that the loop can run it.
#pragma once

#include <concepts>

#include "blas.hpp"
#include "coordinates.hpp"
#include "index.hpp"
#include "screening.hpp"

namespace dyncrp {

/// An exact score; `aux` is what the family would otherwise compute again to rescore.
struct Scored {
    double log_likelihood = 0.0;
    double aux = 0.0;
};

/// A segment of rows that is screened together, and scratch space for it; nothing in it outlives the block.
///
/// The loop sets the first four fields. `prepare` screens all rows against the tables at the start of the block, and
/// `screen` returns the result for one row, including what the block has learned since.
struct Block {
    Index size = 0;                  // b, rows
    Index n_tables = 0;              // K₀, tables at the start of the block
    const float* weights = nullptr;  // bounds of the tables' log weights, which are part of the result; see Seats
    std::vector<Row> rows;
    bool by_groups = false;  // how a NormalGamma screens it

    std::vector<float> coordinates;   // (b, width) the rows as they are screened
    std::vector<float> products;      // (b, stride) of the rows with the tables, including new ones
    std::vector<float> part;          // scratch space of a family
    std::vector<double> norm;         // (b,) the rows' squared distances from the reference point; sizes of counts
    std::vector<double> prior;        // (b,) for counts: log x!
    std::vector<float> screened;      // (capacity,) for one row: a bound of log weight + log likelihood for each table,
    std::vector<float> best;          // the best of each SPAN of them,
    float top = 0.0F;                 // and of all
    std::vector<std::int32_t> found;  // (capacity,) tables that can matter
    std::vector<float> no_weights;    // (capacity,) in place of unknown weights
    std::vector<Index> moved;         // tables that a Gaussian screens at their place at the start of the block
    TableIndex::Search search;        // of one row, if tables have an index
    std::vector<Index> touched;       // tables that the block has touched, in order
    std::vector<char> is_touched;     // (capacity,)

    // Of columns: the values of their cells, which the rows point to; and for parts that are present or missing as a
    // whole, their rows (b, parts) and a block each.
    std::vector<double> cells;
    std::vector<Row> rows_of_wholes;
    std::vector<Block> wholes;
    Coordinates::Scratch scratch;  // of such a block

    void fit(Index rows_at_most, Index capacity, Index width) {
        const auto b = static_cast<std::size_t>(rows_at_most), k = static_cast<std::size_t>(capacity);
        grow(rows, b);
        grow(coordinates, b * static_cast<std::size_t>(width));
        grow(products, b * static_cast<std::size_t>(whole_vectors(capacity + rows_at_most)));
        grow(norm, b);
        grow(screened, k + static_cast<std::size_t>(LANES));
        grow(best, k / SPAN + 1);
        grow(found, k);
        grow(no_weights, k + static_cast<std::size_t>(LANES));
        grow(is_touched, k);
    }

    /// The distance between rows of `products`.
    Index stride() const { return whole_vectors(n_tables + size); }
    float* row_products(Index m) { return products.data() + m * stride(); }

    /// Give all tables the same weight.
    void weigh_all_alike(Index K) {
        std::fill_n(no_weights.begin(), K, 0.0F);
        std::fill_n(no_weights.begin() + K, LANES, -INF32);
        weights = no_weights.data();
    }

    void touch(Index c) {
        if (is_touched[static_cast<std::size_t>(c)] != 0) return;
        is_touched[static_cast<std::size_t>(c)] = 1;
        touched.push_back(c);
    }

    void forget_touched() {
        for (const Index c : touched) is_touched[static_cast<std::size_t>(c)] = 0;
        touched.clear();
    }

    /// Add the weights to `screened`, and find the best of K tables.
    void find_best(Index K) { top = screen_likelihoods(weights, screened.data(), best.data(), K); }

    template <class T>
    static void grow(std::vector<T>& room, std::size_t size) {
        if (room.size() < size) room.resize(size);
    }
};

/// A family keeps the statistics of all tables in the reference's units, and what it derives from them. What is derived
/// is always computed from the statistics alone, so that a state that was saved goes on to the bit. Of a table that
/// takes in r of a row, the share `keep` = 1 − r/memory of its statistics is left: all of it, unless tables forget. The
/// last two numbers of `absorb`, `rescore` and `follow` are r and keep.
///
/// Screening: `screen` fills block.screened and block.best with an upper bound of each table's log weight plus log
/// likelihood, once the slack that it returns is added; +inf for a table, or as the slack, is always right. All of it
/// is in single precision, and decides nothing but whom to look at. `score`, `score_empty` and `rescore` are exact.
template <class F>
concept Family = std::copy_constructible<F> && requires(F family, const F predict, Index c, const Row& row, double r,
                                                        Block& block, double* out, const double* in, Scored scored) {
    /// Hand out every array that has a row for each table, so that all grow, and lose tables, alike.
    family.for_each([](auto&) {});

    /// Make table c an empty one.
    family.open(c);
    /// stats_c = keep stats_c + r T(x), and all that is derived from it.
    family.absorb(c, row, r, r);

    /// log p(x | stats_c), or E[log p(x | φ_c)] if variational; the marginal log p(x) of an empty
    /// table.
    { predict.score(c, row) } -> std::same_as<Scored>;
    { predict.score_empty(row) } -> std::convertible_to<double>;
    /// E[log p(x | φ)] given keep stats_c + r T(x).
    { predict.rescore(c, row, r, r, scored) } -> std::convertible_to<double>;

    /// At most so many rows pay as a block: fewer, if a touched table is screened by itself for the
    /// rest of it.
    { F::MOST_ROWS } -> std::convertible_to<Index>;
    /// How many numbers a row is screened by; screen a block against the first K₀ tables; row m of it
    /// against K.
    { predict.screen_width() } -> std::convertible_to<Index>;
    predict.prepare(block);
    { predict.screen(block, c, c) } -> std::convertible_to<double>;
    /// Correct the screening of the rows after m: table c was opened; or it absorbed r of row m.
    family.follow_opening(block, c, c);
    family.follow(block, c, c, r, r);
    /// Screen about this row from now on, the first of K tables' own centre if there is no row;
    /// whether that helps.
    { family.recentre(c, &row) } -> std::convertible_to<bool>;

    /// The same tables under the other way of scoring; K tables are derived anew.
    family.set_variational(r > 0, c);

    /// The reference's statistics (S,) of table c, out and in; and extra_width more numbers of the name `extra`, if it
    /// has one. They may be missing (null) when they are read.
    { predict.stats_width() } -> std::convertible_to<Index>;
    { predict.extra() } -> std::convertible_to<const char*>;
    { predict.extra_width() } -> std::convertible_to<Index>;
    predict.write(c, out, out);
    family.read(c, in, in);
};

/// A family may want to know that a block is over: how many rows it had, how many tables were scored in vain, and how
/// many tables there are.
template <class F>
concept Finishes = requires(F family, Block& block, Index n) { family.finish(block, n, n, n); };

/// A family may have an index of its tables, which finds those that matter without a look at the others. The bounds
/// of log weights that it is given hold for all times from now on, but for a decay that all tables share.
template <class F>
concept Searches = requires(F family, const F predict, Index n, const float* bounds, float bound, Block& block) {
    { predict.is_indexed() } -> std::same_as<bool>;
    /// Build an index of K tables; or drop it.
    family.build_index(n, bounds);
    family.drop_index(n);
    /// The recent cost of searches, in scans of all tables.
    { predict.index_cost(block) } -> std::same_as<double>;
    /// Table c has moved or opened; has closed; is at another place.
    family.index(n, bound);
    family.close_in_index(n);
    family.rename_in_index(n, n);
};

/// For each table n and s, as the reference has them.
class PlainSums {
  public:
    explicit PlainSums(Index width) : sums_(width) {}

    PerTable<double>& array() { return sums_; }
    double* row(Index c) { return sums_.row(c); }
    const double* row(Index c) const { return sums_.row(c); }
    void scale(Index c, double keep) { sums_.scale(c, keep); }
    void open(Index c) { std::fill_n(row(c), sums_.width(), 0.0); }

    Index stats_width() const { return sums_.width(); }
    static const char* extra() { return nullptr; }
    Index extra_width() const { return 0; }
    void write(Index c, double* stats, double*) const { std::copy_n(row(c), sums_.width(), stats); }
    void read(Index c, const double* stats, const double*) { std::copy_n(stats, sums_.width(), row(c)); }

  private:
    PerTable<double> sums_;
};

/// The bookkeeping that families have in common, unless they have their own: statistics of tables, from which `refresh`
/// of the family derives all else; and a table that a block has touched is screened by itself for the rest of it.
template <class Own, class Statistics = PlainSums>
class Bookkeeping {
  public:
    void open(Index c) {
        stats_.open(c);
        own().refresh(c);
    }

    void follow_opening(Block&, Index, Index) const {}
    void follow(Block& block, Index, Index c, double, double) const { block.touch(c); }
    bool recentre(Index, const Row*) { return false; }

    void set_variational(bool variational, Index K) {
        variational_ = variational;
        for (Index c = 0; c < K; ++c) own().refresh(c);
    }

    Index stats_width() const { return stats_.stats_width(); }
    static const char* extra() { return Statistics::extra(); }
    Index extra_width() const { return stats_.extra_width(); }
    void write(Index c, double* stats, double* extra) const { stats_.write(c, stats, extra); }
    void read(Index c, const double* stats, const double* extra) {
        stats_.read(c, stats, extra);
        own().refresh(c);
    }

  protected:
    Bookkeeping(Index D, Index width, bool variational) : D_(D), variational_(variational), stats_(width) {}

    static std::size_t at(Index d) { return static_cast<std::size_t>(d); }

    /// Multiply the rows of a block with the weights of its tables.
    static void multiply_all(Block& block, const PerTable<float>& weights) {
        if (block.n_tables == 0 || block.size == 1) return;
        multiply(block.coordinates.data(), block.size, weights.row(0), block.n_tables, weights.width(), weights.width(),
                 block.products.data(), block.stride());
    }

    /// Screen row m of a block by bound(c, its product with the weights of table c).
    template <class Bound>
    static void screen_products_of(Block& block, Index m, Index K, const PerTable<float>& weights, Bound bound) {
        float* screened = block.screened.data();
        const Index width = weights.width();
        const float *row = block.coordinates.data() + m * width, *first = weights.row(0);
        const auto alone = [=](Index c) { screened[c] = bound(c, dot(row, first + c * width, width)); };
        if (block.size == 1) {
            for (Index c = 0; c < K; ++c) alone(c);
        } else {
            const float* products = block.row_products(m);
            for (Index c = 0; c < block.n_tables; ++c) screened[c] = bound(c, products[c]);
            for (const Index c : block.touched) alone(c);
        }
        block.find_best(K);
    }

    Index D_;
    bool variational_;  // whether scores are E[log p(x | φ)]
    Statistics stats_;

  private:
    Own& own() { return static_cast<Own&>(*this); }
};

}  // namespace dyncrp
