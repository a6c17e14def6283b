// What the baselines do row by row, as the module dyncrp.baselines.sweeps; the arithmetic of gibbs.py, ddcrp.py and
// dp_means.py, where it is explained. Arguments are marked IN or INOUT.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "special.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using InOutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using InOutLabels = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Array>
Index length(const Array& array, std::size_t axis = 0) {
    return static_cast<Index>(array.shape(axis));
}

std::vector<double> copied(const Vector& values) { return {values.data(), values.data() + values.size()}; }
std::vector<double> copied(const Matrix& values) { return {values.data(), values.data() + values.size()}; }

void require(bool holds) {
    if (!holds) throw std::invalid_argument("arrays whose lengths do not go together");
}

void add(double* total, const double* row, double times, Index Q) {
    for (Index d = 0; d < Q; ++d) total[d] += times * row[d];
}

double square(const double* x, Index Q) {
    double total = 0.0;
    for (Index d = 0; d < Q; ++d) total += x[d] * x[d];
    return total;
}

/// log_partition(n, s) = log ∫ exp⟨η(φ), (n, s)⟩ p(φ) dφ of a table of n whole observations; see partition.py.
class Partition {
  public:
    virtual ~Partition() = default;
    virtual double operator()(Index n, const double* s, Index Q) const = 0;
    /// A bound of what a table gains, cheaper than the gain itself; inf if there is none.
    virtual double most_gained(const double*, const double*, Index) const { return INF; }
};

/// offset[n] + Σ_d first[n, d] s_d².
class GaussianPartition final : public Partition {
  public:
    GaussianPartition(const Vector& offset, const Matrix& first) : offset_(copied(offset)), first_(copied(first)) {}
    double operator()(Index n, const double* s, Index Q) const override {
        double total = offset_[static_cast<std::size_t>(n)];
        const double* first = first_.data() + n * Q;
        for (Index d = 0; d < Q; ++d) total += first[d] * s[d] * s[d];
        return total;
    }

  private:
    std::vector<double> offset_, first_;
};

/// offset[n] + Σ_d first[s_d, d] + second[n − s_d, d].
class BernoulliPartition final : public Partition {
  public:
    BernoulliPartition(const Vector& offset, const Matrix& first, const Matrix& second)
        : offset_(copied(offset)), first_(copied(first)), second_(copied(second)) {}
    double operator()(Index n, const double* s, Index Q) const override {
        double total = offset_[static_cast<std::size_t>(n)];
        for (Index d = 0; d < Q; ++d) {
            const auto ones = static_cast<Index>(s[d]);  // sums of zeros and ones are exact
            total += first_[static_cast<std::size_t>(ones * Q + d)];
            total += second_[static_cast<std::size_t>((n - ones) * Q + d)];
        }
        return total;
    }

  private:
    std::vector<double> offset_, first_, second_;
};

/// log F(κ|s|), F the scaled Bessel function.
class VonMisesFisherPartition final : public Partition {
  public:
    VonMisesFisherPartition(double kappa, Bessel::Settings settings) : kappa_(kappa), bessel_(std::move(settings)) {}
    double operator()(Index, const double* s, Index Q) const override {
        const double length = kappa_ * std::sqrt(square(s, Q));
        return length + bessel_.excess(length);
    }
    /// log F rises, and nowhere faster than its argument.
    double most_gained(const double* s, const double* joined, Index Q) const override {
        return std::max(kappa_ * (std::sqrt(square(joined, Q)) - std::sqrt(square(s, Q))), 0.0);
    }

  private:
    double kappa_;
    Bessel bessel_;
};

