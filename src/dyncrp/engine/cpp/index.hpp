// An exact index of very many tables whose scores fall with the square of a distance.
//
// Table c scores at most a_c − h_c |y − μ_c|² for a row y. We want all tables within MARGIN of the best one, which are
// one or two if centres are well separated. The index finds them without looking at the others. Tables that are near
// each other share a leaf of LANES, and up to LANES leaves or cells share a cell above them. For each of these, a cell
// has a box around the first coordinates of its centres, the largest a and the smallest h. No table in a box scores
// more than
//
//     a − h Σ_d max(lo_d − y_d, y_d − hi_d, 0)²
//
// and the most promising box is opened first, until no bound reaches the bar that the best table sets. If there are
// more coordinates than a box has, space is rotated so that the centres spread most in the first ones.
//
// Rounding. Space is turned in double precision, which loses nothing beside what follows. Let |ŷ − y| ≤ η|y| and
// |μ̂ − μ| ≤ η|μ| for what is kept in single precision, and ŝ the sum of squares as it is computed, within a factor
// (1 ± η)² of |ŷ − μ̂|². A table at a distance |y − μ| ≤ ρ has |μ| ≤ |y| + ρ, so
//
//     √ŝ ≤ (1 + η)((1 + η)ρ + 2η|y|)
//
// A table that reaches the bar has ρ² h ≤ a − bar ≤ T, T = (largest a) − bar; then ŝ h is at most ρ² h + slack, where
//
//     slack = 6η T + 8η |y| √(H T) + 8η² H |y|²,   H = largest h, η < .01
//
// and the bar lowered by slack lets it through. Boxes lose nothing more: rounding is monotone, so the bound of a box,
// summed in the same order over fewer and smaller terms, is never below that of a table in it.
//
// A table that moves widens its boxes, and a new one goes to the nearest leaf. A cell is rebuilt after as many changes
// as a quarter of its tables, so that in the long run a change costs O(log² K) comparisons. Results depend on none of
// this.
#pragma once

#include "lanes.hpp"

namespace dyncrp {

/// A record has a, h (LANES,) and then for each coordinate the points (LANES,), or the sides lo and hi (LANES,) of
/// boxes.
///
/// Both fill `bounds` (LANES,) with a − h |distance|² of y, in n coordinates, and return the largest. Both
/// stop where all are below `bar`, after n_seen coordinates.
float bounds_of_boxes(const float* y, const float* record, Index n, float bar, float* bounds, Index& n_seen);
float bounds_of_points(const float* y, const float* record, Index n, float bar, float* bounds, Index& n_seen);
/// y −= v (v·y), in n coordinates: a reflection if |v|² = 2.
void reflect(const double* v, double* y, Index n);

/// Records of some LANES of floats, each at the start of a cache line. Growing copies none of them.
class Pool {
  public:
    explicit Pool(Index width) : width_(width) {}

    float* operator[](std::int32_t i) { return line(i).values; }
    const float* operator[](std::int32_t i) const { return const_cast<Pool*>(this)->line(i).values; }

    std::int32_t take() {
        if (!free_.empty()) {
            const std::int32_t last = free_.back();
            free_.pop_back();
            return last;
        }
        if (size_ % CHUNK == 0) chunks_.emplace_back(static_cast<std::size_t>(CHUNK * width_));
        return size_++;
    }
    void give_back(std::int32_t i) { free_.push_back(i); }

  private:
    static constexpr std::int32_t CHUNK = 256;
    struct alignas(64) Line {
        float values[LANES];
    };
    Line& line(std::int32_t i) { return chunks_[static_cast<std::size_t>(i / CHUNK)].data()[i % CHUNK * width_]; }

    Index width_;
    std::int32_t size_ = 0;
    std::vector<std::vector<Line>> chunks_;
    std::vector<std::int32_t> free_;
};

class TableIndex {
  public:
    explicit TableIndex(Index width)
        : D_(width), m_(std::min(width, BOXED)), boxes_(2 + 2 * m_), points_(2 + D_),
          turned_(static_cast<std::size_t>(D_)), row_(static_cast<std::size_t>(D_)) {}

