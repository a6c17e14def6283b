"""Arrays of other libraries, such as tensors of PyTorch, as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def readable(X: Any, name: str = "X") -> Any:
    """Return X as an array of NumPy if it is an array of another library, which has ``__dlpack__``; others as they are.

    The values are not copied if the other library allows it. What NumPy cannot read raises ``ValueError`` with what to
    do about it: a tensor on another device, one that requires a gradient, or numbers that NumPy does not have.

    >>> class Tensor:
    ...     __dlpack__ = np.arange(3).__dlpack__
    ...     __dlpack_device__ = np.arange(3).__dlpack_device__
    >>> readable(Tensor())
    array([0, 1, 2])
    """
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack__"):
        return X
    try:
        return np.asarray(X) if hasattr(X, "__array__") else np.from_dlpack(X)
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is a {type(X).__name__} that NumPy cannot read: {_remedy(X, name, error)}") from error


def _remedy(X: Any, name: str, error: Exception) -> str:
    """Return what is wrong with an array of another library, and what to pass instead."""
    device = str(getattr(X, "device", "cpu"))
    if not device.lower().startswith("cpu"):
        return f"it is on {device}; pass {name}.cpu(), or whatever copies it to the main memory"
    if getattr(X, "requires_grad", False) is True:
        return f"it requires a gradient; pass {name}.detach()"
    kind = str(getattr(X, "dtype", ""))
    if "float" in kind and hasattr(X, "float") and not hasattr(np, kind.rpartition(".")[2]):
        return f"NumPy has no {kind}; pass {name}.float()"
    return str(error)
