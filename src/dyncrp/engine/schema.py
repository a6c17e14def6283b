"""The layout of version 1 of the model file: all arrays and header entries, and how they are checked.

A test compares the tables in docs/files.md with these. Shapes are in symbols: K is the number of open tables, M of
modes, D of features; the page explains the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.counts import Counts
from dyncrp.arrays.rows import Dense, RowType
from dyncrp.engine.types import MOST_OBSERVATIONS, Arrays
from dyncrp.families import Family
from dyncrp.families.protocols import HasShape

FLOAT, COMPLEX, INT, BYTE = np.float64, np.complex128, np.int64, np.uint8
FINITE, CELLS, FROM_0, UP = "finite numbers", "finite numbers or NaN", "numbers from 0", "numbers from 0 that count up"


class Array(NamedTuple):
    """An array. shape: in symbols. absent: the default, if it may be absent. holds: which numbers it may hold."""

    name: str
    dtype: type[np.generic]
    shape: tuple[str | int, ...]
    meaning: str
    absent: str = ""
    holds: str = FINITE


class Field(NamedTuple):
    """An entry of the header. kind: of its JSON value. absent: the meaning of its absence, if it may be absent."""

    name: str
    kind: str
    meaning: str
    absent: str = ""


Group = dict[str, Array]
# The Python types of the kinds of JSON values.
KINDS: dict[str, tuple[type, ...]] = {"text": (str,), "integer": (int,), "number": (int, float), "object": (dict,)}
KINDS |= {"list": (list,), "list or null": (list, type(None))}


def _group(*entries: Array) -> Group:
    return {entry.name: entry for entry in entries}


def _words(prefix: str, n: str, when: str, row: str) -> Group:
    """Return the arrays of n sparse rows of counts of words."""
    return _group(
        Array(f"{prefix}indptr", INT, (f"{n} + 1",), f"{when}: where the words of each {row} begin in the next two"),
        Array(f"{prefix}indices", INT, ("m",), "the columns of the words"),
        Array(f"{prefix}counts", FLOAT, ("m",), f"how often the {row} has each"),
    )


_FOUND = "found from the others, up to rounding"
_ROW = "the row as the family takes it, NaN where a cell is missing"

HEADER = (
    Field("format", "text", '`"dyncrp-model"`'),
    Field("version", "integer", "1: of the format"),
    Field("dyncrp", "text", "the version of dyncrp that wrote the file. A reader only uses it in messages"),
    Field("config.params", "object", "the arguments of `DynamicalMixture`"),
    Field("config.hyperparameters", "object", "`family`, `dynamics`, `alpha` and `memory` in use, as given or learned; "
          "without a `memory`, it is infinite. `cloud` is true if the first rows were a cloud without clusters"),
    Field("config.n_features", "integer", "D"),
    Field("config.clock", "text", 'the kind of times: `"index"` (of arrival), `"numbers"` or `"dates"`, which are '
          "seconds since 1970 in UTC"),
    Field("config.feature_names", "list or null", "the names of the features, D strings, if they have names"),
    Field("config.encoding", "list", "`[name, kind, words, reason]` for each column; `kind` is "
          '`"number"`, `"log"`, `"yes/no"` (a boolean), `"category"` or `"left out"`, `words` are those for booleans, '
          "or the categories in order of their codes. D is then the number of columns that are not left out, and "
          "`config.feature_names` has all of them", "columns hold numbers only"),
    Field("config.vocabulary", "object", "`stop_words`, whether the commonest words of English are left out of texts, "
          "`words`, those of the columns in order, null for a column that is free, and `masks`, false if URLs and "
          "numbers are left out of texts; without a `masks`, they are the words `<url>` and `<number>`",
          "rows did not come as words"),
    Field("config.prior_alpha", "number", "the mean of alpha's prior", "alpha is not learned (`learn_alpha`)"),
    Field("config.names", "list", "`[id, name]` of the tables that have [names](constraints.md)", "none has"),
    Field("config.merged", "list", "`[id, id that it stands for]` of the tables that were merged", "none was"),
    Field("config.told_names", "list", "as long as `learned_` is False, the names of tables that `labels` gave to rows",
          "it gave none"),
)  # fmt: skip
FRAME = _group(
    Array("header", BYTE, ("h",), "UTF-8 JSON, see above"),
    Array("sha256", BYTE, (32,), "the SHA-256 of all other arrays in order of their names: of each the line "
          "`name dtype shape`, as Python prints it, and then the bytes"),
)  # fmt: skip
MODES = _group(
    Array(
        "mode_amplitudes", COMPLEX, ("M",), "of the modes of the dynamics: its kernel is Re Σ amplitude exp(−rate Δ)"
    ),
    Array("mode_rates", COMPLEX, ("M",), "their rates"),
)
# The statistics of tables, of an engine for dense rows. Those in EXTRAS are only needed to continue to the bit.
STATS = _group(
    Array("stats", FLOAT, ("K", "S"), "Σ r T(x)"),
    Array("squares", FLOAT, ("K", "P"), "`Gaussian` only, also as a part of `Columns`: Σ r y_i y_j for i ≥ j, row by "
          r"row, where y = T(x)/σ without its 1; beyond 8 coordinates Σ r \|y\|², and then the former for the 8 "
          "coordinates of the highest ρ²/σ², if it is not the same in all. A file of an earlier version may have only "
          r"Σ r \|y\|² there", "as the family expects"),
)  # fmt: skip
EXTRAS = _group(
    Array("scatter", FLOAT, ("K", "R"), "`NormalGamma`: Σ r (x − m₀)² − (Σ r (x − m₀))²/(σ₀²/ρ² + Σ r), summed "
          "without the difference. `NormalWishart`: the same of products of two features, the lower triangle row by "
          "row", _FOUND),
    Array("misses", FLOAT, ("K", "D"), "`Bernoulli` only: Σ r (1 − x), summed without a difference", _FOUND),
    Array("cells", FLOAT, ("K", "B"), "`Columns` only: for each column or part in the order of `stats`, what its "
          "family has besides T(x): `squares`, `scatter` or `misses`", _FOUND),
)  # fmt: skip
# The same for an engine of word counts.
WORDS = _group(
    Array("words_indptr", INT, ("K + 1",), "where the words of each table begin in the next two: those of table c from "
          "entry c to entry c + 1"),
    Array("words_indices", INT, ("m",), "the columns of the words, which count up within a table"),
    Array("words_counts", FLOAT, ("m",), "how often the table has each of them: an integer, or if rows had weights, a "
          "multiple of 1/1024"),
    Array("mode_sums", COMPLEX, ("L", "M"), "the sum of `mode_states` over the tables of each of the L lengths (sums "
          "of `words_counts`), the shortest first, as it was added up", _FOUND),
)  # fmt: skip
SEATS = _group(
    Array("table_ids", INT, ("K",), "ids of the open tables, increasing", holds=UP),
    Array("mode_states", COMPLEX, ("K", "M"), "the modes of each table's occupancy at `mode_time`: Σ r exp(rate "
          "(t − `mode_time`)). The occupancy at a later time t is Re Σ amplitude exp(−rate (t − `mode_time`)) state, "
          "or 0 if that is negative"),
    Array("mode_total", COMPLEX, ("M",), "the sum of `mode_states` over the tables, as it was added up", _FOUND),
    Array("mode_time", FLOAT, (), "the time at which `mode_states` are given, at most `time`"),
    Array("time", FLOAT, (), "the time of the latest observation"),
    Array("n_tables_posterior", FLOAT, ("K + 1",), 'q(C = k); with `table_count="map"`, 1 at k = K'),
    Array("n_opened", INT, (), "the number of tables ever opened, which is the next id"),
    Array("n_observations", INT, (), "the number of observations learned"),
    Array("log_evidence", FLOAT, (), "Σ log p(x_n given x_<n)"),
    Array("sizes", INT, ("K",), "the number of observations that were given the table's label",
          "the first entry of `stats`, rounded", FROM_0),
    Array("first_times", FLOAT, ("K",), "the time of the first of them", "`time`"),
    Array("last_times", FLOAT, ("K",), "the time of the last of them", "`time`"),
    Array("mark", INT, (), "the mark of the latest row (`cannot_link`)", "it had none"),
    Array("taken", INT, ("T",), "with it: the ids of the tables that it and the rows just before it with the same mark "
          "were given", "it had none"),
)  # fmt: skip
ALPHA = _group(
    Array("alpha_log_sum", FLOAT, (181,), "Σ log(α + Wₙ), Wₙ the weight of the customers before the n-th, for each α "
          "of a grid: `prior_alpha` · 10^(i/30 − 3), i = 0, …, 180"),
    Array("alpha_total", COMPLEX, ("M",), "the modes of all customers together at `alpha_time`"),
    Array("alpha_time", FLOAT, (), "the time of the latest observation"),
)  # fmt: skip
WARMUP = _group(
    Array("warmup_times", FLOAT, ("n",), "the times of the observations, as numbers"),
    Array("warmup_learnt_from", INT, (), "how many of them the hyperparameters in use were learned from"),
    Array("warmup_tables", INT, ("n",), "what is known of them (`labels`, `cannot_link`): −1, or −2 − j for the table "
          "that `told_names[j]` names", "nothing is known"),
    Array("warmup_marks", INT, ("n",), "with it: the mark of each row, −1 for none; the digest of a text",
          "nothing is known"),
    Array("warmup_weights", FLOAT, ("n",), "how many rows each counts as (`sample_weight`)", "each counts as one"),
)  # fmt: skip
WARMUP_ROWS: dict[RowType, Group] = {
    Dense: _group(
        Array("warmup_rows", FLOAT, ("n", "D"), "rows as the family takes them, fewer than `warmup`", holds=CELLS)
    ),
    Counts: _words("warmup_", "n", "of a `Multinomial`, in place of `warmup_rows`", "observation"),
}
NOVELTY = _group(
    Array("novelty_counts", INT, (2,), "how many rows there were, and how many of them are in the bins"),
    Array("novelty_values", FLOAT, ("C",), "the scores of the bins, increasing"),
    Array("novelty_weights", FLOAT, ("C",), "how many rows each stands for, old ones counting less"),
    Array("novelty_high", FLOAT, ("H",), "scores of later rows that wait to be sorted in: all the high ones"),
    Array("novelty_low", FLOAT, ("W",), "of the others, every so many"),
)
SURGES = _group(
    Array("surge_rows", INT, (2,), "how many rows were counted, and the first from which on none is missing",
          holds=FROM_0),
    Array("surge_tables", INT, ("T",), "the ids of the tables that were counted", holds=UP),
    Array("surge_first_rows", INT, ("T",), "the first row of each", holds=FROM_0),
    Array("surge_counts", INT, (3, "T"), "its rows in the windows of each length that have not ended", holds=FROM_0),
    Array("surge_sums", FLOAT, (3, "T"), "S: its rows in earlier windows, old ones counting less"),
    Array("surge_windows", INT, (3, "T"), "how many windows these were, at most 2,047", holds=FROM_0),
    Array("surge_errors", FLOAT, (3, 4, 2, "T"), "the two sums of ε, before the last three windows and now"),
    Array("surge_recent", FLOAT, (3, 2, 2, "T"), "how surprisingly high, and low, the last two counts were; −1 if they "
          "were not looked at"),
    Array("surge_last_rows", INT, (3, 3, "T"), "the row of its last surge, growing and fading; −1 if there was none"),
    Array("surge_looked", INT, (3, 3, 2), "how many clusters were looked at lately for each, in how many windows",
          holds=FROM_0),
    Array("surge_clusters", FLOAT, (3, 3), "how many clusters were looked at in a window before that"),
    Array("surge_sizes", INT, (9, 5), "of each sketch of past surprises: how many there were, how many of them are in "
          "bins, and how many of the next four belong to it", holds=FROM_0),
    Array("surge_bin_values", FLOAT, ("C",), "as `novelty_values`, one sketch after the other"),
    Array("surge_bin_weights", FLOAT, ("C",), "as `novelty_weights`"),
    Array("surge_high", FLOAT, ("H",), "as `novelty_high`"),
    Array("surge_low", FLOAT, ("W",), "as `novelty_low`"),
)  # fmt: skip
EXAMPLES = _group(
    Array("example_tables", INT, ("E",), "the table of each", holds=FROM_0),
    Array("example_numbers", INT, ("E",), "its number in the stream, from 0", holds=UP),
    Array("example_times", FLOAT, ("E",), "its time"),
)
EXAMPLE_ROWS: dict[RowType, Group] = {
    Dense: _group(Array("example_rows", FLOAT, ("E", "D"), _ROW, holds=CELLS)),
    Counts: _words("example_words_", "E", "if rows are counts of words, in place of `example_rows`", "row"),
}

KEPT = _group(
    Array("kept_counts", INT, (9,), "after how many rows to look next; the latest row and `n_opened` when it was last "
          "done; how many rows there were when tables last opened or closed, at the last look, and when everything was "
          "last looked at; what was spent, in rows; the number of the prior; 1 if the ellipses are the clusters"),
    Array("kept_tables", INT, ("J",), "the ids of the tables then, increasing", holds=UP),
    Array("kept_clusters", INT, ("J",), "the cluster of each, which goes by the id of its oldest table", holds=FROM_0),
    Array("kept_ellipses", INT, ("J",), "what each was joined to by evidence alone, likewise", holds=FROM_0),
    Array("kept_closed", INT, ("G", 2), "tables that have closed, and another one that was in the same cluster",
          holds=FROM_0),
)  # fmt: skip

OF_ENGINES = STATS | SEATS | EXTRAS | WORDS
OF_ROWS, OF_COUNTS = STATS | SEATS | EXTRAS, WORDS | SEATS
OF_EXAMPLES = EXAMPLES | EXAMPLE_ROWS[Dense] | EXAMPLE_ROWS[Counts]
OF_WARMUPS = WARMUP | WARMUP_ROWS[Dense] | WARMUP_ROWS[Counts]
ARRAYS = FRAME | OF_ENGINES | MODES | ALPHA | OF_WARMUPS | NOVELTY | SURGES | OF_EXAMPLES | KEPT
SEEN = ("sizes", "first_times", "last_times")  # they describe the rows with the label of each table


def check(arrays: Mapping[str, NDArray[Any]], group: Group, sizes: Mapping[str, int] | None = None) -> Arrays:
    """Return the arrays that belong to a group; raise ``ValueError`` if one is missing or invalid.

    sizes: the known sizes of symbols. The size of any other symbol is that of the first array with it.

    >>> check({"mode_amplitudes": np.ones(2, complex), "mode_rates": np.ones(3, complex)}, MODES)
    Traceback (most recent call last):
        ...
    ValueError: its array 'mode_rates' has shape (3,), expected (M,) with M = 2
    """
    known, found = dict(sizes or {}), {}
    for name, entry in group.items():
        array = arrays.get(name)
        if array is None:
            if not entry.absent:
                raise ValueError(f"its array {name!r} is missing")
            continue
        if not _fits(array.shape, entry.shape, known):
            told = ", ".join(f"{symbol} = {size}" for symbol, size in known.items() if symbol in shape_text(entry))
            expected = shape_text(entry) + (f" with {told}" if told else "")
            raise ValueError(f"its array {name!r} has shape {array.shape}, expected {expected}")
        if array.dtype != entry.dtype or not _holds(array, entry.holds):
            raise ValueError(f"its array {name!r} must hold {entry.holds} of type {entry.dtype.__name__}")
        found[name] = array
    return found


def check_numbers(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ``ValueError`` if arrays hold numbers that are refused when they are loaded.

    >>> check_numbers({"stats": np.array([[1.0, np.nan]])})
    Traceback (most recent call last):
        ...
    ValueError: the array 'stats' cannot be saved: it must hold finite numbers
    """
    for name, array in arrays.items():
        entry = ARRAYS.get(name)
        if entry is not None and not _holds(array, entry.holds):
            raise ValueError(f"the array {name!r} cannot be saved: it must hold {entry.holds}")
    for name in ("n_opened", "n_observations"):
        if name in arrays and arrays[name] > MOST_OBSERVATIONS:
            raise ValueError(f"the array {name!r} cannot be saved: it must be at most {MOST_OBSERVATIONS}")