    /// Scratch space of searches, their results and their cost. Each thread that searches has its own.
    struct Search {
        std::vector<Index> found;  // places, counting up

      private:
        friend TableIndex;
        struct Waiting {
            float bound;
            std::int32_t ref;
            bool operator<(const Waiting& other) const { return bound < other.bound; }
        };

        std::vector<float> row;
        std::vector<double> turned;
        std::vector<Waiting> waiting, kept;
        double work = 0.0;
        Index n = 0;

        void note(double more) { work += more, ++n; }
    };

    /// A search is given up when it has cost this many times a scan of all tables. A scan looks at a few
    /// leading coordinates by matrix products, in the time in which the index compares two or three.
    double patience = 1.0;

    Index size() const { return n_tables_; }
    bool has(Index c) const {
        return c < static_cast<Index>(slots_.size()) && slots_[static_cast<std::size_t>(c)].leaf >= 0;
    }

    /// Begin anew with K tables: centres (K, D) from a reference point near the data, a and h (K,). Squares of the
    /// centres are below HUGE_SQUARE, a is finite and h ≥ 0.
    void build(Index K, const float* centers, const float* a, const float* h) {
        find_directions(K, centers);
        boxes_ = Pool(2 + 2 * m_), points_ = Pool(2 + D_);
        cell_.clear(), leaf_.clear(), slots_.clear();
        slots_.resize(static_cast<std::size_t>(K));
        items_.clear();
        scratch_.resize(static_cast<std::size_t>(K * D_));
        for (Index c = 0; c < K; ++c) place(centers + c * D_, turned_.data(), scratch_.data() + c * D_);
        for (Index c = 0; c < K; ++c) items_.push_back({a[c], h[c], static_cast<std::int32_t>(c)});
        n_tables_ = K;
        new_cell(-1, 0);
        fill_cell(0);
    }

    /// Fill at.found with the places of tables, counting up: all that score at least best − MARGIN, where best is the
    /// largest score(c), and perhaps a few more; none if that is below fresh − MARGIN. The row is seen from the
    /// reference point, and `square` is |y|². Returns false if the search was given up after much
    /// work, and nothing is known.
    template <class Score>
    bool search(const float* row, double square, double fresh, Score&& score, Search& at) const {
        at.found.clear();
        at.kept.clear();
        at.waiting.clear();
        at.row.resize(static_cast<std::size_t>(D_));
        at.turned.resize(static_cast<std::size_t>(D_));
        place(row, at.turned.data(), at.row.data());
        const float* y = at.row.data();
        double best = -INF;
        float bar = lowered(fresh - 2.0 * MARGIN, square), better = lowered(best, square);
        const double most_work = patience * scan_work();
        double work = 0.0;
        alignas(64) float bounds[LANES];
        const auto look = [&](std::int32_t ref) {
            Index n_seen = 0;
            if (ref >= 0) {
                const float top = bounds_of_boxes(y, boxes_[ref], m_, bar, bounds, n_seen);
                work += 2.0 * static_cast<double>(n_seen);
                if (top < bar) return;
                const Cell& cell = cell_[static_cast<std::size_t>(ref)];
                for (Index j = 0; j < LANES; ++j) {
                    if (bounds[j] >= bar) wait(at, {bounds[j], cell.child[j]});
                }
                return;
            }
            const float top = bounds_of_points(y, points_[~ref], D_, bar, bounds, n_seen);
            work += static_cast<double>(n_seen);
            if (top < bar) return;
            const Leaf& leaf = leaf_[static_cast<std::size_t>(~ref)];
            for (Index j = 0; j < LANES; ++j) {
                if (!(bounds[j] >= bar)) continue;
                at.kept.push_back({bounds[j], leaf.place[j]});
                if (bounds[j] < better) continue;
                const double exact = score(static_cast<Index>(leaf.place[j]));
                if (exact <= best) continue;
                best = exact;
                better = lowered(best, square);
                bar = lowered(std::max(best, fresh - MARGIN) - MARGIN, square);
            }
        };
        // The most promising first, as long as it may be the best.
        at.waiting.push_back({INF32, 0});
        while (!at.waiting.empty() && at.waiting[0].bound >= better) {
            std::pop_heap(at.waiting.begin(), at.waiting.end());
            const Search::Waiting next = at.waiting.back();
            at.waiting.pop_back();
            if (next.bound < bar) break;
            const std::size_t n = at.waiting.size();
            look(next.ref);
            for (std::size_t k = n + 1; k <= at.waiting.size(); ++k) {
                std::push_heap(at.waiting.begin(), at.waiting.begin() + static_cast<Index>(k));
            }
            if (work > most_work) return at.note(work), false;
        }
        // The others in any order.
        while (!at.waiting.empty()) {
            const Search::Waiting next = at.waiting.back();
            at.waiting.pop_back();
            if (next.bound < bar) continue;
            look(next.ref);
            if (work > most_work) return at.note(work), false;
        }
        at.note(work);
        if (best < fresh - MARGIN) return true;
        for (const Search::Waiting& table : at.kept) {
            if (table.bound >= bar) at.found.push_back(table.ref);
        }
        std::sort(at.found.begin(), at.found.end());
        return true;
    }

