// Trials: streams that learn rows to be compared with others, as in a search for hyperparameters. Only their labels and
// evidence are kept.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "agreement.hpp"
#include "stream.hpp"

namespace dyncrp {

/// When to give up a stream: if more than `most_tables` are open, checked every `rows_per_look` rows.
struct Patience {
    Index most_tables, rows_per_look;
};

/// Let a stream learn rows, and write their labels (n,); return how many it has learned, fewer if it was given up.
inline Index try_out(Stream& stream, const Rows& rows, Patience patience, std::int64_t* labels, const Pause& pause) {
    const Index most = std::min(rows.n, patience.rows_per_look);
    std::vector<double> log_evidence(static_cast<std::size_t>(most)), absences(log_evidence);
    std::vector<std::int64_t> indptr(static_cast<std::size_t>(most + 1));
    Index learned = 0;
    while (learned < rows.n && stream.seats().n_tables <= patience.most_tables) {
        const Rows part{rows.x + learned * stream.n_features(), rows.times + learned, std::min(most, rows.n - learned)};
        Record record{labels + learned, log_evidence.data(), indptr.data(), absences.data(), {}, {}, {}, {}};
        learned += stream.learn(part, record, pause);
    }
    return learned;
}

/// The reproducibility of clusters. Halves of rows come in pairs; each half is labelled by its own tables and by those
/// of the other half. Returns the mean agreement, or nan if there is one cluster by all labels. A half of one cluster
/// by both of its labellings is left out: they agree whatever the rows are. `make` makes a stream that has learned
/// nothing.
template <class Make>
double reproducibility(std::span<const Rows> halves, Make make, const Pause& pause) {
    Index most = 0;
    for (const Rows& half : halves) most = std::max(most, half.n);
    std::vector<double> times(static_cast<std::size_t>(most));
    const Agreement agreement(most);
    const auto single = [](const std::vector<std::int64_t>& labels) {
        return std::ranges::adjacent_find(labels, std::not_equal_to{}) == labels.end();
    };
    double total = 0.0;
    Index counted = 0;
    for (std::size_t i = 0; i + 1 < halves.size(); i += 2) {
        std::iota(times.begin(), times.end(), 0.0);
        const Rows pair[] = {{halves[i].x, times.data(), halves[i].n},
                             {halves[i + 1].x, times.data(), halves[i + 1].n}};
        std::unique_ptr<Stream> streams[] = {make(), make()};
        std::vector<std::int64_t> mine[2];
        for (std::size_t j = 0; j < 2; ++j) {
            mine[j].resize(static_cast<std::size_t>(pair[j].n));
            try_out(*streams[j], pair[j], {most, most}, mine[j].data(), pause);
        }
        for (std::size_t j = 0; j < 2; ++j) {
            const Stream& other = *streams[1 - j];
            std::vector<std::int64_t> theirs(mine[j].size());
            std::fill(times.begin(), times.end(), other.seats().time);
            other.predict(pair[j], {theirs.data(), nullptr, nullptr}, false, pause);
            if (single(mine[j]) && single(theirs)) continue;
            total += agreement(mine[j], theirs);
            ++counted;
        }
    }
    return counted > 0 ? total / static_cast<double>(counted) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace dyncrp
