"""Nested parameters: the fields of families and dynamics by names such as ``family__variance``.

Families and dynamics are frozen, but scikit-learn's own implementation would change them in place.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np


def nested_params(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of values that are dataclasses, recursively, with arrays as lists, so that ``==`` works.

    >>> from dyncrp import Exponential
    >>> nested_params({"alpha": 1.0, "dynamics": 0.5 * Exponential(3.0)})
    {'dynamics__weight': 0.5, 'dynamics__dynamics': Exponential(timescale=3.0), 'dynamics__dynamics__timescale': 3.0}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        entries = _entries(value)
        for key, entry in (entries | nested_params(entries)).items():
            found[f"{name}__{key}"] = entry.tolist() if isinstance(entry, np.ndarray) else entry
    return found


def with_params(owner: str, values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Apply changes such as {"family__variance": 2.0} to values, and return only the values that changed.

    Values are replaced, not modified. owner: what error messages call the object whose values these are.

    >>> from dyncrp import Gaussian
    >>> with_params("model", {"alpha": 1.0, "family": Gaussian(1.0, 9.0)}, {"family__variance": 2.0})
    {'family': Gaussian(variance=2.0, prior_variance=9.0, prior_mean=0.0)}
    """
    result = {name: value for name, value in changes.items() if "__" not in name}
    deeper: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        first, separator, rest = name.partition("__")
        if first not in values:
            raise ValueError(
                f"Invalid parameter {first!r} for {owner}. Valid parameters are: {sorted(values) or 'none'}"
            )
        if separator:
            deeper.setdefault(first, {})[rest] = value
    for name, inner in deeper.items():
        part = result.get(name, values[name])
        result[name] = replace(part, **with_params(f"{name} = {part!r}", _entries(part), inner))
    return result


def _entries(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; nothing for anything else."""
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    return {field.name: getattr(value, field.name) for field in fields(value)}
