"""The engine in C++: hands a model to the loop in ``cpp/``, and its state in and out as the reference's arrays.

One engine belongs to one stream and is changed in place. It computes what ``reference.run`` computes; the tests compare
the two on generated streams. Rows are learned without the interpreter's lock: several threads may predict at once,
those who come while one learns wait, and a second one that would learn is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.engine import loop, schema
from dyncrp.engine.special import bessel_constants
from dyncrp.engine.types import (
    Arrays,
    Complex,
    Engine,
    Float,
    LazyTrace,
    Model,
    State,
    TableConstraints,
    Trace,
    state_of,
)
from dyncrp.families import Bernoulli, Categorical, Columns, Family, Gaussian, NormalGamma, NormalWishart, Poisson, VonMisesFisher
from dyncrp.families.bessel import log_normalizer, log_uniform
from dyncrp.families.columns import Piece
from dyncrp.families.gaussian import LOG_2PI

LARGEST_COUNT = 1 << 62  # that the loop's integers hold
NONE = np.zeros(0)

FamilySettings = (
    loop.Gaussian
    | loop.GaussianDiagonal
    | loop.NormalGamma
    | loop.NormalWishart
    | loop.Bernoulli
    | loop.Poisson
    | loop.Categorical
    | loop.VonMisesFisher
)
Settings = tuple[FamilySettings, loop.Coordinates]


def has_code_for(family: Family) -> bool:
    """Whether the loop computes this family; of others, and of those derived from ours, only the reference knows."""
    if type(family) is Columns:
        return all(has_code_for(part) for _, part in family.parts)
    return type(family) in _SETTINGS


def settings_for(family: Family, n_features: int) -> tuple[FamilySettings | loop.Columns, loop.Coordinates]:
    """Return what the loop is told of the family, and of the coordinates in which it learns rows of n_features."""
    if not isinstance(family, Columns):
        return _SETTINGS[type(family)](family, n_features)
    parts = []
    for _, some in groupby(family.pieces, _kind):  # columns of one kind go faster together
        pieces = list(some)
        one = pieces[0].family
        if len(pieces) > 1:
            one = one.join([piece.family for piece in pieces[1:]])
        at = [column for piece in pieces for column in piece.at]
        settings, coordinates = _SETTINGS[type(one)](one, len(at))
        parts.append(loop.Part(at=at, family=settings, coordinates=coordinates))
    return loop.Columns(parts=parts), _coordinates(n_features)


def _kind(piece: Piece) -> tuple[Any, ...]:
    """Return what pieces have in common that can be joined: those of single columns with the same plain settings."""
    family = piece.family
    if not family.independent:
        return (piece.at,)
    return type(family), getattr(family, "degrees", None), getattr(family, "n_codes", None)


class LoopEngine(loop.Engine):
    """What the engines in C++ have in common: a model whose alpha may change, arrays that come out, and copies."""

    model: Model
    n_features: int

    def set_alpha(self, alpha: float) -> None:
        """Let alpha be this from the next observation on."""
        model = replace(self.model, alpha=alpha)
        self._set_rules(rules_of(model))
        self.model = model

    def arrays(self) -> Arrays:
        """Return all that the next step needs, to the bit, as plain arrays."""
        found: Arrays = {name: np.asarray(value) for name, value in self._snapshot().items()}
        for name in {"mode_states", "mode_total", "mode_sums"} & found.keys():
            found[name] = found[name].view(np.complex128)
        return found

    def go_on(self, arrays: Arrays) -> None:
        """Continue from arrays that are checked: the loop wants numbers as such, and complex ones as pairs."""
        given: dict[str, Any] = dict(arrays)
        for name, array in arrays.items():
            if array.shape == ():
                given[name] = array.item()
            elif array.dtype == np.complex128:
                given[name] = np.ascontiguousarray(array).view(np.float64)
        self._restore(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.model, self.n_features, self.arrays())


class NativeEngine(LoopEngine):
    """Streaming inference for one model and one stream of D features."""

    def __init__(self, model: Model, n_features: int) -> None:
        if not has_code_for(model.family):
            raise ValueError(f"there is no native engine for {model.family!r}")
        settings, coordinates = settings_for(model.family, n_features)
        super().__init__(settings, coordinates, modes_of(model), rules_of(model), model.family.safe_norm)
        self.model = model
        self.n_features = n_features

    def run(self, X: Float, times: Float, told: TableConstraints | None = None) -> Trace:
        """Learn from a segment of the stream: X (n, D) at times (n,), valid and in order; see ``reference.run``."""
        return LazyTrace(partial(getattr, self._learn(X, times, *(told or ()))))

    @property
    def seating(self) -> State:
        """The state."""
        return self.state

    @property
    def state(self) -> State:
        """A copy of the state, as the reference has it."""
        arrays = self.arrays()
        return state_of(arrays, self.model.modes, arrays["stats"], arrays.get("squares"))

    def arrays(self) -> Arrays:
        """Return all that the next step needs, to the bit, as plain arrays."""
        found = super().arrays()
        if self._cells.any():
            found["squares"] = np.ascontiguousarray(found["cells"][:, self._cells])
        return found

    def restore(self, arrays: Arrays) -> None:
        """Continue from what ``arrays`` of this or another engine returned; anything else is a ``ValueError``."""
        found = schema.check_state(arrays, schema.OF_ROWS, self._sizes, self.model.family)
        if len(self._cells):
            K = len(found["stats"])
            found["cells"] = np.array(found.get("cells", np.full((K, len(self._cells)), np.nan)))  # NaN: not recorded
            if "squares" in found:
                found["cells"][:, self._cells] = found["squares"]
        self.go_on(found)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes that the schema has symbols for; restoring a state must not take the time to find out."""
        family, D = self.model.family, self.n_features
        S, P = family.empty(D).shape[1], family.squares(np.zeros((1, D))).shape[1]
        sizes = {"S": S, "P": P, "M": len(self.model.modes.rates), "D": D}
        return sizes | ({"B": len(self._cells)} if len(self._cells) else {})

    @cached_property
    def _cells(self) -> NDArray[np.bool_]:
        """Of the numbers in ``cells``, which are squares; none unless the family is Columns."""
        family = self.model.family
        if not isinstance(family, Columns):
            return np.zeros(0, dtype=bool)
        kinds = (
            [True] * (p.squares.stop - p.squares.start) or [False] * isinstance(p.family, (NormalGamma, Bernoulli))
            for p in family.pieces
        )
        return np.array([is_square for some in kinds for is_square in some], dtype=bool)

    def widen(self, n_features: int) -> NativeEngine:
        """Return an engine of more features, as if every observation so far had had 0 in the new ones."""
        family = self.model.family
        arrays = self.arrays()
        if isinstance(family, Gaussian):
            arrays["squares"] = family.widen_squares(arrays["stats"], arrays["squares"], n_features)
        arrays["stats"] = family.widen(arrays["stats"], n_features)
        n = arrays["stats"][:, :1]
        if isinstance(family, NormalGamma):  # Σ r z² − s²/q where every z is the same
            zero = np.full(n_features - self.n_features, -float(family.prior_mean))
            p = float(family.variance / family.prior_variance)
            arrays["scatter"] = np.hstack([arrays["scatter"], n * (p / (p + n)) * zero**2])
        if isinstance(family, Bernoulli):
            arrays["misses"] = np.hstack([arrays["misses"], np.tile(n, n_features - self.n_features)])
        wider = NativeEngine(self.model, n_features)
        wider.restore(arrays)
        return wider