/// Seat every row once more. IN rows (N, Q), log α, uniforms (N,), partition; INOUT labels (N,), −1 for a row that
/// sits nowhere yet. Returns log p(labels) + Σ_c log_partition, but for a constant.
double gibbs_sweep(const Matrix& rows, const InOutLabels& labels_given, double log_alpha, const Vector& uniforms,
                   const Partition& partition) {
    constexpr double NEVER = 40.0;  // exp(−40) is less than a uniform random number can tell from 0
    const Index N = length(rows), Q = length(rows, 1);
    require(length(labels_given) == N && length(uniforms) == N);
    std::int64_t* labels = labels_given.data();
    std::vector<Index> counts(static_cast<std::size_t>(N + 1));
    std::vector<double> parts(static_cast<std::size_t>(N + 1)), scores(static_cast<std::size_t>(N + 1));
    std::vector<double> all_sums(static_cast<std::size_t>((N + 1) * Q)), joined(static_cast<std::size_t>(Q));
    const auto sums = [&](Index c) { return all_sums.data() + c * Q; };
    const auto at = [](Index c) { return static_cast<std::size_t>(c); };
    Index K = 0;
    for (Index i = 0; i < N; ++i) {  // anew in every sweep, so that rounding does not add up
        const Index c = labels[i];
        require(c < N);
        if (c < 0) continue;
        ++counts[at(c)];
        add(sums(c), rows.data() + i * Q, 1.0, Q);
        K = std::max(K, c + 1);
    }
    for (Index c = 0; c < K; ++c) parts[at(c)] = partition(counts[at(c)], sums(c), Q);

    for (Index i = 0; i < N; ++i) {
        const double* x = rows.data() + i * Q;
        if (const Index c = labels[i]; c >= 0) {
            --counts[at(c)];
            add(sums(c), x, -1.0, Q);
            if (counts[at(c)] == 0) {  // the last table takes its place
                --K;
                counts[at(c)] = counts[at(K)];
                parts[at(c)] = parts[at(K)];
                std::copy_n(sums(K), Q, sums(c));
                std::fill_n(sums(K), Q, 0.0);
                for (Index j = 0; j < N; ++j) {
                    if (labels[j] == K) labels[j] = c;
                }
                counts[at(K)] = 0;
                parts[at(K)] = 0.0;
            } else {
                parts[at(c)] = partition(counts[at(c)], sums(c), Q);
            }
        }
        double best = log_alpha + partition(1, x, Q);
        scores[at(K)] = best;
        for (Index c = 0; c < K; ++c) {
            for (Index d = 0; d < Q; ++d) joined[at(d)] = sums(c)[d] + x[d];
            const double weight = std::log(static_cast<double>(counts[at(c)]));
            if (weight + partition.most_gained(sums(c), joined.data(), Q) < best - NEVER) {
                scores[at(c)] = -INF;
                continue;
            }
            scores[at(c)] = weight + partition(counts[at(c)] + 1, joined.data(), Q) - parts[at(c)];
            best = std::max(best, scores[at(c)]);
        }
        double total = 0.0;
        for (Index c = 0; c <= K; ++c) {
            total += std::exp(scores[at(c)] - best);
            scores[at(c)] = total;
        }
        Index chosen = 0;
        while (chosen < K && scores[at(chosen)] <= uniforms.data()[i] * total) ++chosen;
        labels[i] = chosen;
        ++counts[at(chosen)];
        add(sums(chosen), x, 1.0, Q);
        parts[at(chosen)] = partition(counts[at(chosen)], sums(chosen), Q);
        K = std::max(K, chosen + 1);
    }

    double joint = 0.0;
    for (Index c = 0; c < K; ++c) joint += log_alpha + std::lgamma(static_cast<double>(counts[at(c)])) + parts[at(c)];
    std::vector<std::int64_t> names(at(K), -1);
    std::int64_t used = 0;
    for (Index i = 0; i < N; ++i) {
        std::int64_t& name = names[at(labels[i])];
        if (name < 0) name = used++;
        labels[i] = name;
    }
    return joint;
}

