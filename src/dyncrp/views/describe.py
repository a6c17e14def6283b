"""Descriptions of the open tables of a model: ``DynamicalMixture.describe`` and ``dyncrp summary``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import LATEST_DATE, Clock
from dyncrp.engine.types import Engine, Float, WordEngine
from dyncrp.families import Columns, Family
from dyncrp.families.protocols import HasCodes
from dyncrp.input.encoding import Encoding
from dyncrp.input.words import MASKS
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters, clusters_of

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("called", "rows", "share", "first_seen", "last_seen", "cluster")  # the columns before the features
MOST_CODES = 3  # listed in a cell
LEAST_PROBABILITY = 0.05  # of codes that are listed after the likeliest one
MOST_WORDS = 6  # listed in a cell
LEAST_SHARE = 0.1  # a listed word must be in this share of the documents of a table


def describe(stream: Stream, clusters: Clusters | int | None = None) -> pd.DataFrame:
    """Return a pandas DataFrame that describes the open tables; see ``DynamicalMixture.describe``."""
    if clusters is not None and not isinstance(clusters, Clusters):
        if isinstance(clusters, bool) or not isinstance(clusters, (int, np.integer)):
            raise ValueError(f"clusters must be what clusters() returns, or a number of clusters, got {clusters!r}")
        clusters = clusters_of(stream, int(clusters))
    return as_frame(describe_stream(stream, clusters), stream.engine.ids)


def describe_stream(stream: Stream, clusters: Clusters | None = None) -> dict[str, Any]:
    """Return what is known of each open table as columns by name; see ``describe_tables``."""
    input = stream.input
    names = input.names if input.vocabulary is None else input.vocabulary.words
    return describe_tables(stream.engine, names, stream.clock, clusters, input.encoding, stream.names)


def describe_tables(
    engine: Engine,
    feature_names: Sequence[str | None] | None,
    clock: str,
    clusters: Clusters | None = None,
    encoding: Encoding | None = None,
    table_names: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return columns by name, each with an entry for each open table, in the order of their ids.

    The columns are those of ``DynamicalMixture.describe``: first_seen and last_seen are datetime64 in UTC if the clock
    is "dates", floats otherwise; the features are described by ``describe_features``, or as one column ``words`` by
    ``describe_words``.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [0.0], [0.0]])
    >>> columns = describe_tables(model.engine_, None, model.clock_)
    >>> columns["rows"].tolist(), columns["share"].tolist(), columns["last_seen"].tolist(), list(columns)[-1]
    ([3, 1], [0.75, 0.25], [3.0, 1.0], 'x0')
    """
    state = engine.seating
    called = [(table_names or {}).get(table, "") for table in state.ids.tolist()]
    columns = {
        **({"called": called} if any(called) else {}),
        "rows": state.sizes,
        # There may be no rows: the only open table may have opened with a row of a table that then closed.
        "share": state.sizes / max(1, int(np.sum(state.sizes))),
        "first_seen": as_dates(state.first_times) if clock == Clock.DATES else state.first_times,
        "last_seen": as_dates(state.last_times) if clock == Clock.DATES else state.last_times,
    }
    if clusters is not None:
        columns["cluster"] = clusters.labels(state.ids)
    if engine.model.family.sparse:
        return columns | {"words": describe_words(engine, feature_names)}
    names = names_of(engine, feature_names, encoding)
    return columns | describe_features(engine.model.family, state.stats, names, encoding)


def names_of(engine: Engine, names: Sequence[str | None] | None, encoding: Encoding | None) -> list[str]:
    """Return the names of the features, made distinct; x0, x1, … if they have none."""
    if encoding is not None:
        return _distinct(encoding.features)
    return _distinct([f"x{d}" for d in range(engine.n_features)] if names is None else list(map(str, names)))


