"""What the compiled files need of Numba beyond ``njit``: a cache that may be missing, arrays in a box or unowned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import types
from numba.experimental import structref
from numba.extending import intrinsic, overload


def cached(function: Callable[..., Any]) -> Any:
    """Compile a function and keep the result on disk, or only in memory if there is no place to keep it."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no cache directory can be written
        return njit(function)


@structref.register
class _BoxType(types.StructRef):
    pass


class Box(structref.StructRefProxy):
    """A tuple of arrays that compiled code takes as one argument, in place of one for each array."""

    content: Any


structref.define_boxing(_BoxType, Box)  # type: ignore[no-untyped-call]


def _in_a_box(content: Any) -> Any:
    raise NotImplementedError("compiled code only")


@overload(_in_a_box)
def _overload_in_a_box(content: Any) -> Any:
    kind = _BoxType([("content", content)])  # type: ignore[no-untyped-call]
    new: Any = structref.new

    def fill(content: Any) -> Any:
        box = new(kind)
        box.content = content
        return box

    return fill


@cached
def boxed(content: Any) -> Any:
    """Put a tuple of arrays in a ``Box``; compiled code finds it there as ``box.content``.

    To hand over forty arrays takes 10 µs, to hand over a box of them 1 µs.
    """
    return _in_a_box(content)


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()  # Numba has no other name for it
    if isinstance(kind, types.BaseTuple):
        inner: Any
        for index, inner in enumerate(kind):  # type: ignore[arg-type]
            part = _without_owner(context, builder, inner, builder.extract_value(value, index))
            value = builder.insert_value(value, part, index)
    return value


def _borrowed(typing_context: Any, value: Any) -> Any:
    """Return an array, or a tuple of arrays, that does not own its memory: valid while the caller's does.

    Numba counts references atomically whenever an array is taken out of a tuple or handed to a function. In a loop
    of a few hundred nanoseconds that is most of the time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), generate


borrowed: Any = intrinsic(_borrowed)
