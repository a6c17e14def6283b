// Past scores in bins, for p-values: the same as SlowBins in stream/bins.py, which says what everything means.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace dyncrp {

class Bins {
  public:
    std::int64_t n = 0, start = 0, end = 0;
    double border = 0.0;
    std::vector<double> values, weights, high, low;

    Bins(std::int64_t n_scores, std::int64_t begin, std::vector<double> of_values, std::vector<double> of_weights,
         std::vector<double> of_high, std::vector<double> of_low)
        : n(n_scores), start(begin), values(std::move(of_values)), weights(std::move(of_weights)),
          high(std::move(of_high)), low(std::move(of_low)) {
        start_block();
    }

    /// Add scores (count,), and write the p-value of each, or 1 if it is above `most`, unless p is null.
    void take(const double* scores, std::size_t count, double* p, double most) {
        while (count > 0) {
            const std::size_t in_block = std::min(count, static_cast<std::size_t>(end - n));
            at_.clear();
            std::size_t m = 0;
            while (m < in_block && high.size() + at_.size() < MOST_HIGH) {
                if (scores[m] >= border) at_.push_back(m);
                ++m;
            }
            if (p != nullptr) {
                find_p(scores, m, p, most);
                p += m;
            }
            for (const std::size_t i : at_) high.push_back(scores[i]);
            const std::int64_t done = n - start;
            auto pick = std::lower_bound(picks_.begin(), picks_.end(), done);
            for (; pick != picks_.end() && *pick < done + static_cast<std::int64_t>(m); ++pick) {
                const double score = scores[*pick - done];
                if (score < border) low.push_back(score);
            }
            n += static_cast<std::int64_t>(m);
            scores += m;
            count -= m;
            if (n == end || high.size() == MOST_HIGH) end_block();
        }
    }

  private:
    static constexpr std::int64_t LEAST_BLOCK = 32, MOST_BLOCK = 16'384, BLOCK_SHARE = 4, MEMORY = 65'536;
    static constexpr std::int64_t MOST_LOW = 512;
    static constexpr std::size_t MOST_HIGH = 512;
    static constexpr double POWER = 2.0, BINS = 45.0, LEAST_BIN = 0.25, HIGH_SHARE = 64.0, LEAST_HIGH = 24.0;
    static constexpr double NEAR = 0.1, TAIL = 96.0, MOST_SHAPE = 0.9, PRIOR_SHAPE = 0.5, PRIOR_ROWS = 10.0;
    static constexpr double SMALLEST_P = 1e-300, NEGLIGIBLE = 1e-9;

    struct Bin {
        double value, weight;
    };

    /// Return the function through the points (x, y) at z, as numpy.interp does.
    static double interpolate(double z, const std::vector<double>& x, const std::vector<double>& y) {
        if (z >= x.back()) return y.back();
        if (z < x.front()) return y.front();
        const auto j = static_cast<std::size_t>(std::upper_bound(x.begin(), x.end(), z) - x.begin()) - 1;
        return (y[j + 1] - y[j]) / (x[j + 1] - x[j]) * (z - x[j]) + y[j];
    }

    void start_block() {
        const std::int64_t size = std::clamp(start / BLOCK_SHARE, LEAST_BLOCK, MOST_BLOCK);
        end = start + size;
        pick(size);
        border = -std::numeric_limits<double>::infinity();
        total_ = 1.0;
        const std::size_t K = values.size();
        if (K == 0) return;
        above_.resize(K);
        shares_.resize(K);
        double sum = 0.0;
        for (std::size_t i = K; i-- > 0;) above_[i] = sum += weights[i];
        for (std::size_t i = 0; i < K; ++i) shares_[i] = 1.0 / above_[i];
        total_ = 1.0 + sum;
        if (sum > LEAST_HIGH) {
            const std::size_t n_low = count_above(std::max(sum / HIGH_SHARE, LEAST_HIGH));
            border = n_low < K ? values[n_low] : std::nextafter(values.back(), std::numeric_limits<double>::infinity());
        }
        fit_tail();
    }

    /// How many bins have more rows above them than this.
    std::size_t count_above(double rows) const {
        return static_cast<std::size_t>(
            std::count_if(above_.begin(), above_.end(), [=](double above) { return above > rows; }));
    }

    void pick(std::int64_t size) {
        const double golden = (std::sqrt(5.0) - 1.0) / 2.0;
        const std::int64_t stride = (size + MOST_LOW - 1) / MOST_LOW;
        picks_.clear();
        for (std::int64_t k = 0; k < size / stride; ++k) {
            const double part = std::fmod(golden * static_cast<double>(k), 1.0);
            picks_.push_back(stride * k + static_cast<std::int64_t>(static_cast<double>(stride) * part));
        }
    }

    /// Fit the tail to the highest bins.
    void fit_tail() {
        tail_rows_ = std::min(1.0, above_[0]);
        tail_start_ = interpolate(1.0 / tail_rows_, shares_, values);
        shape_ = scale_ = 0.0;
        excess_ = 1.0;
        const std::size_t first = std::max<std::size_t>(count_above(TAIL), 1), K = values.size();
        if (K < first + 2) return;
        const double least = values[first - 1], rows = above_[first];
        double mean = 0.0, weighted = 0.0;
        for (std::size_t i = first; i < K; ++i) mean += weights[i] * (values[i] - least);
        mean /= rows;
        excess_ = std::max(mean, 1.0);
        for (std::size_t i = first; i < K; ++i) {
            const double rest = (above_[i] - weights[i]) / (rows - weights[i]);
            weighted += weights[i] * ((values[i] - least) / mean * rest);
        }
        weighted /= rows;
        const double shape = std::clamp(2.0 - 1.0 / (1.0 - 2.0 * std::min(weighted, 0.4)), 0.0, MOST_SHAPE);
        shape_ = (rows * shape + PRIOR_ROWS * PRIOR_SHAPE) / (rows + PRIOR_ROWS);
        scale_ = mean * (1.0 - shape_) + shape_ * std::max(tail_start_ - least, 0.0);
    }