/// Let every customer link anew; a table is called by its root, who links to itself and is the first there.
/// IN rows (N, Q), weights (N, N), uniforms (N,), partition; INOUT links (N,), roots (N,).
/// Returns log p(tables) + Σ_c log_partition, but for a constant.
double link_sweep(const Matrix& rows, const Matrix& all_weights, const InOutLabels& links_given,
                  const InOutLabels& roots_given, const Vector& uniforms, const Partition& partition) {
    const Index N = length(rows), Q = length(rows, 1);
    require(length(all_weights) == N && length(all_weights, 1) == N && length(links_given) == N);
    require(length(roots_given) == N && length(uniforms) == N);
    std::int64_t *links = links_given.data(), *roots = roots_given.data();
    const auto at = [](Index c) { return static_cast<std::size_t>(c); };
    std::vector<Index> counts(at(N));
    std::vector<double> parts(at(N)), occupancy(at(N)), scores(at(N)), all_sums(at(N * Q)), moved(at(Q)), joined(at(Q));
    std::vector<char> hanging(at(N));
    const auto sums = [&](Index c) { return all_sums.data() + c * Q; };
    for (Index i = 0; i < N; ++i) {  // anew in every sweep, so that rounding does not add up
        roots[i] = links[i] < i ? roots[links[i]] : i;
        ++counts[at(roots[i])];
        add(sums(roots[i]), rows.data() + i * Q, 1.0, Q);
    }
    for (Index r = 0; r < N; ++r) parts[at(r)] = partition(counts[at(r)], sums(r), Q);

    for (Index i = 0; i < N; ++i) {
        const double* weights = all_weights.data() + i * N;
        Index n_moved = 0;
        std::fill(moved.begin(), moved.end(), 0.0);
        for (Index j = i; j < N; ++j) {  // links lead back, so one pass finds all who hang on i
            hanging[at(j)] = j == i || (links[j] != j && links[j] >= i && hanging[at(links[j])] != 0) ? 1 : 0;
            if (hanging[at(j)] == 0) continue;
            ++n_moved;
            add(moved.data(), rows.data() + j * Q, 1.0, Q);
        }
        if (links[i] != i) {
            const Index r = roots[i];
            counts[at(r)] -= n_moved;
            add(sums(r), moved.data(), -1.0, Q);
            parts[at(r)] = partition(counts[at(r)], sums(r), Q);
        }
        const double part_moved = partition(n_moved, moved.data(), Q);

        std::fill_n(occupancy.begin(), i, 0.0);
        for (Index j = 0; j < i; ++j) occupancy[at(roots[j])] += weights[j];
        scores[at(i)] = std::log(weights[i]);
        double best = scores[at(i)];
        for (Index r = 0; r < i; ++r) {
            scores[at(r)] = -INF;
            if (!(occupancy[at(r)] > 0.0)) continue;
            for (Index d = 0; d < Q; ++d) joined[at(d)] = sums(r)[d] + moved[at(d)];
            const double part = partition(counts[at(r)] + n_moved, joined.data(), Q);
            scores[at(r)] = std::log(occupancy[at(r)]) + part - parts[at(r)] - part_moved;
            best = std::max(best, scores[at(r)]);
        }
        double total = 0.0;
        for (Index r = 0; r <= i; ++r) total += std::exp(scores[at(r)] - best);
        double drawn = uniforms.data()[i] * total;
        Index chosen = i;
        for (Index r = 0; r < i; ++r) {
            const double weight = std::exp(scores[at(r)] - best);
            if (drawn < weight) {
                chosen = r;
                drawn *= occupancy[at(r)] / weight;
                break;
            }
            drawn -= weight;
        }

        links[i] = i;
        if (chosen < i) {  // what is left of the random number chooses among the customers of the table
            for (Index j = 0; j < i; ++j) {
                if (roots[j] != chosen || !(weights[j] > 0.0)) continue;
                links[i] = j;
                drawn -= weights[j];
                if (drawn < 0.0) break;
            }
            counts[at(chosen)] += n_moved;
            add(sums(chosen), moved.data(), 1.0, Q);
        } else {
            counts[at(i)] = n_moved;
            std::copy(moved.begin(), moved.end(), sums(i));
        }
        parts[at(chosen)] = partition(counts[at(chosen)], sums(chosen), Q);
        for (Index j = i; j < N; ++j) {
            if (hanging[at(j)] != 0) roots[j] = chosen;
        }
    }

    double joint = 0.0;
    for (Index i = 0; i < N; ++i) {
        const double* weights = all_weights.data() + i * N;
        if (links[i] == i) {
            joint += std::log(weights[i]) + parts[at(i)];
        } else {
            double present = 0.0;
            for (Index j = 0; j < i; ++j) present += roots[j] == roots[i] ? weights[j] : 0.0;
            joint += std::log(present);
        }
    }
    return joint;
}

/// The nearest of the first K centres, the older of two, and its squared distance.
std::pair<Index, double> nearest_of(const double* x, const double* centers, Index K, Index Q) {
    double best = INF;
    Index nearest = 0;
    for (Index c = 0; c < K; ++c) {
        double distance = 0.0;
        for (Index d = 0; d < Q; ++d) distance += (x[d] - centers[c * Q + d]) * (x[d] - centers[c * Q + d]);
        if (distance < best) {
            best = distance;
            nearest = c;
        }
    }
    return {nearest, best};
}