    /// Table c has moved, or its weight has changed.
    void update(Index c, const float* center, float a, float h) {
        const Slot slot = slots_[static_cast<std::size_t>(c)];
        Leaf& leaf = leaf_[static_cast<std::size_t>(slot.leaf)];
        place(center, turned_.data(), row_.data());
        write(slot, a, h, row_.data());
        notice(a, h);
        if (widen(leaf.parent, leaf.lane, row_.data(), a, h, SPARE)) changed(leaf.parent);
    }

    /// Table c opens; it is the last one, or one that was closed.
    void open(Index c, const float* center, float a, float h) {
        if (c >= static_cast<Index>(slots_.size())) slots_.resize(static_cast<std::size_t>(c + 1));
        place(center, turned_.data(), row_.data());
        notice(a, h);
        ++n_tables_;
        std::int32_t cell = 0, lane = 0, ref = 0;
        do {
            cell = ref;
            lane = nearest(cell, row_.data());
            ref = cell_[static_cast<std::size_t>(cell)].child[lane];
            ++cell_[static_cast<std::size_t>(cell)].n_tables;
        } while (ref >= 0);
        Leaf& leaf = leaf_[static_cast<std::size_t>(~ref)];
        std::int32_t at = 0;
        while (at < LANES && leaf.place[at] >= 0) ++at;
        widen(cell, lane, row_.data(), a, h, 0.0F);
        const Item item{a, h, static_cast<std::int32_t>(c)};
        if (at < LANES) {
            put(~ref, at, item, row_.data());
            changed(cell);
            return;
        }
        // A leaf without room becomes two, or a cell.
        items_.clear();
        scratch_.clear();
        gather(ref);
        items_.push_back(item);
        scratch_.insert(scratch_.end(), row_.begin(), row_.end());
        const std::int32_t* child = cell_[static_cast<std::size_t>(cell)].child;
        const auto spare = static_cast<std::int32_t>(std::find(child, child + LANES, NOTHING) - child);
        if (spare < LANES) {
            order_items();
            const auto n = static_cast<Index>(items_.size());
            halve(0, n / 2, n);
            settle(cell, lane, 0, n / 2, 1);
            settle(cell, spare, n / 2, n, 1);
        } else {
            const std::int32_t below = new_cell(cell, lane);
            cell_[static_cast<std::size_t>(cell)].child[lane] = below;
            fill_cell(below);
        }
        changed(cell);
    }

    /// Table c closes.
    void close(Index c) {
        const Slot slot = slots_[static_cast<std::size_t>(c)];
        Leaf& leaf = leaf_[static_cast<std::size_t>(slot.leaf)];
        points_[slot.leaf][slot.lane] = -INF32;
        leaf.place[slot.lane] = -1;
        slots_[static_cast<std::size_t>(c)] = {};
        --n_tables_;
        for (std::int32_t i = leaf.parent; i >= 0; i = cell_[static_cast<std::size_t>(i)].parent) {
            --cell_[static_cast<std::size_t>(i)].n_tables;
        }
        changed(leaf.parent);
    }

