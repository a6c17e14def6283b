"""Missing cells: from the first one on, the family of an engine is ``Columns.of`` the family, which counts each column.

So streams without missing cells pay nothing for them. A family that is ``Columns`` takes missing cells from the start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dyncrp.engine import make_engine
from dyncrp.engine.schema import EXTRAS
from dyncrp.engine.types import Arrays, Engine
from dyncrp.families import Columns, Family


def takes_missing(engine: Engine) -> bool:
    """Return whether an engine takes missing cells."""
    return isinstance(engine.model.family, Columns)


def for_missing(engine: Engine) -> Engine:
    """Return an engine that has learned the same and takes missing cells; the same one if it does."""
    if takes_missing(engine):
        return engine
    family = Columns.of(engine.model.family, engine.n_features)
    found = with_family(engine, family)
    if engine.n_observations:
        state = engine.state
        found.restore(_without_extras(engine) | family.split(state.stats, state.squares))
    return found


def widen_by_missing(engine: Engine, family: Family, n_features: int) -> Engine:
    """Return an engine with more features, missing in all rows so far. family: the one without missing cells."""
    before = for_missing(engine)
    found = make_engine(replace(engine.model, family=Columns.of(family, n_features)), n_features)
    if before.n_observations:
        arrays, more = _without_extras(before), n_features - before.n_features
        for name in {"stats", "squares"} & arrays.keys():  # zeros for the numbers of each new column
            width = (arrays[name].shape[1] - (name == "stats")) // before.n_features
            arrays[name] = np.pad(arrays[name], ((0, 0), (0, more * width)))
        found.restore(arrays)
    return found


def engine_for_arrays(engine: Engine, family: Family, arrays: Arrays) -> Engine:
    """Return the engine, or an empty one, of the kind that these arrays come from: with missing cells or without.

    family: the one without missing cells. A file of version 1 does not name the kind, but the width of its stats does:
    each column of ``Columns.of`` has its own count, so there are D more numbers.
    """
    if isinstance(family, Columns) or not family.independent or "stats" not in arrays:
        return engine
    D = engine.n_features
    missing = arrays["stats"].shape[-1:] == (family.empty(D).shape[1] + D,)
    if missing == takes_missing(engine):
        return engine
    return with_family(engine, Columns.of(family, D) if missing else family)


def with_family(engine: Engine, family: Family) -> Engine:
    """Return an empty engine with another family, and otherwise the same model."""
    return make_engine(replace(engine.model, family=family), engine.n_features)


def _without_extras(engine: Engine) -> Arrays:
    """Return the arrays that every engine has; the others follow from them, and differ between families."""
    return {name: array for name, array in engine.arrays().items() if name not in EXTRAS}
