"""The systems, one file each. To add one, write a file with ``SYSTEMS``: functions of a stream and a seed."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module

from benchmarks.streams.base import Rows, System

Make = Callable[[Rows, int], System]


def all_systems() -> dict[str, Make]:
    """Return the functions that make the systems, by name, those of ``dyncrp_itself.py`` first."""
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = {}
    for name in sorted(files, key=lambda name: (name != "dyncrp_itself", name)):
        for make in import_module(f"{__name__}.{name}").SYSTEMS:
            found[f"{name}.{make.__name__}"] = make
    return found
