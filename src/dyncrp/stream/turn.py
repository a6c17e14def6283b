"""Whose turn it is to use a stream: one thread changes it at a time, and those who copy it see it whole.

The engine has turns of its own, for those who only predict; see ``engine/cpp/turns.hpp``. Here are those for all that a
stream keeps beside it: names, examples and past novelty. A lock in C costs single rows some 40 ns.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial, wraps
from threading import get_ident
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Args = ParamSpec("Args")
Result = TypeVar("Result")

LEARNING = "this model is learning in another thread"
IN_THE_MIDST = "this model is learning, and cannot be {} before that ends"
LEFT_BEHIND = "this process was forked while another thread used this model: load it from a file"


class Turn:
    """The turn of one stream. lock: held by the thread that uses it. changer: the thread that is changing it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changer: int | None = None
        self.left_behind = False
        _turns.add(self)

    def refuse_to_change(self) -> None:
        """Raise ``RuntimeError`` if some thread is changing the stream already."""
        if self.left_behind:
            raise RuntimeError(LEFT_BEHIND)
        changer = self.changer
        if changer is not None:
            raise RuntimeError(IN_THE_MIDST.format("changed") if changer == get_ident() else LEARNING)

    def to_copy(self) -> threading.RLock:
        """Return a context in which nobody changes the stream.

        Raise ``RuntimeError`` if this thread is changing it, as when the handler of a signal comes here.
        """
        if self.left_behind:
            raise RuntimeError(LEFT_BEHIND)
        if self.changer == get_ident():
            raise RuntimeError(IN_THE_MIDST.format("asked"))
        return self.lock


_turns: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    """Free the streams that threads of the process before held, which are not in this one."""
    for turn in list(_turns):
        if turn.lock.acquire(blocking=False):
            turn.lock.release()
        else:
            turn.lock, turn.changer, turn.left_behind = threading.RLock(), None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class HasTurn(Protocol):
    """What the decorators need."""

    turn: Turn
    untold: list[Any]

    def tell(self) -> None:
        """Tell others what is untold."""


Own = TypeVar("Own", bound=HasTurn)


def change(own: HasTurn, method: Callable[..., Result], /, *args: Any) -> Result:
    """Call a method that changes its stream: a second thread that would do so meanwhile is refused. Then ``tell``."""
    turn = own.turn
    if turn.changer is not None or turn.left_behind:
        turn.refuse_to_change()
    try:
        with turn.lock:
            turn.changer = get_ident()
            try:
                return method(*args)
            finally:
                turn.changer = None
    finally:
        if own.untold:
            own.tell()


def changing(method: Callable[Concatenate[Own, Args], Result]) -> Callable[Concatenate[Own, Args], Result]:
    """Let a method change its stream, see ``change``."""

    @wraps(method)
    def call(self: Own, /, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        return change(self, partial(method, self, **kwargs), *args)

    return call


def whole(method: Callable[Concatenate[Own, Args], Result]) -> Callable[Concatenate[Own, Args], Result]:
    """Let a method wait until nobody changes its stream, which then stays as it is until the method ends."""

    @wraps(method)
    def copy(self: Own, /, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        with self.turn.to_copy():
            return method(self, *args, **kwargs)

    return copy
