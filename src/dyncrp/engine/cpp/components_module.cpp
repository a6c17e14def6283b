// Components for Python: see joining/components.py.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "components.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void add_components(nb::module_& module) {
    module.def(
        "join_tables",
        [](const Numbers& counts, const Matrix& means, const Matrix& scatter, const Matrix& other_means,
           const Numbers& other_scatter, double share, const std::vector<std::pair<double, double>>& priors,
           double kappa, std::size_t near, double slack) {
            const std::size_t K = counts.shape(0), Q = means.shape(1), P = Q * (Q + 1) / 2;
            const std::size_t R = other_means.shape(1);
            if (means.shape(0) != K || scatter.shape(0) != K || scatter.shape(1) != P || other_means.shape(0) != K ||
                other_scatter.shape(0) != K) {
                throw std::invalid_argument("means and scatter must have a row for each table");
            }
            std::vector<TableRows> rows(K);
            for (std::size_t c = 0; c < K; ++c) {
                rows[c].n = counts.data()[c];
                rows[c].mean.assign(means.data() + c * Q, means.data() + (c + 1) * Q);
                rows[c].scatter.assign(scatter.data() + c * P, scatter.data() + (c + 1) * P);
                rows[c].other_mean.assign(other_means.data() + c * R, other_means.data() + (c + 1) * R);
                rows[c].other_scatter = other_scatter.data()[c];
            }
            std::vector<JoinTree> trees;
            {
                nb::gil_scoped_release release;
                const std::vector<NearPair> pairs = near_pairs(rows, near);
                for (const auto& [degrees, spread] : priors) {
                    trees.push_back(ComponentTree(rows, {degrees, spread, kappa, share}, near, slack).run(pairs));
                }
            }
            std::vector<std::pair<std::vector<std::tuple<std::int64_t, std::int64_t, double>>, double>> found;
            for (const JoinTree& tree : trees) {
                auto& joins = found.emplace_back().first;
                for (const Join& join : tree.joins) joins.emplace_back(join.kept, join.gone, join.gain);
                found.back().second = tree.log_evidence;
            }
            return found;
        },
        "counts"_a, "means"_a, "scatter"_a, "other_means"_a, "other_scatter"_a, nb::kw_only(), "share"_a, "priors"_a,
        "kappa"_a, "near"_a, "slack"_a);
}

}  // namespace dyncrp
