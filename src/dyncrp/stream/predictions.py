"""What a stream says of rows without learning them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.arrays.checks import Clock, as_times
from dyncrp.engine import recall
from dyncrp.engine.missing import for_missing
from dyncrp.engine.types import Engine, Float, Rows
from dyncrp.families.base import first_missing
from dyncrp.families.conditional import check_present
from dyncrp.input.input import require_width
from dyncrp.stream.tables import EditableTables


class PredictingTables(EditableTables):
    """The tables of a stream, which predict rows. ``Stream`` adds learning."""

    def predict(self, X: Any, times: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the open table of each row, −1 if it is unlike all of them, (n,); see ``read`` for the times."""
        return recall.predict(*self.read(X, times))

    def responsibilities(self, X: Any, times: ArrayLike | None = None) -> Float:
        """Return the probability of each table for each row, (n, K + 1); the last column is for a new table."""
        engine, rows, t = self.read(X, times)
        return engine.responsibilities(rows, t)

    def log_density(self, X: Any, times: ArrayLike | None = None) -> Float:
        """Return log p(x | everything so far) of each row, (n,)."""
        engine, rows, t = self.read(X, times)
        return engine.log_density(rows, t)

    def read(self, X: Any, times: ArrayLike | None = None) -> tuple[Engine, Rows, Float]:
        """Return what prediction needs.

        Parameters
        ----------
        X : array-like of shape (n, D), DataFrame, list of documents, or NamedRows
            The rows.
        times : array-like of shape (n,), optional
            Their times, none before the latest observation. By default, the latest time, or the next index if the
            stream has no times.

        Returns
        -------
        tuple of Engine, rows, and ndarray of shape (n,)
            An engine that can predict the rows, the rows as this engine takes them, and their times.
        """
        learner = self.learner
        engine, rows = learner.engine, cast(Rows, X)
        if self.input.names is not None or not engine.accepts(X, 2):
            rows = self.input.read_to_predict(X, learner.family, engine.n_features)
            engine = self.engine_for(rows)
        return engine, rows, self._times(times, len(rows))

    def read_cells(self, X: Any, times: ArrayLike | None = None) -> tuple[Engine, Float, Float]:
        """Return what ``read`` does, to predict single cells.

        Any cell may be missing if the family is one of ``PredictsCell`` or ``HasJoint``, whether it learns from such
        rows or not. The engine takes missing cells if it can.
        """
        engine, family = self.engine, self.learner.family
        if family.sparse:
            raise ValueError(
                f"{type(family).__name__} counts words, of which none is missing: there is nothing to fill"
            )
        rows, _ = self.input.read(X, family)
        require_width(rows, engine.n_features)
        found = check_present(family, cast(Float, rows))
        if family.independent:
            engine = for_missing(engine)
        return engine, found, self._times(times, len(found))

    def _times(self, times: ArrayLike | None, n: int) -> Float:
        """Return the times of n rows to predict; see ``read``."""
        learner, engine = self.learner, self.engine
        if times is None:
            now = engine.n_observations if learner.clock is Clock.INDEX else engine.time
            return np.full(n, now, dtype=np.float64)
        clock = Clock.of(times)
        if (learner.clock, clock) != (Clock.INDEX, Clock.NUMBERS):  # an index is a number too
            learner.clock.check(clock)
        return as_times(times, n=n, last=engine.time, ordered=False)

    def engine_for(self, rows: Rows) -> Engine:
        """Return ``engine``, or an equivalent one that takes missing cells if some of the rows (n, D) have any."""
        return self.engine if first_missing(rows) == len(rows) else for_missing(self.engine)
