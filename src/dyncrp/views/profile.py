"""What is typical of each cluster, in the words of the data: ``dyncrp run`` and ``dyncrp summary`` print it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock
from dyncrp.engine.types import Float, Int
from dyncrp.families import Bernoulli, Columns, Family, Gaussian, NormalGamma, NormalWishart, Poisson
from dyncrp.families.protocols import HasCodes
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import LOG
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters
from dyncrp.views.describe import as_dates, code_names, names_of, telling_words

MOST_TRAITS = 32  # of a cluster; of thousands of features, nobody reads more
LEAST_PROBABILITY = 0.1  # of a category that is named beside the likeliest one
LEAST_DEVIATION = 0.5  # standard deviations from which a mean counts as high or low
MOST_DECIMALS = 6
TINY = 1e-300


@dataclass(frozen=True)
class Trait:
    """What is typical of a cluster in one column.

    Attributes
    ----------
    column : the name of the column; "" for a word of texts.
    text : its mean in the units of the data, the likeliest categories with their lift, a share, or the word.
    strength : how much the column tells the cluster from all rows, in nats: ½ ln(1 + z²) for a mean that lies z
        standard deviations of all rows from the mean of all rows, and Σ p ln(p/p of all rows) for categories.
    deviation : z with its sign for numbers, NaN for categories and words.

    >>> str(Trait("height", "5.1", 0.8, 2.0)), str(Trait("colour", "red 90 % (lift 2.0)", 0.3))
    ('height 5.1 ↑', 'colour red 90 % (lift 2.0)')
    """

    column: str
    text: str
    strength: float
    deviation: float = math.nan

    def __str__(self) -> str:
        sign = "" if not abs(self.deviation) >= LEAST_DEVIATION else " ↑" if self.deviation > 0.0 else " ↓"
        return f"{self.column} {self.text}{sign}".lstrip()


@dataclass(frozen=True)
class ClusterProfile:
    """A cluster as people see it.

    Attributes
    ----------
    id : of the cluster. names: of its tables, if they have any.
    rows : how many rows have the label of one of its tables. share: of the rows of all open tables.
    first_seen, last_seen : the times of the first and the last of them: datetime64 in UTC, or floats.
    tables : how many tables it has.
    typical : the traits, the strongest first.
    """

    id: int
    names: tuple[str, ...]
    rows: int
    share: float
    first_seen: Any
    last_seen: Any
    tables: int
    typical: tuple[Trait, ...]


def profile(stream: Stream, clusters: Clusters, most: int = MOST_TRAITS) -> list[ClusterProfile]:
    """Return the clusters of a stream, the largest first, with at most so many traits each.

    Means are those of a cluster's own rows, each weighted by its responsibility: statistics add up.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0], [5.0, 1.2], [50.0, 1.1], [52.0, 1.0]])
    >>> for cluster in profile(model.stream_, model.clusters(2)):
    ...     print(cluster.id, cluster.rows, cluster.tables, *cluster.typical, sep="; ")
    0; 2; 2; x0 2 ↓; x1 1.100
    2; 2; 1; x0 51 ↑; x1 1.050
    """
    engine = stream.engine
    state = engine.seating
    at = np.flatnonzero(clusters.labels(state.ids) >= 0)
    ids, places = np.unique(clusters.labels(state.ids[at]), return_inverse=True)
    C = len(ids)
    sizes = np.bincount(places, state.sizes[at], C).astype(np.int64)
    first, last = np.full(C, np.inf), np.full(C, -np.inf)
    seen = state.sizes[at] > 0  # a table can open with a row that gets another label
    for some in (seen, ~np.isin(places, places[seen])):  # such tables count in clusters of no other
        np.minimum.at(first, places[some], state.first_times[at][some])
        np.maximum.at(last, places[some], state.last_times[at][some])
    dated = stream.clock is Clock.DATES and C > 0
    typical = _words(stream, state.ids[at], places, C) if stream.family.sparse else _traits(stream, at, places, C, most)
    names = [stream.names.get(table) for table in state.ids[at].tolist()]
    total = max(1, int(np.sum(state.sizes)))
    seen_first, seen_last = (as_dates(times) if dated else times.tolist() for times in (first, last))
    return [
        ClusterProfile(
            int(ids[c]),
            tuple(name for name, place in zip(names, places.tolist(), strict=True) if place == c and name),
            int(sizes[c]),
            float(sizes[c]) / total,
            seen_first[c],
            seen_last[c],
            int(np.sum(places == c)),
            typical[c],
        )
        for c in np.lexsort((ids, -sizes)).tolist()
    ]


def _words(stream: Stream, tables: Int, places: Int, C: int) -> list[tuple[Trait, ...]]:
    """Return the characteristic words of each cluster."""
    sets = [tables[places == c].tolist() for c in range(C)]
    names = None if stream.input.vocabulary is None else stream.input.vocabulary.words
    return [
        tuple(Trait("", word, math.log(max(lift, TINY))) for word, lift in found.items())
        for found in telling_words(stream.engine, sets, names)
    ]


def _traits(stream: Stream, at: Int, places: Int, C: int, most: int) -> list[tuple[Trait, ...]]:
    """Return the traits of each cluster from the statistics of its tables. at: (K,) those that are in a cluster."""
    engine, encoding = stream.engine, stream.input.encoding
    family, state = engine.model.family, engine.seating
    stats, squares = state.stats[at], state.squares[at]
    if engine.model.memory < math.inf:  # tables count by all their rows, not only by those that they remember
        weights = (np.maximum(state.sizes[at], 1) / np.maximum(stats[:, 0], TINY))[:, None]
        stats, squares = stats * weights, squares * weights
    pooled = np.zeros((C, stats.shape[1]))
    np.add.at(pooled, places, stats)
    names = names_of(engine, stream.input.names, encoding)
    found: list[list[Trait]] = [[] for _ in range(C)]
    numbers = _Numbers.of(family, stats, squares, pooled, encoding)
    for d, name in enumerate(names):
        words = None if encoding is None else encoding[encoding.features[d]].words
        counts = _counts(family, pooled, d)
        probabilities = family.code_probabilities(pooled, d) if isinstance(family, HasCodes) else None
        if probabilities is not None:
            traits = _codes(name, probabilities, counts, words)
        elif isinstance(_family_of(family, d), Bernoulli):
            traits = _shares(name, numbers.means[:, d], counts, words)
        else:
            traits = numbers.traits(name, d)
        for c in np.flatnonzero(counts > 0.0).tolist():
            found[c].append(traits[c])
    return [tuple(sorted(some, key=lambda trait: -trait.strength)[:most]) for some in found]


@dataclass(frozen=True)
class _Numbers:
    """Means (C, D) of clusters, as they are and in the units of the data; mean and deviation (D,) of all rows."""

    means: Float
    shown: Float
    mean: Float
    deviation: Float
    logs: tuple[bool, ...]

    @classmethod
    def of(cls, family: Family, stats: Float, squares: Float, pooled: Float, encoding: Encoding | None) -> _Numbers:
        means, each = family.means(pooled), family.means(stats)
        D = means.shape[1]
        counts = np.column_stack([_counts(family, stats, d) for d in range(D)]) if D else each
        weights = counts / np.maximum(np.sum(counts, axis=0), TINY)
        mean = np.sum(weights * each, axis=0)
        variance = np.sum(weights * ((each - mean) ** 2 + _within(family, stats, squares, each)), axis=0)
        logs = () if encoding is None else tuple(encoding[name].kind == LOG for name in encoding.features)
        shown = means if encoding is None else encoding.decode(means)
        return cls(means, shown, mean, np.sqrt(variance), logs or (False,) * D)

    def traits(self, name: str, d: int) -> list[Trait]:
        """Return the traits of all clusters in feature d."""
        unit = float(self.deviation[d])
        z = (self.means[:, d] - self.mean[d]) / unit if unit > 0.0 else np.zeros(len(self.means))
        texts = [_number(value, None if self.logs[d] else unit) for value in self.shown[:, d].tolist()]
        if self.logs[d]:  # rounding errors of a logarithm of 0 are no number to show
            texts = ["0" if abs(log) < 0.01 * unit else text for log, text in zip(self.means[:, d], texts, strict=True)]
        strengths = 0.5 * np.log1p(z**2)
        return [Trait(name, *own) for own in zip(texts, strengths.tolist(), z.tolist(), strict=True)]


def _within(family: Family, stats: Float, squares: Float, means: Float) -> Float:
    """Return the variance of the rows within each table, (K, D) or (D,); 0 if the family does not say."""
    D = means.shape[1]
    if isinstance(family, Columns):
        found = np.zeros_like(means)
        for piece in family.pieces:
            found[:, piece.at] = _within(
                piece.family, stats[:, piece.stats], squares[:, piece.squares], means[:, piece.at]
            )
        return found
    if isinstance(family, Gaussian) and family.directions is None:
        seen = np.flatnonzero(stats[:, 0] > 0.0)
        sums = np.hstack(family.squares_of_features(stats[seen], squares[seen])) / stats[seen, :1]
        found = np.zeros_like(means)
        found[seen] = np.maximum(sums * family.variance - (means[seen] - family.prior_mean) ** 2, 0.0)
        return found
    if isinstance(family, Gaussian):
        return np.diagonal(family.within_covariance(D))
    if isinstance(family, NormalGamma):
        return family.variances(stats)
    if isinstance(family, NormalWishart):
        return np.diagonal(family.covariances(stats), axis1=1, axis2=2)
    if isinstance(family, Poisson):
        return means
    if isinstance(family, Bernoulli):
        return means * (1.0 - means)
    return np.zeros(D)


def _family_of(family: Family, d: int) -> Family:
    """Return the family of feature d."""
    return next(p.family for p in family.pieces if d in p.at) if isinstance(family, Columns) else family


def _counts(family: Family, stats: Float, d: int) -> Float:
    """Return how many values of feature d there are in each table, (K,)."""
    return family.counts(stats, d) if isinstance(family, HasCodes) else stats[:, 0]


def _codes(name: str, probabilities: Float, counts: Float, words: Sequence[str] | None) -> list[Trait]:
    """Return the likeliest category of each cluster, and one that it has more often than others, with their lift."""
    overall = np.maximum(counts / max(float(np.sum(counts)), TINY) @ probabilities, TINY)
    named = code_names(probabilities.shape[1] - 1, words)
    traits = []
    for row in probabilities:
        lift = row / overall
        nats = row * np.log(np.maximum(lift, TINY))
        first, telling = int(np.argmax(row)), int(np.argmax(nats))
        shown = [first, telling] if telling != first and row[telling] >= LEAST_PROBABILITY else [first]
        parts = [f"{named[code]} {100.0 * row[code]:.0f} %" for code in shown]
        parts[-1] += f" (lift {lift[shown[-1]]:.1f})"
        traits.append(Trait(name, ", ".join(parts), float(np.sum(nats))))
    return traits


def _shares(name: str, shares: Float, counts: Float, words: Sequence[str] | None) -> list[Trait]:
    """Return the likelier value of a boolean column in each cluster, and its share."""
    yes, no = words if words else ("1", "0")
    overall = float(counts @ shares / max(float(np.sum(counts)), TINY))
    traits = []
    for share in shares.tolist():
        pairs = (share, overall), (1.0 - share, 1.0 - overall)
        nats = sum(p * math.log(p / max(q, TINY)) for p, q in pairs if p > 0.0)
        text = f"{yes} {100.0 * share:.0f} %" if share >= 0.5 else f"{no} {100.0 * (1.0 - share):.0f} %"
        traits.append(Trait(name, text, nats))
    return traits


def _number(value: float, unit: float | None) -> str:
    """Return a number with as many decimals as tell values of this deviation apart; with four digits for None.

    >>> _number(1012.348, 5.0), _number(1012.348, 500.0), _number(0.00012345, 1e-8), _number(-0.001, 20.0)
    ('1,012.3', '1,012', '0.0001234', '0')
    >>> _number(-0.0512, 0.05), _number(-0.00084, 0.05)
    ('-0.051', '-0.001')
    >>> _number(12.5, math.inf)
    '12.5'
    """
    if unit is None or not 0.0 < unit < math.inf or not abs(value) < 1e12:
        return f"{value + 0.0:.4g}"
    if abs(value) < min(1e-3, 0.01 * unit):
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(unit)))
    if decimals > MOST_DECIMALS and abs(value) < 1e-3:
        return f"{value:.4g}"
    decimals = min(decimals, MOST_DECIMALS)
    text = f"{value:,.{decimals}f}"
    return text if text.strip("-0.,") else "0"