    /// The table at place `from` moves to place `to`.
    void rename(Index from, Index to) {
        const Slot slot = slots_[static_cast<std::size_t>(from)];
        slots_[static_cast<std::size_t>(from)] = {};
        slots_[static_cast<std::size_t>(to)] = slot;
        leaf_[static_cast<std::size_t>(slot.leaf)].place[slot.lane] = static_cast<std::int32_t>(to);
    }

    /// What the searches since this was last asked have cost, where a scan of all tables for each row is 1: above it
    /// the index is no use. Infinite if there were none.
    double cost(Search& at) const {
        const double mean = at.n > 0 ? at.work / (static_cast<double>(at.n) * scan_work()) : INF;
        at.work = 0.0, at.n = 0;
        return mean;
    }
    Index n_rebuilt() const { return n_rebuilt_; }

  private:
    static constexpr Index BOXED = 16;  // coordinates that boxes have
    static constexpr Index FILL = 12;   // tables in a new leaf, and lanes of a new cell: room for some that open
    static constexpr Index MOST_SAMPLED = 512;  // centres from which directions are found,
    static constexpr int POWERS = 4;            // and powers of their covariance
    static constexpr float SPARE = 0.5F;        // how much further than needed a side moves, in deviations of a cluster

    struct Cell {
        std::int32_t child[LANES];  // a cell, or ~ a leaf
        std::int32_t parent, lane;
        std::int32_t n_tables, n_changes;
    };
    struct Leaf {
        std::int32_t place[LANES];  // −1: none
        std::int32_t parent, lane;
    };
    struct Slot {
        std::int32_t leaf = -1, lane = -1;
    };
    struct Item {
        float a, h;
        std::int32_t place;
    };
    /// The coordinates in which a row or centre is kept.
    void place(const float* row, double* y, float* out) const {
        if (reflections_.empty()) {
            std::copy_n(row, D_, out);
            return;
        }
        std::copy_n(row, D_, y);
        for (Index k = 0; k < m_; ++k) reflect(reflection(k), y + k, D_ - k);
        for (Index d = 0; d < D_; ++d) out[d] = static_cast<float>(y[d]);
    }

    /// The k-th reflection leaves the first k coordinates alone.
    const double* reflection(Index k) const { return reflections_.data() + k * D_ + k; }
    double* reflection(Index k) { return reflections_.data() + k * D_ + k; }

    /// Find reflections that turn the directions in which centres spread most to the first coordinates: by a few powers
    /// of the covariance of some of them, since accuracy is not needed.
    void find_directions(Index K, const float* centers) {
        reflections_.clear();
        if (m_ == D_ || K < 4 * m_) return;
        const Index step = (K + MOST_SAMPLED - 1) / MOST_SAMPLED, n = (K + step - 1) / step;
        std::vector<double> sample(static_cast<std::size_t>(n * D_)), mean(static_cast<std::size_t>(D_));
        for (Index i = 0; i < n; ++i) {
            for (Index d = 0; d < D_; ++d) {
                const double value = static_cast<double>(centers[i * step * D_ + d]);
                sample[static_cast<std::size_t>(i * D_ + d)] = value;
                mean[static_cast<std::size_t>(d)] += value / static_cast<double>(n);
            }
        }
        for (Index i = 0; i < n * D_; ++i)
            sample[static_cast<std::size_t>(i)] -= mean[static_cast<std::size_t>(i % D_)];
        reflections_.assign(sample.begin(), sample.begin() + m_ * D_);
        make_reflections();
        for (int power = 0; power < POWERS; ++power) {
            std::vector<double> image(reflections_.size());
            for (Index k = 0; k < m_; ++k) {
                std::vector<double> direction(mean.size());  // that which is turned to coordinate k
                direction[static_cast<std::size_t>(k)] = 1.0;
                for (Index j = m_; j-- > 0;) reflect(reflection(j), direction.data() + j, D_ - j);
                for (Index i = 0; i < n; ++i) {
                    const double *x = sample.data() + i * D_, *v = direction.data();
                    const double along = sum_of<double>(D_, [=](Index d) { return v[d] * x[d]; });
                    for (Index d = 0; d < D_; ++d) image[static_cast<std::size_t>(k * D_ + d)] += along * x[d];
                }
            }
            reflections_.swap(image);
            make_reflections();
        }
    }

