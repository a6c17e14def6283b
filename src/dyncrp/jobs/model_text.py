"""Models as text, for commands and requests. What is written here can be read again; nothing is evaluated as code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dyncrp.dynamics import Dynamics
from dyncrp.dynamics.text import parse_dynamics
from dyncrp.families import FAMILIES, Columns, Family
from dyncrp.search.spec import SHORTEST_MEMORY, ModelSpec, check_memory
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters

FLOAT = re.compile(r"\d+\.\d+(e[+-]?\d+)?|\d+e[+-]?\d+")
MOST_NUMBERS_SHOWN = 10  # per vector
WITH_OWN_OPTION = ("family", "dynamics", "alpha", "memory")  # parameters that --set does not set
DEFAULTS = dict(sorted({**ModelSpec.resolve().params, "surge_rate": None}.items()))  # files have it only if it is given
WORDS = {"true": True, "false": False, "none": None}  # settings that are not text


def parse_model(
    family: str | None,
    dynamics: Sequence[str],
    alpha: float | None,
    settings: Sequence[str],
    memory: str | None = None,
    *,
    units: bool = True,
) -> ModelSpec:
    """Return the parameters of the model that a command line describes. What is not given is learned.

    family: a name in ``FAMILIES``, in upper or lower case. dynamics: none, one, or several to choose from. settings:
    "name=value", for a parameter of the family or of ``DynamicalMixture``. A value is a number, a word, a vector "1,2"
    or a matrix "1,2;3,4". memory: a number, "inf", or "auto" to learn it; infinite by default.

    >>> spec = parse_model("gaussian", ["exponential(20)"], 1.0, ["variance=1,2", "prior_variance=100", "warmup=500"])
    >>> spec.family
    Gaussian(variance=array([1., 2.]), prior_variance=100.0, prior_mean=0.0)
    >>> spec.dynamics, spec.alpha, spec.warmup
    ((Exponential(timescale=20.0),), 1.0, 500)
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise ValueError(f"a setting must be name=value, got {setting!r}")
        if name in given:
            raise ValueError(f"{name} is set twice")
        given[name] = _parse_setting(name, value)
    return make_model(family, dynamics, alpha, given, memory, units=units)


def make_model(
    family: str | None,
    dynamics: Sequence[str],
    alpha: float | None,
    settings: Mapping[str, Any],
    memory: float | str | None = None,
    *,
    units: bool = True,
) -> ModelSpec:
    """Return the same as ``parse_model``, given the values of the settings.

    >>> spec = make_model("gaussian", ["stationary()"], None, {"variance": 1.0, "max_tables": 50})
    >>> spec.family, spec.alpha, spec.rules.max_tables
    (Gaussian(variance=1.0), None, 50)
    """
    kinds = {name.lower(): kind for name, kind in FAMILIES.items()}
    kind: Any = kinds.get("gaussian" if family is None else family.lower().replace("_", "").replace("-", ""))
    if kind is None:
        raise ValueError(f"unknown family {family!r}; choose from {', '.join(k.__name__ for k in kinds.values())}")
    of_family = [field.name for field in fields(kind)]
    of_model = [name for name in DEFAULTS if name not in WITH_OWN_OPTION]
    for name in settings:
        if name not in of_family and name not in of_model:
            raise ValueError(
                f"unknown setting {name!r}; {kind.__name__} has {', '.join(of_family)}; "
                f"the model has {', '.join(of_model)}"
            )
    of_chosen = {name: value for name, value in settings.items() if name in of_family}
    chosen = None if family is None and not of_chosen else kind(**of_chosen)
    kernels = [parse_dynamics(text, units=units) for text in dynamics]
    kernel = kernels[0] if len(kernels) == 1 else kernels or None
    others = {name: value for name, value in settings.items() if name not in of_family}
    return ModelSpec.resolve(chosen, kernel, alpha, memory=_read_memory(memory), **others)


def _read_memory(given: float | str | None) -> float | None:
    """Return the memory, a number or a text, as ``DynamicalMixture`` takes it."""
    if given is None or str(given).lower() == "auto":
        return math.inf if given is None else None
    try:
        return check_memory(float(given) if isinstance(given, str) else given)
    except ValueError:
        raise ValueError(f"memory must be a number ≥ {SHORTEST_MEMORY:g}, inf or auto, got {given!r}") from None


def changed_settings(spec: ModelSpec) -> dict[str, Any]:
    """Return the parameters of a model that --set sets and that differ from the defaults.

    The resolution is left out, since the learned family includes it.

    >>> changed_settings(ModelSpec.resolve(warmup=500, max_tables=5))
    {'max_tables': 5, 'warmup': 500}
    """
    left_out = (*WITH_OWN_OPTION, "resolution")
    return {name: value for name, value in spec.params.items() if name not in left_out and value != DEFAULTS[name]}


def as_options(
    family: Family, dynamics: Dynamics, alpha: float, memory: float = math.inf, **settings: Any
) -> list[str]:
    """Return the options of a command line that describe a model, for ``parse_model`` to read.

    settings: as ``changed_settings`` returns them.

    >>> from dyncrp import Exponential, Gaussian
    >>> as_options(Gaussian(1.0, 9.0), Exponential(2.0), 0.5)
    ['--family', 'Gaussian', '--set', 'variance=1.0', '--set', 'prior_variance=9.0', '--set', 'prior_mean=0.0',
     '--dynamics', 'Exponential(timescale=2.0)', '--alpha', '0.5']
    """
    values = {name: _format_setting(value) for name, value in _hyperparameters(family).items()} | settings
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    told = ["--family", type(family).__name__, *given, "--dynamics", repr(dynamics), "--alpha", repr(alpha)]
    return told if memory == math.inf else [*told, "--memory", repr(memory)]


