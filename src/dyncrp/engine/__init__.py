"""Engines: streaming inference on arrays. ``law`` says what is computed; whatever is faster must agree with it."""

from __future__ import annotations

from dyncrp.engine.law import LawEngine
from dyncrp.engine.types import Engine, Model, Rules, State, Trace

__all__ = ["Engine", "LawEngine", "Model", "Rules", "State", "Trace", "make_engine"]


def make_engine(model: Model, n_features: int) -> Engine:
    """Return the fastest engine there is for the model; compiled code is loaded only now."""
    from dyncrp.engine import compiled

    if compiled.code_for(model) is None:
        return LawEngine(model, n_features)
    return compiled.CompiledEngine(model, n_features)
