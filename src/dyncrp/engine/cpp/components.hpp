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
/// In other coordinates, their mean (R) and the sum of squared distances from it.
struct TableRows {
    double n = 0.0;
    std::vector<double> mean, scatter, other_mean;
    double other_scatter = 0.0;
};

/// A normal–inverse–Wishart prior of a cluster: covariance about `spread`, with `degrees` ν, and mean about 0 with κ.
/// The other coordinates have one variance, likewise, and their likelihood is raised to the power `share`.
struct ComponentPrior {
    double degrees, spread, kappa, share;
};

inline constexpr double LOG_PI = 1.1447298858494002, LOG_TWO_PI = 1.8378770664093453;

struct Join {
    std::int64_t kept, gone;
    double gain;
};

/// All joins down to one component, or as long as they may count, and log p(rows) of the tables before the first.
struct JoinTree {
    std::vector<Join> joins;
    double log_evidence = 0.0;
};

/// Finds the components near one, by Ward's distance.
class Neighbours {
  public:
    explicit Neighbours(std::size_t most) : most_(most) {}

    /// Call a function with each of the nearest components to `a`, among those that are alive.
    template <class Call>
    void visit(const std::vector<TableRows>& rows, const std::vector<char>& alive, std::size_t a, Call call) {
        const TableRows& own = rows[a];
        order_.clear();
        for (std::size_t b = 0; b < rows.size(); ++b) {
            if (alive[b] == 0 || b == a) continue;
            double square = 0.0;
            for (std::size_t i = 0; i < own.mean.size(); ++i) {
                const double gap = own.mean[i] - rows[b].mean[i];
                square += gap * gap;
            }
            order_.push_back({square * own.n * rows[b].n / (own.n + rows[b].n), b});
        }
        const std::size_t n = std::min(most_, order_.size());
        std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(n), order_.end());
        for (std::size_t i = 0; i < n; ++i) call(order_[i].second);
    }

  private:
    std::size_t most_;
    std::vector<std::pair<double, std::size_t>> order_;
};

/// Two components, the squared length of the gap g of their means, and gᵀ (S_a + S_b) g, along it. In the other
/// coordinates, the scatter of both together, and the squared length of their mean.
struct NearPair {
    std::size_t a, b;
    double square, along, other_scatter, other_norm;

    static NearPair of(const std::vector<TableRows>& rows, std::size_t a, std::size_t b) {
        const TableRows &one = rows[a], &other = rows[b];
        NearPair pair{a, b, 0.0, 0.0, one.other_scatter + other.other_scatter, 0.0};
        const auto gap = [&](std::size_t i) { return other.mean[i] - one.mean[i]; };
        for (std::size_t i = 0, at = 0; i < one.mean.size(); ++i, ++at) {
            double sum = 0.0;  // of row i, left of the diagonal
            for (std::size_t j = 0; j < i; ++j, ++at) sum += (one.scatter[at] + other.scatter[at]) * gap(j);
            pair.square += gap(i) * gap(i);
            pair.along += gap(i) * (2.0 * sum + (one.scatter[at] + other.scatter[at]) * gap(i));
        }
        const double share = other.n / (one.n + other.n), cross = one.n * share;
        for (std::size_t i = 0; i < one.other_mean.size(); ++i) {
            const double apart = other.other_mean[i] - one.other_mean[i], mean = one.other_mean[i] + share * apart;
            pair.other_scatter += cross * apart * apart;
            pair.other_norm += mean * mean;
        }
        return pair;
    }
};

/// Each table with those that are near, every pair once.
inline std::vector<NearPair> near_pairs(const std::vector<TableRows>& tables, std::size_t near) {
    const std::vector<char> alive(tables.size(), 1);
    Neighbours neighbours(near);
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t a = 0; a < tables.size(); ++a) {
        neighbours.visit(tables, alive, a, [&](std::size_t b) { found.emplace_back(std::min(a, b), std::max(a, b)); });
    }
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    std::vector<NearPair> pairs;
    for (const auto& [a, b] : found) pairs.push_back(NearPair::of(tables, a, b));
    return pairs;
}

