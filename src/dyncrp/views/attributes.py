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


def _attribute(path: str, doc: str) -> Any:
    """Return an attribute of the estimator that its stream has under this path."""
    read = attrgetter(path)
    return property(lambda model: read(model.stream_), doc=doc)


class FittedAttributes:
    """What a fitted estimator says of its stream; each attribute is described in ``DynamicalMixture``."""

    _stream: Stream
    _on_event: Callable[[Event], object] | None = None

    @property
    @abstractmethod
    def stream_(self) -> Stream:
        """The stream, which does the work."""

    names_ = _attribute("names", "The names of tables by their ids.")
    learned_ = _attribute("learned", "Whether the hyperparameters are final, and with them the tables and their ids.")
    engine_ = _attribute("engine", "What does the inference; see ``dyncrp.engine.Engine``.")
    clock_ = _attribute("clock.value", 'What the times of the stream are: "index" (of arrival), "numbers" or "dates".')
    family_ = _attribute("family", "The family, as given or learned.")
    dynamics_ = _attribute("dynamics", "The dynamics, as given or learned.")
    alpha_ = _attribute("alpha", "What alpha is now, as given or learned.")
    memory_ = _attribute("memory", "How many of its members a table remembers, as given or learned.")
    n_observations_ = _attribute("engine.n_observations", "Number of observations learned.")
    log_evidence_ = _attribute("engine.log_evidence", "Σ log p(x_n | x_<n) so far.")
    n_tables_ = _attribute("engine.n_tables", "Number of open tables.")
    n_opened_ = _attribute("engine.n_opened", "Number of tables ever opened, those that closed included.")
    table_ids_ = _attribute("engine.ids", "Ids of the open tables, (K,).")
    occupancies_ = _attribute(
        "occupancies", "Occupancies of the open tables at the time of the latest observation, (K,)."
    )
    n_features_in_ = _attribute("n_columns", "Number of columns.")
    encoding_ = _attribute(
        "input.encoding",
        "How columns of numbers, categories and booleans become rows of numbers; None if all are numbers.",
    )
    vocabulary_ = _attribute("input.vocabulary", "The columns of words, if rows are documents; None otherwise.")

    @property
    def on_event(self) -> Callable[[Event], object] | None:
        """A function that is called with each event as it happens."""
        return self._on_event

    @on_event.setter
    def on_event(self, function: Callable[[Event], object] | None) -> None:
        self._on_event = function
        if "_stream" in self.__dict__:
            self._stream.on_event = function

    @property
    def events_(self) -> list[Event]:
        """What happened in the last batch, in order, and the edits since."""
        return self.stream_.events()

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
        return self.stream_.novelty_p()

    @property
    def closed_ids_(self) -> NDArray[np.int64]:
        """Ids of the tables that closed in the last batch."""
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
        """Every candidate that was tried to learn the unknown."""
        candidates = self.stream_.candidates
        if candidates is None:
            raise AttributeError(
                "this DynamicalMixture comes from a file, which does not keep the candidates, so it has no evidence_"
            )
        return candidates

    @property
    def centers_(self) -> Float:
        """Centres of the open tables, (K, D)."""
        return self.engine_.model.family.centers(self.engine_.state.stats)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, if they have names."""
        names = self.stream_.input.names
        if names is None:
            raise AttributeError("the columns that this DynamicalMixture has learned have no names")
        return np.array(names, dtype=object)

    def __getstate__(self) -> dict[str, Any]:
        state = cast(dict[str, Any], super().__getstate__())
        return {name: value for name, value in state.items() if name != "_on_event"}
