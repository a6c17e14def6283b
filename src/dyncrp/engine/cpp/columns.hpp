// Rows of parts: a product of families, each over some of the columns, in which cells may be missing.
//
// A part whose columns are independent consists of cells (cells.hpp). Any other part has a family that is present or
// missing as a whole. Scores and their bounds are sums over what is present. A table also counts its rows.
#pragma once

#include <stdexcept>
#include <variant>

#include "cell_bernoulli.hpp"
#include "cell_categorical.hpp"
#include "cell_gaussian.hpp"
#include "cell_normal_gamma.hpp"
#include "cell_poisson.hpp"
#include "normal_wishart.hpp"
#include "von_mises_fisher.hpp"

namespace dyncrp {

/// A family as a part that is present or missing as a whole, screened in its own block.
template <Family F>
class Whole {
  public:
    /// `place`: its index among the wholes, which is also that of its block and of its row within a row.
    Whole(const typename F::Settings& settings, const Coordinates::Settings& coordinates, std::vector<Index> at,
          Index place, bool variational)
        : family_(settings, variational), coordinates_(coordinates), at_(std::move(at)), place_(place),
          nothing_(static_cast<std::size_t>(family_.stats_width()), 0.0) {}

    template <class Each>
    void for_each(Each each) {
        family_.for_each(each);
    }

    /// Take the part of all rows x (n, D), with 0 for what is missing; its rows without coordinates are missing.
    void take(const double* x, Index n, Index D, Index n_wholes, Index capacity, Block& outer) const {
        Block& block = outer.wholes[static_cast<std::size_t>(place_)];
        const auto width = static_cast<Index>(at_.size());
        Block::grow(block.cells, static_cast<std::size_t>(n * width));
        block.fit(n, capacity, family_.screen_width());
        block.size = n;
        double* cells = block.cells.data();
        for (Index m = 0; m < n; ++m) {
            const bool present = !std::isnan(x[m * D + at_[0]]);
            for (Index j = 0; j < width; ++j) {
                const double cell = x[m * D + at_[static_cast<std::size_t>(j)]];
                if (std::isnan(cell) == present) {
                    throw std::invalid_argument("rows must hold finite numbers, as family.check returns them");
                }
                cells[m * width + j] = present ? cell : 0.0;
            }
        }
        coordinates_.take(cells, n, block.scratch);
        for (Index m = 0; m < n; ++m) {
            Row& row = outer.rows_of_wholes[static_cast<std::size_t>(m * n_wholes + place_)];
            row = coordinates_.row(cells, m, block.scratch);
            const double* y = row.y;
            row.square = sum_of<double>(coordinates_.width(), [=](Index d) { return y[d] * y[d]; });
            block.rows[static_cast<std::size_t>(m)] = row;
            if (std::isnan(x[m * D + at_[0]])) row = Row{};
            outer.rows[static_cast<std::size_t>(m)].offset += row.offset;
        }
    }

    void open(Index c) { family_.read(c, nothing_.data(), nullptr); }

    void absorb(Index c, const Row& row, double r, double keep) {
        if (is_in(row)) family_.absorb(c, own(row), r, keep);
    }

    double score(Index c, const Row& row) const { return is_in(row) ? family_.score(c, own(row)).log_likelihood : 0.0; }

    double score_empty(const Row& row) const { return is_in(row) ? family_.score_empty(own(row)) : 0.0; }

    double rescore(Index c, const Row& row, double r, double keep) const {
        return is_in(row) ? family_.rescore(c, own(row), r, keep, family_.score(c, own(row))) : 0.0;
    }

    void prepare(Block& outer) const {
        Block& block = outer.wholes[static_cast<std::size_t>(place_)];
        block.n_tables = outer.n_tables;
        block.forget_touched();
        for (const Index c : outer.touched) block.touch(c);
        family_.prepare(block);
    }

    double screen(Block& outer, Index m, Index K, float* totals) const {
        if (!is_in(outer.rows[static_cast<std::size_t>(m)])) return 0.0;
        Block& block = outer.wholes[static_cast<std::size_t>(place_)];
        block.weigh_all_alike(K);
        const double slack = family_.screen(block, m, K);
        for (Index c = 0; c < K; ++c) totals[c] += block.screened[static_cast<std::size_t>(c)];
        return slack;
    }

    /// A new table is also touched, since nothing follows if the part is missing from its first row.
    void follow_opening(Block& outer, Index m, Index c) {
        Block& block = outer.wholes[static_cast<std::size_t>(place_)];
        family_.follow_opening(block, m, c);
        block.touch(c);
    }

    void follow(Block& outer, Index m, Index c, const Row& row, double r, double keep) {
        if (is_in(row)) family_.follow(outer.wholes[static_cast<std::size_t>(place_)], m, c, r, keep);
    }