def describe_features(
    family: Family, stats: Float, names: Sequence[str], encoding: Encoding | None = None
) -> dict[str, list[Any]]:
    """Return a description of each feature, by name, in each of K tables with stats (K, S).

    For numbers it is the mean of the table's rows, each weighted by its responsibility. For codes it is a text with the
    likeliest code, its probability and its lift, then other codes of at least 5 %. The lift is the ratio of the
    probability in the table to that in all tables, weighted by their numbers of observations. With an encoding, codes
    are its categories, and logarithms are undone.

    >>> from dyncrp import Bernoulli, Categorical
    >>> ones = np.array([[8.0, 7.0], [8.0, 0.0]])  # of 8 observations, 7 and none
    >>> describe_features(Bernoulli(1.0, 1.0), ones, ["wet"])
    {'wet': [0.875, 0.0]}
    >>> codes = np.array([[20.0, 2.0, 18.0, 0.0], [20.0, 20.0, 0.0, 0.0]])
    >>> describe_features(Categorical(0.1, n_codes=2), codes, ["colour"])
    {'colour': ['1 90 % (lift 2.0), 0 10 %', '0 100 % (lift 1.8)']}
    """
    means = family.means(stats)
    if encoding is not None:
        means = encoding.decode(means)
    cells: dict[str, list[Any]] = {}
    for d, name in enumerate(names):
        probabilities = family.code_probabilities(stats, d) if isinstance(family, HasCodes) else None
        if not isinstance(family, HasCodes) or probabilities is None:
            cells[name] = means[:, d].tolist()
            continue
        counts = family.counts(stats, d)
        words = None if encoding is None else encoding[encoding.features[d]].words
        texts = _list_codes(probabilities, counts / max(float(np.sum(counts)), 1e-300), words)
        cells[name] = [text if n > 0.0 else "" for text, n in zip(texts, counts.tolist(), strict=True)]
    return cells


def describe_words(engine: Engine, names: Sequence[str | None] | None = None) -> list[str]:
    """Return the characteristic words of each open table as a text: those with a high lift, see ``telling_words``.

    >>> from dyncrp import DynamicalMixture, Multinomial, Stationary
    >>> texts = ["storm hits the coast", "polls open in the city", "storm off the coast", "polls close in the city"]
    >>> model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(texts)
    >>> describe_words(model.engine_, model.vocabulary_.words)
    ['storm (lift 2.2), coast (2.2), the (1.1)', 'polls (lift 1.8), in (1.8), city (1.8), the (0.9)']
    """
    texts = []
    for words in telling_words(engine, [[table] for table in engine.ids.tolist()], names):
        named = [(word, f"{lift:.2g}") for word, lift in words.items()]
        texts.append(", ".join(f"{word} ({'' if i else 'lift '}{lift})" for i, (word, lift) in enumerate(named)))
    return texts


def telling_words(
    engine: Engine, sets: Sequence[Sequence[int]], names: Sequence[str | None] | None = None
) -> list[dict[str, float]]:
    """Return the characteristic words of each set of open tables, given by their ids, with their lift.

    The lift of a word is the ratio of its share of the words of a set to its share of the words of all tables. A word
    must occur twice in the set, and once in ten of its documents. Words are sorted by lift · (1 − 1/√(n + 1)), where n
    is the count of the word: its lift less about one standard error, so that rare words do not lead. names: the words
    by column; masks of URLs and numbers are not listed.
    """
    counted = cast(WordEngine, engine)
    known, totals = counted.word_totals()
    overall = totals / max(float(np.sum(totals)), 1e-300)
    masks = [column for column, name in enumerate(names or ()) if name in MASKS]  # they say nothing about a topic
    sizes = dict(zip(engine.ids.tolist(), engine.seating.sizes.tolist(), strict=True))
    found = []
    for tables in sets:
        each = [counted.word_counts(table) for table in tables]
        words, places = np.unique(np.concatenate([words for words, _ in each]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts for _, counts in each]), len(words))
        rows = sum(sizes[table] for table in tables)
        often = counts >= max(LEAST_SHARE * rows, min(2.0, float(np.max(counts, initial=0.0))))
        often &= ~np.isin(words, masks)
        words, shares = words[often], counts[often] / max(float(np.sum(counts)), 1e-300)
        lift = shares / overall[np.searchsorted(known, words)]
        order = np.lexsort((words, -lift * (1.0 - 1.0 / np.sqrt(counts[often] + 1.0))))[:MOST_WORDS].tolist()
        found.append({_name(names, int(words[at])): float(lift[at]) for at in order})
    return found


