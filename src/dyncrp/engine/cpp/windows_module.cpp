// Counts of rows in windows, for Python: as in stream/counts.py, which says what everything means.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace dyncrp {

using Labels = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counted = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Summed = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr std::int64_t MOST_PLACES = 1 << 18;  // of ids that are looked up in an array, which is faster than a search

/// Add the rows of each table to counts (w, K); return whether every row has a table, or none as its label is below 0.
bool count_rows(const Labels& labels, const Labels& ids, std::int64_t before, std::int64_t length,
                const Counted& counts) {
    const std::size_t n = labels.size(), K = ids.size();
    const auto rows = static_cast<std::int64_t>(n);
    if (length < 1 || before < 0 || before >= length || counts.shape(1) != K ||
        static_cast<std::int64_t>(counts.shape(0)) * length < before + rows) {
        throw std::invalid_argument("there must be room for the rows of every table in every window");
    }
    const std::int64_t *id = ids.data(), *label = labels.data();
    if (K == 0) return std::all_of(label, label + n, [](std::int64_t one) { return one < 0; });
    const std::int64_t lowest = id[0], span = id[K - 1] - lowest + 1;
    std::vector<std::int64_t> places;
    if (span <= MOST_PLACES) {
        places.assign(static_cast<std::size_t>(span), -1);
        for (std::size_t k = 0; k < K; ++k) {
            places.at(static_cast<std::size_t>(id[k] - lowest)) = static_cast<std::int64_t>(k);
        }
    }
    std::int64_t* window = counts.data();
    for (std::int64_t i = 0, left = length - before; i < rows; window += K, left = length) {
        for (const std::int64_t end = std::min(i + left, rows); i < end; ++i) {
            const std::int64_t one = label[i];
            if (one < 0) continue;
            if (one < lowest || one >= lowest + span) return false;
            std::int64_t place;
            if (places.empty()) {
                place = std::lower_bound(id, id + K, one) - id;
                if (id[place] != one) return false;
            } else {
                place = places[static_cast<std::size_t>(one - lowest)];
                if (place < 0) return false;
            }
            ++window[place];
        }
    }
    return true;
}

/// Add to each row of sums what is left of the one before.
void add_up(const Summed& sums, double kept) {
    const std::size_t n = sums.shape(0), K = sums.shape(1);
    double* row = sums.data();
    for (std::size_t i = 1; i < n; ++i, row += K) {
        for (std::size_t k = 0; k < K; ++k) row[K + k] += row[k] * kept;
    }
}

}  // namespace

void add_windows(nb::module_& module) {
    // What is written must be the array itself, never a converted copy.
    module.def("count_rows", &count_rows, "labels"_a, "ids"_a, "before"_a, "length"_a, "counts"_a.noconvert());
    module.def("add_up", &add_up, "sums"_a.noconvert(), "kept"_a);
}

}  // namespace dyncrp
