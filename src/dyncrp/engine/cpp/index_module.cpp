// The index by itself, for its tests: it is handed exact scores, where the loop would compute them.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "index.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

using FloatVector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using DoubleVector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct IndexAlone : TableIndex {
    using TableIndex::TableIndex;
    Search at;
};

void add_index(nb::module_& module) {
    nb::class_<IndexAlone>(module, "_TableIndex")
        .def(nb::init<Index>(), "width"_a)
        .def(
            "build",
            [](IndexAlone& index, const FloatRows& centers, const FloatVector& a, const FloatVector& h) {
                index.build(static_cast<Index>(centers.shape(0)), centers.data(), a.data(), h.data());
            },
            "centers"_a, "a"_a, "h"_a)
        .def(
            "search",
            [](IndexAlone& index, const FloatVector& row, double fresh, const DoubleVector& scores) {
                const double square = sum_of<double>(static_cast<Index>(row.size()), [&](Index d) {
                    return static_cast<double>(row.data()[d]) * static_cast<double>(row.data()[d]);
                });
                const auto score = [&](Index c) { return scores.data()[c]; };
                const bool done = index.search(row.data(), square, fresh, score, index.at);
                return done ? std::optional(index.at.found) : std::nullopt;
            },
            "row"_a, "fresh"_a, "scores"_a)
        .def(
            "update",
            [](IndexAlone& index, Index c, const FloatVector& center, float a, float h) {
                index.update(c, center.data(), a, h);
            },
            "place"_a, "center"_a, "a"_a, "h"_a)
        .def(
            "open",
            [](IndexAlone& index, Index c, const FloatVector& center, float a, float h) {
                index.open(c, center.data(), a, h);
            },
            "place"_a, "center"_a, "a"_a, "h"_a)
        .def(
            "close", [](IndexAlone& index, Index c) { index.close(c); }, "place"_a)
        .def(
            "rename", [](IndexAlone& index, Index from, Index to) { index.rename(from, to); }, "start"_a, "end"_a)
        .def_prop_rw(
            "patience", [](IndexAlone& index) { return index.patience; },
            [](IndexAlone& index, double patience) { index.patience = patience; })
        .def("cost", [](IndexAlone& index) { return index.cost(index.at); })
        .def_prop_ro("size", [](IndexAlone& index) { return index.size(); })
        .def_prop_ro("n_rebuilt", [](IndexAlone& index) { return index.n_rebuilt(); });
}

}  // namespace dyncrp