class ComponentTree {
  public:
    /// slack: the joins end where the sum of gains is lower than its maximum by more than this.
    ComponentTree(std::vector<TableRows> tables, const ComponentPrior& prior, std::size_t near, double slack)
        : rows_(std::move(tables)), prior_(prior), neighbours_(near), slack_(slack), K_(rows_.size()),
          Q_(rows_.empty() ? 0 : width()), stamp_(K_, 0), alive_(K_, 1), work_(Q_ * (Q_ + 1) / 2), inverse_(Q_) {
        constant_ = prior_.degrees / 2.0 * static_cast<double>(Q_) * std::log(psi());
        constant_ -= log_gamma(prior_.degrees / 2.0);
        R_ = rows_.empty() ? 0.0 : static_cast<double>(rows_.front().other_mean.size());
        const double a = 0.5 * prior_.degrees;
        other_constant_ = a * std::log((a - 1.0) * prior_.spread) - std::lgamma(a);
        for (const TableRows& rows : rows_) log_marginals_.push_back(log_marginal(rows));
        for (const TableRows& rows : rows_) bounds_.push_back(bound_of(rows));
    }

    /// pairs: those of `near_pairs`.
    JoinTree run(const std::vector<NearPair>& pairs) {
        JoinTree tree;
        tree.log_evidence = std::accumulate(log_marginals_.begin(), log_marginals_.end(), 0.0);
        for (const NearPair& pair : pairs) wait(pair);
        double total = 0.0, most = 0.0;
        while (!waiting_.empty() && total >= most - slack_) {
            Pair best = waiting_.top();
            waiting_.pop();
            if (stamp_[best.a] != best.stamp_a || stamp_[best.b] != best.stamp_b) continue;
            if (!best.exact) {
                best.gain = gain(best.a, best.b);
                best.exact = true;
                if (best.gain >= -slack_) waiting_.push(best);
                continue;
            }
            tree.joins.push_back({static_cast<std::int64_t>(best.a), static_cast<std::int64_t>(best.b), best.gain});
            total += best.gain;
            most = std::max(most, total);
            join(rows_[best.a], rows_[best.b], both_);
            std::swap(rows_[best.a], both_);
            log_marginals_[best.a] = log_marginal(rows_[best.a]);
            bounds_[best.a] = bound_of(rows_[best.a]);
            alive_[best.b] = 0;
            ++stamp_[best.a], ++stamp_[best.b];
            neighbours_.visit(rows_, alive_, best.a, [&](std::size_t b) {
                wait(NearPair::of(rows_, std::min(best.a, b), std::max(best.a, b)));
            });
        }
        return tree;
    }

  private:
    /// Two components, and what joining them gains, or a bound of it: most pairs never come to the top by theirs.
    struct Pair {
        double gain;
        std::size_t a, b;
        std::uint32_t stamp_a, stamp_b;
        bool exact = false;
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
    /// least: no pivot is lower, unless rounding or a split made a scatter indefinite.
    double half_log_det(std::vector<double>& lower, double least) {
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
        double norm = 0.0;
        for (const double mean : rows.other_mean) norm += mean * mean;
        return -0.5 * n * Q * LOG_PI + log_gamma(degrees / 2.0) + constant_ - degrees * half_log_det(work_, added) +
               0.5 * Q * std::log(kappa / (kappa + n)) + log_marginal_of_others(n, rows.other_scatter, norm);
    }

    /// The same in the other coordinates, raised to the power of their share. norm: |r|².
    double log_marginal_of_others(double n, double scatter, double norm) const {
        if (R_ == 0.0) return 0.0;
        const double kappa = prior_.kappa, a = 0.5 * prior_.degrees, a_n = a + 0.5 * n * R_;
        const double b_n = (a - 1.0) * prior_.spread + 0.5 * (scatter + kappa * n / (kappa + n) * norm);
        return prior_.share * (std::lgamma(a_n) + other_constant_ - a_n * std::log(b_n) - 0.5 * n * R_ * LOG_TWO_PI +
                               0.5 * R_ * std::log(kappa / (kappa + n)));
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
        both.other_scatter += b.other_scatter;
        for (std::size_t i = 0; i < both.other_mean.size(); ++i) {
            const double apart = b.other_mean[i] - a.other_mean[i];
            both.other_mean[i] += share * apart;
            both.other_scatter += cross * apart * apart;
        }
    }