    /// Replace vectors (m, D) by reflections that turn the first to the first coordinate, the second to the first two,
    /// and so on.
    void make_reflections() {
        for (Index k = 0; k < m_; ++k) {
            for (Index j = 0; j < k; ++j) reflect(reflection(j), reflections_.data() + k * D_ + j, D_ - j);
            double* v = reflection(k);
            const auto length = [=, this] {
                return std::sqrt(sum_of<double>(D_ - k, [=](Index d) { return v[d] * v[d]; }));
            };
            v[0] += std::copysign(length(), v[0]);
            const double scale = length() / std::sqrt(2.0);
            for (Index d = 0; d < D_ - k; ++d) v[d] = scale > 0.0 ? v[d] / scale : 0.0;
        }
    }

    void notice(float a, float h) {
        highest_ = std::max(highest_, a);
        steepest_ = std::max(steepest_, h);
    }

    /// A bar that no table which reaches `bar` fails by rounding; finite, so that a lane without a table fails it.
    float lowered(double bar, double square) const {
        const double eta = static_cast<double>(D_ + 8) * UNIT, top = static_cast<double>(highest_);
        const double H = static_cast<double>(steepest_), T = std::max(0.0, top - bar);
        const double slack = 6.0 * eta * T + 8.0 * eta * std::sqrt(H * T * square) + 8.0 * eta * eta * H * square;
        const double lower = bar - slack - 1e-6 * (1.0 + std::abs(bar) + std::abs(top));
        return lower > -1e38 ? rounded_down(lower) : -std::numeric_limits<float>::max();
    }

    std::int32_t nearest(std::int32_t i, const float* y) const {
        const Cell& cell = cell_[static_cast<std::size_t>(i)];
        const float* sides = boxes_[i] + 2 * LANES;
        std::int32_t best = 0;
        float least = INF32;
        for (std::int32_t j = 0; j < LANES && cell.child[j] != NOTHING; ++j) {
            float square = 0.0F;
            for (Index d = 0; d < m_; ++d) {
                const float lo = sides[2 * d * LANES + j], hi = sides[(2 * d + 1) * LANES + j];
                const float gap = std::max(std::max(lo - y[d], y[d] - hi), 0.0F);
                square += gap * gap;
            }
            if (square < least) least = square, best = j;
        }
        return best;
    }

    /// Let lane j of cell i and all above include y, a and h; return whether a side had to move.
    bool widen(std::int32_t i, std::int32_t j, const float* y, float a, float h, float spare) {
        float low[BOXED], high[BOXED];  // what is to be held: above, the whole box of the lane below
        std::copy_n(y, m_, low), std::copy_n(y, m_, high);
        bool moved = false;
        for (bool more = true; i >= 0 && more; spare = 0.0F) {
            more = false;
            float* record = boxes_[i] + j;
            if (a > record[0]) record[0] = a, more = true;
            if (h < record[LANES]) record[LANES] = h, more = true;
            for (Index d = 0; d < m_; ++d) {
                float &lo = record[(2 + 2 * d) * LANES], &hi = record[(3 + 2 * d) * LANES];
                if (low[d] < lo) low[d] = lo = low[d] - spare, more = moved = true;
                if (high[d] > hi) high[d] = hi = high[d] + spare, more = moved = true;
            }
            j = cell_[static_cast<std::size_t>(i)].lane;
            i = cell_[static_cast<std::size_t>(i)].parent;
        }
        return moved;
    }

    /// Count a change in cell i and all above, and rebuild the highest one that has had too many.
    void changed(std::int32_t i) {
        std::int32_t worst = -1;
        for (; i >= 0; i = cell_[static_cast<std::size_t>(i)].parent) {
            Cell& cell = cell_[static_cast<std::size_t>(i)];
            if (++cell.n_changes > cell.n_tables / 4 + LANES) worst = i;
        }
        if (worst < 0) return;
        ++n_rebuilt_;
        items_.clear();
        scratch_.clear();
        for (std::int32_t j = 0; j < LANES; ++j) {
            const std::int32_t ref = cell_[static_cast<std::size_t>(worst)].child[j];
            if (ref != NOTHING) gather(ref);
        }
        fill_cell(worst);
    }