    void finish(Block& outer, Index n_rows, Index n_in_vain, Index K) {
        Block& block = outer.wholes[static_cast<std::size_t>(place_)];
        if constexpr (Finishes<F>) family_.finish(block, n_rows, n_in_vain, K);
    }

    void recentre(Index K, const Row* row) {
        const bool has_row = row != nullptr && is_in(*row);
        if (has_row || K > 0) family_.recentre(K, has_row ? &own(*row) : nullptr);
    }

    void set_variational(bool variational, Index K) { family_.set_variational(variational, K); }

    Index n_values() const { return 0; }
    Index stats_width() const { return family_.stats_width(); }
    Index extra_width() const { return family_.extra_width(); }
    void write(Index c, double* stats, double* extra) const { family_.write(c, stats, extra); }
    void read(Index c, const double* stats, const double* extra) { family_.read(c, stats, extra); }

  private:
    const Row& own(const Row& row) const { return row.wholes[place_]; }
    bool is_in(const Row& row) const { return own(row).z != nullptr; }

    F family_;
    Coordinates coordinates_;
    std::vector<Index> at_;
    Index place_;
    std::vector<double> nothing_;  // the statistics of an empty table
};

class Columns {
  public:
    static constexpr Index MOST_ROWS = 48;

    /// One part: where its columns are in a row, its family, and the coordinates in which that learns them.
    struct PartSettings {
        std::vector<Index> at;
        std::variant<Gaussian::Settings, GaussianDiagonal::Settings, NormalGamma::Settings, NormalWishart::Settings,
                     Bernoulli::Settings, Poisson::Settings, Categorical::Settings, VonMisesFisher::Settings>
            family;
        Coordinates::Settings coordinates;

        void for_each(auto each) { each("at", at), each("family", family), each("coordinates", coordinates); }
    };

    struct Settings {
        static constexpr const char* NAME = "Columns";
        std::vector<PartSettings> parts;

        void for_each(auto each) { each("parts", parts); }
    };

    Columns(const Settings& settings, bool variational) {
        for (const PartSettings& part : settings.parts) {
            std::visit([&](const auto& family) { add(part, family, variational); }, part.family);
            D_ += static_cast<Index>(part.at.size());
        }
        for_each_part([&](const auto& part) {
            stats_width_ += part.stats_width();
            extra_width_ += part.extra_width();
        });
    }

    template <class Each>
    void for_each(Each each) {
        each(rows_);
        for_each_part([&](auto& part) { part.for_each(each); });
    }

    /// Take n rows x (n, D) into the block: the values of all cells, NaN if they are missing, and separate rows for the
    /// wholes.
    void take(const double* x, Index n, Index capacity, Block& block) const {
        for (Index i = 0; i < n * D_; ++i) {
            if (std::isinf(x[i])) {
                throw std::invalid_argument("rows must hold finite numbers, as family.check returns them, or NaN");
            }
        }
        Block::grow(block.cells, static_cast<std::size_t>(n * n_values_));
        Block::grow(block.rows_of_wholes, static_cast<std::size_t>(n * n_wholes_));
        Block::grow(block.wholes, static_cast<std::size_t>(n_wholes_));
        for (Index m = 0; m < n; ++m) {
            const double* values = block.cells.data() + m * n_values_;
            block.rows[static_cast<std::size_t>(m)] = {values, values, 0.0, 0.0,
                                                       block.rows_of_wholes.data() + m * n_wholes_};
        }
        for_each_part([&]<class Part>(const Part& part) {
            if constexpr (requires { part.take(x, n, D_, n_wholes_, capacity, block); }) {
                part.take(x, n, D_, n_wholes_, capacity, block);
            } else {
                for (Index m = 0; m < n; ++m) {
                    block.rows[static_cast<std::size_t>(m)].offset +=
                        part.take(x + m * D_, block.cells.data() + m * n_values_);
                }
            }
        });
    }

    void open(Index c) {
        rows_[c] = 0.0;
        for_each_part([&](auto& part) { part.open(c); });
    }

    void absorb(Index c, const Row& row, double r, double keep) {
        rows_[c] = keep * rows_[c] + r;
        for_each_part([&](auto& part) { part.absorb(c, row, r, keep); });
    }

    Scored score(Index c, const Row& row) const {
        return {sum([&](const auto& part) { return part.score(c, row); }), 0.0};
    }

    double score_empty(const Row& row) const {
        return sum([&](const auto& part) { return part.score_empty(row); });
    }

    double rescore(Index c, const Row& row, double r, double keep, const Scored&) const {
        return sum([&](const auto& part) { return part.rescore(c, row, r, keep); });
    }

    Index screen_width() const { return 1; }

    void prepare(Block& block) const {
        for_each_part([&](const auto& part) { part.prepare(block); });
    }

