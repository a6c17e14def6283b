"""DynamicalMixture: the estimator. It has the parameters, methods and attributes; a ``Stream`` does the work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dyncrp.arrays.parameters import nested_params, with_params
from dyncrp.dynamics import Dynamics
from dyncrp.engine.types import Float
from dyncrp.families import Family
from dyncrp.input.encoding import is_frame
from dyncrp.input.input import Input, NamedRows
from dyncrp.input.words import Vocabulary
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Event
from dyncrp.stream.examples import Examples
from dyncrp.stream.stream import Stream
from dyncrp.views.attributes import FittedAttributes
from dyncrp.views.describe import describe
from dyncrp.views.examples import examples_of
from dyncrp.views.explain import Explanation, explain
from dyncrp.views.groups import Groups, groups_of

if TYPE_CHECKING:
    import pandas as pd


class DynamicalMixture(FittedAttributes, ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
            unknown: ``Gaussian()``, or ``NormalGamma(degrees=1.0)`` or ``NormalWishart(degrees=10.0)`` if that is
            clearly better.
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
            None if there are only numbers. The first call decides it. Arrays hold rows that
            are encoded already.
        vocabulary_: the columns of words (a ``Vocabulary``), if rows of ``Multinomial`` came as texts, lists
            of tokens or dictionaries of counts; None otherwise.

    >>> from dyncrp import DynamicalMixture, Exponential, Gaussian
    >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0)
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])
    """

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
        """Forget everything, then learn from X (n, D) at ``times`` (n,), by default 0, 1, 2, …; see ``partial_fit``."""
        stream = self._new_stream()
        stream.learn(X, times, labels=labels, cannot_link=cannot_link, whole=True)
        return self._go_on_with(stream)

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
        stream = self._stream if self.__sklearn_is_fitted__() else self._new_stream()
        self._check_names(X, stream)
        stream.learn(X, times, labels=labels, cannot_link=cannot_link)
        return self._go_on_with(stream)

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
        stream: Stream | None = self.__dict__.get("_stream")
        if stream is not None and stream.started:
            return stream.learn_one(x, t)
        stream = self._new_stream()
        label = stream.learn_one(x, t)
        self._go_on_with(stream)
        return label

    def learn_unknown(self) -> Self:
        """End the warm-up now: learn what is unknown from all rows so far, at least 2, and keep it from now on.

        >>> from dyncrp import DynamicalMixture
        >>> model = DynamicalMixture().partial_fit([[0.0], [0.1], [9.0], [9.1], [0.2]])
        >>> model.learned_, model.learn_unknown().learned_
        (False, True)
        """
        self.stream_.end_warmup()
        return self

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the label that each row would get now, or −1 if that were a new table's; learns nothing.

        Each row is predicted by itself under the present state, at its own time (any time not before the latest
        observation; by default the latest time, or without times the next index).
        """
        return self._reading(X).predict(X, times)

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the share of each table, and of a new one in the last column, for each row: (n, K + 1)."""
        return self._reading(X).responsibilities(X, times)

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) for each row, (n,): low means novel."""
        return self._reading(X).log_density(X, times)

    def score(self, X: ArrayLike, y: object = None, times: ArrayLike | None = None) -> float:
        """Return the mean of ``score_samples``, by which scikit-learn compares models; y is ignored."""
        return float(np.mean(self.score_samples(X, times)))

    def groups(self, n_groups: int | None = None) -> Groups:
        """Return the open tables joined into groups: what people would call clusters. Events name the latest ones.

        Tables describe a density and often tile a cluster that is not Gaussian. Without a number, tables are joined
        unless a significant valley of that density lies between them. With one, they are joined by Ward's criterion on
        their centres. A group goes by the id of its oldest table. See ``dyncrp.views.groups.Groups``.

        >>> from sklearn.datasets import make_moons
        >>> from dyncrp import DynamicalMixture
        >>> X, y = make_moons(500, noise=0.05, random_state=0)
        >>> model = DynamicalMixture().fit(X)
        >>> model.n_tables_ > 20, len(model.groups())
        (True, 2)
        """
        return groups_of(self.stream_, n_groups)

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
        one for each feature, with the table's centre. For a boolean this is the probability of true; for
        categories it is a text with the likeliest and their lift, how much likelier they are than in all tables.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0]])
        >>> model.describe().round(2)
               rows  share  first_seen  last_seen    x0    x1
        table
        0         2   0.67         0.0        2.0  0.10  0.05
        1         1   0.33         1.0        1.0  8.91  9.11
        """
        return describe(self.stream_, groups)

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
        if is_frame(x):
            self._check_names(x, self.stream_)
        return explain(self.stream_, x, t)

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
        return examples_of(self.stream_, table)

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
        return self.stream_.merge(a, b)

    def rename(self, table: int | str, name: str) -> None:
        """Give a table a name that no other one has; "" takes its name away. table: its id, or the name it has.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> model.rename(1, "door 3")
        >>> model.names_, model.resolve(["door 3"])
        ({1: 'door 3'}, array([1]))
        """
        self.stream_.rename(table, name)

    def split(self, table: int | str, X: ArrayLike, *, times: ArrayLike | None = None) -> int:
        """Take rows X (n, D) out of a table that they were given, into a new one; return its id.

        What the rows had put into the table is taken out, exactly if they were wholly its own. times: (n,) when they
        came, which is needed unless nothing is forgotten.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(4.0, 100.0)).fit([[0.0], [3.0], [0.2], [3.2]])
        >>> model.n_tables_, model.split(0, [[3.0], [3.2]]), model.centers_.round(1).ravel()
        (1, 1, array([0.1, 3. ]))
        """
        return self.stream_.split(table, X, times=times)

    def resolve(self, tables: Iterable[int | str]) -> NDArray[np.int64]:
        """Return the ids that ids and names stand for, as merges have made them; −1 stays −1.

        So labels from before a merge can be brought up to date: ``model.resolve(labels)``.
        """
        return self.stream_.resolve(tables)

    @property
    def stream_(self) -> Stream:
        """The stream, which does the work; see ``dyncrp.stream.Stream``."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # raises
        return self._stream

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path``: all that the next call needs, exact to the bit; not the last batch's labels."""
        self.stream_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that ``save`` wrote; it continues where that one stopped."""
        return cls.from_stream(Stream.load(path))

    def to_bytes(self) -> bytes:
        """Return what ``save`` writes, for those who keep it themselves."""
        return self.stream_.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a model that ``to_bytes`` returned, or ``save`` wrote; it continues where that one stopped."""
        return cls.from_stream(Stream.from_bytes(content))

    @classmethod
    def from_stream(cls, stream: Stream) -> Self:
        """Return an estimator with the parameters of a stream, which continues this stream."""
        model = cls(**stream.spec.params)
        model._stream = stream
        return model

    def to_state(self) -> bytes:
        """Return what was learned, without the parameters, for ``set_state``: for those who keep thousands of models.

        It has no checksum; ``to_bytes`` is for files.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> kept = model.to_state()
        >>> DynamicalMixture(Gaussian(1.0, 100.0)).set_state(kept).partial_fit([[9.1], [0.2]]).labels_
        array([1, 0])
        """
        return self.stream_.to_state()

    def set_state(self, content: bytes) -> Self:
        """Go on from what ``to_state`` of a model with the same parameters returned, instead of what was learned."""
        stream = self._stream if self.__sklearn_is_fitted__() and self.learned_ else self._new_stream()
        stream.set_state(content)
        return self._go_on_with(stream)

    def _new_stream(self) -> Stream:
        """Return a stream without rows, with the parameters as they are now."""
        before: Stream | None = self.__dict__.get("_stream")
        params, input = self.get_params(deep=False), Input()
        if before is not None and not before.started:  # it was given, see ``from_stream``
            if all(value is before.spec.params[name] for name, value in params.items()):
                return before
            input = before.input
        elif before is not None and before.input.vocabulary is not None:
            input = Input(vocabulary=Vocabulary(stop_words=before.input.vocabulary.stop_words))
        stream, function = Stream(ModelSpec.resolve(**params), input), self._on_event
        if function is not None:

            def hear(event: Event) -> None:
                self._stream = stream  # what it hears may lead to a look at the model
                function(event)

            stream.on_event = hear
        return stream

    def _go_on_with(self, stream: Stream) -> Self:
        """Let a stream that has learned be the one of this model."""
        self._stream, stream.on_event = stream, self._on_event
        return self

    def _reading(self, X: Any) -> Stream:
        """Return the stream, once the names of the features of X are checked."""
        stream = self.stream_
        self._check_names(X, stream)
        return stream

    def _check_names(self, X: Any, stream: Stream) -> None:
        """Warn or refuse as scikit-learn does if names of features differ; an encoding finds its columns by name."""
        names = stream.input.names
        if (names is None and type(X) is np.ndarray) or not stream.started or stream.input.encoding is not None:
            return
        if isinstance(X, NamedRows) or (stream.family.sparse and (names is None or not is_frame(X))):
            return
        if is_frame(X) or (names is not None and np.ndim(X) == 2):
            validate_data(self, X, reset=False, skip_check_array=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        family = self.family_ if self.__sklearn_is_fitted__() else self.family
        sparse = isinstance(family, Family) and family.sparse
        tags.input_tags.allow_nan, tags.input_tags.sparse = not sparse, sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_stream" in self.__dict__ and self._stream.started