/// Give each row (N, Q) to its nearest centre (K, Q), or to a new one on it; fill labels, in order of appearance.
void assign_to_nearest(const Matrix& rows, const Matrix& centers, double penalty, const InOutLabels& labels) {
    const Index N = length(rows), Q = length(rows, 1);
    require(length(centers, 1) == Q && length(labels) == N);
    Index K = length(centers);
    std::vector<double> room = copied(centers);
    room.resize(static_cast<std::size_t>((K + N) * Q));
    std::vector<std::int64_t> names(static_cast<std::size_t>(K + N), -1);
    std::int64_t used = 0;
    for (Index i = 0; i < N; ++i) {
        const double* x = rows.data() + i * Q;
        auto [nearest, distance] = nearest_of(x, room.data(), K, Q);
        if (distance > penalty) {
            nearest = K++;
            std::copy_n(x, Q, room.data() + nearest * Q);
        }
        std::int64_t& name = names[static_cast<std::size_t>(nearest)];
        if (name < 0) name = used++;
        labels.data()[i] = name;
    }
}

/// Learn rows one after the other, fill labels (N,) and return how many clusters there are now.
/// INOUT sums, centers (K + N, Q) and counts (K + N,), the first K of them in use.
Index stream_means(const Matrix& rows, const InOutMatrix& sums, const InOutMatrix& centers, const InOutLabels& counts,
                   Index K, double penalty, double radius, const InOutLabels& labels) {
    const Index N = length(rows), Q = length(rows, 1);
    require(length(labels) == N && length(sums) >= K + N && length(centers) >= K + N && length(counts) >= K + N);
    require(length(sums, 1) == Q && length(centers, 1) == Q);
    for (Index i = 0; i < N; ++i) {
        const double* x = rows.data() + i * Q;
        auto [c, distance] = nearest_of(x, centers.data(), K, Q);
        if (distance > penalty) c = K++;
        double* sum = sums.data() + c * Q;
        const std::int64_t n = ++counts.data()[c];
        add(sum, x, 1.0, Q);
        double scale = 1.0 / static_cast<double>(n);
        if (radius > 0.0) {
            const double norm = std::sqrt(square(sum, Q));
            scale = norm > 0.0 ? radius / norm : 0.0;
        }
        if (scale > 0.0) {  // rows that cancel leave the centre where it was
            for (Index d = 0; d < Q; ++d) centers.data()[c * Q + d] = scale * sum[d];
        }
        labels.data()[i] = c;
    }
    return K;
}

}  // namespace
}  // namespace dyncrp

NB_MODULE(sweeps, module) {
    using namespace dyncrp;
    nb::set_leak_warnings(false);  // a lookup that lives until the interpreter ends is no leak
    nb::class_<Partition>(module, "Partition")
        .def(
            "__call__",
            [](const Partition& partition, Index n, const Vector& s) { return partition(n, s.data(), length(s)); },
            "n"_a, "s"_a)
        .def(
            "most_gained",
            [](const Partition& partition, const Vector& s, const Vector& joined) {
                require(length(s) == length(joined));
                return partition.most_gained(s.data(), joined.data(), length(s));
            },
            "s"_a, "joined"_a);
    nb::class_<GaussianPartition, Partition>(module, "GaussianPartition")
        .def(nb::init<const Vector&, const Matrix&>(), "offset"_a, "first"_a);
    nb::class_<BernoulliPartition, Partition>(module, "BernoulliPartition")
        .def(nb::init<const Vector&, const Matrix&, const Matrix&>(), "offset"_a, "first"_a, "second"_a);
    nb::class_<VonMisesFisherPartition, Partition>(module, "VonMisesFisherPartition")
        .def(
            "__init__",
            [](VonMisesFisherPartition* partition, double kappa, double order, Index steps, double stirling,
               const Vector& u, const Vector& v) {
                new (partition)
                    VonMisesFisherPartition(kappa, Bessel::Settings{order, steps, stirling, copied(u), copied(v)});
            },
            "kappa"_a, "order"_a, "steps"_a, "stirling"_a, "u"_a, "v"_a);
    module.def("gibbs_sweep", &gibbs_sweep, "rows"_a, "labels"_a.noconvert(), "log_alpha"_a, "uniforms"_a,
               "partition"_a);
    module.def("link_sweep", &link_sweep, "rows"_a, "weights"_a, "links"_a.noconvert(), "roots"_a.noconvert(),
               "uniforms"_a, "partition"_a);
    module.def("assign_to_nearest", &assign_to_nearest, "rows"_a, "centers"_a, "penalty"_a, "labels"_a.noconvert());
    module.def("stream_means", &stream_means, "rows"_a, "sums"_a.noconvert(), "centers"_a.noconvert(),
               "counts"_a.noconvert(), "K"_a, "penalty"_a, "radius"_a, "labels"_a.noconvert());
}
