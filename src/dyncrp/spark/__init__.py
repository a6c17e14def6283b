"""A model for every key of a stream in Apache Spark: ``pip install 'dyncrp[spark]'``. See docs/scaling.md.

``cluster`` adds a stateful step to a Structured Streaming DataFrame; ``session`` starts a local Spark. Workers
import ``worker``, which learns with ``bucket``. ``bucket`` does not depend on Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dyncrp.spark.local import session
    from dyncrp.spark.stream import cluster

__all__ = ["cluster", "session"]


def __getattr__(name: str) -> Any:
    """Import ``cluster`` and ``session`` on demand, since workers need neither."""
    modules = {"cluster": "stream", "session": "local"}
    if name not in modules:
        raise AttributeError(f"module 'dyncrp.spark' has no attribute {name!r}")
    try:
        return getattr(import_module(f"dyncrp.spark.{modules[name]}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"dyncrp.spark needs {error.name}: pip install 'dyncrp[spark]'") from error
