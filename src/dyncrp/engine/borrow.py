"""Arrays without reference counts inside compiled loops.

Numba counts references atomically whenever an array is taken out of a tuple or handed to a function. In a loop of
a few hundred nanoseconds that is most of the time. Whoever calls the loop keeps the arrays alive anyway.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        inner: Any
        for index, inner in enumerate(kind):  # type: ignore[arg-type]
            part = _without_owner(context, builder, inner, builder.extract_value(value, index))
            value = builder.insert_value(value, part, index)
    return value


def _borrowed(typing_context: Any, value: Any) -> Any:
    """Return an array, or a tuple of arrays, that does not own its memory: valid while the caller's does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), generate


borrowed: Any = intrinsic(_borrowed)