    /// What joining gains: of the rows, and of the Chinese Restaurant's partition into tables of n and m.
    double gain(std::size_t a, std::size_t b) {
        const double n = rows_[a].n, m = rows_[b].n;
        const double seats = n * std::log1p(m / n) + m * std::log1p(n / m);
        join(rows_[a], rows_[b], both_);
        return log_marginal(both_) - log_marginals_[a] - log_marginals_[b] + seats;
    }

    /// Let two components wait to join, unless that would be the last join, and not be kept.
    void wait(const NearPair& pair) {
        const double most = most_gain(pair);
        if (most < -slack_) return;
        waiting_.push({std::isnan(most) ? INFINITY : most, pair.a, pair.b, stamp_[pair.a], stamp_[pair.b]});
    }

    /// What bounds the gain of joining a component: |S + psi I/2|^(1/Q), n ln n, and the log of κ/(κ + n) times Q/2.
    struct Bound {
        double root_det, seats, pull;
    };

    Bound bound_of(const TableRows& rows) {
        for (std::size_t i = 0, at = 0; i < Q_; ++i) {
            for (std::size_t j = 0; j <= i; ++j, ++at) work_[at] = rows.scatter[at] + (i == j ? 0.5 * psi() : 0.0);
        }
        const double Q = static_cast<double>(Q_);
        return {std::exp(2.0 * half_log_det(work_, 0.5 * psi()) / Q), rows.n * std::log(rows.n),
                0.5 * Q * std::log(prior_.kappa / (prior_.kappa + rows.n))};
    }

    /// No less than `gain`, and found without a Cholesky factor.
    ///
    /// With M = psi I + S_a + S_b and the gap g of the means, the matrix of both is at least M + c g gᵀ, c = nm/(n +
    /// m). |M|^(1/Q) ≥ |S_a + psi I/2|^(1/Q) + |S_b + psi I/2|^(1/Q), by Minkowski, and |M + c g gᵀ| = |M| (1 + c gᵀ
    /// M⁻¹ g) ≥ |M| (1 + c |g|⁴/gᵀ M g). And log Γ is convex, and at most Stirling's sum.
    double most_gain(const NearPair& pair) const {
        const auto [a, b, square, along, other_scatter, other_norm] = pair;
        const double n = rows_[a].n + rows_[b].n, Q = static_cast<double>(Q_), degrees = prior_.degrees + n;
        const double form = along + psi() * square;
        const double apart = square > 0.0 ? rows_[a].n * (rows_[b].n / n) * square * square / form : 0.0;
        const double log_det = Q * std::log(bounds_[a].root_det + bounds_[b].root_det) + std::log1p(apart);
        const auto log_gamma_at_most = [](double y) {
            return (y - 0.5) * std::log(y) - y + 0.5 * LOG_TWO_PI + 1.0 / (12.0 * y);
        };
        const double x = 0.5 * degrees;
        const double log_gammas = 0.5 * Q * (log_gamma_at_most(x) + log_gamma_at_most(x - 0.5 * (Q - 1.0)));
        const double seats = n * std::log(n) - bounds_[a].seats - bounds_[b].seats;
        const double rounding = 1.0 + 1e-9 * n;
        return -0.5 * n * Q * LOG_PI + log_gammas + constant_ - 0.5 * degrees * log_det +
               std::min(bounds_[a].pull, bounds_[b].pull) + log_marginal_of_others(n, other_scatter, other_norm) -
               log_marginals_[a] - log_marginals_[b] + seats + rounding;
    }

    std::vector<TableRows> rows_;
    ComponentPrior prior_;
    Neighbours neighbours_;
    double slack_;
    std::size_t K_, Q_;
    std::vector<std::uint32_t> stamp_;
    std::vector<char> alive_;
    std::vector<double> work_, inverse_, log_marginals_;
    std::vector<Bound> bounds_;
    TableRows both_;
    double constant_ = 0.0, R_ = 0.0, other_constant_ = 0.0;
    std::priority_queue<Pair> waiting_;
};

}  // namespace dyncrp
