"""DynamicalMixture: the estimator. It has the parameters, methods and attributes; a ``Stream`` does the work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

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
from dyncrp.input.weights import require_some
from dyncrp.input.words import Vocabulary
from dyncrp.search.spec import ModelSpec
from dyncrp.stream.events import Event
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import clusters_of
from dyncrp.views.joint import JointMethods
from dyncrp.views.methods import TableMethods


class DynamicalMixture(TableMethods, JointMethods, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster a stream of observations into a growing number of tables that come and go with time.

    Examples
    --------
    Nothing needs to be known:

    >>> from sklearn.datasets import load_iris
    >>> from dyncrp import DynamicalMixture
    >>> model = DynamicalMixture().fit(load_iris().data)
    >>> print(model.clusters())
    3 tables in 2 clusters
    cluster  rows  share  first seen  last seen  typical
    ...

    Or much is, and the stream goes on:

    >>> from dyncrp import Exponential, Gaussian
    >>> model = DynamicalMixture(
    ...     Gaussian(variance=1.0, prior_variance=100.0), Exponential(20.0), alpha=1.0
    ... )
    >>> model.fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]]).labels_
    array([0, 1, 0, 1])
    >>> model.partial_fit([[-9.0, 9.0], [9.0, 9.1]]).labels_
    array([2, 1])
    >>> model.predict([[8.8, 9.0], [40.0, -40.0]])  # -1: none of the tables, a new one
    array([ 1, -1])

    Parameters
    ----------
    family : Family or None, default=None
        The distribution of the observations of a table, such as ``Gaussian(1.0, 100.0)``. None means unknown: then it
        is ``Gaussian()``, or ``NormalGamma(degrees=1.0)`` or ``NormalWishart(degrees=10.0)`` if that is clearly better.
    dynamics : Dynamics, list of Dynamics, "auto" or None, default="auto"
        How fast tables are forgotten. None means unknown: ``Stationary()``, ``Exponential()`` and two sticky sums of
        these are tried. "auto" is None if the family is unknown, and ``Stationary()`` otherwise.
    alpha : float, "auto" or None, default="auto"
        How readily new tables open. None means unknown. "auto" is None if the family or the dynamics is unknown, and 1
        otherwise.
    warmup : int or "auto", default="auto"
        The number of rows from which unknown hyperparameters are learned. "auto" is 1,000, or 10,000 documents if the
        family counts words.
    resolution : float, default=1.0
        A factor from 1e-6 to 1e6 that divides the variance of clusters, given or learned. Above 1 there are more and
        narrower clusters, below 1 fewer and wider ones.
    memory : float or None, default=inf
        How many of its members a table remembers, at least 2. With each new member, a table forgets 1/memory of what it
        knew, so that it can follow a cluster that moves. None means unknown: a finite memory is chosen if the evidence
        supports it.
    alarm_rate : float or None, default=None
        The share of rows that raise an alarm while nothing changes, such as 0.001; see ``events_``. None for no alarms.
    surge_rate : float or None, default=None
        The share of rows that report a surge, a growing or a fading cluster while nothing changes, such as 0.0001, at
        most 0.002; see ``events_``. None for no such events.
    n_examples : int, default=0
        How many typical rows and how many of the latest rows to keep of each table, for ``examples``.
    keep_clusters : bool, default=False
        Whether to join tables into clusters as rows come. Then events "joined" and "parted" say which clusters became
        one, or no longer are, and ``resolve(labels, level="cluster")`` brings labels up to date. Tables are the same.
    max_tables : int or None, default=None
        The largest number of open tables, None for no limit. When one more opens, the table with the lowest occupancy
        closes. A closed table is forgotten, and its id is never used again.
    n_jobs : int or None, default=None
        The number of processes that learn unknown hyperparameters, as in scikit-learn.

    Other Parameters
    ----------------
    learn_alpha : bool, default=False
        Whether alpha is updated while learning. Every 100 observations it becomes its posterior mean given the tables
        opened so far, under a Gamma prior of shape 1 with the initial alpha as its mean.
    assignment : {"predictive", "variational"}, default="predictive"
        "predictive" scores a table by log p(x | its data); "variational" is the coordinate ascent of the paper.
    table_count : {"map", "posterior"}, default="map"
        "map" gives a new table the weight alpha; "posterior" spreads alpha over the posterior of the number of tables,
        as in the paper.
    n_iter : int, default=3
        The number of coordinate steps of "variational".
    new_table_threshold : float, default=0.5
        The probability at which a new table opens.
    prune_below : float, default=0.0
        The occupancy below which a table closes. The table that the observation joined or opened never closes.

    Notes
    -----
    In the order of use: ``fit`` or ``partial_fit`` learns, ``clusters`` shows what was found, ``predict`` and
    ``predict_clusters`` tell where rows belong, ``describe``, ``explain`` and ``examples`` say why, ``merge``,
    ``split`` and ``rename`` edit, ``save`` and ``load`` keep the model. ``plots.clusters(model, X)`` draws it.

    Observations are seated by the Dynamical CRP with ``alpha`` and ``dynamics``. Each table draws its parameters from
    the prior of ``family``, and its observations from those. Each observation is seen once, in order. A table keeps its
    id for ever; ids count up from 0 in order of opening. The result does not depend, to the bit, on how the stream is
    split into calls. Parameters changed by ``set_params`` take effect at the next ``fit``.

    Unknown hyperparameters are learned from the first ``warmup`` rows (see ``dyncrp.tune``), and then stay fixed. These
    are unknown: a family without arguments, such as ``Gaussian()``; a dynamics without a timescale, such as
    ``Exponential()``; a list of dynamics to choose from; and any parameter that is None where None means unknown.
    By default, everything except the memory is unknown. During the warm-up all rows are kept, and hyperparameters,
    tables and ids are provisional: ``partial_fit`` and ``learn_one`` learn from the first 1, 2, 4, 8, … rows, ``fit``
    from all of its rows, and each time all rows are seated again. ``learned_`` is true once the warm-up is over.

    What was learned is in attributes that end in an underscore. ``labels_``, ``responsibilities_``, ``novelty_``,
    ``novelty_p_``, ``closed_ids_`` and ``events_`` describe the last batch; ``n_tables_``, ``table_ids_``,
    ``centers_``, ``occupancies_`` and ``names_`` the open tables, and ``n_clusters_`` counts the clusters;
    ``family_``, ``dynamics_``, ``alpha_``, ``memory_``, ``learned_`` and ``evidence_`` the hyperparameters;
    ``n_features_in_``, ``feature_names_in_``, ``encoding_`` and ``vocabulary_`` the columns. Each has a docstring
    of its own.
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
        keep_clusters: bool = False,
        surge_rate: float | None = None,
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
        self.keep_clusters = keep_clusters
        self.surge_rate = surge_rate

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the fields of family and dynamics, with names such as ``family__variance``.
        """
        params = super().get_params(deep=False)
        return params | nested_params(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that ``get_params`` returns. If one is invalid, none is changed.

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
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Forget everything, then learn from X. The parameters are those of ``partial_fit``.

        Unknown hyperparameters are learned from all rows of X, up to ``warmup``. Some weight must be above 0.
        """
        if sample_weight is not None:
            require_some(sample_weight)
        stream = self._new_stream()
        stream.learn(X, times, labels=labels, cannot_link=cannot_link, sample_weight=sample_weight, whole=True)
        return self._continue_with(stream)

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        times: ArrayLike | None = None,
        labels: Iterable[Any] | None = None,
        cannot_link: Iterable[Any] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Continue learning from X.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame or list of documents
            The next rows of the stream. NaN is a missing cell.
        y : ignored
        times : array-like of shape (n,), optional
            The times of the rows, numbers or dates, which must not decrease. By default, the index of arrival.
        labels : iterable of length n, optional
            The table of each row, where it is known: an id, a name, or −1 or None if it is unknown. A row with a label
            is seated at that table. A name that no table has opens a table with that name, and the id of a closed table
            opens one in its place. Until ``learned_``, ids are provisional and only names are allowed.
        cannot_link : iterable of length n, optional
            A mark for each row, an integer or a text, or −1 or None for no mark. Consecutive rows with the same mark
            cannot share a table, such as the faces in one photo, unless ``labels`` says so.
        sample_weight : array-like of shape (n,), optional
            How many rows each row counts as, numbers from 0 to 1e9. A row is seated as it would be without a weight,
            and teaches its table as so many equal rows at its time. A row of weight 0 only gets a label, −1 if it would
            have opened a table. By default, every row counts as one.

        Returns
        -------
        DynamicalMixture
            The model itself.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
        >>> model.partial_fit([[0.0], [1.5], [0.1]], labels=["left", "right", None]).labels_
        array([0, 1, 0])
        >>> model.names_
        {0: 'left', 1: 'right'}
        >>> model.partial_fit([[0.2], [0.1]], cannot_link=["photo 1", "photo 1"]).labels_
        array([0, 1])
        >>> model.partial_fit([[-1.0], [-2.0], [50.0]], sample_weight=[12, 0.5, 0]).labels_
        array([ 0,  0, -1])
        """
        stream: Stream | None = self.__dict__.get("_stream")
        if stream is None or not stream.started:
            stream = self._new_stream()
        if type(X) is not np.ndarray or stream.input.names is not None:
            self._check_names(X, stream)
        stream.learn(X, times, labels=labels, cannot_link=cannot_link, sample_weight=sample_weight)
        return self if "_stream" in self.__dict__ and self._stream is stream else self._continue_with(stream)

    def learn_one(self, x: ArrayLike, t: Any = None, *, level: str = "table") -> int:
        """Learn from one observation and return its table: the fast path for loops.

        The same as ``partial_fit([x], times=[t])``, except that the attributes that describe the last batch, such as
        ``labels_`` and ``novelty_``, do not change.

        Parameters
        ----------
        x : array-like of shape (D,)
            The observation.
        t : number or date, optional
            Its time. By default, the index of arrival.
        level : {"table", "cluster"}, default="table"
            What to return. The cluster needs ``keep_clusters``.

        Returns
        -------
        int
            The id of its table, which ``resolve`` brings up to date later, or of its cluster as known now.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(variance=1.0, prior_variance=100.0))
        >>> [model.learn_one(x) for x in ([0.0, 0.1], [9.0, 9.2], [0.2, 0.0])]
        [0, 1, 0]
        """
        stream: Stream | None = self.__dict__.get("_stream")
        if stream is not None and stream.started:
            return stream.learn_one(x, t) if level == "table" else stream.learn_one_in_cluster(x, t, level)
        stream = self._new_stream()
        label = stream.learn_one(x, t) if level == "table" else stream.learn_one_in_cluster(x, t, level)
        self._continue_with(stream)
        return label

    def learn_unknown(self) -> Self:
        """End the warm-up now: learn unknown hyperparameters from the rows so far, at least 2, and keep them.

        >>> from dyncrp import DynamicalMixture
        >>> model = DynamicalMixture().partial_fit([[0.0], [0.1], [9.0], [9.1], [0.2]])
        >>> model.learned_, model.learn_unknown().learned_
        (False, True)
        """
        self.stream_.end_warmup()
        return self

    def predict(self, X: ArrayLike, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the open table that each row belongs to, or −1 if it is unlike all of them. Nothing is learned.

        That is the table that the row would join now. A row that would open a table only because the table that it is
        like has not been seen for long belongs to that one too: for such a row, each table weighs 1. Each row is
        predicted by itself.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame or list of documents
            Rows, of the same columns as those learned.
        times : array-like of shape (n,), optional
            The time of each row, not before the latest observation. By default, the latest time, or the next index if
            the stream has no times.

        Returns
        -------
        ndarray of shape (n,)
            The id of the table of each row, or −1.
        """
        return self._reading(X).predict(X, times)

    def predict_proba(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return the probability that each row would join each table now. The parameters are those of ``predict``.

        A table that has not been seen for long has a low probability here, though ``predict`` may name it.

        Returns
        -------
        ndarray of shape (n, K + 1)
            A column for each open table, in the order of ``table_ids_``, and the last one for a new table.
        """
        return self._reading(X).responsibilities(X, times)

    def score_samples(self, X: ArrayLike, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) of each row. The parameters are those of ``predict``.

        Returns
        -------
        ndarray of shape (n,)
            The log densities. A low value means a novel row.
        """
        return self._reading(X).log_density(X, times)

    def score(self, X: ArrayLike, y: object = None, times: ArrayLike | None = None) -> float:
        """Return the mean of ``score_samples``, by which scikit-learn compares models. y is ignored."""
        return float(np.mean(self.score_samples(X, times)))

    def predict_clusters(
        self, X: ArrayLike, n: int | None = None, *, times: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return the cluster of the table that each row belongs to, or −1; see ``clusters`` and ``predict``."""
        return clusters_of(self.stream_, n).labels(self.predict(X, times))

    @property
    def stream_(self) -> Stream:
        """The stream that this model learns from; see ``dyncrp.stream.Stream``."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # raises
        return self._stream

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, from which it continues to the bit. The last batch is not saved."""
        self.stream_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the model that ``save`` wrote to ``path``."""
        return cls.from_stream(Stream.load(path))

    def to_bytes(self) -> bytes:
        """Return the content of the file that ``save`` writes."""
        return self.stream_.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the model whose ``to_bytes`` returned ``content``."""
        return cls.from_stream(Stream.from_bytes(content))

    @classmethod
    def from_stream(cls, stream: Stream) -> Self:
        """Return an estimator that continues a stream, with its parameters."""
        model = cls(**stream.spec.params)
        model._stream = stream
        return model

    def to_state(self) -> bytes:
        """Return what was learned, without the parameters: smaller and faster than ``to_bytes``.

        This is for keeping thousands of models that share their parameters. There is no checksum.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> kept = model.to_state()
        >>> DynamicalMixture(Gaussian(1.0, 100.0)).set_state(kept).partial_fit(
        ...     [[9.1], [0.2]]
        ... ).labels_
        array([1, 0])
        """
        return self.stream_.to_state()

    def set_state(self, content: bytes) -> Self:
        """Replace what was learned by a state, which ``to_state`` of a model with the same parameters returned."""
        stream = self._stream if self.__sklearn_is_fitted__() and self.learned_ else self._new_stream()
        stream.set_state(content)
        return self._continue_with(stream)

    def _new_stream(self) -> Stream:
        """Return a stream without rows, with the parameters as they are now."""
        before: Stream | None = self.__dict__.get("_stream")
        params, input = self.get_params(deep=False), Input()
        if before is not None and not before.started:  # it came with ``from_stream``
            if all(value is before.spec.params.get(name) for name, value in params.items()):
                return before
            input = before.input
        elif before is not None and before.input.vocabulary is not None:
            input = Input(vocabulary=Vocabulary(stop_words=before.input.vocabulary.stop_words))
        stream, function = Stream(ModelSpec.resolve(**params), input), self._on_event
        if function is not None:

            def hear(event: Event) -> None:
                self._stream = stream  # the function may read the model
                function(event)

            stream.on_event = hear
        return stream

    def _continue_with(self, stream: Stream) -> Self:
        """Make a stream that has learned rows the one of this model."""
        self._stream, stream.on_event = stream, self._on_event
        return self

    def _reading(self, X: Any) -> Stream:
        """Check the names of the features of X, and return the stream."""
        stream = self.stream_
        self._check_names(X, stream)
        return stream

    def _check_names(self, X: Any, stream: Stream) -> None:
        """Warn or raise as scikit-learn does if names of features differ. An encoding finds its columns by name."""
        names = stream.input.names
        if not stream.started or stream.input.encoding is not None:
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
