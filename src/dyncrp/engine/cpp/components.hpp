// Tables joined by evidence: greedily, while one full covariance explains the rows of two better than two do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

namespace dyncrp {

/// The rows of some tables: how many, their mean (Q), and their scatter about it (Q, Q), the lower triangle row by row.
struct TableRows {
    double n = 0.0;
    std::vector<double> mean, scatter;
};

/// A normal–inverse–Wishart prior of a cluster: covariance about `spread`, with `degrees` ν, and mean about 0 with κ.
struct ComponentPrior {
    double degrees, spread, kappa;
};

inline constexpr double LOG_PI = 1.1447298858494002;

struct Join {
    std::int64_t kept, gone;
    double gain;
};

/// All joins down to one component, or as long as they may count, and log p(rows) of the tables before the first.
struct JoinTree {
    std::vector<Join> joins;
    double log_evidence = 0.0;
};

class ComponentTree {
  public:
    /// slack: the joins end where the sum of gains is lower than its maximum by more than this.
    ComponentTree(std::vector<TableRows> tables, const ComponentPrior& prior, std::size_t near, double slack)
        : rows_(std::move(tables)), prior_(prior), near_(near), slack_(slack), K_(rows_.size()),
          Q_(rows_.empty() ? 0 : width()), stamp_(K_, 0), alive_(K_, 1), work_(Q_ * (Q_ + 1) / 2), inverse_(Q_) {
        constant_ = prior_.degrees / 2.0 * static_cast<double>(Q_) * std::log(psi());
        constant_ -= log_gamma(prior_.degrees / 2.0);
        for (const TableRows& rows : rows_) log_marginals_.push_back(log_marginal(rows));
    }

    JoinTree run() {
        JoinTree tree;
        tree.log_evidence = std::accumulate(log_marginals_.begin(), log_marginals_.end(), 0.0);
        std::vector<std::vector<std::size_t>> seen(K_);
        for (std::size_t a = 0; a < K_; ++a) seen[a] = look_around(a, &seen);
        double total = 0.0, most = 0.0;
        while (!waiting_.empty() && total >= most - slack_) {
            const Pair best = waiting_.top();
            waiting_.pop();
            if (stamp_[best.a] != best.stamp_a || stamp_[best.b] != best.stamp_b) continue;
            tree.joins.push_back({static_cast<std::int64_t>(best.a), static_cast<std::int64_t>(best.b), best.gain});
            total += best.gain;
            most = std::max(most, total);
            join(rows_[best.a], rows_[best.b], both_);
            std::swap(rows_[best.a], both_);
            log_marginals_[best.a] = log_marginal(rows_[best.a]);
            alive_[best.b] = 0;
            ++stamp_[best.a], ++stamp_[best.b];
            look_around(best.a, nullptr);
        }
        return tree;
    }

  private:
    struct Pair {
        double gain;
        std::size_t a, b;
        std::uint32_t stamp_a, stamp_b;
        /// Of equal gains, the first two tables join first, on any machine.
        bool operator<(const Pair& other) const {
            return gain != other.gain ? gain < other.gain : std::pair(a, b) > std::pair(other.a, other.b);
        }
    };

    std::size_t width() const { return rows_.front().mean.size(); }
    double psi() const { return (prior_.degrees - static_cast<double>(Q_) - 1.0) * prior_.spread; }

    /// log Γ_Q(x) without its constant, which is the same on both sides of every ratio: Σ log Γ(x − i/2), by
    /// Γ(y − 1) = Γ(y)/(y − 1) from the two largest.
    double log_gamma(double x) const {
        double sum = 0.0;
        LogProduct factors;
        for (std::size_t half = 0; half < std::min<std::size_t>(Q_, 2); ++half) {
            const std::size_t m = (Q_ + 1 - half) / 2;
            double y = x - 0.5 * static_cast<double>(half), divided = 1.0;
            sum += static_cast<double>(m) * std::lgamma(y);
            for (std::size_t j = 1; j < m; ++j) {
                divided *= y -= 1.0;
                if (divided > LogProduct::LARGE) return slow_log_gamma(x);
                factors.multiply(divided);
            }
        }
        return sum - factors.log();
    }