def rebuild(kind: Callable[[Model, int], Engine], model: Model, n_features: int, arrays: Arrays) -> Engine:
    """Return an engine that goes on from these arrays: a copy, or what was pickled."""
    engine = kind(model, n_features)
    if len(arrays["table_ids"]):
        engine.restore(arrays)
    return engine


def _pairs(numbers: Complex) -> list[tuple[float, float]]:
    return [(number.real, number.imag) for number in numbers.tolist()]


def modes_of(model: Model) -> list[loop.Mode]:
    """Return the modes of the dynamics, as the loop wants them."""
    amplitudes, rates = model.modes
    return [loop.Mode(a, rate) for a, rate in zip(_pairs(amplitudes), _pairs(rates), strict=True)]


def rules_of(model: Model) -> loop.Rules:
    """Return how observations are assigned, as the loop wants it."""
    rules = model.rules
    return loop.Rules(
        alpha=model.alpha,
        variational=rules.assignment == "variational",
        posterior=rules.table_count == "posterior",
        n_iter=min(int(rules.n_iter), LARGEST_COUNT),
        new_table_threshold=float(rules.new_table_threshold),
        max_tables=min(int(rules.max_tables or 0), LARGEST_COUNT),
        prune_below=float(rules.prune_below),
        clip=model.clip,
        memory=float(model.memory),
    )


