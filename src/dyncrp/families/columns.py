"""Mixed columns: a product of families, each over some of the columns, in which any cell may be missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadRow, Seed
from dyncrp.families import protocols
from dyncrp.families.base import Family, Float, Tables, missing_cell
from dyncrp.families.protocols import (
    SCALES,
    Compiled,
    Explains,
    HasCodes,
    HasShape,
    Proposes,
    Settings,
    Shapes,
    Sharpens,
)

Column = int | str
Part = tuple[tuple[Column, ...], Family]


class Piece(NamedTuple):
    """Columns that are present or missing together: one column, or a whole part if its features are not independent.

    family: the family of these columns alone. at: their positions in a row. stats, squares: the slices of the
    statistics and squares that belong to them.
    """

    family: Family
    at: tuple[int, ...]
    stats: slice
    squares: slice


@dataclass(frozen=True, eq=False)
class Columns(Family, Proposes, Sharpens, HasShape, Explains, HasCodes, Compiled):
    """Each part of a row has a family of its own: p(x | φ) = Π_p p_p(x_p | φ_p), with independent priors.

    So the log densities are sums over the parts, and the statistics are those of the parts side by side. A part whose
    features are independent is in turn a product over its columns, and every column has a count of its own. A missing
    cell is NaN. It is integrated out, which means that its column is left out: the statistics of the table do not
    change there, and the log density of the cell is 0. T(x) is a 1, followed for each column (or for each part that is
    not independent) by the T of its family, or by zeros if it is missing. A row without cells is seated by weight alone
    and moves no centre.

    Parts are weighted by their likelihoods: a part with many columns, or with columns that separate clusters well, has
    more influence. ``told`` measures it, and ``dyncrp summary`` prints it.

    Parameters
    ----------
    parts : mapping, or sequence of pairs, from columns to Family
        Columns are a name, a position, or a tuple of these, as in
        ``{"city": Categorical(), ("height", "weight"): Gaussian()}``. Names are the column names of a DataFrame. Every
        column of the data belongs to one part. A family may have unknown hyperparameters.

    Examples
    --------
    >>> from dyncrp import Bernoulli, Columns, Gaussian
    >>> family = Columns({(0, 2): Gaussian(1.0, 100.0), 1: Bernoulli(0.5, 0.5)})
    >>> X = np.array([[5.0, 1.0, -3.0], [5.2, np.nan, -3.0]])
    >>> stats = family.statistics(X).sum(axis=0, keepdims=True)
    >>> stats  # rows, then count and sum of column 0, of column 2, and of column 1
    array([[ 2. ,  2. , 10.2,  2. , -6. ,  1. ,  1. ]])
    >>> family.centers(stats).round(2)
    array([[ 5.07,  0.75, -2.99]])
    >>> family.log_predictive(np.array([[np.nan, 1.0, np.nan]]), stats).round(3)  # log 3/4
    array([[-0.288]])
    """

    parts: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _as_parts(self.parts))
        columns = [column for part, _ in self.parts for column in part]
        doubled = next((column for column, n in Counter(columns).items() if n > 1), None)
        if doubled is not None:
            raise ValueError(f"column {doubled!r} is in two parts of Columns")
        if self.has_names:
            return
        if sorted(columns) != list(range(len(columns))):
            absent = next(at for at in range(len(columns)) if at not in columns)
            raise ValueError(
                f"Columns must have a part for every column from 0 to {max(columns)}, but {absent} has none"
            )
        for part, family in self.parts:
            if family.width not in (None, len(part)):
                raise ValueError(f"{family!r} has {family.width} features, but its part has {len(part)}: {part}")

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces, in the order of the statistics. Made on demand, since many families in a search need none."""
        return tuple(self._cut())

    def _cut(self) -> Iterable[Piece]:
        stats, squares = 1, 0
        for part, family in self.parts:
            each = (
                [((at,), protocols.feature(family, i)) for i, at in enumerate(part)]
                if family.independent
                else [(part, family)]
            )
            for at, one in each:
                row = np.zeros((1, len(at)))
                S, P = one.empty(len(at)).shape[1], protocols.squares(one, row).shape[1]
                yield Piece(one, at, slice(stats, stats + S), slice(squares, squares + P))
                stats, squares = stats + S, squares + P

    @classmethod
    def of(cls, family: Family, n_features: int) -> Columns:
        """Return the family as the only part, with n_features columns, so that cells may be missing.

        >>> from dyncrp import Bernoulli
        >>> Columns.of(Bernoulli(1.0, 1.0), 2)
        Columns({(0, 1): Bernoulli(a=1.0, b=1.0)})
        """
        return cls({tuple(range(n_features)): family})

    def split(self, stats: Float, squares: Float) -> dict[str, Float]:
        """Return stats and squares of the only part in the form of ``Columns``, for tables without missing cells."""
        (part, family), *others = self.parts
        if others or not family.independent:
            raise ValueError(f"only the stats of a single family can be split, got {self!r}")
        D, n = len(part), stats[:, :1]
        each = stats[:, 1:].reshape(len(stats), (stats.shape[1] - 1) // D, D)
        found = {"stats": np.hstack([n, *(np.hstack([n, each[:, :, d]]) for d in range(D))])}
        of_features = family.squares_of_features(stats, squares) if isinstance(family, HasShape) else []
        return found | ({"squares": np.hstack(of_features)} if of_features else {})

    @property
    def has_names(self) -> bool:
        """Whether columns are given by name."""
        return any(isinstance(column, str) for part, _ in self.parts for column in part)

    def require_known(self) -> None:
        """Raise if a hyperparameter is unknown, or a column is given by name."""
        super().require_known()
        self._require_positions()

    def _require_positions(self) -> None:
        if self.has_names:
            raise ValueError(f"{self!r} needs the names of the columns: pass a DataFrame")

    def at(self, names: Sequence[str] | None) -> Columns:
        """Return the family with positions in place of names, given the names of all columns.

        >>> from dyncrp import Bernoulli, Gaussian
        >>> Columns({"b": Bernoulli(), "a": Gaussian()}).at(["a", "b"])
        Columns({1: Bernoulli(a=None, b=None), 0: Gaussian()})
        """
        if not self.has_names:
            return self
        wanted = [column for part, _ in self.parts for column in part]
        if names is None:
            raise ValueError(f"Columns names {wanted}, but X has no names: pass a DataFrame, or give positions")
        places = {name: at for at, name in enumerate(names)}
        absent = [column for column in wanted if isinstance(column, str) and column not in places]
        rest = [name for at, name in enumerate(names) if name not in wanted and at not in wanted]
        if absent or rest:
            fault = f"X has no columns {absent}" if absent else f"columns {rest} of X have no part"
            raise ValueError(f"Columns must have a part for every column of X: {fault}")
        return Columns([([places.get(c, c) for c in part], family) for part, family in self.parts])

    @property
    def known(self) -> bool:
        """Whether every part is known."""
        return all(family.known for _, family in self.parts)

    @property
    def independent(self) -> bool:
        """True: cells may be missing. A part that is not independent may only be missing as a whole; see ``check``."""
        return True

    @property
    def width(self) -> int:
        """How many columns there are."""
        return sum(len(part) for part, _ in self.parts)

    def continuous(self, n_features: int) -> NDArray[np.bool_]:
        """Return which columns are continuous in their part."""
        mask = np.zeros(n_features, dtype=bool)
        for part, family in self.parts:
            mask[list(part)] = protocols.continuous(family, len(part))
        return mask

    def _with(self, families: Iterable[Family]) -> Columns:
        """Return the same parts with other families."""
        return Columns([(part, family) for (part, _), family in zip(self.parts, families, strict=True)])

    def proposals(
        self, X: Float, labels: NDArray[np.int64] | None = None, scales: Sequence[float] = SCALES
    ) -> list[Family]:
        """Return candidates for the unknown parts: the i-th combines the i-th proposal of each part, coarse to fine.

        With labels, parts other than numbers take the proposal with the most evidence in that clustering.
        """
        from dyncrp.families.columns_proposals import propose  # it makes Gaussians

        if self.known:
            return [self]
        found = [propose(family, X[:, list(part)], labels, scales) for part, family in self.parts]
        if not all(found):
            return []
        most = max(map(len, found))
        return [self._with([some[i * len(some) // most] for some in found]) for i in range(most)]

    def for_one_cluster(self, found: Family) -> Family:
        """Return the found family with each part for one cluster."""
        if not isinstance(found, Columns):
            return found
        pairs = zip(self.parts, found.parts, strict=True)
        return self._with(protocols.for_one_cluster(one, other) for (_, one), (_, other) in pairs)

    def sharpen(self, resolution: float) -> Columns:
        """Return the family with every part sharpened that has a resolution."""
        self.require_known()
        families: list[Family] = [family for _, family in self.parts]
        if not any(isinstance(one, Sharpens) for one in families):
            raise ValueError("no part of Columns has a resolution to change")
        return self._with(one.sharpen(resolution) if isinstance(one, Sharpens) else one for one in families)

    def check(self, X: Float) -> Float:
        """Check that parts take X. NaN is a missing cell; a part that is not independent must be missing as a whole."""
        self._require_positions()
        if X.shape[1] != self.width:
            raise ValueError(f"Columns has parts for {self.width} columns, but X has {X.shape[1]} features")
        found = X
        for part, family in self.parts:
            at = list(part)
            cells = np.ascontiguousarray(X[:, at])
            present = np.ones(len(X), dtype=bool)
            if not family.independent:
                missing = np.isnan(cells)
                present = ~np.all(missing, axis=1)
                if np.any(missing[present]):
                    row = int(np.flatnonzero(present & np.any(missing, axis=1))[0])
                    raise missing_cell(family, row, part[int(np.argmax(missing[row]))])
                cells = cells[present]
            try:
                checked = family.check(cells) if len(cells) else cells
            except BadRow as error:
                column = None if error.column is None else part[error.column]
                raise BadRow(error.reason, np.flatnonzero(present)[error.row], column) from None
            if checked is not cells:
                found = found.copy() if found is X else found
                found[np.ix_(present, at)] = checked
        return found

    def _present(self, X: Float) -> list[tuple[Piece, Float, Float]]:
        """Return for each piece its columns (n, d), with 0 in missing cells, and 1 where it is present (n, 1)."""
        here = ~np.isnan(X)
        cells = np.where(here, X, 0.0)
        return [(piece, cells[:, piece.at], here[:, piece.at[:1]].astype(np.float64)) for piece in self.pieces]

    def statistics(self, X: Float) -> Float:
        """Return (1, T of each piece, zeros if it is missing): (n, D) to (n, S)."""
        each = [here * piece.family.statistics(cells) for piece, cells, here in self._present(X)]
        return np.hstack([np.ones((len(X), 1)), *each])

    def n_statistics(self, n_features: int) -> int:
        """Return the sum over the pieces, and 1."""
        return self.pieces[-1].stats.stop

    def observed(self, X: Float) -> tuple[Float, Float]:
        """Return 1 for the statistics (n, S) and squares (n, P) of pieces that are present, 0 for the others."""
        here = ~np.isnan(X)
        of_stats = [np.repeat(here[:, p.at[:1]], p.stats.stop - p.stats.start, axis=1) for p in self.pieces]
        of_squares = [np.repeat(here[:, p.at[:1]], p.squares.stop - p.squares.start, axis=1) for p in self.pieces]
        return np.hstack([np.ones((len(X), 1)), *of_stats]), np.hstack(of_squares).astype(np.float64)

    def squares(self, X: Float) -> Float:
        """Return the squares of the pieces side by side."""
        return np.hstack([here * protocols.squares(piece.family, cells) for piece, cells, here in self._present(X)])

    def expected_squares(self, stats: Float, n_features: int) -> Float:
        """Return the expected squares of the pieces side by side; 0 for pieces that were always missing."""
        with np.errstate(invalid="ignore", divide="ignore"):
            each = [
                piece.family.expected_squares(stats[:, piece.stats], len(piece.at))
                for piece in self.pieces
                if isinstance(piece.family, HasShape)
            ]
        found: Float = np.nan_to_num(np.hstack(each))
        return found

    def log_base_measure(self, X: Float) -> Float:
        """Return the sum over the pieces that are present."""
        return np.sum([here[:, 0] * p.family.log_base_measure(cells) for p, cells, here in self._present(X)], axis=0)

    def log_partition(self, stats: Float) -> Float:
        """Return the sum over the pieces."""
        return np.sum([piece.family.log_partition(stats[:, piece.stats]) for piece in self.pieces], axis=0)

    def _sum_of_present(self, X: Float, stats: Float, name: str) -> Float:
        """Return the sum of the named method over the pieces that are present: (n, D) and (K, S) to (n, K)."""
        total = np.zeros((len(X), len(stats)))
        for piece in self.pieces:
            here = ~np.isnan(X[:, piece.at[0]])  # a family might not take the zeros in missing cells
            total[here] += getattr(piece.family, name)(X[here][:, piece.at], stats[:, piece.stats])
        return total

    def log_predictive(self, X: Float, stats: Float) -> Float:
        """Return the sum over the pieces that are present."""
        return self._sum_of_present(X, stats, "log_predictive")

    def log_predictive_terms(self, X: Float, stats: Float) -> Float:
        """Return the terms of the pieces; 0 where a cell is missing."""
        terms = np.zeros((len(X), len(stats), self.width))
        for piece in self.pieces:
            here = np.flatnonzero(~np.isnan(X[:, piece.at[0]]))
            found = protocols.log_predictive_terms(piece.family, X[here][:, piece.at], stats[:, piece.stats])
            terms[here[:, None], :, piece.at] = np.swapaxes(found, 1, 2)
        return terms

    def expected_log_likelihood(self, X: Float, stats: Float) -> Float:
        """Return the sum over the pieces that are present."""
        return self._sum_of_present(X, stats, "expected_log_likelihood")

    def centers(self, stats: Float) -> Float:
        """Return the centres of the pieces; the prior's centre where a table has never seen a column."""
        found = np.empty((len(stats), self.width))
        for piece in self.pieces:
            found[:, piece.at] = piece.family.centers(stats[:, piece.stats])
        return found

    def means(self, stats: Float) -> Float:
        """Return the means of the pieces, of the cells that are there; the centre where a table has seen none."""
        found = self.centers(stats)
        for piece in self.pieces:
            own = stats[:, piece.stats]
            found[:, piece.at] = np.where(own[:, :1] > 0.0, piece.family.means(own), found[:, piece.at])
        return found

    def code_probabilities(self, stats: Float, d: int) -> Float | None:
        """Return the code probabilities of column d from its family."""
        piece = next(piece for piece in self.pieces if d in piece.at)
        if not isinstance(piece.family, HasCodes):
            return None
        return piece.family.code_probabilities(stats[:, piece.stats], piece.at.index(d))

    def counts(self, stats: Float, d: int) -> Float:
        """Return how many rows of each table had a value in column d, (K,)."""
        return stats[:, next(piece.stats.start for piece in self.pieces if d in piece.at)]

    def told(self, stats: Float) -> Float:
        """Return how much each column tells about the table of a row, in nats per row: (D,).

        This is the log evidence of the column with these tables, minus that with one table for all rows, divided by the
        number of rows. A column that is the same at all tables has a value slightly below 0. The columns of a part that
        is not independent share its value equally.
        """
        found = np.empty(self.width)
        whole = np.sum(stats, axis=0, keepdims=True)
        for piece in self.pieces:
            parts, one = stats[:, piece.stats], whole[:, piece.stats]
            gain = np.sum(piece.family.log_partition(parts)) - piece.family.log_partition(one)[0]
            found[list(piece.at)] = gain / max(whole[0, 0], 1e-300) / len(piece.at)  # there may be no rows
        return found

    def shapes(self, stats: Float, squares: Float) -> Shapes:
        """Return the coordinates of all pieces side by side, each with a variance of its own, (K, Q)."""
        centers, spreads, betweens, least = [], [], [], 1.0
        for piece in self.pieces:
            count = stats[:, piece.stats.start]
            seen = count > 0.0
            some = np.where(seen[:, None], stats[:, piece.stats], piece.family.statistics(np.zeros((1, len(piece.at)))))
            with np.errstate(invalid="ignore", divide="ignore"):
                shape = protocols.shapes(piece.family, some, squares[:, piece.squares])
            Q = shape.centers.shape[1]
            spread = shape.spread
            if spread.ndim == 3:
                spread = np.diagonal(spread, axis1=1, axis2=2)
            spread = np.ones((len(stats), 1)) if spread.size == 0 else spread.reshape(len(stats), -1)
            usual = np.average(shape.centers[seen], axis=0, weights=count[seen]) if np.any(seen) else np.zeros(Q)
            centers.append(np.where(seen[:, None], shape.centers, usual))
            spreads.append(np.where(seen[:, None], np.maximum(spread, shape.least), 1.0) + np.zeros(Q))
            betweens.append(shape.between + np.zeros(Q))
            least = min(least, shape.least)
        return Shapes(stats[:, 0], np.hstack(centers), np.hstack(spreads), least, np.hstack(betweens))

    def add(self, first: Tables, second: Tables) -> dict[str, Float]:
        """Return the sums of stats and squares. Anything else that an engine keeps follows from them."""
        return {name: first[name] + second[name] for name in ("stats", "squares") if name in first}

    def log_bayes_factor(self, first: Tables, second: Tables) -> Float:
        """Return the sum over the pieces that both tables have seen."""
        total = np.zeros(max(len(first["stats"]), len(second["stats"])))
        for piece in self.pieces:
            one, other = ({"stats": tables["stats"][:, piece.stats]} for tables in (first, second))
            both = (one["stats"][:, 0] > 0) & (other["stats"][:, 0] > 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                total += np.where(both, piece.family.log_bayes_factor(one, other), 0.0)
        return total

    def sample_parameters(self, n_tables: int, n_features: int, seed: Seed = None) -> Float:
        """Draw the parameters of all parts, side by side."""
        self.require_known()
        rng = np.random.default_rng(seed)
        return np.hstack([family.sample_parameters(n_tables, len(part), rng) for part, family in self.parts])

    def sample(self, parameters: Float, seed: Seed = None) -> Float:
        """Draw a complete row for each row of parameters: (n, P) to (n, D)."""
        self.require_known()
        rng = np.random.default_rng(seed)
        widths = [family.sample_parameters(1, len(part), 0).shape[1] for part, family in self.parts]
        found = np.empty((len(parameters), self.width))
        for (part, family), some in zip(
            self.parts, np.split(np.asarray(parameters), np.cumsum(widths)[:-1], axis=1), strict=True
        ):
            found[:, part] = family.sample(some, rng)
        return found

    def settings(self, n_features: int) -> Settings:
        """Return the settings of ``Columns`` in C++, in which columns of one kind go faster together."""
        parts = []
        for _, some in groupby(self.pieces, _kind):
            pieces = list(some)
            one, at = protocols.join([piece.family for piece in pieces]), [at for piece in pieces for at in piece.at]
            kind, values, coordinates = protocols.settings(one, len(at))
            parts.append({"at": at, "family": {kind: values}, "coordinates": coordinates})
        return Settings("Columns", {"parts": parts}, {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((type(self), self.parts))

    def __repr__(self) -> str:
        shown = (f"{part[0] if len(part) == 1 else part!r}: {family!r}" for part, family in self.parts)
        return f"Columns({{{', '.join(f'{one}' for one in shown)}}})"


def _kind(piece: Piece) -> tuple[Any, ...]:
    """Return what pieces have in common that the loop can join: those of single columns."""
    family = piece.family
    if not family.independent or not isinstance(family, Compiled):
        return (piece.at,)
    return type(family), *(getattr(family, name) for name in family.shared)


def _as_parts(given: Any) -> tuple[Part, ...]:
    """Return the parts as pairs of columns and family."""
    pairs = given.items() if isinstance(given, Mapping) else given
    wanted = "a dict of families by their columns, such as {0: Gaussian(), (1, 2): Bernoulli()}"
    try:
        found = [((key,) if isinstance(key, (str, int, np.integer)) else tuple(key), family) for key, family in pairs]
    except (TypeError, ValueError):
        raise ValueError(f"the parts of Columns must be {wanted}, got {given!r}") from None
    parts: list[Part] = []
    for part, family in found:
        if not isinstance(family, Family) or isinstance(family, Columns):
            raise ValueError(f"the parts of Columns must be {wanted}, got {family!r} for {part}")
        if not part or not all(isinstance(column, str) or _is_position(column) for column in part):
            raise ValueError(f"columns must be names or positions from 0, got {part!r} in Columns")
        parts.append((tuple(column if isinstance(column, str) else int(column) for column in part), family))
    if not parts:
        raise ValueError(f"the parts of Columns must be {wanted}, got none")
    return tuple(parts)


def _is_position(column: object) -> bool:
    return isinstance(column, (int, np.integer)) and not isinstance(column, (bool, np.bool_)) and bool(column >= 0)