    double slow_log_gamma(double x) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < Q_; ++i) sum += std::lgamma(x - static_cast<double>(i) / 2.0);
        return sum;
    }

    /// The log of a product, whose factors must lie between 1/LARGE and LARGE.
    class LogProduct {
      public:
        static constexpr double LARGE = 1e150;
        void multiply(double factor) {
            product_ *= factor;
            if (product_ > LARGE || product_ < 1.0 / LARGE) {
                sum_ += std::log(product_);
                product_ = 1.0;
            }
        }
        double log() const { return sum_ + std::log(product_); }

      private:
        double sum_ = 0.0, product_ = 1.0;
    };

    /// Σ log of the diagonal of the Cholesky factor of a packed lower triangle, which is used up.
    double half_log_det(std::vector<double>& lower) {
        const double least = psi();  // no pivot of psi I + S is lower, unless rounding or a split made S indefinite
        LogProduct product;
        for (std::size_t i = 0, row = 0; i < Q_; row += ++i) {
            for (std::size_t j = 0, other = 0; j <= i; other += ++j) {
                double rest = lower[row + j];
                for (std::size_t k = 0; k < j; ++k) rest -= lower[row + k] * lower[other + k];
                if (j < i) {
                    lower[row + j] = rest * inverse_[j];
                } else {
                    const double pivot = std::sqrt(std::max(rest, least));
                    inverse_[i] = 1.0 / pivot;
                    product.multiply(pivot);
                }
            }
        }
        return product.log();
    }

    /// log of the density of these rows, given that they are one component.
    double log_marginal(const TableRows& rows) {
        const double n = rows.n, kappa = prior_.kappa, Q = static_cast<double>(Q_), degrees = prior_.degrees + n;
        const double pull = kappa * n / (kappa + n), added = psi();
        for (std::size_t i = 0, at = 0; i < Q_; ++i) {
            for (std::size_t j = 0; j <= i; ++j, ++at) {
                work_[at] = rows.scatter[at] + pull * rows.mean[i] * rows.mean[j] + (i == j ? added : 0.0);
            }
        }
        return -0.5 * n * Q * LOG_PI + log_gamma(degrees / 2.0) + constant_ - degrees * half_log_det(work_) +
               0.5 * Q * std::log(kappa / (kappa + n));
    }

    void join(const TableRows& a, const TableRows& b, TableRows& both) const {
        both = a;  // which keeps the room that it has
        both.n += b.n;
        const double share = b.n / both.n, cross = a.n * share;
        for (std::size_t i = 0, at = 0; i < Q_; ++i) {
            const double gap = b.mean[i] - a.mean[i];
            both.mean[i] += share * gap;
            for (std::size_t j = 0; j <= i; ++j, ++at) {
                both.scatter[at] += b.scatter[at] + cross * gap * (b.mean[j] - a.mean[j]);
            }
        }
    }

    /// What joining gains: of the rows, and of the Chinese Restaurant's partition into tables of n and m.
    double gain(std::size_t a, std::size_t b) {
        const double n = rows_[a].n, m = rows_[b].n;
        const double seats = n * std::log1p(m / n) + m * std::log1p(n / m);
        join(rows_[a], rows_[b], both_);
        return log_marginal(both_) - log_marginals_[a] - log_marginals_[b] + seats;
    }

    /// Let a component wait to join each of those that are near, by Ward's distance, unless these have seen it. Return
    /// which they are.
    std::vector<std::size_t> look_around(std::size_t a, const std::vector<std::vector<std::size_t>>* seen) {
        order_.clear();
        for (std::size_t b = 0; b < K_; ++b) {
            if (alive_[b] == 0 || b == a) continue;
            double square = 0.0;
            for (std::size_t i = 0; i < Q_; ++i) {
                const double gap = rows_[a].mean[i] - rows_[b].mean[i];
                square += gap * gap;
            }
            order_.push_back({square * rows_[a].n * rows_[b].n / (rows_[a].n + rows_[b].n), b});
        }
        const std::size_t n = std::min(near_, order_.size());
        std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(n), order_.end());
        std::vector<std::size_t> others;
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t b = order_[i].second, first = std::min(a, b), second = std::max(a, b);
            others.push_back(b);
            if (seen != nullptr && std::ranges::find((*seen)[b], a) != (*seen)[b].end()) continue;
            const double gained = gain(first, second);
            // Any other would be the last join, and not be kept.
            if (gained >= -slack_) waiting_.push({gained, first, second, stamp_[first], stamp_[second]});
        }
        return others;
    }

    std::vector<TableRows> rows_;
    ComponentPrior prior_;
    std::size_t near_;
    double slack_;
    std::size_t K_, Q_;
    std::vector<std::uint32_t> stamp_;
    std::vector<char> alive_;
    std::vector<double> work_, inverse_, log_marginals_;
    TableRows both_;
    double constant_ = 0.0;
    std::vector<std::pair<double, std::size_t>> order_;
    std::priority_queue<Pair> waiting_;
};

}  // namespace dyncrp
