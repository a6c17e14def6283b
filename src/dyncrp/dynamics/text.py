"""Dynamics as text, as on a command line: parsed, never evaluated."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from dyncrp.dynamics import DYNAMICS, Dynamics, Product, Scaled, Sum
from dyncrp.dynamics.base import Composition

LONGEST_TEXT = 10_000  # characters
MOST_DYNAMICS = 100  # in one text
DEEPEST_COMPOSITION = 100  # sums, products and weights within each other; a model file can hold 130 of them
# Seconds in each unit that a duration may have.
UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
DURATION = re.compile(
    r"(?<![\w.])((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(\s*)(?!e[+-]?\d)([a-z]+)(?!\w|\s*[(=])", re.IGNORECASE
)
FOREIGN = re.compile(r"[^\w\s.,+*=()\[\]-]", re.ASCII)  # characters that no dynamics has
EXAMPLE = "0.9*exponential(20) + 0.1*stationary()"

T = TypeVar("T")


def parse_dynamics(text: str, *, units: bool = True) -> Dynamics:
    """Return the dynamics that a text such as ``"0.999*exponential(2h) + 0.001*stationary()"`` describes.

    A text has numbers, +, *, brackets, and the names in ``DYNAMICS`` in upper or lower case, with arguments by position
    or by name. A duration may have a unit: ms, s, m or min, h, d, w. Without one, it is in the unit of the times.
    ``exponential()`` leaves the timescale unknown. Errors show the place.

    units: whether durations may have a unit; they may not if the times are the index of arrival.

    >>> parse_dynamics("0.999*exponential(2h) + 0.001*stationary()")
    0.999 * Exponential(timescale=7200.0) + 0.001 * Stationary()
    >>> parse_dynamics("LinearODE([1, 20])")
    LinearODE(coefficients=(1.0, 20.0), derivatives=())
    >>> parse_dynamics("0.5 * exponentail(2)")
    Traceback (most recent call last):
        ...
    ValueError: unknown dynamics 'exponentail'; choose from Stationary, Exponential, Oscillatory, Hyperbolic, LinearODE
      0.5 * exponentail(2)
            ^
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a dynamics may have at most {LONGEST_TEXT:,} characters, got {len(text):,}")
    return _Parser(text, units).parse()