    /// Take out the tables below, and free their cells and leaves.
    void gather(std::int32_t ref) {
        if (ref >= 0) {
            for (std::int32_t j = 0; j < LANES; ++j) {
                const std::int32_t below = cell_[static_cast<std::size_t>(ref)].child[j];
                if (below != NOTHING) gather(below);
            }
            boxes_.give_back(ref);
            return;
        }
        const Leaf& leaf = leaf_[static_cast<std::size_t>(~ref)];
        const float* record = points_[~ref];
        for (Index j = 0; j < LANES; ++j) {
            if (leaf.place[j] < 0) continue;
            items_.push_back({record[j], record[LANES + j], leaf.place[j]});
            for (Index d = 0; d < D_; ++d) scratch_.push_back(record[(2 + d) * LANES + j]);
        }
        points_.give_back(~ref);
    }

    std::int32_t new_cell(std::int32_t parent, std::int32_t lane) {
        const std::int32_t i = boxes_.take();
        if (static_cast<std::size_t>(i) >= cell_.size()) cell_.resize(static_cast<std::size_t>(i) + 1);
        cell_[static_cast<std::size_t>(i)].parent = parent;
        cell_[static_cast<std::size_t>(i)].lane = lane;
        return i;
    }

    /// Divide all items among the lanes of cell i.
    void fill_cell(std::int32_t i) {
        if (i == 0) {
            highest_ = -INF32, steepest_ = 0.0F;
            for (const Item& item : items_) notice(item.a, item.h);
        }
        order_items();
        fill(i, 0, static_cast<Index>(order_.size()));
        if (i == 0) items_ = {}, scratch_ = {}, order_ = {};  // these are as large as the index
    }

    void order_items() {
        order_.resize(items_.size());
        for (std::size_t k = 0; k < order_.size(); ++k) order_[k] = static_cast<std::int32_t>(k);
    }

    void fill(std::int32_t i, Index begin, Index end) {
        const Index n_leaves = std::max<Index>(1, (end - begin + FILL - 1) / FILL);
        Index below = 1;  // leaves below a lane
        while (below * FILL < n_leaves) below *= FILL;
        {
            Cell& cell = cell_[static_cast<std::size_t>(i)];
            std::fill_n(cell.child, LANES, NOTHING);
            cell.n_tables = static_cast<std::int32_t>(end - begin);
            cell.n_changes = 0;
            std::fill_n(boxes_[i], LANES, -INF32);
            std::fill_n(boxes_[i] + LANES, (1 + 2 * m_) * LANES, 0.0F);
        }
        std::int32_t lane = 0;
        split(i, lane, begin, end, (n_leaves + below - 1) / below, below);
    }

    void split(std::int32_t i, std::int32_t& lane, Index begin, Index end, Index n_lanes, Index below) {
        if (n_lanes > 1) {
            const Index left = n_lanes / 2, middle = begin + (end - begin) * left / n_lanes;
            halve(begin, middle, end);
            split(i, lane, begin, middle, left, below);
            split(i, lane, middle, end, n_lanes - left, below);
            return;
        }
        settle(i, lane++, begin, end, below);
    }

    /// Let lane j of cell i hold these items.
    void settle(std::int32_t i, std::int32_t j, Index begin, Index end, Index below) {
        std::int32_t ref;
        if (below == 1) {
            ref = ~new_leaf(i, j, begin, end);
        } else {
            ref = new_cell(i, j);
            fill(ref, begin, end);
        }
        cell_[static_cast<std::size_t>(i)].child[j] = ref;
        float* record = boxes_[i] + j;
        float a = -INF32, h = STEEP, lo[BOXED], hi[BOXED];
        std::fill_n(lo, m_, INF32), std::fill_n(hi, m_, -INF32);
        for (Index k = begin; k < end; ++k) {
            const std::int32_t item = order_[static_cast<std::size_t>(k)];
            const float* y = scratch_.data() + item * D_;
            a = std::max(a, items_[static_cast<std::size_t>(item)].a);
            h = std::min(h, items_[static_cast<std::size_t>(item)].h);
            for (Index d = 0; d < m_; ++d) lo[d] = std::min(lo[d], y[d]), hi[d] = std::max(hi[d], y[d]);
        }
        record[0] = a, record[LANES] = h;
        for (Index d = 0; d < m_; ++d) record[(2 + 2 * d) * LANES] = lo[d], record[(3 + 2 * d) * LANES] = hi[d];
    }