    double screen(Block& block, Index m, Index K) const {
        float* screened = block.screened.data();
        std::fill_n(screened, K, 0.0F);
        const double slack = sum([&](const auto& part) { return part.screen(block, m, K, screened); });
        const auto rounding = static_cast<float>(UNIT * static_cast<double>(D_ + 8));
        for (Index c = 0; c < K; ++c) screened[c] += rounding * std::abs(screened[c]);
        block.find_best(K);
        return slack;
    }

    void follow_opening(Block& block, Index m, Index c) {
        for_each_part([&](auto& part) { part.follow_opening(block, m, c); });
    }

    void follow(Block& block, Index m, Index c, double r, double keep) {
        const Row& row = block.rows[static_cast<std::size_t>(m)];
        for_each_part([&](auto& part) { part.follow(block, m, c, row, r, keep); });
    }

    void finish(Block& block, Index n_rows, Index n_in_vain, Index K) {
        for_each_part([&](auto& part) { part.finish(block, n_rows, n_in_vain, K); });
    }

    bool recentre(Index K, const Row* row) {
        for_each_part([&](auto& part) { part.recentre(K, row); });
        return n_wholes_ > 0;
    }

    void set_variational(bool variational, Index K) {
        for_each_part([&](auto& part) { part.set_variational(variational, K); });
    }

    Index stats_width() const { return stats_width_; }
    const char* extra() const { return extra_width_ > 0 ? "cells" : nullptr; }
    Index extra_width() const { return extra_width_; }

    void write(Index c, double* stats, double* extra) const {
        *stats++ = rows_[c];
        for_each_part([&](const auto& part) {
            part.write(c, stats, extra);
            stats += part.stats_width();
            extra += part.extra_width();
        });
    }

    void read(Index c, const double* stats, const double* extra) {
        rows_[c] = *stats++;
        for_each_part([&](auto& part) {
            part.read(c, stats, extra);
            stats += part.stats_width();
            if (extra != nullptr) extra += part.extra_width();
        });
    }

  private:
    using Part = std::variant<CellsOf<GaussianCell>, CellsOf<NormalGammaCell>, CellsOf<BernoulliCell>,
                              CellsOf<PoissonCell>, CellsOf<CategoricalCell>, Whole<Gaussian>, Whole<GaussianDiagonal>,
                              Whole<NormalWishart>, Whole<VonMisesFisher>>;

    template <class Settings>
    void add(const PartSettings& part, const Settings& settings, bool variational) {
        if constexpr (std::is_same_v<Settings, Gaussian::Settings>) {
            add_gaussian<Gaussian>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, GaussianDiagonal::Settings>) {
            add_gaussian<GaussianDiagonal>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, NormalGamma::Settings>) {
            add_cells<NormalGammaCell>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, NormalWishart::Settings>) {
            add_whole<NormalWishart>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, Bernoulli::Settings>) {
            add_cells<BernoulliCell>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, Poisson::Settings>) {
            add_cells<PoissonCell>(part, settings, variational);
        } else if constexpr (std::is_same_v<Settings, Categorical::Settings>) {
            add_cells<CategoricalCell>(part, settings, variational);
        } else {
            add_whole<VonMisesFisher>(part, settings, variational);
        }
    }

    /// With directions, the columns of a Gaussian are not independent.
    template <class F>
    void add_gaussian(const PartSettings& part, const typename F::Settings& settings, bool variational) {
        if (part.coordinates.directions.empty()) {
            add_cells<GaussianCell>(part, settings, variational);
        } else {
            add_whole<F>(part, settings, variational);
        }
    }

    template <class Kind, class Settings>
    void add_cells(const PartSettings& part, const Settings& settings, bool variational) {
        parts_.emplace_back(CellsOf<Kind>(Kind(settings, part.coordinates), part.at, n_values_, variational));
        n_values_ += static_cast<Index>(part.at.size());
    }

    template <class F>
    void add_whole(const PartSettings& part, const typename F::Settings& settings, bool variational) {
        parts_.emplace_back(Whole<F>(settings, part.coordinates, part.at, n_wholes_, variational));
        ++n_wholes_;
    }

    template <class Each>
    void for_each_part(Each each) {
        for (Part& part : parts_) std::visit(each, part);
    }
    template <class Each>
    void for_each_part(Each each) const {
        for (const Part& part : parts_) std::visit(each, part);
    }

    template <class Term>
    double sum(Term term) const {
        double total = 0.0;
        for_each_part([&](const auto& part) { total += term(part); });
        return total;
    }

    std::vector<Part> parts_;
    Index D_ = 0, n_values_ = 0, n_wholes_ = 0;
    Index stats_width_ = 1, extra_width_ = 0;
    PerTable<double> rows_;
};

}  // namespace dyncrp
