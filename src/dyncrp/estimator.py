"""DynamicalMixture: the estimator. It validates rows, remembers the last batch, and leaves learning to a Learner."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dyncrp.arrays.checks import Clock, as_observations, as_times
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.arrays.parameters import nested_params, with_params
from dyncrp.dynamics import Dynamics
from dyncrp.engine.reference import occupancy
from dyncrp.engine.types import Engine, Float, Rows, Trace, concatenate
from dyncrp.families import Columns, Family
from dyncrp.families.base import check_rows, first_missing
from dyncrp.input.constraints import Constraints, check_name
from dyncrp.input.encoding import Encoding, is_frame, stack
from dyncrp.input.words import Documents, Vocabulary, WordEngine, forgets_after, holds_documents, pieces
from dyncrp.io import files, model_file
from dyncrp.search import Candidate
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Batch, Event, as_time, events_of
from dyncrp.stream.examples import Examples, choose
from dyncrp.stream.learner import OF_LEARNERS, Learner
from dyncrp.stream.warmup import OF_BEGINNINGS, Warmup
from dyncrp.views.describe import as_frame, describe_tables
from dyncrp.views.explain import Explanation, as_row, explain_row, within_words
from dyncrp.views.groups import Groups, join

if TYPE_CHECKING:
    import pandas as pd


# What the header of a file may say of a model, see docs/files.md.
OF_A_FILE = frozenset({"params", "feature_names", "encoding", "vocabulary", *OF_LEARNERS, *OF_BEGINNINGS})
NEEDS_WORDS = "the model was learned on words: give texts, lists of tokens or dictionaries of counts"
NEEDS_COUNTS = "the model was learned on counts of words that have no names: give it counts, not words"
NEEDS_MAP = "{} needs table_count='map': q(C_n) does not know of what is done by hand"


class DynamicalMixture(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster a stream of observations into a growing number of tables that come and go with time.

    The model: observations are seated by the Dynamical CRP with ``alpha`` and ``dynamics``. Each table draws its
    parameters from the prior of ``family``, and its observations from those. Each observation is seen once, in order. A
    table keeps its id for ever; ids count up from 0 in order of opening. The result does not depend, to the bit, on how
    the stream is split into calls. Parameters changed by ``set_params`` take effect at the next ``fit``.

    Unknown hyperparameters are learned from the first ``warmup`` rows (see ``dyncrp.tune``), and then stay fixed. A
    family without arguments, such as ``Gaussian()``, is unknown; so is a dynamics without a timescale, such as
    ``Exponential()``, a list of dynamics to choose from, ``alpha=None`` and ``memory=None``. By default all but the
    memory, which is infinite, is unknown. Until ``warmup`` rows have come, they are kept, and hyperparameters, tables
    and ids are provisional: ``partial_fit`` and ``learn_one`` learn from the first 1, 2, 4, 8, … rows as they come,
    ``fit`` from all of its rows, and each time all rows are seated again. ``learned_`` says whether this is over.

    Args:
        family: the distribution of the observations of a table, such as ``Gaussian(1.0, 100.0)``. None is
            unknown: ``Gaussian()``, or ``NormalGamma(degrees=1.0)`` if that is clearly better.
        dynamics: how fast tables are forgotten. None is unknown: ``Stationary()``, ``Exponential()`` and two sticky
            sums of these are tried. "auto" is None if the family is unknown, and ``Stationary()`` otherwise.
        alpha: how readily new tables open. None is unknown. "auto" is None if the family or the dynamics is unknown,
            and 1 otherwise.
        memory: how many of its members a table remembers, a number ≥ 2: with each of them it forgets 1/memory of what
            it knew, so that it can follow a cluster that moves. An infinite memory forgets nothing. None is unknown: a
            finite one is chosen if the evidence is for it.
        warmup: the number of rows from which unknown hyperparameters are learned. "auto" is 1,000, or 10,000 documents
            if the family counts words.
        resolution: a factor from 1e-6 to 1e6 that divides the variance of clusters, given or learned. Above 1 gives
        more
            and narrower clusters, below 1 fewer and wider ones.
        learn_alpha: whether alpha is updated while learning. Every 100 observations it becomes its posterior mean given
            the tables opened so far, under a Gamma prior of shape 1 with the initial alpha as its mean.
        n_jobs: the number of processes that learn unknown hyperparameters, as in scikit-learn.
        assignment: "predictive" scores a table by log p(x | its data); "variational" is the coordinate ascent of the
            paper.
        table_count: "map" gives a new table the weight alpha; "posterior" spreads alpha over the posterior of the
            number of tables, as in the paper.
        n_iter: the number of coordinate steps of "variational".
        new_table_threshold: the probability at which a new table opens.
        max_tables: the largest number of open tables. When one more opens, the table with the least occupancy closes. A
            closed table is forgotten, and its id is never used again. None is no limit.
        prune_below: the occupancy below which a table closes. The table that the observation joined or opened never
            closes.
        alarm_rate: the share of rows that raise an alarm where nothing happens, such as 0.001; see ``events_``. None is
            no alarms.
        n_examples: how many typical and how many of the latest rows to keep of each table, for ``examples``.

    Attributes:
        family_, dynamics_, alpha_, memory_: the hyperparameters in use, given or learned; alpha as it is now.
        learned_: whether hyperparameters, tables and ids are final: nothing was unknown, ``warmup`` rows have come, or
            ``learn_unknown`` was called.
        evidence_: the candidates that were tried to learn unknown hyperparameters, a list of named tuples.
        labels_: (n,) the table id of each row of the last batch.
        responsibilities_: scipy.sparse CSR of the last batch, with a column for each id ever given.
        novelty_: (n,) −log p(x_n | x_<n) of each row of the last batch: how unexpected it was.
        novelty_p_: (n,) the probability that a row of the stream so far would have been as unexpected.
        events_: what happened in the last batch, and by hand since: a list of ``Event``. ``on_event`` may
            be set to a function, which is then called with each event once ids are final.
        names_: the names of tables by their ids.
        n_tables_, n_opened_: the number of open tables K, and of tables ever opened.
        table_ids_: (K,) the ids of the open tables, increasing.
        closed_ids_: the ids of the tables that closed in the last batch, in order.
        occupancies_: (K,) their occupancies just after the latest observation.
        centers_: (K, D) their centres.
        log_evidence_: Σ log p(x_n | x_<n) so far, which compares models on the same stream. (With "variational" it is
            computed from scores that have seen x_n, and compares with nothing else.)
        clock_: the kind of times, "index" (of arrival), "numbers" or "dates".
        engine_: the engine that does the inference, see ``dyncrp.engine.Engine``.
        n_observations_, n_features_in_: the number of rows and columns seen.
        feature_names_in_: the names of the columns, if the first call had names.
        encoding_: how a DataFrame with more than numbers in it becomes rows of numbers (an ``Encoding``),
            None if there are only numbers. The first call decides it, unless it is set before. Arrays hold
            rows that are encoded already.
        vocabulary_: the columns of words (a ``Vocabulary``), if rows of ``Multinomial`` came as texts, lists
            of tokens or dictionaries of counts; None otherwise. It may be set before the first call.

    >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0)
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])
    """

    # Whether partial_fit carries a search for what is unknown on by a bounded piece only; for adapters to streams.
    piecewise = False
    # Whether to learn a family that takes missing cells even if none is missing in the first rows; likewise.
    expects_missing = False
    # A function that is called with each event as it happens.
    on_event: Callable[[Event], object] | None = None

    _warmup: Warmup  # as long as something is provisional
    _learner: Learner  # from then on
    _params: dict[str, Any]  # as the learner has them; set_params counts from the next fit
    _frames: tuple[Any, ...] = ()  # of the warm-up, if they decide what columns hold
    _batch: Batch
    _by_hand: tuple[Event, ...] = ()  # since the last batch
    _group_of: Mapping[int, int] = MappingProxyType({})  # the groups of tables, when they were last asked for
    _evidence: list[Candidate]
    n_features_in_: int
    encoding_: Encoding | None
    vocabulary_: Vocabulary | None = None

    def __init__(
        self,
        family: Family | None = None,
        dynamics: Dynamics | Sequence[Dynamics] | str | None = "auto",
        alpha: float | str | None = "auto",
        *,
        memory: float | None = math.inf,
        warmup: int | str = "auto",
        resolution: float = 1.0,
        learn_alpha: bool = False,
        n_jobs: int | None = None,
        assignment: str = "predictive",
        table_count: str = "map",
        n_iter: int = 3,
        new_table_threshold: float = 0.5,
        max_tables: int | None = None,
        prune_below: float = 0.0,
        alarm_rate: float | None = None,
        n_examples: int = 0,
    ) -> None:
        self.family = family
        self.dynamics = dynamics
        self.alpha = alpha
        self.memory = memory
        self.warmup = warmup
        self.resolution = resolution
        self.learn_alpha = learn_alpha
        self.n_jobs = n_jobs
        self.assignment = assignment
        self.table_count = table_count
        self.n_iter = n_iter
        self.new_table_threshold = new_table_threshold
        self.max_tables = max_tables
        self.prune_below = prune_below
        self.alarm_rate = alarm_rate
        self.n_examples = n_examples

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; deep, also the fields of family and dynamics, as ``family__variance``."""
        params = super().get_params(deep=False)
        return params | nested_params(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that ``get_params`` lists, such as ``family__variance``; all of them, or none.

        >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0))
        >>> model.set_params(family__variance=2.0, dynamics__timescale=5.0)
        DynamicalMixture(dynamics=Exponential(timescale=5.0),
                         family=Gaussian(variance=2.0, prior_variance=100.0, prior_mean=0.0))
        """
        for name, value in with_params(type(self).__name__, self.get_params(deep=False), params).items():
            setattr(self, name, value)
        return self

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        times: ArrayLike | None = None,
        labels: Iterable[Any] | None = None,
        cannot_link: Iterable[Any] | None = None,
    ) -> Self:
        """Forget everything, then learn from X (n, D) at ``times`` (n,), by default 0, 1, 2, …; y is ignored.

        labels and cannot_link: as for ``partial_fit``.
        """
        self._learn(X, times, (labels, cannot_link), start=True, whole=True)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        times: ArrayLike | None = None,
        labels: Iterable[Any] | None = None,
        cannot_link: Iterable[Any] | None = None,
    ) -> Self:
        """Continue learning from X (n, D) at ``times`` (n,), by default the index of arrival; y is ignored.

        labels: (n,) the table of each row, as far as known: an id, a name, or −1 or None. Such a row is seated there,
        and nowhere else. A name that no table has opens one of that name; an id of a closed table opens one in its
        place. Until ``learned_`` ids are provisional, and only names are taken. cannot_link: (n,) marks, integers or
        texts, or −1 or None. Rows that follow each other with the same mark cannot share a table, such as the faces in
        one photo: a row takes none that an earlier one of them has, unless ``labels`` says so.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
        >>> model.partial_fit([[0.0], [1.5], [0.1]], labels=["left", "right", None]).labels_
        array([0, 1, 0])
        >>> model.names_
        {0: 'left', 1: 'right'}
        >>> model.partial_fit([[0.2], [0.1]], cannot_link=["photo 1", "photo 1"]).labels_
        array([0, 1])
        """
        self._learn(X, times, (labels, cannot_link), start=not self.__sklearn_is_fitted__())
        return self

    def learn_one(self, x: ArrayLike, t: Any = None) -> int:
        """Learn from one observation x (D,) at time t and return its table: the fast path for loops.

        The same as ``partial_fit([x], times=[t])``, except that what describes the last batch (``labels_``,
        ``responsibilities_``, ``novelty_``, ``closed_ids_``) stays as it was. The time t may be a number or a date; by
        default, it is the index of arrival.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
        >>> [model.learn_one(x) for x in ([0.0, 0.1], [9.0, 9.2], [0.2, 0.0])]
        [0, 1, 0]
        """
        learner: Learner | None = self.__dict__.get("_learner")
        time = None if learner is None or self.on_event is not None else learner.time_of_one(t)
        if learner is not None and time is not None:
            engine = learner.engine
            if engine.accepts(x, 1):
                return learner.run_one(x, time)
            if not learner.family.sparse:
                x = np.asarray(x)
                if engine.accepts(x, 1):
                    return learner.run_one(x, time)
                row = as_observations(x[None, ...], missing=True)
                self._check_width(row)
                if learner.takes_missing or first_missing(row):
                    return learner.run_one(check_rows(engine.model.family, row)[0], time)
            elif self.vocabulary_ is None and not holds_documents([x]):
                label = learner.run_one(_one_document(x), time)
                self.n_features_in_ = engine.n_features
                return label
        start = not self.__sklearn_is_fitted__()
        X: Any = [x]
        if type(x) is np.ndarray or not self._reads_words(X, start=start):
            X = _one_document(x) if self._takes_counts else np.asarray(x)[None, ...]
        return int(self._learn(X, None if t is None else [t], start=start, batch=False).trace.labels[0])

    def learn_row(self, x: Float, t: float) -> int:
        """Learn from one whole row x (D,) that the family has checked; for adapters, once the model is ``learned_``."""
        return self._learner.run_one(x, t)

    def learn_unknown(self) -> Self:
        """End the warm-up now: learn what is unknown from all rows so far, at least 2, and keep it from now on.

        >>> from dyncrp import DynamicalMixture
        >>> model = DynamicalMixture().partial_fit([[0.0], [0.1], [9.0], [9.1], [0.2]])
        >>> model.learned_, model.learn_unknown().learned_
        (False, True)
        """
        if self._fitted and not self.learned_:
            self._warmup.end()
            self._adopt(self._warmup)
        return self

    def finish_search(self) -> Self:
        """End the search for what is unknown that is under way, if learning is ``piecewise`` and one is."""
        if self._fitted and not self.learned_:
            self._warmup.finish()
            self._adopt(self._warmup)
        return self

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the label that each row would get now, or −1 if that were a new table's; learns nothing.

        Each row is predicted by itself under the present state, at its own time (any time not before the latest
        observation; by default the latest time, or without times the next index).
        """
        engine, rows, t = self._validate(X, times)
        return engine.predict(rows, t)

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the share of each table, and of a new one in the last column, for each row: (n, K + 1)."""
        engine, rows, t = self._validate(X, times)
        return engine.responsibilities(rows, t)

    def groups(self, n_groups: int | None = None) -> Groups:
        """Return the open tables joined into groups: what people would call clusters. Events name the latest ones.

        Tables describe a density and often tile a cluster that is not Gaussian. Without a number, tables are joined
        unless a significant valley of that density lies between them. With one, they are joined by Ward's criterion on
        their centres. A group goes by the id of its oldest table. See ``dyncrp.views.groups.Groups`` for what comes
        back.

        >>> from sklearn.datasets import make_moons
        >>> from dyncrp import DynamicalMixture
        >>> X, y = make_moons(500, noise=0.05, random_state=0)
        >>> model = DynamicalMixture().fit(X)
        >>> model.n_tables_ > 20, len(model.groups())
        (True, 2)
        """
        engine = self.engine_
        state = engine.state
        found = join(engine.model.family, state.stats, state.squares, state.ids, n_groups, engine.model.memory)
        self._group_of = dict(zip(found.table_ids.tolist(), found.group_of.tolist(), strict=True))
        return found

    def predict_groups(
        self, X: ArrayLike, n_groups: int | None = None, *, times: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return the group (see ``groups``) of the table that each row would join now, −1 if that were a new one."""
        return self.groups(n_groups).labels(self.predict(X, times))

    def describe(self, groups: Groups | int | None = None) -> pd.DataFrame:
        """Return what is known of each open table as a pandas DataFrame, whose index ``table`` has their ids.

        Its columns are ``called``, its name, if any table has one; ``rows``, how many were given the table's label;
        ``share``, of the rows of all open tables; ``first_seen`` and ``last_seen``, when the first and the last of them
        came (dates in UTC if times were dates, numbers otherwise); with ``groups`` (or a number of them) ``group``; and
        one for each feature, with the table's centre. Of a boolean that is the probability of true; of categories it is
        a text with the likeliest and their lift, which is how much likelier they are than in all tables.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0]])
        >>> model.describe().round(2)
               rows  share  first_seen  last_seen    x0    x1
        table
        0         2   0.67         0.0        2.0  0.10  0.05
        1         1   0.33         1.0        1.0  8.91  9.11
        """
        if groups is not None and not isinstance(groups, Groups):
            if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)):
                raise ValueError(f"groups must be what groups() returns, or a number of groups, got {groups!r}")
            groups = self.groups(int(groups))
        names = getattr(self, "feature_names_in_", None) if self.vocabulary_ is None else self.vocabulary_.words
        columns = describe_tables(self.engine_, names, self.clock_, groups, self.encoding_, self.names_)
        return as_frame(columns, self.table_ids_)

    def explain(self, x: Any, t: Any = None) -> Explanation:
        """Return why x would be at its table: log odds against the runner-up and a new table, feature by feature.

        x: one row: numbers (D,), a DataFrame of one row, or a mapping from the names of the features. t: its time, by
        default as in ``predict``. With ``Multinomial`` it is one document, and features are the words that it has.
        Nothing is learned. The odds are sums of a term for the prior weights and one for each feature, and print as a
        list; see ``dyncrp.views.explain.Explanation``. With ``assignment="variational"`` they are those of the
        predictive scores, and so not quite what decides.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 0.2], [0.2, 0.0]])
        >>> print(model.explain([6.0, 0.0]))
        table 1
        log odds in nats  against table 0  against a new table
        prior weight                -0.69                +0.00
        x0 = 6                      +9.35                +0.01
        x1 = 0                      -0.15                +1.95
        total                       +8.51                +1.97
        """
        check_is_fitted(self)
        vocabulary, encoding, named = self.vocabulary_, self.encoding_, False
        names: Any = getattr(self, "feature_names_in_", None)
        if vocabulary is not None and holds_documents([x]):
            X, names = [x], vocabulary.names(vocabulary.read([x]))
        elif hasattr(x, "tocsr"):
            X = x
        else:
            X, encoding, named = as_row(x, names, encoding)
        engine, rows, times = self._validate(X, None if t is None else [t], named=named)
        row = _one_document(rows) if isinstance(rows, Counts) else rows[0]
        return explain_row(engine, row, float(times[0]), names, encoding, self.names_)

    def examples(self, table: int | str) -> Examples:
        """Return rows of a table that are typical of it, the likeliest first, and its latest rows, the newest first.

        There are up to ``n_examples`` of each, as the family sees them, with their numbers in the stream and times. The
        typical ones are chosen from a fair sample of the table's rows. table: an id or a name. Documents come back as
        dictionaries from words to counts, the typical ones in order of how much they speak for the table; see
        ``dyncrp.stream.examples.choose``.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0), n_examples=1).fit([[0.0], [9.0], [0.4], [1.2]])
        >>> model.examples(0).typical.X, model.examples(0).latest.numbers
        (array([[0.4]]), array([3]))
        """
        found, learner = self._find(table), self._fitted
        if learner.examples is None:
            raise ValueError("no rows are kept as examples: give n_examples, such as DynamicalMixture(n_examples=5)")
        engine, kept = learner.engine, learner.examples.of(found)
        place = engine.ids.tolist().index(found)
        if not self._takes_counts:
            return choose(engine.model.family, engine.state.stats[place], kept)
        columns = np.unique(kept.sample.X.indices)
        family, stats = within_words(engine, columns)
        chosen = choose(family, stats[place], kept, columns)
        return Examples(*(rows._replace(X=self._as_documents(rows.X)) for rows in chosen))

    def _as_documents(self, rows: Counts) -> Any:
        """Return rows as dictionaries of counts, or as a sparse array if words have no names."""
        if self.vocabulary_ is None:
            return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows), self.n_features_in_))
        words = np.array(self.vocabulary_.words, dtype=object)[rows.indices]
        cells = list(zip(words.tolist(), rows.data.astype(np.int64).tolist(), strict=True))
        return [dict(cells[begin:end]) for begin, end in pairwise(rows.indptr.tolist())]

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) for each row, (n,): low means novel."""
        engine, rows, t = self._validate(X, times)
        return engine.log_density(rows, t)

    def score(self, X: ArrayLike, y: object = None, times: ArrayLike | None = None) -> float:
        """Return the mean of ``score_samples``, by which scikit-learn compares models; y is ignored."""
        return float(np.mean(self.score_samples(X, times)))

    def merge(self, a: int | str, b: int | str) -> int:
        """Let two tables be one, and return its id, the older of the two; the other id stands for it from now on.

        Statistics and occupancies add up: the table is what it would be if the rows of both had been seated there. If
        both have names, the first stays. a, b: ids or names of open tables. One table of the family cannot cover two
        that lie far apart: then rows like theirs will open others, and the event "merged" says ``far_apart``.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [4.0], [9.2]])
        >>> model.merge(2, 0), model.table_ids_, model.resolve([0, 1, 2])
        (0, array([0, 1]), array([0, 1, 0]))
        """
        learner = self._editable("merge")
        one, other = self._find(a), self._find(b)
        if one == other:
            raise ValueError(f"{a!r} and {b!r} are the same table already, {one}")
        engine = learner.engine
        places = np.flatnonzero(np.isin(engine.ids, [one, other]))
        # The centre of documents is no document, and would be dense.
        centers = None if learner.family.sparse else engine.model.family.centers(engine.state.stats[places])
        kept = learner.merge(one, other)
        covers = centers is None or self._covers(kept, centers)
        what: dict[str, Any] = {"merged": max(one, other)}
        self._happened("merged", kept, what if covers else what | {"far_apart": True})
        return kept

    def _covers(self, table: int, centers: Float) -> bool:
        """Whether rows at these centres (n, D) would join a table now; of features that have no such rows, yes."""
        engine = self._fitted.engine
        try:
            rows = check_rows(engine.model.family, np.ascontiguousarray(centers))
        except ValueError:
            return True
        return bool(np.all(engine.predict(rows, np.full(len(rows), engine.time)) == table))

    def rename(self, table: int | str, name: str) -> None:
        """Give a table a name that no other one has; "" takes its name away. table: its id, or the name it has.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> model.rename(1, "door 3")
        >>> model.names_, model.resolve(["door 3"])
        ({1: 'door 3'}, array([1]))
        """
        learner = self._editable("rename")
        found, text = self._find(table), "" if name == "" else check_name(name)
        if text and learner.names.find(text) not in (None, found):
            raise ValueError(
                f"table {learner.names.find(text)} is called {text!r} already: merge the two, if they are one"
            )
        before = learner.names.of.get(found)
        learner.names.give(found, text)
        self._happened("renamed", found, {"before": before})

    def split(self, table: int | str, X: ArrayLike, *, times: ArrayLike | None = None) -> int:
        """Take rows X (n, D) out of a table that they were given, into a new one; return its id.

        What the rows had put into the table is taken out, exactly if they were wholly its own. times: (n,) when they
        came, which is needed unless nothing is forgotten.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(4.0, 100.0)).fit([[0.0], [3.0], [0.2], [3.2]])
        >>> model.n_tables_, model.split(0, [[3.0], [3.2]]), model.centers_.round(1).ravel()
        (1, 1, array([0.1, 3. ]))
        """
        learner = self._editable("split")
        found = self._find(table)
        engine = learner.engine
        if engine.model.memory < math.inf:
            raise ValueError(
                f"split needs memory=inf: with memory={engine.model.memory:g} the table has forgotten rows"
            )
        self._check_documents(X)
        rows, _ = self._encode(X, self.encoding_, learner.family)
        self._check_width(rows)
        rows = check_rows(learner.family, rows)
        if times is None:
            if np.any(engine.model.modes.rates != 0.0):
                raise ValueError(f"split needs the times of the rows: {learner.dynamics!r} forgets with time")
            t = np.full(len(rows), engine.time)
        else:
            t = as_times(times, n=len(rows), ordered=False)
            late = np.flatnonzero(t > engine.time)
            if len(late):
                raise ValueError(f"the times of rows that have come are not after {engine.time:g}, got {t[late[0]]:g}")
        new = learner.split(found, rows, t)
        self._happened("opened", new, {"split_from": found})
        return new

    def resolve(self, tables: Iterable[int | str]) -> NDArray[np.int64]:
        """Return the ids that ids and names stand for, as merges have made them; −1 stays −1.

        So labels from before a merge can be brought up to date: ``model.resolve(labels)``.
        """
        names = self._fitted.names
        given = tables if hasattr(tables, "__array__") else list(tables)
        array = np.asarray(given)
        if array.dtype.kind in "iu" or not array.size:
            return names.find_all(array.astype(np.int64))
        listed = array.tolist() if hasattr(given, "__array__") else given
        return np.array([-1 if table == -1 else self._find(table, closed=True) for table in listed], dtype=np.int64)

    @property
    def names_(self) -> dict[int, str]:
        """The names of tables by their ids."""
        return dict(sorted(self._fitted.names.of.items()))

    @property
    def events_(self) -> list[Event]:
        """What happened in the last batch, in order, and what was done by hand since."""
        learner, batch = self._fitted, self.__dict__.get("_batch")
        found = [] if batch is None else self._events(batch)
        names, groups = learner.names.of, self._group_of
        by_hand = (
            event._replace(name=names.get(event.table), group=groups.get(event.table)) for event in self._by_hand
        )
        return [*found, *by_hand]

    def _events(self, batch: Batch) -> list[Event]:
        learner = self._fitted
        rate, names = self._params["alarm_rate"], learner.names.of
        return events_of(batch, learner.engine.model.modes, learner.clock, names, self._group_of, rate)

    def _happened(self, kind: str, table: int, what: dict[str, Any]) -> None:
        """Note what was done by hand."""
        learner = self._fitted
        time = as_time(learner.engine.time, learner.clock)
        row, name = learner.engine.n_observations - 1, learner.names.of.get(table)
        event = Event(kind, row, time, table, name, self._group_of.get(table), what)
        self._by_hand = (*self._by_hand, event)
        if self.on_event is not None:
            self.on_event(event)

    def _editable(self, doing: str) -> Learner:
        """Return the learner, whose tables may be changed by hand."""
        learner = self._fitted
        if not self.learned_:
            n = self._warmup.spec.warmup
            raise ValueError(
                f"{doing} needs tables that are final: they are provisional until {n} rows have come, or learn_unknown "
                "is called"
            )
        self._require_map(learner, doing)
        return learner

    def _require_map(self, learner: Learner, doing: str) -> None:
        if learner.engine.model.rules.table_count != "map":
            raise ValueError(NEEDS_MAP.format(doing))

    def _find(self, table: Any, *, closed: bool = False) -> int:
        """Return the id of the open table that an id or a name stands for; closed: or of one that has closed."""
        learner = self._fitted
        engine = learner.engine
        if isinstance(table, str):
            found = learner.names.find(table)
            if found is None:
                known = ", ".join(map(repr, sorted(learner.names.of.values())[:10])) or "none"
                raise ValueError(f"no table is called {table!r}; the names are {known}")
        else:
            is_integer = isinstance(table, (int, np.integer)) and not isinstance(table, bool)
            if not is_integer or not 0 <= table < engine.n_opened:
                raise ValueError(f"a table must be an id below {engine.n_opened} or a name, got {table!r}")
            found = int(learner.names.find(int(table)))  # type: ignore[arg-type]
        if not closed and found not in engine.ids:
            raise ValueError(f"table {table!r} has closed: what it knew is forgotten")
        return found

    @property
    def labels_(self) -> NDArray[np.int64]:
        """Table id of each row of the last batch, (n,)."""
        return self._last_batch("labels_").labels

    @property
    def responsibilities_(self) -> csr_array:
        """Responsibilities of the tables for the rows of the last batch, a column for each id, scipy.sparse CSR."""
        return self._last_batch("responsibilities_").responsibilities

    @property
    def novelty_(self) -> Float:
        """How unexpected each row of the last batch was when it came, −log p(x_n | x_<n), (n,)."""
        return -self._last_batch("novelty_").log_evidence

    @property
    def novelty_p_(self) -> Float:
        """How likely a row of the stream so far would have been as unexpected as each row of the last batch, (n,).

        If nothing happens in a stream, one row in a thousand has a p of at most 0.001. The stream so far is not all of
        it: old rows are forgotten, see ``dyncrp.stream.novelty``. Without an ``alarm_rate`` it is not saved, and begins
        anew when a model is loaded.
        """
        self._last_batch("novelty_p_")
        self._fitted.wants_p = True
        return self._batch.novelty_p

    def _last_batch(self, name: str) -> Trace:
        check_is_fitted(self)
        if not hasattr(self, "_batch"):
            raise AttributeError(
                f"this DynamicalMixture has no {name}, which describes the last batch: there was none since it was "
                "loaded or began with learn_one. Call fit or partial_fit"
            )
        return self._batch.trace

    @property
    def evidence_(self) -> list[Candidate]:
        """Every candidate that was tried to learn the unknown."""
        check_is_fitted(self)
        if not hasattr(self, "_evidence"):
            raise AttributeError(
                "this DynamicalMixture comes from a file, which does not keep the candidates, so it has no evidence_"
            )
        return self._evidence

    @property
    def learned_(self) -> bool:
        """Whether the hyperparameters are final, and with them the tables and their ids."""
        return self._fitted is self.__dict__.get("_learner")

    @property
    def engine_(self) -> Engine:
        """What does the inference, for adapters that call it row by row; see ``dyncrp.engine.Engine``."""
        return self._fitted.engine

    def engine_for(self, rows: Rows) -> Engine:
        """Return ``engine_``, or one that has learned the same if cells of the rows (n, D) are missing."""
        learner = self._fitted
        return learner.engine if first_missing(rows) == len(rows) else learner.engine_for_missing()

    @property
    def clock_(self) -> str:
        """What the times of the stream are: "index" (of arrival), "numbers" or "dates"."""
        return self._fitted.clock.value

    @property
    def family_(self) -> Family:
        """The family, as given or learned."""
        return self._fitted.family

    @property
    def dynamics_(self) -> Dynamics:
        """The dynamics, as given or learned."""
        return self._fitted.dynamics

    @property
    def alpha_(self) -> float:
        """What alpha is, as given or learned."""
        return self._fitted.alpha

    @property
    def memory_(self) -> float:
        """How many of its members a table remembers, as given or learned."""
        return self.engine_.model.memory

    @property
    def n_observations_(self) -> int:
        """Number of observations learned."""
        return self.engine_.n_observations

    @property
    def log_evidence_(self) -> float:
        """Σ log p(x_n | x_<n) so far."""
        return self.engine_.log_evidence

    @property
    def n_tables_(self) -> int:
        """Number of open tables."""
        return self.engine_.n_tables

    @property
    def n_opened_(self) -> int:
        """Number of tables ever opened, those that closed included."""
        return self.engine_.n_opened

    @property
    def table_ids_(self) -> NDArray[np.int64]:
        """Ids of the open tables, (K,)."""
        return self.engine_.ids

    @property
    def closed_ids_(self) -> NDArray[np.int64]:
        """Ids of the tables that closed in the last batch."""
        return self._last_batch("closed_ids_").closed

    @property
    def occupancies_(self) -> Float:
        """Occupancies of the open tables at the time of the latest observation, (K,)."""
        return occupancy(self.engine_.seating, self.engine_.model.modes)

    @property
    def centers_(self) -> Float:
        """Centres of the open tables, (K, D)."""
        return self.engine_.model.family.centers(self.engine_.state.stats)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path``: all that the next call needs, exact to the bit; not the last batch's labels."""
        files.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; it continues where that one stopped."""
        return cls._from_bytes(Path(path).read_bytes(), os.fspath(path))

    def to_bytes(self) -> bytes:
        """Return what ``save`` writes, for those who keep it themselves."""
        self.finish_search()
        names = getattr(self, "feature_names_in_", None)
        learner = self._fitted
        config = {"params": self._params, "feature_names": names, **learner.config()}
        if self.encoding_ is not None:
            config["encoding"] = self.encoding_.to_plain()
        if self.vocabulary_ is not None:
            config["vocabulary"] = self.vocabulary_.to_plain()
        if self.learned_:
            return model_file.dumps(config, learner.arrays())
        warmup = self._warmup
        return model_file.dumps(config | warmup.config(), learner.arrays() | warmup.arrays())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a model that ``to_bytes`` returned, or ``save`` wrote; it continues where that one stopped."""
        return cls._from_bytes(content, "this")

    @classmethod
    def _from_bytes(cls, content: bytes, name: str) -> Self:
        config, arrays = model_file.loads(content, name)
        try:
            unknown = sorted(config.keys() - OF_A_FILE)
            if unknown:
                raise ValueError(f"it has entries that this dyncrp does not know, {unknown}")
            model = cls(**config["params"])
            model._params = model.get_params(deep=False)
            plain, names = config.get("encoding"), config["feature_names"]
            model.encoding_ = None if plain is None else Encoding.from_plain(plain)
            if "vocabulary" in config:
                model.vocabulary_ = Vocabulary.from_plain(config["vocabulary"])
            spec = _resolve(model._params, model.encoding_, names)
            model._adopt(Warmup.restore(spec, config, arrays))
            model.n_features_in_ = model.engine_.n_features
            if model.encoding_ is not None:
                if len(model.encoding_.features) != model.n_features_in_:
                    raise ValueError(f"its encoding has {len(model.encoding_.features)} features")
                model.n_features_in_ = len(model.encoding_.entries)
            if names is not None:
                strings = type(names) is list and all(type(entry) is str for entry in names)
                if not strings or len(names) != model.n_features_in_:
                    raise ValueError(f"its feature_names are {names!r}, for {model.n_features_in_} features")
                model.feature_names_in_ = np.array(names, dtype=object)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{error}{model_file.writer(content)}"
            raise ValueError(f"{name} does not hold a DynamicalMixture: {reason}") from error
        return model

    def to_state(self) -> bytes:
        """Return what was learned, without the parameters, for ``set_state``: for those who keep thousands of models.

        It takes some 15 µs and has no checksum; ``to_bytes`` is for files.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> kept = model.to_state()
        >>> DynamicalMixture(Gaussian(1.0, 100.0)).set_state(kept).partial_fit([[9.1], [0.2]]).labels_
        array([1, 0])
        """
        if not self.learned_:
            raise ValueError("this model still learns its hyperparameters: give them, or keep it with to_bytes")
        if self.encoding_ is not None or self.vocabulary_ is not None:
            raise ValueError("a state does not hold words, of columns or of texts: keep the model with to_bytes")
        return self._learner.to_state()

    def set_state(self, content: bytes) -> Self:
        """Go on from what ``to_state`` of a model with the same parameters returned, instead of what was learned."""
        if self.__sklearn_is_fitted__() and self.learned_:
            self._learner.set_state(content)
        else:
            params = self.get_params(deep=False)
            spec = ModelSpec.resolve(**params)
            if spec.given is None:
                raise ValueError(
                    "a state does not hold hyperparameters, and those of this model are unknown: learn them with "
                    "dyncrp.tune and give them, or use to_bytes and from_bytes"
                )
            self._learner = Learner.from_state(spec, spec.given, content)
            self._params, self.n_features_in_, self.encoding_ = params, self._learner.engine.n_features, None
        self.__dict__.pop("_batch", None)
        self._by_hand = ()
        return self

    def widen(self, n_features: int, absent: float = 0.0) -> None:
        """Let there be more features from now on, in which all rows so far had 0; or NaN, which is nothing."""
        if self._fitted and self.learned_:
            self._learner.widen(n_features, absent)
        else:
            self._warmup.widen(n_features, absent)
            self._adopt(self._warmup)
        self.n_features_in_ = n_features

    def _learn(
        self,
        X: Any,
        times: ArrayLike | None,
        told: tuple[Any, Any] = (None, None),
        *,
        start: bool,
        whole: bool = False,
        batch: bool = True,
    ) -> Batch:
        """Validate everything, and only then learn; return what the rows did.

        told: labels and cannot_link. start: whether these are the first rows. whole, batch: as for ``Warmup.learn``.
        """
        if not start and self._accepts(X):
            return self._learn_rows(X, times, told, start=False, whole=whole, batch=batch, plain=True)
        if self._reads_words(X, start=start):
            return self._learn_words(X, times, told, start=start, whole=whole, batch=batch)
        if not start and self.vocabulary_ is not None:
            raise ValueError(NEEDS_WORDS)
        done = self._learn_rows(X, times, told, start=start, whole=whole, batch=batch)
        if start:
            self.vocabulary_ = None
        return done

    def _learn_rows(
        self, X: Any, times: Any, told: tuple[Any, Any], *, start: bool, whole: bool, batch: bool, plain: bool = False
    ) -> Batch:
        """Learn from rows; plain: whether there is nothing to look into, see ``_accepts``."""
        if start:
            done = self._start(X, times, told, whole=whole, batch=batch)
        else:
            done = self._continue(X, times, told, batch=batch, plain=plain)
        if batch:
            self._by_hand = ()
        return done

    def _accepts(self, X: Any) -> bool:
        """Whether X is a plain array in which there is nothing to look into."""
        return "feature_names_in_" not in self.__dict__ and self._fitted.engine.accepts(X, 2)

    def _reads_words(self, X: Any, *, start: bool) -> bool:
        """Whether the family counts words and X holds documents. start: whether these are the first rows."""
        family = self.family if start else self._fitted.family
        return isinstance(family, Family) and family.sparse and holds_documents(X)

    def _learn_words(
        self, X: Any, times: Any, told: tuple[Any, Any], *, start: bool, whole: bool, batch: bool
    ) -> Batch:
        """Learn from documents; words are forgotten after certain rows, the same however a stream is cut into calls."""
        vocabulary = self.vocabulary_
        if start and (vocabulary is None or self.__sklearn_is_fitted__()):
            vocabulary = Vocabulary(stop_words=vocabulary is not None and vocabulary.stop_words)
        if vocabulary is None:
            raise ValueError(NEEDS_COUNTS)
        documents = _read(vocabulary, X)
        edges = self._pieces(documents.n, start=start)
        if len(edges) > 2:  # all is checked before the first piece is learned
            told = _listed(told[0]), _listed(told[1])
            constraints = self._feedback(told, documents.n, None if start else self._fitted)
            if constraints is not None and start:
                constraints.check_ids(0, provisional=False)
            if times is not None:
                as_times(times, n=documents.n, last=-math.inf if start else self.engine_.time)
                times = list(times)
        done: list[Batch] = []
        for begin, end in pairwise(edges):
            rows = vocabulary.encode(documents.part(begin, end))
            some = [one if one is None or len(edges) == 2 else one[begin:end] for one in (times, *told)]
            first = not begin
            try:
                now = self._learn_rows(
                    rows, some[0], (some[1], some[2]), start=start and first, whole=whole and first, batch=batch
                )
            except ValueError:
                vocabulary.take_back()
                raise
            done.append(now)
            self.vocabulary_ = vocabulary
            if self.learned_ and forgets_after(self.n_observations_):
                vocabulary.forget(cast(WordEngine, self.engine_).word_totals().columns)
        if len(done) == 1:
            return done[0]
        joined = replace(
            done[0], trace=concatenate([one.trace for one in done]), times=np.concatenate([one.times for one in done])
        )
        if batch:
            self._batch = joined
        return joined

    def _pieces(self, n: int, *, start: bool) -> list[int]:
        """Return where to cut n documents, so that words are forgotten between them: not while rows are kept."""
        spec = ModelSpec.resolve(**self.get_params(deep=False)) if start else None
        if spec is None and not self.learned_:
            spec = self._warmup.spec
        before, least = 0 if start else self.n_observations_, 0 if spec is None or spec.given else spec.warmup
        return [edge for edge in pieces(before, n) if edge in (0, n) or before + edge >= least]

    def _continue(self, X: Any, times: Any, told: tuple[Any, Any], *, batch: bool, plain: bool) -> Batch:
        learner, rows, encoding = self._fitted, X, self.encoding_
        if not plain:
            rows, encoding = self._encode(X, encoding, learner.family)
            self._check_names(X)
            self._check_width(rows)
        learner.clock.check(Clock.of(times))
        constraints = self._feedback(told, len(rows), learner)
        if self.learned_:
            rows = rows if plain else check_rows(learner.family, rows)
            done = learner.run(rows, learner.times(times, len(rows)), constraints, whole=plain)
            if learner.family.sparse:
                self.n_features_in_ = learner.engine.n_features
            if batch:
                self._batch = done
        elif self._looks_different(X):
            return self._start_again(X, learner.times(times, len(rows)), constraints, batch=batch)
        else:
            warmup = self._warmup
            rows = warmup.check(rows)
            done = warmup.learn(rows, learner.times(times, len(rows)), constraints, batch=batch)
            if self._frames:
                self._frames = (*self._frames, X)
            if learner.family.sparse:
                self.n_features_in_ = warmup.learner.engine.n_features
            self._adopt(warmup)
            self.encoding_ = encoding
            return done
        self.encoding_ = encoding
        self._report(done)
        return done

    def _feedback(self, told: tuple[Any, Any], n: int, learner: Learner | None = None) -> Constraints | None:
        """Return what labels and cannot_link say of n rows, checked; learner: as far as there is one."""
        constraints = Constraints.read(*told, n)
        if constraints is not None and learner is not None:
            constraints.check_ids(learner.engine.n_opened, provisional=not self.learned_)
            self._require_map(learner, "what labels and cannot_link say")
        return constraints

    def _report(self, *batches: Batch) -> None:
        """Call ``on_event`` with what happened."""
        if self.on_event is not None:
            for event in (event for batch in batches for event in self._events(batch)):
                self.on_event(event)

    def _looks_different(self, X: Any) -> bool:
        """Whether the first rows, now that there are more of them, show that columns hold something else."""
        if not self._frames or not is_frame(X) or self.encoding_ is None:
            return False
        found = _infer(self._stack(X), self._params)
        return found is not None and found.kinds != self.encoding_.kinds

    def _stack(self, X: Any) -> Any:
        """Return the frames of the warm-up and X as one."""
        return stack([*self._frames, X], [] if self.encoding_ is None else self.encoding_.names)

    def _start_again(self, X: Any, t: Float, constraints: Constraints | None, *, batch: bool) -> Batch:
        """Learn the rows so far and those of X (n, D) at times t (n,) with what columns are known to hold now."""
        before, frame = self._warmup, self._stack(X)
        rows, encoding = self._encode(frame, _infer(frame, self._params), self._params["family"])
        spec = _resolve(self._params, encoding, None)
        rows, times = check_rows(spec.family, rows), np.concatenate([before.times, t])
        warmup = Warmup(spec, before.clock, piecewise=self.piecewise, missing=self.expects_missing)
        warmup.learn(rows[: -len(t)], times[: -len(t)], before.constraints, batch=not batch)
        done = warmup.learn(rows[-len(t) :], t, constraints, batch=batch)
        self._frames, self.encoding_ = (frame,), encoding
        self._adopt(warmup)
        return done

    def _start(self, X: Any, times: Any, told: tuple[Any, Any], *, whole: bool, batch: bool) -> Batch:
        params, clock = self.get_params(deep=False), Clock.of(times)
        # One that was set before the first call is used; a later fit forgets the one before.
        encoding = None if self.__sklearn_is_fitted__() else self.__dict__.get("encoding_")
        frames: tuple[Any, ...] = ()
        if encoding is None and is_frame(X):
            encoding = _infer(X, params)
            frames = () if encoding is None else (X,)
        rows, encoding = self._encode(X, encoding, params["family"])
        spec = _resolve(params, encoding, getattr(X, "columns", None))
        spec.check_clock(clock)
        rows = check_rows(spec.family, rows)
        t = np.arange(len(rows), dtype=np.float64) if times is None else as_times(times, n=len(rows))
        constraints = self._feedback(told, len(rows))
        if constraints is not None:
            constraints.check_ids(0, provisional=spec.given is None)
            if spec.rules.table_count != "map":
                raise ValueError(NEEDS_MAP.format("what labels and cannot_link say"))
        warmup = Warmup(spec, clock, piecewise=self.piecewise, missing=self.expects_missing)
        done = warmup.learn(rows, t, constraints, whole=whole, batch=batch)
        self._frames, self._params, self.encoding_ = frames, params, encoding
        if encoding is None:
            self.n_features_in_ = rows.shape[1]
            self._check_names(X, reset=True)
        else:
            self.feature_names_in_ = np.array(encoding.names, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        self._adopt(warmup)  # last: what it tells ``on_event`` may lead to a look at the model
        return done

    def _encode(self, X: Any, encoding: Encoding | None, family: Family | None) -> tuple[Rows, Encoding | None]:
        """Return rows (n, D) as the family sees them, and the encoding with what is new in them."""
        if self.vocabulary_ is not None and holds_documents(X):
            return self.vocabulary_.encode(_read(self.vocabulary_, X), grow=False), encoding
        sparse = isinstance(family, Family) and family.sparse
        if sparse and encoding is not None and is_frame(X):
            raise ValueError(
                f"{type(family).__name__} takes counts of words, or texts: give the column of texts by itself, such as "
                f"X[{str(encoding.names[0])!r}]"
            )
        if encoding is None or not is_frame(X):
            return as_counts(X) if sparse else as_observations(X, missing=True), encoding
        rows, longer = encoding.encode(X)
        if not len(rows):
            raise ValueError(f"X must not be empty: found array with 0 sample(s) (shape={X.shape})")
        return rows, longer

    def _check_documents(self, X: Any) -> None:
        """Hold rows that are not learned to words, or to counts, as the model has them."""
        if self._takes_counts:
            documents = holds_documents(X)
            if documents != (self.vocabulary_ is not None):
                raise ValueError(NEEDS_COUNTS if documents else NEEDS_WORDS)

    def _adopt(self, warmup: Warmup) -> None:
        """Take over what a warm-up has come to; once it is over, its learner goes on alone."""
        if warmup.batch is not None:
            self._batch = warmup.batch
        if warmup.candidates is not None:
            self._evidence = warmup.candidates
        if warmup.over:
            self._learner, self._frames = warmup.learner, ()
            self.__dict__.pop("_warmup", None)
            self._report(*warmup.history)  # from the first row on: ids are final only now
        else:
            self._warmup = warmup
            self.__dict__.pop("_learner", None)

    def _validate(self, X: ArrayLike, times: ArrayLike | None, *, named: bool = False) -> tuple[Engine, Rows, Float]:
        """Return rows to be predicted as the family wants them, the time of each, and the engine to predict them.

        named: whether X is an array whose columns have been put in order by their names.
        """
        learner = self._fitted
        engine, rows = learner.engine, cast(Rows, X)
        if not self._accepts(X):
            self._check_documents(X)
            rows, _ = self._encode(X, self.encoding_, learner.family)
            if not named:
                self._check_names(X)
            self._check_width(rows)
            rows = check_rows(learner.family, rows)
            engine = self.engine_for(rows)
        if times is None:
            now = engine.n_observations if learner.clock is Clock.INDEX else engine.time
            return engine, rows, np.full(len(rows), now, dtype=np.float64)
        clock = Clock.of(times)
        if (learner.clock, clock) != (Clock.INDEX, Clock.NUMBERS):  # an index is a number too
            learner.clock.check(clock)
        return engine, rows, as_times(times, n=len(rows), last=engine.time, ordered=False)

    def _check_names(self, X: ArrayLike, *, reset: bool = False) -> None:
        """Remember the names of the features, or hold this call to them, as scikit-learn does.

        With an encoding, columns are found by name, in any order, and arrays hold rows that are encoded.
        """
        if not reset and (self.encoding_ is not None or (self._takes_counts and not is_frame(X))):
            return
        if type(X) is not np.ndarray or hasattr(self, "feature_names_in_"):
            validate_data(self, X, reset=reset, skip_check_array=True)

    @property
    def _takes_counts(self) -> bool:
        """Whether rows are counts of words, of which there may be more in any call."""
        family = self._fitted.family if self.__sklearn_is_fitted__() else self.family
        return isinstance(family, Family) and family.sparse

    def _check_width(self, rows: Rows) -> None:
        n = self._fitted.engine.n_features
        if rows.shape[1] != n and not self._takes_counts:
            raise ValueError(f"X has {rows.shape[1]} features, but DynamicalMixture is expecting {n} features as input")

    @property
    def _fitted(self) -> Learner:
        learner: Learner | None = self.__dict__.get("_learner")
        if learner is not None:
            return learner
        if "_warmup" not in self.__dict__:
            check_is_fitted(self)  # raises, but takes its time
        return self._warmup.learner

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        sparse = self._takes_counts
        tags.input_tags.allow_nan, tags.input_tags.sparse = not sparse, sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_learner" in self.__dict__ or "_warmup" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        if self.__sklearn_is_fitted__():
            self.finish_search()
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "on_event"}  # whose, nobody can tell