def as_python(family: Family, dynamics: Dynamics, alpha: float, memory: float = math.inf, **settings: Any) -> str:
    """Return the Python code that makes a model.

    >>> from dyncrp import Exponential, Gaussian
    >>> as_python(Gaussian([1.0, 2.0], 9.0), Exponential(2.0), 0.5)
    'DynamicalMixture(Gaussian(variance=[1.0, 2.0], prior_variance=9.0, prior_mean=0.0),
     Exponential(timescale=2.0), 0.5)'
    """
    settings = settings if memory == math.inf else {"memory": memory} | settings
    rest = "".join(f", {name}={value!r}" for name, value in settings.items())
    return f"DynamicalMixture({_as_code(family)}, {dynamics!r}, {alpha!r}{rest})"


def _as_code(family: Family) -> str:
    if isinstance(family, Columns):
        return f"Columns({{{', '.join(f'{part!r}: {_as_code(one)}' for part, one in family.parts)}}})"
    values = ", ".join(f"{name}={np.asarray(value).tolist()!r}" for name, value in _hyperparameters(family).items())
    return f"{type(family).__name__}({values})"


def brief(family: Family) -> str:
    """Return a family as one readable line, with the first ten of many numbers, and only the families of ``Columns``.

    >>> from dyncrp import Gaussian
    >>> brief(Gaussian(np.arange(1.0, 13.0), 9.0))
    'Gaussian(variance=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, … (12 in all)], prior_variance=9.0, prior_mean=0.0)'
    """
    if isinstance(family, Columns):
        parts = (f"{type(one).__name__} of {count(len(part), 'column')}" for part, one in family.parts)
        return f"Columns({', '.join(parts)})"
    values = ", ".join(f"{name}={_brief_value(value)}" for name, value in _hyperparameters(family).items())
    return f"{type(family).__name__}({values})"


def brief_dynamics(dynamics: Dynamics) -> str:
    """Return a dynamics as one readable line, with numbers of six significant digits.

    >>> from dyncrp import Exponential, Stationary
    >>> brief_dynamics(0.999 * Exponential(1234.5678901) + 0.001 * Stationary())
    '0.999 * Exponential(timescale=1234.57) + 0.001 * Stationary()'
    """
    return _round(repr(dynamics))


def brief_model(stream: Stream) -> str:
    """Return the model of a stream as one readable line: family, dynamics, alpha, and the memory if it is finite."""
    memory = "" if stream.memory == math.inf else f", memory {stream.memory:.6g}"
    return f"{brief(stream.family)}, {brief_dynamics(stream.dynamics)}, alpha {stream.alpha:.6g}{memory}"


def brief_clusters(clusters: Clusters, *, told: bool) -> str:
    """Return one line about the clusters. told: whether their number was given.

    >>> ids, sizes, tree = np.arange(6), np.ones(6), np.empty((5, 4))
    >>> brief_clusters(Clusters(ids, ids // 3 * 3, sizes, tree, "any"), told=False)
    '2 clusters, of 6 tables'
    >>> brief_clusters(Clusters(ids, 0 * ids, sizes, tree, "any"), told=False)
    '1 cluster, of 6 tables: no clusters stand out'
    """
    found = f"{count(len(clusters), 'cluster')}, of {count(len(clusters.table_ids), 'table')}"
    return found + (": no clusters stand out" if len(clusters) == 1 < len(clusters.table_ids) and not told else "")


def count(n: int, noun: str) -> str:
    """Return a number and its noun.

    >>> count(1, "table"), count(2000, "row")
    ('1 table', '2,000 rows')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _round(text: str) -> str:
    """Return a text with six significant digits of each float in it."""
    return FLOAT.sub(lambda match: repr(float(f"{float(match.group()):.6g}")), text)


def _brief_value(value: Any) -> str:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return _round(repr(value))
    if value.ndim > 1:
        return " × ".join(map(str, value.shape)) + " numbers"
    more = f", … ({len(value):,} in all)" if len(value) > MOST_NUMBERS_SHOWN else ""
    return "[" + ", ".join(f"{number:.6g}" for number in value[:MOST_NUMBERS_SHOWN].tolist()) + more + "]"


def _hyperparameters(family: Family) -> dict[str, Any]:
    values = {field.name: getattr(family, field.name) for field in fields(family)}
    return {name: value for name, value in values.items() if value is not None}


def _parse_setting(name: str, text: str) -> Any:
    """Return the value of a setting: a number, a word, a vector of numbers, or a matrix."""
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    if ";" in text:
        rows = [_parse_vector(name, row) for row in text.removesuffix(";").split(";")]
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{name} must have rows of one length, got {[len(row) for row in rows]}")
        return rows
    if "," in text:
        return _parse_vector(name, text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parse_vector(name: str, text: str) -> list[float]:
    """Return the numbers between commas. A single number with a trailing comma is a vector."""
    try:
        return [float(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers separated by commas, got {text!r}") from None


def _format_setting(value: Any) -> str:
    """Return a hyperparameter as ``_parse_setting`` reads it."""
    rows = [",".join(map(repr, row)) for row in np.atleast_2d(value).tolist()]
    if np.ndim(value) == 2:
        return ";".join(rows) + (";" if len(rows) == 1 else "")
    return rows[0] + ("," if np.shape(value) == (1,) else "")