    /// Let those below the median come first, in the direction in which they spread most.
    void halve(Index begin, Index middle, Index end) {
        const Index step = std::max<Index>(1, (end - begin) / 256);
        Index widest = 0;
        double most = -1.0;
        double sum[BOXED] = {}, squares[BOXED] = {}, n = 0.0;
        for (Index k = begin; k < end; k += step, n += 1.0) {
            const float* y = scratch_.data() + order_[static_cast<std::size_t>(k)] * D_;
            for (Index d = 0; d < m_; ++d) sum[d] += y[d], squares[d] += static_cast<double>(y[d]) * y[d];
        }
        for (Index d = 0; d < m_; ++d) {
            const double spread = squares[d] - sum[d] * sum[d] / n;
            if (spread > most) most = spread, widest = d;
        }
        const float* key = scratch_.data() + widest;
        std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                         [=, this](std::int32_t p, std::int32_t q) { return key[p * D_] < key[q * D_]; });
    }

    std::int32_t new_leaf(std::int32_t parent, std::int32_t lane, Index begin, Index end) {
        const std::int32_t i = points_.take();
        if (static_cast<std::size_t>(i) >= leaf_.size()) leaf_.resize(static_cast<std::size_t>(i) + 1);
        Leaf& leaf = leaf_[static_cast<std::size_t>(i)];
        std::fill_n(leaf.place, LANES, -1);
        leaf.parent = parent, leaf.lane = lane;
        std::fill_n(points_[i], LANES, -INF32);
        std::fill_n(points_[i] + LANES, (1 + D_) * LANES, 0.0F);
        for (Index k = begin; k < end; ++k) {
            const std::int32_t item = order_[static_cast<std::size_t>(k)];
            put(i, static_cast<std::int32_t>(k - begin), items_[static_cast<std::size_t>(item)],
                scratch_.data() + item * D_);
        }
        return i;
    }

    void put(std::int32_t i, std::int32_t lane, const Item& item, const float* point) {
        leaf_[static_cast<std::size_t>(i)].place[lane] = item.place;
        slots_[static_cast<std::size_t>(item.place)] = {i, lane};
        write({i, lane}, item.a, item.h, point);
    }

    void write(Slot slot, float a, float h, const float* point) {
        float* record = points_[slot.leaf] + slot.lane;
        record[0] = a, record[LANES] = h;
        for (Index d = 0; d < D_; ++d) record[(2 + d) * LANES] = point[d];
    }

    /// The coordinates of LANES tables that could be compared in the time of a scan; the root costs something too.
    double scan_work() const {
        constexpr double EACH = 2.5;
        return EACH * static_cast<double>(n_tables_) / static_cast<double>(LANES) + 64.0;
    }

    void wait(Search& at, Search::Waiting next) const {
        at.waiting.push_back(next);
#if defined(__GNUC__)
        const float* record = next.ref >= 0 ? boxes_[next.ref] : points_[~next.ref];
        for (Index k = 0; k < 8; ++k) __builtin_prefetch(record + k * LANES);
#endif
    }

    static constexpr float STEEP = std::numeric_limits<float>::max();  // the least h where there is no table
    static constexpr std::int32_t NOTHING = std::numeric_limits<std::int32_t>::min();

    Index D_, m_;
    Index n_tables_ = 0;
    Pool boxes_, points_;     // records of the cells and the leaves
    std::vector<Cell> cell_;  // cell 0 holds all
    std::vector<Leaf> leaf_;
    std::vector<Slot> slots_;                   // of each place
    float highest_ = -INF32, steepest_ = 0.0F;  // a and h

    Index n_rebuilt_ = 0;

    std::vector<double> reflections_;  // (m, D), none if space is not turned
    std::vector<double> turned_;
    std::vector<float> row_;
    std::vector<Item> items_;  // tables to be divided, their points (n, D), and their order
    std::vector<float> scratch_;
    std::vector<std::int32_t> order_;
};

}  // namespace dyncrp
