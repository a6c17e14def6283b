// The agreement of two labellings of the same rows, adjusted for chance.
#pragma once

#include <utility>

#include "numbers.hpp"

namespace dyncrp {

/// Adjusted mutual information, (I − E[I]) / (½ (H + H') − E[I]), of labellings of up to n rows: 1 if both are the same
/// partition, about 0 if they are independent.
///
/// E[I] is the mean over all pairs of labellings with clusters of these sizes. Then a cluster of a rows and one of b
/// share k with hypergeometric probability P(k), and E[I] is the sum of k/n log(nk/ab) P(k) over all pairs and k. Pairs
/// of the same sizes are taken together. P is computed outwards from the most probable k, each from its neighbour.
class Agreement {
  public:
    explicit Agreement(Index n) : logs_(static_cast<std::size_t>(n + 1)), log_factorials_(logs_) {
        for (std::size_t k = 1; k < logs_.size(); ++k) {
            logs_[k] = std::log(static_cast<double>(k));
            log_factorials_[k] = log_factorials_[k - 1] + logs_[k];
        }
    }

    double operator()(std::span<const std::int64_t> left, std::span<const std::int64_t> right) const {
        const auto n = static_cast<Index>(left.size());
        std::vector<Index> rows, columns;
        const std::vector<Index> of_rows = number(left, rows), of_columns = number(right, columns);
        const std::vector<Index> cells = cross(rows, of_rows, columns, of_columns.size());
        if (cells.size() == of_rows.size() && cells.size() == of_columns.size()) return 1.0;  // the same partition
        const double entropies = entropy(of_rows, n) + entropy(of_columns, n);
        const double expected = expectation(count(of_rows, n), count(of_columns, n), n);
        const double gap = 0.5 * entropies - expected;
        constexpr double LEAST = std::numeric_limits<double>::epsilon();
        return (entropies - entropy(cells, n) - expected) / (gap < 0.0 ? std::min(gap, -LEAST) : std::max(gap, LEAST));
    }

  private:
    struct Size {
        Index size, times;  // how many clusters have this size
    };

    /// Fill `numbers` with labels numbered from 0, and return the size of each cluster.
    static std::vector<Index> number(std::span<const std::int64_t> labels, std::vector<Index>& numbers) {
        const auto [least, most] = std::minmax_element(labels.begin(), labels.end());
        std::vector<Index> place(static_cast<std::size_t>(*most - *least + 1), -1), sizes;
        for (const std::int64_t label : labels) {
            Index& at = place[static_cast<std::size_t>(label - *least)];
            if (at < 0) {
                at = static_cast<Index>(sizes.size());
                sizes.push_back(0);
            }
            ++sizes[static_cast<std::size_t>(at)];
            numbers.push_back(at);
        }
        return sizes;
    }

    /// The sizes of the intersections of clusters of two labellings.
    static std::vector<Index> cross(std::span<const Index> rows, std::span<const Index> of_rows,
                                    std::span<const Index> columns, std::size_t n_columns) {
        std::vector<Index> ends(of_rows.size()), members(rows.size()), seen(n_columns, -1), cells;
        Index end = 0;
        for (std::size_t r = 0; r < ends.size(); ++r) ends[r] = std::exchange(end, end + of_rows[r]);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            members[static_cast<std::size_t>(ends[static_cast<std::size_t>(rows[i])]++)] = columns[i];
        }
        std::size_t i = 0;
        for (const Index of_row : of_rows) {
            const auto first = static_cast<Index>(cells.size());
            for (Index j = 0; j < of_row; ++j, ++i) {
                Index& at = seen[static_cast<std::size_t>(members[i])];
                if (at < first) {
                    at = static_cast<Index>(cells.size());
                    cells.push_back(0);
                }
                ++cells[static_cast<std::size_t>(at)];
            }
        }
        return cells;
    }

    /// The distinct sizes, and how many clusters have each.
    static std::vector<Size> count(std::span<const Index> sizes, Index n) {
        std::vector<Index> times(static_cast<std::size_t>(n + 1));
        for (const Index size : sizes) ++times[static_cast<std::size_t>(size)];
        std::vector<Size> found;
        for (Index size = 1; size <= n; ++size) {
            if (times[static_cast<std::size_t>(size)] > 0)
                found.push_back({size, times[static_cast<std::size_t>(size)]});
        }
        return found;
    }

    double log(Index k) const { return logs_[static_cast<std::size_t>(k)]; }
    double log_factorial(Index k) const { return log_factorials_[static_cast<std::size_t>(k)]; }

    /// −Σ a/n log(a/n).
    double entropy(std::span<const Index> sizes, Index n) const {
        double total = 0.0;
        for (const Index a : sizes) total += static_cast<double>(a) * (log(n) - log(a));
        return total / static_cast<double>(n);
    }

    double expectation(std::span<const Size> left, std::span<const Size> right, Index n) const {
        double total = 0.0;
        for (const auto& [a, times] : left) {
            for (const auto& [b, times_too] : right) {
                total += static_cast<double>(times * times_too) * expectation(a, b, n);
            }
        }
        return total / static_cast<double>(n);
    }

    /// Σ_k k log(nk/ab) P(k) of one pair of clusters.
    double expectation(Index a, Index b, Index n) const {
        constexpr double NOTHING = 1e-20;
        const Index low = std::max<Index>(1, a + b - n), high = std::min(a, b), rest = n - a - b;
        const Index likeliest = std::clamp((a + 1) * (b + 1) / (n + 2), low, high);
        const double offset = log(n) - log(a) - log(b);
        const double probability =
            std::exp(log_factorial(a) + log_factorial(b) + log_factorial(n - a) + log_factorial(n - b) -
                     log_factorial(n) - log_factorial(likeliest) - log_factorial(a - likeliest) -
                     log_factorial(b - likeliest) - log_factorial(rest + likeliest));
        const auto term = [&](Index k, double p) { return static_cast<double>(k) * (offset + log(k)) * p; };
        double total = 0.0, p = probability;
        for (Index k = likeliest; k <= high && p > NOTHING; ++k) {
            total += term(k, p);
            p *= static_cast<double>((a - k) * (b - k)) / static_cast<double>((k + 1) * (rest + k + 1));
        }
        p = probability;
        for (Index k = likeliest; k > low && p > NOTHING; --k) {
            p *= static_cast<double>(k * (rest + k)) / static_cast<double>((a - k + 1) * (b - k + 1));
            total += term(k - 1, p);
        }
        return total;
    }

    std::vector<double> logs_, log_factorials_;  // for 0 to n; the unused log 0 is 0
};

}  // namespace dyncrp
