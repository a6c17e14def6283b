"""Recall: an engine whose tables all count, however long ago their rows came; ``Stream.predict`` asks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dyncrp.dynamics import Stationary
from dyncrp.engine import make_engine
from dyncrp.engine.reference import occupancy
from dyncrp.engine.types import Engine, Float, Int, Rows


def predict(engine: Engine, X: Rows, times: Float) -> Int:
    """Return the table of each row of X (n, D) at times (n,), −1 if it is unlike every open one: (n,).

    That is the table that the row would join, or, where it would open one, that of ``recall``.
    """
    labels = engine.predict(X, times)
    new = np.flatnonzero(labels < 0)
    awake = recall(engine) if len(new) else None
    if awake is not None:
        labels[new] = awake.predict(X[new], times[new])
    return labels


def answering(engine: Engine, x: Rows, t: float) -> Engine:
    """Return the engine whose prediction for one row x (D,) is that of ``predict``: this one, or that of ``recall``."""
    return engine if engine.predict_one(x, t)[0] >= 0 else recall(engine) or engine


def recall(engine: Engine) -> Engine | None:
    """Return an engine of the same tables, each of which weighs 1 at any time: as if one row had just come.

    So a row is new to it only if it is unlike every open table, not because a table has not been seen for long. It is
    None where this makes no difference: no table is ever forgotten, and each weighs 1 or more.

    >>> from dyncrp import Exponential, Gaussian
    >>> from dyncrp.engine import Model
    >>> engine = make_engine(Model(Gaussian(1.0, 100.0), Exponential(1.0), 1.0), 1)
    >>> _ = engine.run(np.array([[0.0], [50.0]]), np.array([0.0, 90.0]))
    >>> at = np.array([91.0])
    >>> engine.predict(np.array([[0.1]]), at), recall(engine).predict(np.array([[0.1]]), at)
    (array([-1]), array([0]))
    """
    model = engine.model
    if not np.any(model.modes.rates) and np.min(occupancy(engine.seating, model.modes), initial=1.0) >= 1.0:
        return None
    arrays = engine.arrays()
    for name in ("mode_total", "mode_sums"):
        arrays.pop(name, None)
    arrays["mode_states"] = np.ones((len(arrays["table_ids"]), 1), dtype=np.complex128)
    arrays["mode_time"] = arrays["time"]
    found = make_engine(replace(model, dynamics=Stationary(), modes=Stationary().modes()), engine.n_features)
    found.restore(arrays)
    return found