def _vector(value: Any, width: int) -> Float:
    """Return a hyperparameter as one number for each of ``width`` features."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), width).copy()


def _coordinates(n_features: int, shift: Float = NONE, scale: Float = NONE, **projection: Any) -> loop.Coordinates:
    """Return z = x − shift, or its projection, and y = z/scale; a shift of 0 or a scale of 1 is left out."""
    told: dict[str, Any] = {"directions": NONE, "inverse": NONE, "log_scale": 0.0, "half_precision": 0.0} | projection
    return loop.Coordinates(n_features=n_features, shift=_unless(0.0, shift), scale=_unless(1.0, scale), **told)


def _unless(plain: float, values: Float) -> Float:
    return values if np.any(values != plain) else NONE


def _gaussian(family: Gaussian, n_features: int) -> Settings:
    width, projection = n_features, {}
    if family.directions is not None:
        width = len(family.directions)
        projection = _projection(family)
    scale = np.sqrt(_vector(family.variance, width))
    precision = _vector(family.variance / family.prior_variance, width)
    log_normalizer = -0.5 * width * LOG_2PI - float(np.sum(np.log(scale)))
    coordinates = _coordinates(n_features, _vector(family.prior_mean, n_features), scale, **projection)
    scale = _unless(1.0, scale)
    if np.all(precision == precision[0]):
        p = float(precision[0])
        return loop.Gaussian(width=width, precision=p, log_normalizer=log_normalizer, scale=scale), coordinates
    return loop.GaussianDiagonal(precision=precision, log_normalizer=log_normalizer, scale=scale), coordinates


def _projection(family: Gaussian) -> dict[str, Any]:
    """Return z = W (x − m₀) and the log density of what z leaves out."""
    Q, D = family.directions.shape
    constant, half = family.log_scale, 0.0
    if family.residual_variance is not None:
        constant -= 0.5 * (D - Q) * (LOG_2PI + math.log(family.residual_variance))
        half = 0.5 / family.residual_variance
    return {
        "directions": np.ascontiguousarray(family.directions.T).ravel(),
        "inverse": np.ascontiguousarray(family.inverse).ravel(),
        "log_scale": constant,
        "half_precision": half,
    }


def _normal_gamma(family: NormalGamma, n_features: int) -> Settings:
    variance = _vector(family.variance, n_features)
    scale = np.sqrt(variance)
    settings = loop.NormalGamma(
        precision=_vector(family.variance / family.prior_variance, n_features),
        variance=variance,
        degrees=family.degrees,
        log_normalizer=-0.5 * n_features * LOG_2PI - float(np.sum(np.log(scale))),
    )
    return settings, _coordinates(n_features, _vector(family.prior_mean, n_features), scale)


def _normal_wishart(family: NormalWishart, n_features: int) -> Settings:
    variance = _vector(family.variance, n_features)
    scale = np.sqrt(variance)
    settings = loop.NormalWishart(
        precision=family.precision,
        variance=variance,
        degrees=family.degrees,
        log_normalizer=-0.5 * n_features * LOG_2PI - float(np.sum(np.log(scale))),
    )
    return settings, _coordinates(n_features, _vector(family.prior_mean, n_features), scale)


def _bernoulli(family: Bernoulli, n_features: int) -> Settings:
    settings = loop.Bernoulli(a=_vector(family.a, n_features), b=_vector(family.b, n_features))
    return settings, _coordinates(n_features)


def _poisson(family: Poisson, n_features: int) -> Settings:
    settings = loop.Poisson(shape=_vector(family.shape, n_features), rate=_vector(family.rate, n_features))
    return settings, _coordinates(n_features)


def _categorical(family: Categorical, n_features: int) -> Settings:
    concentration = _vector(family.concentration, n_features)
    prior = family.prior_counts() + np.zeros(n_features)
    return loop.Categorical(concentration=concentration, prior=prior.ravel()), _coordinates(n_features)


def _von_mises_fisher(family: VonMisesFisher, n_features: int) -> Settings:
    settings = loop.VonMisesFisher(
        width=n_features,
        concentration=float(family.concentration),
        log_normalizer=float(log_normalizer(n_features, family.concentration)),
        log_uniform=log_uniform(n_features),
        bessel=loop.BesselSettings(**bessel_constants(n_features)._asdict()),
    )
    return settings, _coordinates(n_features)


_SETTINGS: dict[type[Family], Callable[[Any, int], Settings]] = {
    Gaussian: _gaussian,
    NormalGamma: _normal_gamma,
    NormalWishart: _normal_wishart,
    Bernoulli: _bernoulli,
    Poisson: _poisson,
    Categorical: _categorical,
    VonMisesFisher: _von_mises_fisher,
}
