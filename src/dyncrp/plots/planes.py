"""Two axes on which clusters of rows can be seen: two columns, or two directions in all columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.extmath import randomized_svd

from dyncrp.arrays.counts import Counts
from dyncrp.engine.types import Float, Int
from dyncrp.families.protocols import HasCodes
from dyncrp.input.entries import LOG
from dyncrp.input.input import Input
from dyncrp.stream.stream import Stream
from dyncrp.views.describe import names_of
from dyncrp.views.layout import short_name

MOST_CODES = 8  # of a column of categories that count for directions
MOST_DIMENSIONS = 40  # in which directions are sought; more columns are first reduced to these
MOST_TRIED = 6  # columns of which all pairs are tried
NEARLY = 0.85  # two columns are shown if they tell clusters apart nearly as well as the two best directions
SHRINKAGE = 0.1  # of the covariance within clusters, towards a round one
LEAST_CORRELATION = 0.3  # of a column that an axis is named after
LEAST_ROWS = 3  # of a cluster that counts


@dataclass(frozen=True)
class Plane:
    """Where to draw rows: points (n, 2), a label for each axis, and whether the axis is logarithmic."""

    points: Float
    labels: tuple[str, str]
    logs: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class _Coordinates:
    """Rows as standardised coordinates Z (n, m) with names (m,), and which of these are columns of numbers."""

    Z: Float | csr_array
    names: list[str]
    columns: dict[int, tuple[Float, bool]]  # place → values as they are (n,), and whether the axis is logarithmic


def plane_of(stream: Stream, rows: Float | Counts, labels: Int, when: Float, name: str) -> Plane:
    """Return where to draw rows (n, D) of clusters (n,), −1 for none.

    Two columns are shown if they tell clusters apart nearly as well as two directions do, by the nearest mean. The
    directions are those in which the means of clusters differ most, in units of the spread within clusters. A single
    column is drawn over time. when: (n,) the times; name: of the time.
    """
    found = _words(stream.input, rows) if isinstance(rows, Counts) else _features(stream, rows)
    if found.Z.shape[1] == 1 and found.columns:
        values, log = found.columns[0]
        return Plane(np.column_stack([when, values]), (name, found.names[0]), (False, log))
    kept = _dimensions(found.Z)
    directions = _directions(kept, labels)
    pairs = _pairs(found, labels)
    if pairs:
        scores = [_accuracy(kept_pair, labels) for _, kept_pair in pairs]
        best = int(np.argmax(scores))
        if found.Z.shape[1] == 2 or scores[best] >= NEARLY * _accuracy(directions, labels):
            x, y = pairs[best][0]
            (first, x_log), (second, y_log) = found.columns[x], found.columns[y]
            return Plane(np.column_stack([first, second]), (found.names[x], found.names[y]), (x_log, y_log))
    names = [_name_direction(found, directions[:, i], i) for i in range(2)]
    return Plane(directions, (names[0], names[1]))


def _features(stream: Stream, rows: Float) -> _Coordinates:
    """Return numbers as they are, and categories as a coordinate for each of their commonest codes."""
    encoding, family = stream.input.encoding, stream.engine.model.family
    names = names_of(stream.engine, stream.input.names, encoding)
    decoded = rows if encoding is None else encoding.decode(rows)
    coordinates, called, columns = list[Float](), list[str](), dict[int, tuple[Float, bool]]()
    continuous = family.continuous(rows.shape[1]) if isinstance(family, HasCodes) else np.ones(rows.shape[1], bool)
    for d, name in enumerate(names):
        probabilities = (
            family.code_probabilities(stream.engine.state.stats[:1], d) if isinstance(family, HasCodes) else None
        )
        if probabilities is None:
            if continuous[d] or rows.shape[1] <= 2:
                log = encoding is not None and encoding[encoding.features[d]].kind == LOG
                columns[len(called)] = decoded[:, d], log
            coordinates.append(_standardised(rows[:, d]))
            called.append(name)
            continue
        codes, counts = np.unique(rows[~np.isnan(rows[:, d]), d], return_counts=True)
        for code in codes[np.argsort(-counts, kind="stable")][:MOST_CODES].tolist():
            word = f"{code:.0f}" if encoding is None else encoding.label(encoding.features[d], code)
            coordinates.append(_standardised((rows[:, d] == code).astype(np.float64), 0.2))
            called.append(f"{name} = {short_name(word)}")
    return _Coordinates(np.column_stack(coordinates), called, columns)


def _words(input: Input, rows: Counts) -> _Coordinates:
    """Return log(1 + count) of words, less for common words, of length 1 for each document."""
    known, places = np.unique(rows.indices, return_inverse=True)
    often = np.bincount(places, minlength=len(known))
    values = np.log1p(rows.data) * np.log((1 + len(rows)) / often)[places]
    which = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    length = np.sqrt(np.bincount(which, values**2, len(rows)))
    values = values / np.maximum(length, 1e-12)[which]
    words = [] if input.vocabulary is None else input.vocabulary.words
    names = [str(words[w]) if w < len(words) and words[w] is not None else f"x{w}" for w in known.tolist()]
    return _Coordinates(csr_array((values, places, rows.indptr), shape=(len(rows), max(1, len(known)))), names, {})


def _standardised(values: Float, least: float = 0.0) -> Float:
    """Return values (n,) with mean 0 and deviation 1, or less if the deviation is below ``least``; 0 if missing."""
    there = ~np.isnan(values)
    mean = float(np.mean(values[there])) if np.any(there) else 0.0
    deviation = max(float(np.std(values[there])) if np.any(there) else 0.0, least)
    centred = np.where(there, values - mean, 0.0)
    return centred / deviation if deviation > 0.0 else np.zeros_like(centred)


def _dimensions(Z: Float | csr_array) -> Float:
    """Return the coordinates, or the first ``MOST_DIMENSIONS`` principal ones if there are more."""
    if isinstance(Z, np.ndarray) and Z.shape[1] <= MOST_DIMENSIONS:
        return Z
    n = min(MOST_DIMENSIONS, *Z.shape)
    left, lengths, _ = randomized_svd(Z, n_components=n, n_iter=4, random_state=0)
    found = left * lengths
    return np.asarray(found - np.mean(found, axis=0), dtype=np.float64)


def _directions(Z: Float, labels: Int) -> Float:
    """Return rows (n, 2) along the directions in which clusters differ most, and then in which rows differ most."""
    n, m = Z.shape
    within, between = np.zeros((m, m)), np.zeros((m, m))
    for cluster in np.unique(labels[labels >= 0]).tolist() or [-1]:
        own = Z[labels == cluster]
        mean = np.mean(own, axis=0)
        within += (own - mean).T @ (own - mean) / n
        # A cluster weighs by the root of its rows, so that small ones are seen too.
        between += np.sqrt(len(own) / n) * np.outer(mean, mean)
    round_ = np.eye(m) * max(float(np.trace(within)) / m, 1e-9)
    lengths, axes = np.linalg.eigh((1.0 - SHRINKAGE) * within + SHRINKAGE * round_)
    white = Z @ (axes / np.sqrt(lengths))
    to_white = axes / np.sqrt(lengths)
    total = white.T @ white / n
    _, best = np.linalg.eigh(to_white.T @ between @ to_white + 1e-3 * total)
    found = white @ best[:, ::-1][:, :2]
    return found if m > 1 else np.column_stack([found, np.zeros(n)])


def _pairs(found: _Coordinates, labels: Int) -> list[tuple[tuple[int, int], Float]]:
    """Return pairs of the most telling columns, by their places, with their coordinates (n, 2)."""
    if not isinstance(found.Z, np.ndarray):
        return []
    told = {place: -_between(found.Z[:, place], labels) for place in found.columns}
    first = sorted(found.columns, key=lambda place: (told[place], place))[:MOST_TRIED]
    return [((x, y), found.Z[:, [x, y]]) for x, y in combinations(first, 2)]


def _between(values: Float, labels: Int) -> float:
    """Return which share of the variance of values (n,) lies between clusters."""
    _, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.bincount(places, values) / counts
    return float(np.sum(counts * means**2) / max(float(np.sum(values**2)), 1e-300))


def _accuracy(points: Float, labels: Int) -> float:
    """Return which share of the rows of a cluster are nearest to its mean, averaged over clusters."""
    ids, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    counted = np.flatnonzero((ids >= 0) & (counts >= LEAST_ROWS))
    if len(counted) < 2:
        return 1.0
    means = np.array([np.mean(points[places == c], axis=0) for c in counted])
    nearest = counted[np.argmin(np.sum((points[:, None] - means) ** 2, axis=2), axis=1)]
    return float(np.mean([np.mean(nearest[places == c] == c) for c in counted]))


def _name_direction(found: _Coordinates, values: Float, i: int) -> str:
    """Return a label for a direction, with the coordinates that are most correlated with it."""
    deviation = float(np.std(values))
    title = ("first direction", "second direction")[i]
    if deviation == 0.0:
        return title
    Z = found.Z
    spread = np.sqrt(np.maximum(np.asarray((Z * Z).mean(axis=0)) - np.asarray(Z.mean(axis=0)) ** 2, 1e-12))
    correlations = np.asarray(Z.T @ ((values - np.mean(values)) / deviation)) / len(values) / spread
    first = np.argsort(-np.abs(correlations), kind="stable")[:2]
    named = [
        f"{short_name(found.names[at])} {'+' if correlations[at] > 0 else '−'}"
        for at in first.tolist()
        if abs(correlations[at]) >= LEAST_CORRELATION
    ]
    return title + (f": {', '.join(named)}" if named else "")


def thin(X: Any, step: int) -> Any:
    """Return every ``step``-th row of an array, a frame, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[::step]
    rows = X.tocsr() if hasattr(X, "tocsr") else X
    return rows[::step]
