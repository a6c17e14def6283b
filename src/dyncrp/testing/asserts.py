"""What the checks of families and of dynamics share: each raises ``AssertionError``."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

SIGMAS = 5.0


def run_check(check: Callable[..., None], subject: object, *args: object) -> None:
    """Run a check; whatever it raises becomes an ``AssertionError`` with the check's name and what it promises."""
    try:
        check(subject, *args)
    except Exception as error:
        said = str(error).strip() if isinstance(error, AssertionError) else repr(error)
        promise = (check.__doc__ or "").splitlines()[0]
        raise AssertionError(f"{subject!r} fails {check.__name__}: {said} (promised: {promise})") from error


def require(holds: bool, message: str) -> None:
    """Raise with this message unless something holds."""
    if not holds:
        raise AssertionError(message)


def require_finite(values: ArrayLike, name: str) -> None:
    """Raise unless all values are finite."""
    require(bool(np.all(np.isfinite(values))), f"{name} is not finite")


def require_close(actual: ArrayLike, expected: ArrayLike, what: str, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Raise unless two arrays agree to ``atol + rtol |expected|``."""
    actual, expected = np.broadcast_arrays(np.asarray(actual), np.asarray(expected))
    gap = np.abs(actual - expected) - (atol + rtol * np.abs(expected))
    if not np.all(gap <= 0):  # a nan does not agree
        worst = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape)
        raise AssertionError(f"{what} differ: {actual[worst]!r} and {expected[worst]!r}")


def require_agreement(some: Float, others: Float, what: str) -> None:
    """Raise unless the means of two independent samples agree within five standard errors."""
    error = 0.0
    for values in (some, others):
        error += float(np.var(values)) / len(values)
    gap, error = abs(float(np.mean(some) - np.mean(others))), float(np.sqrt(error))
    message = f"{what} are {np.mean(some):.6g} and {np.mean(others):.6g}, with a standard error of {error:.2g}"
    require(gap <= SIGMAS * error + 1e-9, message)


def require_equal_by_value(value: Any) -> None:
    """Raise unless copies of a value are equal to it and hash alike."""
    require(value == copy.copy(value), "it is not equal to a copy of itself")
    for name, twin in copies(value).items():
        require(type(twin) is type(value) and twin == value, f"it is not equal to itself after {name}")
        require(hash(twin) == hash(value), f"it does not hash as it did after {name}")


def copies(value: Any) -> dict[str, Any]:
    """Return copies; a pickle only if the class can be imported, as one made inside a function cannot."""
    found = {"copy": copy.copy(value), "deepcopy": copy.deepcopy(value)}
    kind = type(value)
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
        found["pickle"] = pickle.loads(pickle.dumps(value))
    return found