class _Parser:
    """Read Python's syntax tree of a text. Only a few kinds of nodes are allowed.

    A unit is not Python syntax: it is replaced by blanks and stored by the place of its number, so that places stay.
    """

    def __init__(self, text: str, units: bool) -> None:
        self.text = re.sub(r"\s", " ", text)
        self.allowed = units
        self.units: dict[int, tuple[str, int]] = {}  # by the place of the number: the unit and its place
        self.indent = len(self.text) - len(self.text.lstrip())
        self.kinds = {name.lower(): kind for name, kind in DYNAMICS.items() if kind not in (Scaled, Sum, Product)}

    def parse(self) -> Dynamics:
        if foreign := FOREIGN.search(self.text):
            self._fail(f"unexpected character {foreign.group()!r}", foreign.start())
        try:
            tree = self._tree()
            n_dynamics = sum(isinstance(node, ast.Call) for node in ast.walk(tree))
            if n_dynamics > MOST_DYNAMICS:
                self._fail(f"at most {MOST_DYNAMICS} dynamics may be combined, got {n_dynamics}", self.indent)
            value = self._expression(tree)
        except (MemoryError, RecursionError):
            self._fail("the text is nested too deeply", self.indent)
        if not isinstance(value, Dynamics):
            self._fail(f"a number is not a dynamics; use it as a weight, as in {EXAMPLE}", self.indent)
        if _depth(value) > DEEPEST_COMPOSITION:
            self._fail(f"+ and * may nest at most {DEEPEST_COMPOSITION} deep", self.indent)
        return value

    def _tree(self) -> ast.expr:
        if not self.text.strip():
            self._fail(f"expected a dynamics, such as {EXAMPLE}", 0)
        blanked = DURATION.sub(self._blank_unit, self.text)
        try:
            with warnings.catch_warnings():  # for numbers followed by a word
                warnings.simplefilter("ignore")
                return ast.parse(blanked.strip(), mode="eval").body
        except SyntaxError as error:
            reason = re.split("[.:;]", error.msg)[0]
            place = self.indent + max((error.offset or 1) - 1, 0)
            self._fail(f"{reason}; a dynamics looks like {EXAMPLE}", min(place, len(self.text)))

    def _blank_unit(self, match: re.Match[str]) -> str:
        number, space, unit = match.groups()
        self.units[match.start()] = unit, match.start(3)
        return number + space + " " * len(unit)

    def _expression(self, node: ast.expr) -> Dynamics | float:
        match node:
            case ast.BinOp(left, operator, right):
                a, b = self._expression(left), self._expression(right)
                place = self._place(left, end=True)
                place += len(self.text[place:]) - len(self.text[place:].lstrip(" )"))
                if isinstance(operator, ast.Mult):
                    return self._attempt(lambda: a * b, place)
                if not isinstance(operator, ast.Add):
                    self._fail(f"expected + or *, found {'**' if isinstance(operator, ast.Pow) else '-'}", place)
                if isinstance(a, float) or isinstance(b, float):
                    self._fail("+ adds two dynamics; weight one by a number with *", place)
                return self._attempt(lambda: a + b, place)
            case ast.Call(ast.Name(name), arguments, keywords):
                return self._call(name, arguments, keywords, self._place(node))
            case ast.Name(name):
                kind = self._kind(name, self._place(node))
                self._fail(f"expected {kind.__name__}(…), with brackets", self._place(node, end=True))
        weight = self._number(node, "a number or a dynamics")
        if isinstance(weight, timedelta):
            self._fail("a weight has no unit", self._place(node))
        return self._attempt(lambda: float(weight), self._place(node))

    def _kind(self, name: str, place: int) -> Any:
        if name.lower() not in self.kinds:
            known = ", ".join(kind.__name__ for kind in self.kinds.values())
            self._fail(f"unknown dynamics {name!r}; choose from {known}", place)
        return self.kinds[name.lower()]

    def _call(self, name: str, arguments: list[ast.expr], keywords: list[ast.keyword], place: int) -> Dynamics:
        kind = self._kind(name, place)
        parameters = [field.name for field in fields(kind)]
        takes = f"{kind.__name__} takes {', '.join(parameters) or 'no arguments'}"
        if len(arguments) > len(parameters):
            self._fail(takes, self._place(arguments[len(parameters)]))
        given = {name: self._value(value) for name, value in zip(parameters, arguments, strict=False)}
        for keyword in keywords:
            if keyword.arg not in parameters:
                self._fail(f"{takes}; found {keyword.arg or '**'}", self._place(keyword))
            if keyword.arg in given:
                self._fail(f"{kind.__name__} was already given its {keyword.arg}", self._place(keyword))
            given[keyword.arg] = self._value(keyword.value)
        missing = [field.name for field in fields(kind) if field.default is MISSING and field.name not in given]
        if missing:
            self._fail(f"{kind.__name__} needs {', '.join(missing)}", place)
        return self._attempt(lambda: kind(**given), place)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(None):  # an unknown duration
                return None
            case ast.List(entries) | ast.Tuple(entries):
                return [self._number(entry) for entry in entries]
        return self._number(node)

    def _number(self, node: ast.expr, expected: str = "a number") -> Any:
        """Return a number, or a timedelta if it has a unit."""
        match node:
            case ast.UnaryOp(ast.USub(), ast.Constant()):
                return -self._number(node.operand)
            case ast.UnaryOp(ast.UAdd(), ast.Constant()):
                return self._number(node.operand)
            case ast.Constant(int(value) | float(value)) if not isinstance(value, bool):
                place = self._place(node)
                if place not in self.units:
                    return value
                unit, unit_place = self.units[place]
                if unit not in UNITS:
                    self._fail(f"unknown unit {unit!r}; choose from {', '.join(UNITS)}", unit_place)
                if not self.allowed:
                    self._fail(f"the unit {unit} needs times; without a time column, durations count rows", unit_place)
                return self._attempt(lambda: timedelta(seconds=value * UNITS[unit]), place)
        self._fail(f"expected {expected}, found {self._source(node)}", self._place(node))

    def _place(self, node: ast.expr | ast.keyword, *, end: bool = False) -> int:
        return self.indent + ((node.end_col_offset or 0) if end else node.col_offset)

    def _source(self, node: ast.expr) -> str:
        return self.text[self._place(node) : self._place(node, end=True)]

    def _attempt(self, make: Callable[[], T], place: int) -> T:
        """Return what ``make`` returns; add the place to its errors."""
        try:
            return make()
        except OverflowError:
            self._fail("the number is too large", place)
        except (TypeError, ValueError) as error:
            self._fail(str(error), place)

    def _fail(self, message: str, place: int) -> NoReturn:
        raise ValueError(f"{message}\n  {self.text}\n  {' ' * place}^")


def _depth(dynamics: Dynamics) -> int:
    """Return how deeply compositions are nested."""
    return 1 + max(map(_depth, dynamics.parts)) if isinstance(dynamics, Composition) else 0
