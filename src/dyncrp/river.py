"""river: ``DynamicalMixture`` as a clusterer of dictionaries, one at a time. Needs the package river.

The result does not depend on how a stream is divided into calls. Rows are therefore buffered, as bytes, and passed to
``dyncrp.DynamicalMixture`` together: when the buffer is full, or when a prediction or the state of the model is needed.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date
from math import hypot, inf, isfinite, isnan, nan
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

from dyncrp.arrays.checks import LATEST_TIME, BadRow, Clock, microseconds, real
from dyncrp.dynamics import Dynamics
from dyncrp.engine import Engine
from dyncrp.engine.reference import occupancy
from dyncrp.estimator import DynamicalMixture as Mixture
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.families.protocols import can_widen
from dyncrp.input.words import read_documents
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.stream import Stream

Float = NDArray[np.float64]
Names = tuple[Hashable, ...]

NEW_TABLE = -1  # what stands for a new table
MOST_ROWS_WAITING, MOST_BYTES_WAITING = 4096, 1 << 20
MOST_ROWS_ONE_BY_ONE = 4  # more are quicker to learn together


class DynamicalMixture(base.Clusterer):
    """Cluster a stream of dictionaries into a growing number of tables that time makes come and go.

    ``dyncrp.DynamicalMixture`` with the interface of river: the same model, and the same result to the bit for the same
    numbers. A table keeps its id for ever; ids count up from 0; −1 stands for a new table.

    **Features** have names; their values are finite numbers. One that is absent is 0, or missing if ``absent`` is NaN;
    then None and NaN are missing too. If the family was given with plain numbers, such as ``Gaussian(1.0, 100.0)``, one
    that appears later is taken in from then on, as if it had been absent in all rows before. If the family is learned,
    the features are those of the warm-up, and later ones are ignored, with a warning the first time. With ``features``,
    they are those.

    **Words.** A family for counts of words, such as ``Multinomial(100.0)``, takes dictionaries of counts, as river's
    ``BagOfWords`` has them; any word may come at any time.

    **Time** is the index of arrival, unless each call says otherwise by ``t`` or, with ``time_key``, by an entry of
    x that is not a feature: numbers, or dates, which are taken to the microsecond. In a ``river.compose.Pipeline`` only
    the latter works, since it hands no ``t`` to a clusterer's ``learn_one``.

    **Unknown hyperparameters**, as for ``dyncrp.DynamicalMixture``, are learned from the first ``warmup`` observations,
    and provisionally from the first 1, 2, 4, 8, …; until then, ids are provisional too. So that no call takes long,
    each ``learn_one`` carries the search on by a piece, and what it finds counts some observations later. ``mixture``,
    copies and pickles end the search first. To end the warm-up early, call ``learn_unknown``.

    Args:
        family: how observations are distributed about a table; None as for ``dyncrp.DynamicalMixture``.
        dynamics: how tables are forgotten; "auto" and None as for ``dyncrp.DynamicalMixture``.
        alpha: how readily new tables open; the same.
        time_key: the key of the time in x.
        features: the names of all features, in the order of hyperparameters with one entry for each.
        absent: what a feature is that x does not have: 0, or NaN if it is missing.
        memory: how many of its members a table remembers; infinite unless set, and None to be learned.
        warmup: how many observations to learn unknown hyperparameters from, as for ``dyncrp.DynamicalMixture``.
        resolution: above 1, for more and narrower clusters; below 1, for fewer.
        learn_alpha: whether alpha is updated while learning.
        max_tables: how many tables may be open; when one more opens, the one with the least occupancy closes.
        prune_below: the occupancy below which a table closes.

    >>> from dyncrp import Gaussian
    >>> from dyncrp.river import DynamicalMixture
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
    >>> for x in ({"a": 0.1, "b": 0.2}, {"a": 8.1, "b": 7.9}, {"a": 0.0, "b": -0.3}):
    ...     model.learn_one(x)
    >>> model.predict_one({"a": 7.7, "b": 8.1}), model.predict_one({"a": 50.0})
    (1, -1)
    >>> model.n_tables
    2
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
        absent: float = 0.0,
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

        self._spec = ModelSpec.resolve(
            family,
            dynamics,
            alpha,
            memory=memory,
            warmup=warmup,
            resolution=resolution,
            learn_alpha=learn_alpha,
            max_tables=max_tables,
            prune_below=prune_below,
        )
        self._stream = Stream(self._spec, piecewise=True, expects_missing=isnan(absent))
        self._of_mixture, self._mixture = self._stream, Mixture.from_stream(self._stream)
        given = self._spec.given
        self._family = self._spec.family if given is None else given.family  # it says what a row may be
        if given is None:
            import sklearn.metrics.cluster  # noqa: F401 - which takes the search a while, and then a learn_one
        if absent != 0.0 and not isnan(absent):
            raise ValueError(f"absent must be 0 or NaN, got {absent!r}")
        if self._family.sparse and features is not None:
            raise ValueError(f"{self._family!r} takes whatever words come: leave out features, got {features!r}")
        if isnan(absent) and not self._family.independent:
            raise ValueError(f"absent must be 0 for {self._family!r}, which takes whole rows only")
        self._warned = False
        self._clock: Clock | None = None
        self._last = -inf  # the latest time
        # The buffered rows: the values of each as float64, and before them its time (a float64, or the microseconds
        # of a date as int64) unless that is the index of arrival.
        self._rows: list[bytes] = []
        self._bags: list[tuple[dict[Any, Any], Any]] = []  # the same of counts of words: the counts, and the time
        self._lay_out(self._resolve_features())

    def learn_one(self, x: Mapping[Any, Any], t: Any = None) -> None:
        """Learn from x, at time t. Bad values raise ``ValueError`` at once, and change nothing."""
        if t is None and len(x) == self._size:
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
        self._learn(x, t)

    def predict_one(self, x: Mapping[Any, Any], t: Any = None) -> int:
        """Return the table that x would be seated at now (or at time t, not before the latest), −1 for a new one."""
        if self._family.sparse:
            return int(self._ask(Stream.predict, x, t, NEW_TABLE))
        engine, row, time = self._prepare(x, t)
        if engine is None:
            return NEW_TABLE
        return engine.predict_one(row, time)[0]

    def predict_proba_one(self, x: Mapping[Any, Any], t: Any = None) -> dict[int, float]:
        """Return the probability of each table for x, and of a new one under −1."""
        if self._family.sparse:
            shares = np.ravel(self._ask(Stream.responsibilities, x, t, 1.0))
            ids = self._stream.engine.ids.tolist() if self._fitted else []
            return dict(zip([*ids, NEW_TABLE], shares.tolist(), strict=True))
        engine, row, time = self._prepare(x, t)
        if engine is None:
            return {NEW_TABLE: 1.0}
        shares = engine.responsibilities(row[None, :], np.array([time]))[0]
        return dict(zip([*engine.ids.tolist(), NEW_TABLE], shares.tolist(), strict=True))

    def score_one(self, x: Mapping[Any, Any], t: Any = None) -> float:
        """Return the novelty of x, −log p(x | everything so far): high means anomalous, as for river's detectors."""
        if self._family.sparse:
            return -float(self._ask(Stream.log_density, x, t, -0.0))
        engine, row, time = self._prepare(x, t)
        return 0.0 if engine is None else -engine.predict_one(row, time)[1]

    def learn_unknown(self) -> None:
        """End the warm-up now: learn what is unknown from the observations so far, at least 2, and keep it."""
        self._catch_up()
        self._stream.end_warmup()
        self._lay_out(self._names)

    @property
    def mixture(self) -> Mixture:
        """The model underneath, to look at and to save; it has learned all rows."""
        self._catch_up()
        if self._fitted:
            self._stream.finish_search()
            self._lay_out(self._names)
        if self._of_mixture is not self._stream:  # a copy of river's has copied the two one by one
            self._of_mixture, self._mixture = self._stream, Mixture.from_stream(self._stream)
        return self._mixture

    @property
    def learned(self) -> bool:
        """Whether tables and ids are final, see ``DynamicalMixture.learned_``; asking changes nothing."""
        return self._spec.given is not None or self._stream.learned

    @property
    def feature_names(self) -> Names:
        """The names of the features, in the order of the columns of ``mixture``."""
        if self._family.sparse:
            self._catch_up()
            vocabulary = self._stream.input.vocabulary
            return () if vocabulary is None else tuple(vocabulary.words)
        return self._names

    @property
    def n_tables(self) -> int:
        """Number of open tables."""
        return len(self.occupancies)

    @property
    def occupancies(self) -> dict[int, float]:
        """The occupancy of each open table at the time of the latest observation."""
        return self._by_table(lambda engine: occupancy(engine.seating, engine.model.modes))

    @property
    def centers(self) -> dict[int, dict[Hashable, float]]:
        """Where each open table lies, feature by feature; of words, the share of each that the table has."""
        if self._family.sparse:
            names = self.feature_names
            engine = cast(Any, self._stream.engine) if self._fitted else None
            found = {} if engine is None else {table: engine.word_counts(table) for table in engine.ids.tolist()}
            return {
                table: dict(zip([names[word] for word in words], counts / max(np.sum(counts), 1.0), strict=True))
                for table, (words, counts) in found.items()
            }
        rows = self._by_table(lambda engine: engine.model.family.centers(engine.state.stats))
        return {label: dict(zip(self._names, row, strict=True)) for label, row in rows.items()}

    def _by_table(self, tell: Callable[[Engine], Float]) -> dict[int, Any]:
        self._catch_up()
        if not self._fitted:
            return {}
        engine = self._stream.engine
        return dict(zip(engine.ids.tolist(), tell(engine).tolist(), strict=True))

    @property
    def _fitted(self) -> bool:
        """Whether an observation was learned, or is buffered."""
        return bool(self._rows or self._bags) or self._stream.started

    def _learn(self, x: Mapping[Any, Any], t: Any) -> None:
        """Check everything, and only then keep the row."""
        x, t = self._split(x, t)
        if t is None and self.time_key is not None:
            raise ValueError(f"x must hold its time as {self.time_key!r}, got the keys {list(x)!r}")
        clock, time = self._parse_time(t)
        if self._family.sparse:
            self._keep_words(x, t, clock, time)
            return
        names, row = self._pack_row(x)
        if names is not self._names or self._clock is None:
            if self._clock is None:
                self._spec.check_clock(clock)
            self._clock = clock
            self._widen(names)
        if clock is not Clock.INDEX:
            self._last = time
            row = struct.pack("q" if clock is Clock.DATES else "d", time) + row
        self._rows.append(row)
        if len(self._rows) >= self._most_waiting:
            self._hand_over()

    def _keep_words(self, x: Mapping[Any, Any], t: Any, clock: Clock, time: float) -> None:
        """Keep counts of words, at a time t that is a number of this clock."""
        read_documents([x])
        if self._clock is None:
            self._spec.check_clock(clock)
            self._clock = clock
            self._lay_out(self._names)
        self._last = time
        self._bags.append((dict(x), t))
        if len(self._bags) >= self._most_waiting:
            self._hand_over()

    def _ask(self, question: Callable[..., Any], x: Mapping[Any, Any], t: Any, before: float) -> Any:
        """Return what a method of the model says of counts of words; before: what it says if nothing was learned."""
        x, t = self._split(x, t)
        read_documents([x])
        if t is not None:
            self._parse_time(t)
        self._catch_up()
        return question(self._stream, [x], None if t is None else [t])[0] if self._fitted else before

    def _split(self, x: Mapping[Any, Any], t: Any) -> tuple[Mapping[Any, Any], Any]:
        """Return the features of x apart from its time."""
        if self.time_key is None:
            return x, t
        if t is not None:
            raise ValueError(f"the time is x[{self.time_key!r}], so t must be left out, got {t!r}")
        rest = dict(x)
        return rest, rest.pop(self.time_key, None)

    def _parse_time(self, t: Any) -> tuple[Clock, float]:
        """Return what kind of time t is, and t as a number that is not before the latest."""
        clock, time = Clock.INDEX, -inf
        if isinstance(t, (date, np.datetime64)):
            clock, time = Clock.DATES, microseconds(t)
        elif t is not None:
            clock, number = Clock.NUMBERS, real(t)
            if number is None or not abs(number) <= LATEST_TIME:
                raise ValueError(f"the time must be a finite number, within ±{LATEST_TIME:g}, or a date, got {t!r}")
            time = number
        if self._clock is not None:
            self._clock.check(clock)
        if time < self._last:
            latest = np.datetime64(int(self._last), "us") if clock is Clock.DATES else self._last
            raise ValueError(
                f"times must not run backwards: {t} is earlier than {latest}, the latest time of the stream"
            )
        return clock, time

    def _pack_row(self, x: Mapping[Any, Any]) -> tuple[Names, bytes]:
        """Return the features that there are with x, and its values there as bytes."""
        names = self._names
        if not self._positions.issuperset(x):
            if self._grows:
                names = (*names, *(name for name in x if name not in self._positions))
            elif self.features is None:
                self._warn(x)
        if not names:
            raise ValueError(f"x must hold at least one feature, got {dict(x)!r}")
        values = [x.get(name, self.absent) for name in names]
        takes_missing = isnan(self.absent)
        if takes_missing:
            values = [nan if value is None else value for value in values]
        try:
            if names is self._names and hypot(*values) <= self._safe_norm:
                return names, self._pack(*values)
        except (TypeError, OverflowError):
            pass
        for name, value in zip(names, values, strict=True):
            try:
                legal = isfinite(value) or (takes_missing and isnan(value))
            except (TypeError, OverflowError):
                legal = False
            if not legal:
                raise ValueError(f"feature {name!r} must be a finite number, got {value!r}")
        try:
            check_rows(self._family, np.array([values], dtype=np.float64))
        except BadRow as error:
            where = "" if error.column is None else f" for feature {names[error.column]!r}"
            raise ValueError(error.reason + where) from None
        return names, struct.pack(f"{len(values)}d", *values)

    def _prepare(self, x: Mapping[Any, Any], t: Any) -> tuple[Engine | None, Float, float]:
        """Return an engine to predict x by, x as a row for it, and when; no engine if nothing was learned yet."""
        x, t = self._split(x, t)
        names, row = self._pack_row(x)
        clock, time = (self._clock, 0.0) if t is None else self._parse_time(t)
        self._catch_up()
        values = np.frombuffer(row)
        if not self._fitted:
            return None, values, time
        engine = self._stream.engine
        if t is None:
            time = engine.n_observations if clock is Clock.INDEX else engine.time
        elif clock is Clock.DATES:
            time /= 1e6
        values = self._check_row(values)
        if isnan(self.absent):
            engine = self._stream.engine_for(values[None, :])
        if names is not self._names:
            if can_widen(engine.model.family):
                engine = engine.widen(len(names))  # as the model will be once it has learned x
            else:
                values = values[: engine.n_features]  # by the features so far
        return engine, values, time

    def _check_row(self, row: Float) -> Float:
        """Return a row (D,) as the family wants it: as it is, if that family need not look at every one."""
        return row if self._safe_norm > 0 else check_rows(self._family, row[None, :])[0]

    def _catch_up(self) -> None:
        """Learn the buffered rows."""
        if self._rows or self._bags:
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the model learn all buffered rows. If that is interrupted, the rows already learned leave the buffer."""
        stream, rows, bags, clock = self._stream, self._rows, self._bags, self._clock
        engine = stream.engine if stream.started else None
        before = 0 if engine is None else engine.n_observations
        one_by_one = len(rows) <= MOST_ROWS_ONE_BY_ONE and clock is not Clock.DATES and not self.learn_alpha
        one_by_one = one_by_one and not isnan(self.absent)  # of which the model takes care
        try:
            if bags:
                stream.learn([bag for bag, _ in bags], None if clock is Clock.INDEX else [t for _, t in bags])
            elif engine is not None and one_by_one and self._learned:
                for row in map(np.frombuffer, rows):
                    if clock is Clock.INDEX:
                        stream.learner.run_one(self._check_row(row), float(engine.n_observations))
                    else:
                        stream.learner.run_one(self._check_row(row[1:]), row.item(0))
            else:
                packed = np.frombuffer(bytearray().join(rows)).reshape(len(rows), -1)
                if clock is Clock.INDEX:
                    stream.learn(packed)
                else:
                    times = packed[:, 0].view("M8[us]") if clock is Clock.DATES else packed[:, 0]
                    stream.learn(packed[:, 1:], times)
        finally:
            if stream.started:  # one of the buffers is empty
                n_learned = stream.engine.n_observations - before
                del rows[:n_learned], bags[:n_learned]
        if not self._learned:
            self._lay_out(self._names)

    def _widen(self, names: Names) -> None:
        """Take in new features, which were absent in all rows so far."""
        self._catch_up()
        self._stream.widen(len(names), self.absent)
        self._lay_out(names)

    def _lay_out(self, names: Names) -> None:
        """Set the features, and with them the layout of a row and the size of the buffer."""
        self._names, self._positions = names, frozenset(names)
        stream = self._stream
        self._learned = stream.learned if stream.started else self._spec.given is not None
        if stream.started and self._learned:
            self._family = stream.family
        warming = not self._learned and (not stream.started or stream.engine.n_observations < self._spec.warmup)
        self._grows = self.features is None and (warming or can_widen(self._spec.family) or not names)
        plain = self._clock is Clock.INDEX and not self._family.sparse
        self._size = len(names) if plain else -1  # of an x that needs no closer look
        self._get = itemgetter(*names) if len(names) > 1 else lambda x: (x[names[0]],)
        self._pack = struct.Struct(f"{len(names)}d").pack
        self._safe_norm = self._family.safe_norm
        most = min(MOST_ROWS_WAITING, MOST_BYTES_WAITING // (8 * len(names) or 1) + 1)
        self._most_waiting = most if self._learned else 1  # each row is to answer by, and carries the search on

    def _resolve_features(self) -> Names:
        """Return the names of the features as far as they are given."""
        width = self._family.width
        if self.features is None:
            if width is not None:
                raise ValueError(
                    f"the family has hyperparameters for {width} features: give their names, in order, as features"
                )
            return ()
        names = tuple(self.features)
        if not names or len(set(names)) < len(names) or self.time_key in names:
            raise ValueError(f"features must be different names, the time_key not among them, got {self.features!r}")
        if width not in (None, len(names)):
            raise ValueError(f"the family has hyperparameters for {width} features, and features names {len(names)}")
        return names

    def _warn(self, x: Mapping[Any, Any]) -> None:
        if self._warned:
            return
        self._warned = True
        new = next(name for name in x if name not in self._positions)
        warnings.warn(
            f"feature {new!r} came after the features were fixed; it is ignored, as all other new ones will be",
            stacklevel=5,
        )

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()
        return {name: value for name, value in self.__dict__.items() if name not in ("_get", "_pack")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out(self._names)
