"""Engines: streaming inference on arrays. ``reference`` is the law; whatever is faster must agree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyncrp.engine.reference import Model, ReferenceEngine

if TYPE_CHECKING:
    from dyncrp.engine.compiled import CompiledEngine


def make_engine(model: Model, n_features: int) -> ReferenceEngine | CompiledEngine:
    """Return the fastest engine there is for the model; compiled code is loaded only now."""
    from dyncrp.engine import compiled

    if compiled.kernel_for(model) is None:
        return ReferenceEngine(model, n_features)
    return compiled.CompiledEngine(model, n_features)