def _name(names: Sequence[str | None] | None, column: int) -> str:
    name = names[column] if names is not None and column < len(names) else None
    return f"x{column}" if name is None else name


def what_tells_apart(engine: Engine, names: Sequence[str]) -> dict[str, float]:
    """Return how much each feature distinguishes the tables, as a share of the total, in descending order.

    The result is empty unless features are independent, see ``Columns.told``.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.0], [0.0, 30.0]])
    >>> what_tells_apart(model.engine_, ["a", "b"])
    {'b': 1.0, 'a': 0.0}
    """
    family = engine.model.family
    if not family.independent:
        return {}
    state = engine.state
    columns = family if isinstance(family, Columns) else Columns.of(family, engine.n_features)
    stats = state.stats if columns is family else columns.split(state.stats, state.squares)["stats"]
    nats = np.maximum(columns.told(stats), 0.0)
    parts = nats / max(float(np.sum(nats)), 1e-300)
    return dict(sorted(zip(names, parts.tolist(), strict=True), key=lambda item: -item[1]))


def as_frame(columns: dict[str, Any], ids: NDArray[np.int64], of: str = "table") -> pd.DataFrame:
    """Return columns as a DataFrame with the ids as its index, and dates in UTC. of: what the ids are of."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"a frame of {of}s needs pandas: pip install pandas, or 'dyncrp[experiments]', which has it"
        ) from error

    frame = pd.DataFrame(columns, index=pd.Index(ids, name=of))
    for name in ("first_seen", "last_seen"):
        if frame[name].dtype.kind == "M":
            frame[name] = frame[name].dt.tz_localize("UTC")
    return frame


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of features, made distinct from each other and from the other columns.

    >>> _distinct(["rows", "a", "a"])
    ['rows (x0)', 'a', 'a (x2)']
    """
    taken = [*COLUMNS]
    for d, name in enumerate(names):
        taken.append(f"{name} (x{d})" if name in taken else name)
    return taken[len(COLUMNS) :]


def as_dates(times: Float) -> NDArray[np.datetime64]:
    """Return seconds since 1970 as dates with microseconds, or with seconds if that would overflow."""
    if np.max(np.abs(times)) < LATEST_DATE:
        return np.rint(times * 1e6).astype(np.int64).view("M8[us]")
    return np.rint(times).astype(np.int64).view("M8[s]")


def code_names(n_codes: int, words: Sequence[str] | None) -> list[str]:
    """Return what codes 0 to n_codes − 1 are called, and after them all others. words: those of the first codes.

    >>> code_names(2, None), code_names(2, ["red"]), code_names(1, ["red", "blue"])
    (['0', '1', '≥2'], ['red', 'another', '≥2'], ['red', 'others'])
    """
    if words is None:
        words = [str(code) for code in range(n_codes)]
    rest = "others" if len(words) > n_codes else f"≥{n_codes}"
    return [*words[:n_codes], *["another"] * (n_codes - len(words)), rest]


def _list_codes(probabilities: Float, weights: Float, words: Sequence[str] | None) -> list[str]:
    """Return the likeliest codes of tables, or their words, as texts. probabilities: (K, C + 1), codes ≥ C last."""
    overall = weights @ probabilities
    words = code_names(probabilities.shape[1] - 1, words)
    texts = []
    for row in probabilities:
        first, *others = np.argsort(-row, kind="stable")[:MOST_CODES].tolist()
        parts = [f"{100.0 * row[code]:.0f} %" for code in (first, *others)]
        if overall[first] > 0.0:  # it is not missing in all rows
            parts[0] += f" (lift {row[first] / overall[first]:.1f})"
        named = [f"{words[code]} " for code in (first, *others)]
        shown = 1 + sum(row[code] >= LEAST_PROBABILITY for code in others)
        texts.append(", ".join(name + part for name, part in zip(named[:shown], parts[:shown], strict=True)))
    return texts