def _listed(told: Any) -> list[Any] | None:
    return None if told is None else list(told)


def _read(vocabulary: Vocabulary, X: Any) -> Documents:
    """Return documents, at least one, checked."""
    found = vocabulary.read(X)
    if not found.n:
        raise ValueError("X must not be empty: found 0 sample(s), a minimum of 1 document is required")
    return found


def _one_document(x: Any) -> Counts:
    """Return one row of counts: of a dense row, a sparse matrix of one row, or Counts."""
    row = as_counts(x if isinstance(x, Counts) or hasattr(x, "tocsr") else np.asarray(x)[None, ...])
    if len(row) != 1:
        raise ValueError(f"one row is taken at a time, got {len(row)}")
    return row


def _infer(frame: Any, params: dict[str, Any]) -> Encoding | None:
    """Return how a DataFrame is encoded, by the rows that hyperparameters are learned from; None if all are numbers."""
    names = list(frame.columns)
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        try:
            as_observations(frame, missing=True)
        except ValueError as error:
            wanted = "columns that are not all numbers need names, texts that differ"
            raise ValueError(f"{wanted}, got {names!r}") from error
        return None
    if Encoding.infer(frame, by_type=True).plain:
        return None
    n = ModelSpec.resolve(warmup=params["warmup"]).warmup
    encoding = Encoding.infer(frame.head(n), by_type=params["family"] is not None)
    if not encoding.features:
        raise ValueError(f"X has no columns to cluster; {encoding.describe()}")
    return encoding


def _resolve(params: dict[str, Any], encoding: Encoding | None, names: Any) -> ModelSpec:
    """Return what the parameters ask for; a family that is not given is the one of the encoding.

    names: of the columns, if they have any.
    """
    if encoding is None:
        return ModelSpec.resolve(**_with_positions(params, names))
    families = encoding.families() if params["family"] is None else ()
    first = families[0] if families else params["family"]
    spec = ModelSpec.resolve(**_with_positions(params | {"family": first}, encoding.features))
    encoding.check_family(spec.family)
    return replace(spec, other_families=families[1:]) if families else spec


def _with_positions(params: dict[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Return parameters with positions in place of the names of columns that the family has."""
    family = params["family"]
    return params | {"family": family.at(names)} if isinstance(family, Columns) else params
