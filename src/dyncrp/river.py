"""river: ``DynamicalMixture`` as a clusterer of dictionaries, one at a time. Needs the package river.

The result does not depend on how a stream is divided into calls. Rows are therefore buffered, as bytes, and learned
together: when the buffer is full, or when a prediction or the state of the model is needed.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import hypot, inf, isnan, nan
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

try:
    from river import base
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "dyncrp.river needs river: pip install 'dyncrp[river]', or '.[river]' in a clone"
    ) from missing

from dyncrp.arrays.checks import Clock
from dyncrp.dynamics import Dynamics
from dyncrp.engine import Engine
from dyncrp.engine.recall import answering
from dyncrp.estimator import DynamicalMixture as Mixture
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.input.dictionaries import (
    Names,
    as_frame,
    as_rows,
    check_numbers,
    check_row,
    feature_names,
    holds_texts,
    named_centers,
    read_time,
)
from dyncrp.input.weights import as_weights
from dyncrp.input.words import read_documents
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.stream import Stream
from dyncrp.stream.warmup import Searching
from dyncrp.views.fill import fill

Float = NDArray[np.float64]

NEW_TABLE = -1  # what stands for a new table
MOST_ROWS_WAITING, MOST_BYTES_WAITING = 4096, 1 << 20
MOST_ROWS_ONE_BY_ONE = 4  # more are quicker to learn together


class DynamicalMixture(base.Clusterer):
    """Cluster a stream of dictionaries into a growing number of tables that come and go with time.

    This is ``dyncrp.DynamicalMixture`` with the interface of river. It is the same model, and gives the same result, to
    the bit, for the same numbers. A table keeps its id for ever. Ids count up from 0, and −1 stands for a new table.

    **Features** have names. If the family is learned, their values are numbers, texts and booleans; texts are
    categories, and a feature that x does not have is missing, as are None and NaN. If the family is given, values are
    finite numbers, and a feature that x does not have is 0. ``absent`` says otherwise. If ``features`` is given, there
    are no others. If the family was given with plain numbers, such as ``Gaussian(1.0, 100.0)``, a feature that appears
    later is used from then on, as if it had been absent in all rows before. If the family is learned, the features are
    those of the warm-up. Later ones are ignored, with a warning the first time.

    **Words.** A family for counts of words, such as ``Multinomial(100.0)``, takes dictionaries of counts, such as those
    of river's ``BagOfWords``. A new word may come at any time.

    **Time** is the index of arrival by default. Otherwise every call gives the time: as ``t``, or with ``time_key`` as
    an entry of x, which is then not a feature. Times are numbers, or dates, which are used to the microsecond. A
    ``river.compose.Pipeline`` passes no ``t`` to the ``learn_one`` of a clusterer, so it needs ``time_key``.

    **Unknown hyperparameters** are learned from the first ``warmup`` observations, as in ``dyncrp.DynamicalMixture``,
    and provisionally from the first 1, 2, 4, 8, … of them. Until then, ids are provisional too. So that no call takes
    long, each ``learn_one`` does a part of the search, whose result is used some observations later. ``mixture``,
    copying and pickling end the search first. To end the warm-up early, call ``learn_unknown``.

    Args:
        family: the distribution of the observations of a table; None as for ``dyncrp.DynamicalMixture``.
        dynamics: how fast tables are forgotten; "auto" and None as for ``dyncrp.DynamicalMixture``.
        alpha: how readily new tables open; "auto" and None as for ``dyncrp.DynamicalMixture``.
        time_key: the key of the time in x.
        features: the names of all features. Hyperparameters with an entry for each feature are in this order.
        absent: the value of a feature that x does not have: 0, or NaN if it is missing, which then is expected from the
            first row on. None: it is missing if the family is learned or x holds texts, and 0 otherwise.
        memory: how many of its members a table remembers; None to learn it.
        warmup: the number of observations from which unknown hyperparameters are learned.
        resolution: above 1 gives more and narrower clusters, below 1 fewer and wider ones.
        learn_alpha: whether alpha is updated while learning.
        max_tables: the largest number of open tables. When one more opens, the one with the least occupancy closes.
        prune_below: the occupancy below which a table closes.

    >>> from dyncrp import Gaussian
    >>> from dyncrp.river import DynamicalMixture
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
    >>> for x in ({"a": 0.1, "b": 0.2}, {"a": 8.1, "b": 7.9}, {"a": 0.0, "b": -0.3}):
    ...     model.learn_one(x)
    >>> model.predict_one({"a": 7.7, "b": 8.1}), model.predict_one({"a": 50.0})
    (1, -1)
    """

    _get: Callable[[Mapping[Any, Any]], tuple[Any, ...]]  # the values of the features
    _pack: Callable[..., bytes]

    def __init__(
        self,
        family: Family | None = None,
        dynamics: Dynamics | Sequence[Dynamics] | str | None = "auto",
        alpha: float | str | None = "auto",
        *,
        time_key: Hashable = None,
        features: Sequence[Hashable] | None = None,
        absent: float | None = None,
        memory: float | None = inf,
        warmup: int | str = "auto",
        resolution: float = 1.0,
        learn_alpha: bool = False,
        max_tables: int | None = None,
        prune_below: float = 0.0,
    ) -> None:
        self.family = family
        self.dynamics = dynamics
        self.alpha = alpha
        self.time_key = time_key
        self.features = features
        self.absent = absent
        self.memory = memory
        self.warmup = warmup
        self.resolution = resolution
        self.learn_alpha = learn_alpha
        self.max_tables = max_tables
        self.prune_below = prune_below

        self._stream = self._new_stream()
        spec = self._stream.spec
        given = spec.given
        self._family = spec.family if given is None else given.family  # it says what a row may be
        if given is None:
            import sklearn.metrics.cluster  # noqa: F401 - or the first search would import it, during a learn_one
        if absent is not None and absent != 0.0 and not isnan(absent):
            raise ValueError(f"absent must be 0 or NaN, got {absent!r}")
        self._absent = (nan if family is None else 0.0) if absent is None else absent
        if self._family.sparse and features is not None:
            raise ValueError(f"{self._family!r} takes any words: leave out features, got {features!r}")
        if isnan(self._absent) and not self._family.independent:
            raise ValueError(f"absent must be 0 for {self._family!r}, which takes whole rows only")
        # Rows of the warm-up with their times and weights: any of them may be the first that holds a text.
        self._kept: list[tuple[dict[Any, Any], Any, float]] | None = [] if family is None else None
        self._mixed = False  # whether some feature holds texts: then rows are read as those of a DataFrame
        self._warned = False
        self._clock: Clock | None = None
        self._last = -inf  # the latest time
        # The buffered rows: the values of each as float64, and before them its time (a float64, or the microseconds
        # of a date as int64) unless that is the index of arrival.
        self._rows: list[bytes] = []
        self._bags: list[tuple[dict[Any, Any], Any]] = []  # the same of counts of words: the counts, and the time
        self._weights: dict[int, float] = {}  # of rows in either buffer that do not count as one, by their place there
        self._has_gaps = False  # whether cells of the buffered rows may be missing
        self._lay_out(feature_names(features, self._family.width, time_key))

    def _new_stream(self) -> Stream:
        spec = ModelSpec.resolve(
            self.family,
            self.dynamics,
            self.alpha,
            memory=self.memory,
            warmup=self.warmup,
            resolution=self.resolution,
            learn_alpha=self.learn_alpha,
            max_tables=self.max_tables,
            prune_below=self.prune_below,
        )
        stream = Stream(spec, expects_missing=self.absent != 0.0 and self.absent is not None)
        stream.searching = Searching.IN_CALLS
        return stream

    def learn_one(self, x: Mapping[Any, Any], t: Any = None, w: float | None = None) -> None:
        """Learn from one observation.

        Args:
            x: the features by name, or counts of words. A bad value raises ``ValueError`` and changes nothing.
            t: the time, a number or a date not before the latest; the index of arrival by default.
            w: how many observations it counts as, see ``sample_weight`` of ``dyncrp.DynamicalMixture``; by default 1.
        """
        if t is None and w is None and len(x) == self._size:
            try:
                values = self._get(x)
                plain = hypot(*values) <= self._safe_norm
            except (KeyError, TypeError, OverflowError):
                plain = False
            if plain:
                rows = self._rows
                rows.append(self._pack(*values))
                if len(rows) >= self._most_waiting:
                    self._hand_over()
                return
        self._learn(x, t, w)

    def predict_one(self, x: Mapping[Any, Any], t: Any = None) -> int:
        """Return the open table of x now (or at time t, not before the latest), −1 if it is unlike all of them."""
        engine, row, time = self._prepare(x, t)
        if engine is None:
            return NEW_TABLE
        return answering(engine, row, time).predict_one(row, time)[0]

    def predict_proba_one(self, x: Mapping[Any, Any], t: Any = None) -> dict[int, float]:
        """Return the probability of each table for x, and of a new one under −1."""
        engine, row, time = self._prepare(x, t)
        if engine is None:
            return {NEW_TABLE: 1.0}
        shares = engine.responsibilities(self._family.rows.one(row), np.array([time]))[0]
        return dict(zip([*engine.ids.tolist(), NEW_TABLE], shares.tolist(), strict=True))

    def score_one(self, x: Mapping[Any, Any], t: Any = None) -> float:
        """Return the novelty of x, −log p(x | everything so far); as in river's detectors, high means anomalous."""
        engine, row, time = self._prepare(x, t)
        return 0.0 if engine is None else -engine.predict_one(row, time)[1]

    def learn_unknown(self) -> None:
        """End the warm-up now: learn what is unknown from the observations so far, of which 2 are needed."""
        self._catch_up()
        self._stream.end_warmup()
        self._lay_out(self._names)

    @property
    def mixture(self) -> Mixture:
        """The same model as a ``dyncrp.DynamicalMixture``, to look at and to save; it has learned all rows."""
        self._catch_up()
        if self._fitted:
            self._stream.finish_search()
            self._lay_out(self._names)
        return Mixture.from_stream(self._stream)

    @property
    def learned(self) -> bool:
        """Whether hyperparameters, tables and ids are final, as ``DynamicalMixture.learned_``."""
        return self._stream.learned or self._stream.spec.given is not None

    @property
    def feature_names(self) -> Names:
        """The names of the features, in the order of the columns of ``mixture``."""
        if self._bags:
            self._catch_up()
        vocabulary = self._stream.input.vocabulary
        return self._names if vocabulary is None else tuple(vocabulary.words)

    @property
    def n_tables(self) -> int:
        """Number of open tables."""
        return len(self.occupancies)

    @property
    def occupancies(self) -> dict[int, float]:
        """The occupancy of each open table at the time of the latest observation."""
        self._catch_up()
        ids = self._stream.engine.ids.tolist() if self._fitted else []
        return dict(zip(ids, self._stream.occupancies.tolist(), strict=True)) if ids else {}

    @property
    def centers(self) -> dict[int, dict[Any, Any]]:
        """The centre of each open table by feature: of categories the likeliest, for words the share of each."""
        names = self.feature_names
        self._catch_up()
        return named_centers(self._stream.engine, names, self._stream.input) if self._fitted else {}

    @property
    def _fitted(self) -> bool:
        """Whether an observation was learned, or is buffered."""
        return bool(self._rows or self._bags) or self._stream.started

    def _learn(self, x: Mapping[Any, Any], t: Any, w: float | None) -> None:
        """Check everything, and only then keep the row."""
        x, t = self._split(x, t)
        weights = None if w is None else as_weights([w], 1)
        if t is None and self.time_key is not None:
            raise ValueError(f"x must hold its time as {self.time_key!r}, got the keys {list(x)!r}")
        clock, time = read_time(t, self._clock, self._last)
        if self._family.sparse:
            self._keep_words(x, t, clock, time, weights)
            return
        weight = 1.0 if weights is None else weights.item(0)
        if self._mixed or (self._kept is not None and holds_texts(x, self.features)):
            self._learn_mixed(dict(x), t, clock, time, weight)
            return
        names, row, whole = self._pack_row(x)
        self._has_gaps |= not whole
        if names is not self._names or self._clock is None:
            if self._clock is None:
                self._stream.spec.check_clock(clock)
            self._clock = clock
            self._widen(names)
        if clock is not Clock.INDEX:
            self._last = time
            row = struct.pack("q" if clock is Clock.DATES else "d", time) + row
        if weights is not None:
            self._weights[len(self._rows)] = weight
        self._rows.append(row)
        if self._kept is not None:
            self._kept.append((dict(x), t, weight))
        if len(self._rows) >= self._most_waiting:
            self._hand_over()

    def _learn_mixed(self, x: dict[Any, Any], t: Any, clock: Clock, time: float, weight: float) -> None:
        """Learn a row of which some features hold texts. In the warm-up, a new feature begins it again."""
        stream, names, rows = self._stream, self._names, [(x, t, weight)]
        if not self._positions.issuperset(x):
            if self._grows:
                names = (*names, *(name for name in x if name not in self._positions))
            elif self.features is None:
                self._warn(x)
        if self._clock is None:
            stream.spec.check_clock(clock)
        if not self._mixed or names is not self._names:
            stream, rows = self._new_stream(), [*(self._kept or ()), *rows]
        X = as_rows(x, names, stream.input, stream.family) if stream.learned else as_frame([x for x, *_ in rows], names)
        times = None if clock is Clock.INDEX else [t for _, t, _ in rows]
        weights = [weight for *_, weight in rows]
        stream.learn(X, times, sample_weight=weights if set(weights) != {1.0} else None)
        self._stream, self._mixed, self._clock, self._last = stream, True, clock, time
        if self._kept is not None:
            self._kept.append((x, t, weight))
        self._rows, self._weights = [], {}
        self._lay_out(names)

    def _keep_words(self, x: Mapping[Any, Any], t: Any, clock: Clock, time: float, weights: Float | None) -> None:
        """Buffer counts of words at time t, which the clock has as the number ``time``. weights: (1,) or None."""
        read_documents([x])
        if self._clock is None:
            self._stream.spec.check_clock(clock)
            self._clock = clock
            self._lay_out(self._names)
        self._last = time
        if weights is not None:
            self._weights[len(self._bags)] = weights.item(0)
        self._bags.append((dict(x), t))
        if len(self._bags) >= self._most_waiting:
            self._hand_over()

    def _split(self, x: Mapping[Any, Any], t: Any) -> tuple[Mapping[Any, Any], Any]:
        """Return the features of x, and its time."""
        if self.time_key is None:
            return x, t
        if t is not None:
            raise ValueError(f"the time is x[{self.time_key!r}], so t must be left out, got {t!r}")
        rest = dict(x)
        return rest, rest.pop(self.time_key, None)

    def _pack_row(self, x: Mapping[Any, Any]) -> tuple[Names, bytes, bool]:
        """Return the names of the features, those new in x last, its values as bytes, and if none is missing."""
        names = self._names
        if not self._positions.issuperset(x):
            if self._grows:
                names = (*names, *(name for name in x if name not in self._positions))
            elif self.features is None:
                self._warn(x)
        if not names:
            raise ValueError(f"x must hold at least one feature, got {dict(x)!r}")
        values = [x.get(name, self._absent) for name in names]
        takes_missing = isnan(self._absent)
        if takes_missing:
            values = [nan if value is None else value for value in values]
        try:
            if names is self._names and hypot(*values) <= self._safe_norm:
                return names, self._pack(*values), True
        except (TypeError, OverflowError):
            pass
        check_numbers(names, values, missing=takes_missing)
        if self._kept is None and names is self._names:
            values = self._complete(np.array(values, dtype=np.float64)).tolist()
        check_row(names, values, self._family)
        return names, struct.pack(f"{len(values)}d", *values), not any(map(isnan, values))

    def _prepare(self, x: Mapping[Any, Any], t: Any) -> tuple[Engine | None, Any, float]:
        """Return an engine that predicts x, x as a row for it, and the time; None if nothing was learned yet."""
        x, t = self._split(x, t)
        words = self._family.sparse
        if words:
            read_documents([x])
        if self._kept is not None and not self._mixed and holds_texts(x, self.features):
            return None, None, 0.0  # all that came so far were numbers
        names, row, whole = (self._names, b"", False) if words or self._mixed else self._pack_row(x)
        clock, time = (self._clock, 0.0) if t is None else read_time(t, self._clock, self._last)
        self._catch_up()
        values = np.frombuffer(row)
        if not self._fitted:
            return None, values, time
        engine = self._stream.engine
        if t is None:
            time = engine.n_observations if clock is Clock.INDEX else engine.time
        elif clock is Clock.DATES:
            time /= 1e6
        if words:
            return engine, self._stream.input.read_to_predict([x], self._family, engine.n_features), time
        if self._mixed:
            rows = as_rows(x, names, self._stream.input, self._stream.family).numbers
            return self._stream.engine_for(rows), rows[0], time
        values = self._check_row(values if whole else self._complete(values))
        if not whole and np.isnan(values).any():
            engine = self._stream.engine_for(values[None, :])
        if names is not self._names:
            if engine.model.family.can_widen:
                engine = engine.widen(len(names))  # as the model will be once it has learned x
            else:
                values = values[: engine.n_features]  # by the features so far
        return engine, values, time

    def _complete(self, values: Float) -> Float:
        """Return a row (D,) with what is expected of its missing cells, if the learned family takes whole rows only."""
        if not (self._stream.started and np.isnan(values).any()) or self._stream.family.independent:
            return values
        self._catch_up()
        return cast(Float, fill(self._stream, values[None])[0])

    def _check_row(self, row: Float) -> Float:
        """Return a row (D,) as the family takes it. Some families take every row of finite numbers as it is."""
        return row if self._safe_norm > 0 else check_rows(self._family, row[None, :])[0]

    def _catch_up(self) -> None:
        """Learn the buffered rows."""
        if self._rows or self._bags:
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the model learn all buffered rows. If that is interrupted, the rows already learned leave the buffer."""
        stream, rows, bags, clock = self._stream, self._rows, self._bags, self._clock
        before = stream.n_rows
        whole = not (clock is Clock.DATES or self.learn_alpha or self._has_gaps)
        weights = [self._weights.get(i, 1.0) for i in range(len(rows) + len(bags))] if self._weights else None
        try:
            if bags:
                t = None if clock is Clock.INDEX else [t for _, t in bags]
                stream.learn([bag for bag, _ in bags], t, sample_weight=weights)
            elif stream.learned and whole and len(rows) <= MOST_ROWS_ONE_BY_ONE and weights is None:
                for i, row in enumerate(map(np.frombuffer, rows)):
                    if clock is Clock.INDEX:
                        stream.learner.run_one(self._check_row(row), float(before + i))
                    else:
                        stream.learner.run_one(self._check_row(row[1:]), row.item(0))
            else:
                packed = np.frombuffer(bytearray().join(rows)).reshape(len(rows), -1)
                if clock is Clock.INDEX:
                    stream.learn(packed, sample_weight=weights)
                else:
                    times = packed[:, 0].view("M8[us]") if clock is Clock.DATES else packed[:, 0]
                    stream.learn(packed[:, 1:], times, sample_weight=weights)
        finally:
            n = stream.n_rows - before
            del rows[:n], bags[:n]  # one of the two is empty
            self._weights = self._weights and {i - n: w for i, w in self._weights.items() if i >= n}
            self._has_gaps = bool(rows) and self._has_gaps
        if not self._learned:
            self._lay_out(self._names)

    def _widen(self, names: Names) -> None:
        """Add new features, which were absent in all rows so far."""
        self._catch_up()
        self._stream.widen(len(names), self._absent)
        self._lay_out(names)

    def _lay_out(self, names: Names) -> None:
        """Set the features, and with them the layout of a row and the size of the buffer."""
        self._names, self._positions = names, frozenset(names)
        stream, self._learned = self._stream, self.learned
        if stream.learned:
            self._family = stream.family
        warming = not self._learned and stream.n_rows < stream.spec.warmup
        self._grows = self.features is None and (warming or stream.spec.family.can_widen or not names)
        plain = self._clock is Clock.INDEX and bool(names)
        if self._learned:
            self._kept = None
        plain = plain and self._kept is None and not self._mixed
        self._size = len(names) if plain else -1  # of an x that needs no closer look
        self._get = itemgetter(*names) if len(names) > 1 else lambda x: (x[names[0]],)
        self._pack = struct.Struct(f"{len(names)}d").pack
        self._safe_norm = self._family.safe_norm
        most = min(MOST_ROWS_WAITING, MOST_BYTES_WAITING // (8 * len(names) or 1) + 1)
        self._most_waiting = most if self._learned else 1  # each row does a part of the search

    def _warn(self, x: Mapping[Any, Any]) -> None:
        if self._warned:
            return
        self._warned = True
        new = next(name for name in x if name not in self._positions)
        warnings.warn(
            f"feature {new!r} came after the features were fixed. It is ignored, and so is any other new one",
            stacklevel=5,
        )

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()
        return {name: value for name, value in self.__dict__.items() if name not in ("_get", "_pack")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out(self._names)