def shape_text(entry: Array) -> str:
    """Return the shape of an array as Python would print it.

    >>> shape_text(SEATS["n_tables_posterior"]), shape_text(SEATS["mode_states"])
    ('(K + 1,)', '(K, M)')
    """
    return f"({', '.join(map(str, entry.shape))}{',' * (len(entry.shape) == 1)})"


def _fits(shape: tuple[int, ...], symbols: tuple[str | int, ...], known: dict[str, int]) -> bool:
    """Return whether a shape matches its symbols; add the sizes of new symbols to ``known``."""
    if len(shape) != len(symbols):
        return False
    for n, symbol in zip(shape, symbols, strict=True):
        if isinstance(symbol, int):
            expected = symbol
        else:
            base, plus, _ = symbol.partition(" + ")
            expected = known.setdefault(base, n - bool(plus)) + bool(plus)
        if n != expected:
            return False
    return True


def _holds(array: NDArray[Any], what: str) -> bool:
    if array.dtype != np.int64:
        return bool(np.isfinite(array).all() if what == FINITE else not np.isinf(array).any())
    legal = what == FINITE or not array.size or array.min() >= 0
    return bool(legal and (what != UP or (array[1:] > array[:-1]).all()))


def check_state(arrays: Arrays, group: Group, sizes: Mapping[str, int], family: Family) -> Arrays:
    """Return the arrays of an engine, with defaults for absent ones; raise ``ValueError`` if they are inconsistent.

    group: ``OF_ROWS`` or ``OF_COUNTS``. sizes: at least M, and for ``OF_ROWS`` also S, P and D. By default, the size of
    a table is its count, rounded, and its times are that of the state.
    """
    sums = None
    if "squares" in arrays and arrays["squares"].shape[-1:] == (1,) != (sizes.get("P"),):
        sums = check(arrays, {"squares": STATS["squares"]}, {"K": len(arrays["squares"])})["squares"]
        arrays = {name: array for name, array in arrays.items() if name != "squares"}  # products were not kept then
    found = check(arrays, group, sizes)
    ids, time = found["table_ids"], found["time"]
    K, n_opened, n = len(ids), int(found["n_opened"]), int(found["n_observations"])
    # Splits open tables without rows, and rows of weight 0 open none.
    if not (K <= n_opened <= MOST_OBSERVATIONS and 0 < n <= MOST_OBSERVATIONS):
        raise ValueError(f"it holds {K} tables of {n_opened} ever opened by {n} observations")
    if K and ids[-1] >= n_opened:
        raise ValueError(f"its ids must stay below {n_opened}")
    if found["mode_time"] > time:
        raise ValueError(f"its mode_time {found['mode_time']} is after its time {time}")
    if ("mark" in found) != ("taken" in found):
        raise ValueError("its arrays 'mark' and 'taken' must both be present, or neither")
    if "stats" in found:
        if not found.keys() >= set(SEEN):
            counts = np.clip(np.rint(found["stats"][:, 0]), 0, n).astype(np.int64)
            found = dict(zip(SEEN, (counts, np.full(K, time), np.full(K, time)), strict=True)) | found
        if isinstance(family, HasShape) and sizes["P"] and "squares" not in found:
            found["squares"] = family.expected_squares(found["stats"], sizes["D"])
            if sums is not None:
                found["squares"][:, :1] = sums
    for name in set(SEEN) - found.keys():
        raise ValueError(f"its array {name!r} is missing")
    if found["sizes"].max(initial=0) > n:
        raise ValueError(f"its sizes must be from 0 to the number of observations, {n}")
    first, last = found["first_times"], found["last_times"]
    if (first > last).any() or (last > time).any():
        raise ValueError(f"its first_times must not be after its last_times, nor those after its time {time}")
    return found


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if an entry of the header's ``config`` is missing, unknown or of the wrong kind."""
    fields = {field.name.removeprefix("config."): field for field in HEADER if field.name.startswith("config.")}
    unknown = sorted(config.keys() - fields)
    if unknown:
        raise ValueError(f"it has entries that this dyncrp does not know, {unknown}")
    for name, field in fields.items():
        if name not in config and not field.absent:
            raise ValueError(f"its entry {name!r} is missing")
        if name in config and type(config[name]) not in KINDS[field.kind]:
            raise ValueError(f"its entry {name!r} must be of the kind {field.kind}, got {config[name]!r}")
