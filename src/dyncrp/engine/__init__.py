"""Engines: streaming inference on arrays. ``reference`` is readable NumPy; the fast engine must agree with it."""

from __future__ import annotations

import warnings
from functools import cache

from dyncrp.engine.reference import ReferenceEngine
from dyncrp.engine.types import Engine, Model, Rules, State, Trace
from dyncrp.families import Family

__all__ = ["Engine", "Model", "ReferenceEngine", "Rules", "State", "Trace", "make_engine"]


def make_engine(model: Model, n_features: int) -> Engine:
    """Return the fastest engine for a model. The extension is loaded when this is first called."""
    if has_extension():
        from dyncrp.engine import native

        if native.has_code_for(model.family):
            return native.engine_for(model, n_features)
    return ReferenceEngine(model, n_features)


def has_code_for(family: Family) -> bool:
    """Return whether there is an engine in C++ for this family."""
    if not has_extension():
        return False
    from dyncrp.engine import native

    return native.has_code_for(family)


@cache
def has_extension() -> bool:
    """Return whether the C++ extension is installed; if not, warn once."""
    try:
        from dyncrp.engine import loop  # noqa: F401
    except ImportError as error:
        warnings.warn(
            f"dyncrp runs without its C++ extension ({error}): the answers are the same, but it is hundreds of times "
            "slower. Install a wheel, or a C++20 compiler such as g++ and then dyncrp once more: "
            "pip install --force-reinstall --no-deps --no-cache-dir dyncrp",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
