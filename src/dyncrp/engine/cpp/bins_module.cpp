// Bins for Python: see stream/bins.py.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "bins.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Written = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void add_bins(nb::module_& module) {
    const auto as_vector = [](const Numbers& array) {
        return std::vector<double>(array.data(), array.data() + array.size());
    };
    nb::class_<Bins>(module, "Bins")
        .def(
            "__init__",
            [=](Bins* bins, std::int64_t n, std::int64_t start, const Numbers& values, const Numbers& weights,
                const Numbers& high, const Numbers& low) {
                if (values.size() != weights.size()) throw std::invalid_argument("there must be a weight for each bin");
                new (bins) Bins(n, start, as_vector(values), as_vector(weights), as_vector(high), as_vector(low));
            },
            "n"_a, "start"_a, "values"_a, "weights"_a, "high"_a, "low"_a)
        .def(
            "take",
            [](Bins& bins, const Numbers& scores, std::optional<Written> p, double most) {
                if (p.has_value() && p->size() != scores.size()) {
                    throw std::invalid_argument("there must be room for the p of every score");
                }
                bins.take(scores.data(), scores.size(), p.has_value() ? p->data() : nullptr, most);
            },
            "scores"_a, "p"_a = nb::none(), "most"_a = 1.0)
        .def("copy", [](const Bins& bins) { return Bins(bins); })
        .def_ro("n", &Bins::n)
        .def_ro("start", &Bins::start)
        .def_ro("end", &Bins::end)
        .def_ro("border", &Bins::border)
        .def_ro("values", &Bins::values)
        .def_ro("weights", &Bins::weights)
        .def_ro("high", &Bins::high)
        .def_ro("low", &Bins::low);
}

}  // namespace dyncrp