    double above_in_tail(double score) const {
        if (scale_ == 0.0) return tail_rows_;
        return tail_rows_ * std::exp(-std::log1p(shape_ * ((score - tail_start_) / scale_)) / shape_);
    }

    /// Write p of scores (m,) of one block; at_: the places of the high ones.
    void find_p(const double* scores, std::size_t m, double* p, double most) const {
        std::fill_n(p, m, 1.0);
        if (values.empty()) return;
        const double share = 1.0 / (total_ * most);
        const auto last = std::lower_bound(shares_.begin(), shares_.end(), share) - shares_.begin() - 1;
        const bool all = last < 0 || most >= 1.0;
        const double least = all ? 0.0 : values[static_cast<std::size_t>(last)];
        for (std::size_t i = 0; i < m; ++i) {
            if (!all && !(scores[i] > least)) continue;
            p[i] = std::max(1.0 / (total_ * interpolate(scores[i], values, shares_)), SMALLEST_P);
        }
        if (at_.empty()) return;
        std::vector<double> waiting = high;
        std::sort(waiting.begin(), waiting.end());
        const double factor = std::exp(-NEAR / excess_);
        for (const std::size_t i : at_) {
            const double near = scores[i] - NEAR;
            double above = near > tail_start_ ? above_in_tail(near) : 1.0 / interpolate(near, values, shares_);
            above += static_cast<double>(waiting.end() - std::lower_bound(waiting.begin(), waiting.end(), near));
            waiting.insert(std::upper_bound(waiting.begin(), waiting.end(), scores[i]), scores[i]);
            const double rows = total_ + static_cast<double>(n - start) + static_cast<double>(i);
            p[i] = std::max(factor * above / rows, SMALLEST_P);
        }
    }

    void end_block() {
        const double rows = static_cast<double>(n - start);
        const double kept = n <= 2 * MEMORY ? std::pow(static_cast<double>(start) / static_cast<double>(n), POWER)
                                            : std::exp(-rows / static_cast<double>(MEMORY));
        const double of_low =
            low.empty() ? 0.0 : (rows - static_cast<double>(high.size())) / static_cast<double>(low.size());
        waiting_.clear();
        for (const double score : high) waiting_.push_back({score, 1.0});
        for (const double score : low) waiting_.push_back({score, of_low});
        const auto falls = [](const Bin& a, const Bin& b) { return a.value > b.value; };
        std::stable_sort(waiting_.begin(), waiting_.end(), falls);
        sorted_.clear();
        for (std::size_t i = values.size(); i-- > 0;) sorted_.push_back({values[i], kept * weights[i]});
        merged_.resize(sorted_.size() + waiting_.size());
        std::merge(sorted_.begin(), sorted_.end(), waiting_.begin(), waiting_.end(), merged_.begin(), falls);
        gather();
        start = n;
        high.clear();
        low.clear();
        start_block();
    }

    /// Make bins of weighted scores that fall: those with the same number share one.
    void gather() {
        std::size_t K = 0;  // different scores
        for (const Bin& bin : merged_) {
            if (K > 0 && merged_[K - 1].value == bin.value) {
                merged_[K - 1].weight += bin.weight;
            } else {
                merged_[K++] = bin;
            }
        }
        merged_.resize(K);
        values.clear();
        weights.clear();
        above_.resize(K);
        double sum = 0.0;
        for (std::size_t i = 0; i < K; ++i) above_[i] = sum += merged_[i].weight;
        std::size_t first = 0;
        double present = K > 0 ? number(0) : 0.0;
        for (std::size_t i = 0; i < K; ++i) {
            const double next = i + 1 < K ? number(i + 1) : std::numeric_limits<double>::infinity();
            if (next == present) continue;
            present = next;
            double weight = 0.0;
            for (std::size_t j = first; j <= i; ++j) weight += merged_[j].weight;
            if (weight >= NEGLIGIBLE) {
                const double middle = above_[i] - 0.5 * weight;
                const auto median = std::lower_bound(above_.begin(), above_.end(), middle) - above_.begin();
                values.push_back(merged_[static_cast<std::size_t>(median)].value);
                weights.push_back(weight);
            }
            first = i + 1;
        }
        std::reverse(values.begin(), values.end());
        std::reverse(weights.begin(), weights.end());
    }

    double number(std::size_t i) const {
        const double share = (above_[i] - 0.5 * merged_[i].weight) / (BINS * LEAST_BIN);
        return std::floor(BINS * (std::min(share, 1.0) + std::log(std::max(share, 1.0))));
    }

    // Of the present block: see SlowBins and Tail.
    double total_ = 1.0;
    std::vector<double> above_, shares_;
    std::vector<std::int64_t> picks_;
    double tail_rows_ = 1.0, tail_start_ = 0.0, shape_ = 0.0, scale_ = 0.0, excess_ = 1.0;
    // Scratch space.
    std::vector<std::size_t> at_;
    std::vector<Bin> waiting_, sorted_, merged_;
};

}  // namespace dyncrp
