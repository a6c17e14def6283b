"""Models as text, as a command line has them: read, never evaluated; and written so that they can be read again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dyncrp import persistence
from dyncrp.dynamics import DYNAMICS, Dynamics, Product, Scaled, Sum
from dyncrp.families import FAMILIES, Family
from dyncrp.mixture import DynamicalMixture

DEEPEST = 50  # brackets within brackets
MOST_NUMBERS = 10  # of a vector to look at
LONGEST = 10_000  # characters
MOST_DYNAMICS = 100  # in one sum or product
# Seconds in each unit that a duration may end in.
UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)([A-Za-z]*)|([A-Za-z_]\w*)|(\S))")
OWN_OPTIONS = ("family", "dynamics", "alpha")  # have an option each
COMPOSED = (Scaled, Sum, Product)  # what + and * make, and no name calls


WORDS = {"true": True, "false": False, "none": None}


def parse_model(
    family: str | None, dynamics: Sequence[str], alpha: float | None, settings: Sequence[str], *, units: bool = True
) -> DynamicalMixture:
    """Return the model that a command line describes; what it does not say is unknown, to be learnt.

    family: a name in ``FAMILIES``, in upper or lower case. dynamics: none, one, or several to choose from. settings:
    "name=value", of the family or else of ``DynamicalMixture``. A value is a number, a word, a vector "1,2" or a matrix
    "1,2;3,4".

    >>> parse_model("gaussian", ["exponential(20)"], 1.0, ["variance=1,2", "prior_variance=100", "warmup=500"])
    DynamicalMixture(alpha=1.0, dynamics=Exponential(timescale=20.0),
                     family=Gaussian(variance=array([1., 2.]), prior_variance=100.0, prior_mean=0.0), warmup=500)
    """
    kinds = {name.lower(): kind for name, kind in FAMILIES.items()}
    kind: Any = kinds.get("gaussian" if family is None else family.lower().replace("_", "").replace("-", ""))
    if kind is None:
        raise ValueError(f"there is no family {family}; there are {', '.join(k.__name__ for k in kinds.values())}")
    of_family = [field.name for field in fields(kind)]
    of_model = [name for name in inspect.signature(DynamicalMixture).parameters if name not in OWN_OPTIONS]
    given: dict[str, Any] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise ValueError(f"a setting is name=value, got {setting!r}")
        if name not in of_family and name not in of_model:
            raise ValueError(
                f"there is no setting {name!r}; {kind.__name__} has {', '.join(of_family)}, "
                f"the model {', '.join(of_model)}"
            )
        if name in given:
            raise ValueError(f"{name} is set twice")
        given[name] = _setting(name, value)
    made = kind(**{name: value for name, value in given.items() if name in of_family})
    parsed = [parse_dynamics(text, units=units) for text in dynamics]
    choice = None if not parsed else parsed[0] if len(parsed) == 1 else parsed
    rest = {name: value for name, value in given.items() if name not in of_family}
    model = DynamicalMixture(made, choice, alpha, **rest)
    model._checked()
    return model


def other_settings(model: DynamicalMixture) -> dict[str, Any]:
    """Return what a model was told beside its family, dynamics and alpha, and beside the defaults.

    The resolution is left out: the family that was found has it already.

    >>> other_settings(DynamicalMixture(warmup=500, max_tables=5))
    {'max_tables': 5, 'warmup': 500}
    """
    known = inspect.signature(DynamicalMixture).parameters
    given = model.get_params(deep=False)
    return {
        name: value
        for name, value in given.items()
        if name not in (*OWN_OPTIONS, "resolution") and value != known[name].default
    }


def as_options(family: Family, dynamics: Dynamics, alpha: float, **others: Any) -> list[str]:
    """Return the options of a command line that describe a model, for ``parse_model`` to read.

    others: as ``other_settings`` returns them.

    >>> from dyncrp import Exponential, Gaussian
    >>> as_options(Gaussian(1.0, 9.0), Exponential(2.0), 0.5)
    ['--family', 'Gaussian', '--set', 'variance=1.0', '--set', 'prior_variance=9.0', '--set', 'prior_mean=0.0',
     '--dynamics', 'Exponential(timescale=2.0)', '--alpha', '0.5']
    """
    settings = [f"{name}={_written(value)}" for name, value in _hyperparameters(family).items()]
    settings += [f"{name}={value}" for name, value in others.items()]
    options = ["--family", type(family).__name__, *(part for setting in settings for part in ("--set", setting))]
    return [*options, "--dynamics", repr(dynamics), "--alpha", repr(alpha)]


def as_python(family: Family, dynamics: Dynamics, alpha: float, **others: Any) -> str:
    """Return the line of Python that makes a model, in full.

    >>> from dyncrp import Exponential, Gaussian
    >>> as_python(Gaussian([1.0, 2.0], 9.0), Exponential(2.0), 0.5)
    'DynamicalMixture(Gaussian(variance=[1.0, 2.0], prior_variance=9.0, prior_mean=0.0),
     Exponential(timescale=2.0), 0.5)'
    """
    values = ", ".join(f"{name}={np.asarray(value).tolist()!r}" for name, value in _hyperparameters(family).items())
    rest = "".join(f", {name}={value!r}" for name, value in others.items())
    return f"DynamicalMixture({type(family).__name__}({values}), {dynamics!r}, {alpha!r}{rest})"


def brief(family: Family) -> str:
    """Return a family as one line to look at: plain numbers, and the first ten of many.

    >>> from dyncrp import Gaussian
    >>> brief(Gaussian(np.arange(1.0, 13.0), 9.0))
    'Gaussian(variance=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, … (12 in all)], prior_variance=9.0, prior_mean=0.0)'
    """
    values = ", ".join(f"{name}={_brief(value)}" for name, value in _hyperparameters(family).items())
    return f"{type(family).__name__}({values})"


def _brief(value: Any) -> str:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return repr(value)
    if value.ndim > 1:
        return " × ".join(map(str, value.shape)) + " numbers"
    more = f", … ({len(value):,} in all)" if len(value) > MOST_NUMBERS else ""
    return "[" + ", ".join(f"{number:.6g}" for number in value[:MOST_NUMBERS].tolist()) + more + "]"


def _hyperparameters(family: Family) -> dict[str, Any]:
    values = {field.name: getattr(family, field.name) for field in fields(family)}
    return {name: value for name, value in values.items() if value is not None}


def _setting(name: str, text: str) -> Any:
    """Return the value of a setting: a number, a word, a vector of numbers, or a matrix."""
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    if ";" in text:
        rows = [_vector(name, row) for row in text.removesuffix(";").split(";")]
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{name} must have rows of one length, got {[len(row) for row in rows]}")
        return rows
    if "," in text:
        return _vector(name, text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _vector(name: str, text: str) -> list[float]:
    """Return numbers between commas; a comma may end them, so that there can be one."""
    try:
        return [float(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between them, got {text!r}") from None


def _written(value: Any) -> str:
    """Return a hyperparameter as ``_setting`` reads it."""
    rows = [",".join(map(repr, row)) for row in np.atleast_2d(value).tolist()]
    if np.ndim(value) == 2:
        return ";".join(rows) + (";" if len(rows) == 1 else "")
    return rows[0] + ("," if np.shape(value) == (1,) else "")


def parse_dynamics(text: str, *, units: bool = True) -> Dynamics:
    """Return the dynamics that a text such as ``"0.999*exponential(2h) + 0.001*stationary()"`` describes.

    Numbers, +, *, brackets, and the names in ``DYNAMICS`` in upper or lower case, with their arguments by position or
    by name. A duration may have a unit: ms, s, m or min, h, d, w; a lone number is in the unit of the times.
    ``exponential()`` leaves the timescale unknown. An error shows the place.

    units: whether durations may have a unit, which makes no sense if the times are the index of arrival.

    >>> parse_dynamics("0.999*exponential(2h) + 0.001*stationary()")
    0.999 * Exponential(timescale=7200.0) + 0.001 * Stationary()
    >>> parse_dynamics("LinearODE([1, 20])")
    LinearODE(coefficients=(1.0, 20.0), derivatives=())
    >>> parse_dynamics("0.5 * exponentail(2)")
    Traceback (most recent call last):
        ...
    ValueError: there is no dynamics exponentail; there are Stationary, Exponential, Oscillatory, Hyperbolic, LinearODE
      0.5 * exponentail(2)
            ^
    """
    return _Parser(text, units).parse()


class _Token(NamedTuple):
    """A number with its unit, a name, or a sign; ``kind`` is "number", "name", or the sign itself; the end is "end"."""

    kind: str
    text: str
    unit: str
    place: int


class _Parser:
    """Recursive descent: sum = product (+ product)*, product = factor (* factor)*."""

    def __init__(self, text: str, units: bool) -> None:
        if len(text) > LONGEST:
            raise ValueError(f"a dynamics may have at most {LONGEST:,} characters, got {len(text):,}")
        self.text, self.units = text, units
        self.tokens = self._tokens()
        n_dynamics = sum(a.kind == "name" and b.kind == "(" for a, b in pairwise(self.tokens))
        if n_dynamics > MOST_DYNAMICS:
            raise ValueError(f"at most {MOST_DYNAMICS} dynamics may be added and multiplied, got {n_dynamics}")
        self.at = 0

    def _tokens(self) -> list[_Token]:
        tokens, at = [], 0
        while match := TOKEN.match(self.text, at):
            number, unit, name, sign = match.groups()
            place = match.end() - len(match.group().lstrip())
            kind = "number" if number else "name" if name else sign
            tokens.append(_Token(kind, number or name or sign, unit or "", place))
            at = match.end()
        return [*tokens, _Token("end", "the end", "", len(self.text.rstrip()))]

    def parse(self) -> Dynamics:
        start = self.tokens[0]
        value = self._sum(0)
        if self._next.kind != "end":
            self._fail(f"expected +, * or the end, found {self._next.text}", self._next.place)
        if not isinstance(value, Dynamics):
            self._fail("a number alone is no dynamics; multiply it with one, as in 0.5 * exponential(2)", start.place)
        # What cannot be saved is better refused now than after the first rows.
        self._made(lambda: persistence.dumps({"params": {"dynamics": [value]}}, {}), start.place)
        return value

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, kind: str) -> _Token:
        token = self._next
        if token.kind != kind:
            self._fail(f"expected {kind}, found {token.text}", token.place)
        self.at += 1
        return token

    def _sum(self, depth: int) -> Dynamics | float:
        value = self._product(depth)
        while self._next.kind == "+":
            sign = self._take("+")
            other = self._product(depth)
            if isinstance(value, float) or isinstance(other, float):
                self._fail("+ adds two dynamics; weigh one by a number with *", sign.place)
            value = self._made(lambda a=value, b=other: a + b, sign.place)
        return value

    def _product(self, depth: int) -> Dynamics | float:
        value = self._factor(depth)
        while self._next.kind == "*":
            sign = self._take("*")
            other = self._factor(depth)
            value = self._made(lambda a=value, b=other: a * b, sign.place)
        return value

    def _factor(self, depth: int) -> Dynamics | float:
        token = self._next
        if depth > DEEPEST:
            self._fail(f"brackets may nest at most {DEEPEST} deep", token.place)
        if token.kind in ("number", "-"):
            weight = self._number()
            if isinstance(weight, timedelta):
                self._fail("a weight has no unit", token.place)
            return float(weight)
        if token.kind == "(":
            self._take("(")
            value = self._sum(depth + 1)
            self._take(")")
            return value
        if token.kind == "name":
            return self._call()
        self._fail(f"expected a number, a dynamics or (, found {token.text}", token.place)

    def _call(self) -> Dynamics:
        name = self._take("name")
        kinds = {key.lower(): kind for key, kind in DYNAMICS.items() if kind not in COMPOSED}
        kind: Any = kinds.get(name.text.lower())
        if kind is None:
            known = ", ".join(known.__name__ for known in kinds.values())
            self._fail(f"there is no dynamics {name.text}; there are {known}", name.place)
        parameters = [field.name for field in fields(kind)]
        given: dict[str, Any] = {}
        self._take("(")
        while self._next.kind != ")":
            if given:
                self._take(",")
            place = self._next.place
            parameter, value = self._argument(kind.__name__, parameters, len(given))
            if parameter in given:
                self._fail(f"{kind.__name__} was already given its {parameter}", place)
            given[parameter] = value
        self._take(")")
        return self._made(lambda: kind(**given), name.place)

    def _argument(self, kind: str, parameters: list[str], position: int) -> tuple[str, Any]:
        takes = f"{kind} takes {', '.join(parameters) or 'no arguments'}"
        token = self._next
        if token.kind == "name":
            if token.text not in parameters:
                self._fail(f"{takes}; found {token.text}", token.place)
            self.at += 1
            self._take("=")
            return token.text, self._value()
        if position >= len(parameters):
            self._fail(takes, token.place)
        return parameters[position], self._value()

    def _value(self) -> Any:
        if self._next.text == "None":  # as Python writes what is unknown
            self.at += 1
            return None
        end = {"[": "]", "(": ")"}.get(self._next.kind)
        if end is not None:
            self.at += 1
            values: list[Any] = []
            while self._next.kind != end:
                if values:
                    self._take(",")
                    if self._next.kind == end:  # as Python writes a tuple of one
                        break
                values.append(self._number(unit=True))
            self._take(end)
            return values
        return self._number(unit=True)

    def _number(self, *, unit: bool = False) -> Any:
        """Return a number; ``unit`` tells whether the word after it is its unit."""
        sign = -1.0 if self._next.kind == "-" else 1.0
        if self._next.kind in ("-", "+"):
            self.at += 1
        token = self._next
        if token.kind != "number":
            self._fail(f"expected a number, found {token.text}", token.place)
        self.at += 1
        place = token.place + len(token.text)
        if unit and not token.unit and self._next.kind == "name":  # after a space
            place, token = self._next.place, token._replace(unit=self._take("name").text)
        if not token.unit:
            return int(sign) * int(token.text) if token.text.isdigit() else sign * float(token.text)
        if token.unit not in UNITS:
            self._fail(f"there is no unit {token.unit}; there are {', '.join(UNITS)}", place)
        if not self.units:
            self._fail(f"the unit {token.unit} needs times in seconds or dates, and there is no time column", place)
        return self._made(lambda: timedelta(seconds=sign * float(token.text) * UNITS[token.unit]), token.place)

    def _made(self, make: Any, place: int) -> Any:
        """Return what ``make`` makes; if it refuses, show the place."""
        try:
            return make()
        except (OverflowError, TypeError, ValueError) as error:
            self._fail(str(error), place)

    def _fail(self, message: str, place: int) -> NoReturn:
        raise ValueError(f"{message}\n  {self.text}\n  {' ' * place}^")
