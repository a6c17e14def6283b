"""The attributes that an estimator has once it is fitted, all of them read from its stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dyncrp.engine.types import Float, Trace
from dyncrp.search import Candidate
from dyncrp.stream.events import Event
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import join


def _attribute(path: str, doc: str) -> Any:
    """Return an attribute of the estimator that its stream has under this path."""
    read = attrgetter(path)
    return property(lambda model: read(model.stream_), doc=doc)


class FittedAttributes:
    """The attributes of a fitted ``DynamicalMixture``, with n rows in its last batch and K open tables."""

    _stream: Stream
    _on_event: Callable[[Event], object] | None = None

    @property
    @abstractmethod
    def stream_(self) -> Stream:
        """The stream that this model learns from."""

    names_ = _attribute("names", "The names of tables by id.")
    learned_ = _attribute(
        "learned",
        "Whether hyperparameters, tables and ids are final: nothing was unknown, the warm-up is over, or "
        "``learn_unknown`` was called.",
    )
    engine_ = _attribute("engine", "The engine that does the inference; see ``dyncrp.engine.Engine``.")
    clock_ = _attribute("clock.value", 'The kind of times: "index" (of arrival), "numbers" or "dates".')
    family_ = _attribute("family", "The family, given or learned.")
    dynamics_ = _attribute("dynamics", "The dynamics, given or learned.")
    alpha_ = _attribute("alpha", "The present alpha, given or learned.")
    memory_ = _attribute("memory", "The number of members that a table remembers, given or learned.")
    n_observations_ = _attribute("engine.n_observations", "The number of rows learned.")
    log_evidence_ = _attribute(
        "engine.log_evidence",
        "Σ log p(x_n | x_<n) so far, which compares models on the same stream. With ``assignment='variational'`` it is "
        "computed from scores that have seen x_n, and cannot be compared.",
    )
    n_tables_ = _attribute("engine.n_tables", "The number of open tables, K.")
    n_opened_ = _attribute("engine.n_opened", "The number of tables ever opened, including closed ones.")
    table_ids_ = _attribute("engine.ids", "The ids of the open tables, ascending, (K,).")
    occupancies_ = _attribute(
        "occupancies", "The occupancies of the open tables just after the latest observation, (K,)."
    )
    n_features_in_ = _attribute("n_columns", "The number of columns.")
    encoding_ = _attribute(
        "input.encoding",
        "How the columns of a DataFrame become numbers, an ``Encoding``; None if all columns hold numbers. The first "
        "call decides it. Arrays hold rows that are encoded already.",
    )
    vocabulary_ = _attribute(
        "input.vocabulary",
        "The columns of words, a ``Vocabulary``, if rows of ``Multinomial`` came as documents; None otherwise.",
    )

    @property
    def on_event(self) -> Callable[[Event], object] | None:
        """A function that is called with each event, once ids are final; None for no function."""
        return self._on_event

    @on_event.setter
    def on_event(self, function: Callable[[Event], object] | None) -> None:
        self._on_event = function
        if "_stream" in self.__dict__:
            self._stream.on_event = function

    @property
    def events_(self) -> list[Event]:
        """The events of the last batch, in order, and of the edits since then."""
        return self.stream_.events()

    @property
    def labels_(self) -> NDArray[np.int64]:
        """The table of each row of the last batch, (n,)."""
        return self._last_batch("labels_").labels

    @property
    def responsibilities_(self) -> csr_array:
        """Responsibilities for the rows of the last batch: scipy.sparse CSR with a column for each id ever given."""
        return self._last_batch("responsibilities_").responsibilities

    @property
    def novelty_(self) -> Float:
        """−log p(x_n | x_<n) of each row of the last batch, (n,): how unexpected it was."""
        return -self._last_batch("novelty_").log_evidence

    @property
    def novelty_p_(self) -> Float:
        """The probability that an earlier row was as unexpected as each row of the last batch, (n,).

        If nothing changes in a stream, one row in a thousand has a p of at most 0.001. Old rows are gradually
        forgotten, see ``dyncrp.stream.novelty``. Without an ``alarm_rate`` the earlier rows are not saved, and counting
        starts again when a model is loaded.
        """
        self._last_batch("novelty_p_")
        return self.stream_.novelty_p()

    @property
    def closed_ids_(self) -> NDArray[np.int64]:
        """The ids of the tables that closed in the last batch, in order."""
        return self._last_batch("closed_ids_").closed

    def _last_batch(self, name: str) -> Trace:
        batch = self.stream_.batch
        if batch is None:
            raise AttributeError(
                f"this DynamicalMixture has no {name}, which describes the last batch: there was none since it was "
                "loaded or began with learn_one. Call fit or partial_fit"
            )
        return batch.trace

    @property
    def evidence_(self) -> list[Candidate]:
        """The candidates that were tried to learn unknown hyperparameters, a list of named tuples."""
        candidates = self.stream_.candidates
        if candidates is None:
            raise AttributeError(
                "this DynamicalMixture comes from a file, which does not keep the candidates, so it has no evidence_"
            )
        return candidates

    @property
    def centers_(self) -> Float:
        """The centres of the open tables, (K, D)."""
        return self.engine_.model.family.centers(self.engine_.state.stats)

    @property
    def n_clusters_(self) -> int:
        """The number of clusters now, which is that of ``clusters()``. They are found anew each time this is read."""
        return len(join(self.engine_.model, self.engine_.state))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, if the first call had names."""
        names = self.stream_.input.names
        if names is None:
            raise AttributeError("the columns that this DynamicalMixture has learned have no names")
        return np.array(names, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        state = cast(dict[str, Any], super().__getstate__())
        return {name: value for name, value in state.items() if name != "_on_event"}
