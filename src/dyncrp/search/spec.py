"""ModelSpec: the parameters of a model, checked and resolved once. Some may still be unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock, Seconds, integer, positive, real
from dyncrp.dynamics import Dynamics, Exponential, Stationary
from dyncrp.engine.types import Model, Rules, check_words
from dyncrp.families import Family, Gaussian, NormalGamma, NormalWishart
from dyncrp.families.protocols import Sharpens, sharpen

# The dynamics of "auto": a stream that does not change, one that forgets, and sticky ones that forget almost all.
DYNAMICS_TO_TRY: tuple[Dynamics, ...] = (
    Stationary(),
    Exponential(),
    0.99 * Exponential() + 0.01 * Stationary(),
    0.999 * Exponential() + 0.001 * Stationary(),
)
# Families tried beside Gaussian() by default. One degree of freedom leaves the width of a table wide open; the shape of
# its covariance needs a better guess.
OTHER_FAMILIES: tuple[Family, ...] = (NormalGamma(degrees=1.0), NormalWishart(degrees=10.0))
MOST_UNKNOWN_DURATIONS = 2  # in one dynamics
LOWEST_RESOLUTION, HIGHEST_RESOLUTION = 1e-6, 1e6
MOST_EXAMPLES = 1000
RATES = {  # the highest, and an example; the windows of surges have some hundreds of rows
    "alarm_rate": (0.5, "0.001 for one row in a thousand"),
    "surge_rate": (0.002, "0.0001 for one row in ten thousand"),
}
WARMUP, DOCUMENTS_WARMUP = 1000, 10_000  # rows to learn from; how a stream of documents forgets shows only late
SHORTEST_MEMORY = 2.0  # with 1, a table would be only its latest member


@dataclass(frozen=True)
class ModelSpec:
    """The parameters of ``DynamicalMixture``, resolved.

    family: it may have unknown hyperparameters. dynamics: one, or several to choose from; they may have unknown
    durations. alpha and memory: None if unknown. other_families: what else may be chosen if the family was None.
    params: the parameters as given, for the model file. The others are as for ``DynamicalMixture``.

    >>> spec = ModelSpec.resolve(family=None, dynamics="auto", alpha=2.0)
    >>> spec.family, len(spec.dynamics), spec.alpha, spec.given
    (Gaussian(), 4, 2.0, None)
    >>> [type(family).__name__ for family in spec.other_families]
    ['NormalGamma', 'NormalWishart']
    """

    family: Family
    dynamics: tuple[Dynamics, ...]
    alpha: float | None
    memory: float | None
    rules: Rules
    warmup: int
    resolution: float
    learn_alpha: bool
    n_jobs: int | None
    alarm_rate: float | None
    n_examples: int
    keep_clusters: bool
    surge_rate: float | None
    other_families: tuple[Family, ...]
    params: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def resolve(
        cls,
        family: Any = None,
        dynamics: Any = "auto",
        alpha: Any = "auto",
        *,
        memory: Any = math.inf,
        warmup: Any = "auto",
        resolution: Any = 1.0,
        learn_alpha: Any = False,
        n_jobs: Any = None,
        alarm_rate: Any = None,
        n_examples: Any = 0,
        keep_clusters: Any = False,
        surge_rate: Any = None,
        **rules: Any,
    ) -> ModelSpec:
        """Check the parameters of ``DynamicalMixture`` and resolve "auto" and None; ``rules`` as for ``Rules``."""
        given = {"family": family, "dynamics": dynamics, "alpha": alpha, "memory": memory, "warmup": warmup}
        given |= {"resolution": resolution, "learn_alpha": learn_alpha, "n_jobs": n_jobs}
        given |= {"alarm_rate": alarm_rate, "n_examples": n_examples, "keep_clusters": keep_clusters}
        given |= {} if surge_rate is None else {"surge_rate": surge_rate}  # so that older versions read the file
        resolved = as_family(Gaussian() if family is None else family)
        kinds = _resolve_dynamics(dynamics, resolved.known)
        if isinstance(alpha, str) and alpha == "auto":
            alpha = 1.0 if resolved.known and len(kinds) == 1 and not kinds[0].n_unknown else None
        checked = Rules(**rules)
        if not isinstance(learn_alpha, (bool, np.bool_)):
            raise ValueError(f"learn_alpha must be True or False, got {learn_alpha!r}")
        if not isinstance(keep_clusters, (bool, np.bool_)):
            raise ValueError(f"keep_clusters must be True or False, got {keep_clusters!r}")
        if learn_alpha and checked.table_count != "map":
            raise ValueError("learn_alpha needs table_count='map', in which alpha is the weight of a new table")
        if learn_alpha and not all(kind.nonnegative for kind in kinds):
            raise ValueError(f"learn_alpha needs a kernel that is never negative, got dynamics {dynamics!r}")
        if n_jobs is not None and not (isinstance(n_jobs, (int, np.integer)) and real(n_jobs)):
            raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}")
        factor = positive("resolution", resolution)
        if not LOWEST_RESOLUTION <= factor <= HIGHEST_RESOLUTION:
            raise ValueError(
                f"resolution must be a number from {LOWEST_RESOLUTION:g} to {HIGHEST_RESOLUTION:g}, got {resolution!r}"
            )
        known_alpha = None if alpha is None else positive("alpha", alpha)
        known_memory = None if memory is None else check_memory(memory)
        known_memory = check_words(resolved, checked, known_memory)  # raise before anything is learned
        spec = cls(
            resolved,
            kinds,
            known_alpha,
            known_memory,
            checked,
            _resolve_warmup(warmup, resolved),
            factor,
            bool(learn_alpha),
            None if n_jobs is None else int(n_jobs),
            None if alarm_rate is None else check_rate("alarm_rate", alarm_rate),
            integer("n_examples", n_examples, 0, MOST_EXAMPLES),
            bool(keep_clusters),
            None if surge_rate is None else check_rate("surge_rate", surge_rate),
            OTHER_FAMILIES if family is None else (),
            dict(sorted((given | asdict(checked) | rules).items())),
        )
        if resolved.known or not isinstance(resolved, Sharpens):  # raise before anything is learned
            spec.sharpen(resolved)
        return spec

    @property
    def tells_events(self) -> bool:
        """Whether alarms or surges are asked for."""
        return self.alarm_rate is not None or self.surge_rate is not None

    @property
    def chooses_family(self) -> bool:
        """Whether the family was left open."""
        return bool(self.other_families)

    @cached_property
    def given(self) -> Model | None:
        """The model, including the resolution; None if something is unknown."""
        if self.alpha is None or not self.family.known or len(self.dynamics) > 1 or self.dynamics[0].n_unknown:
            return None
        if self.memory is None:
            return None
        return self.model(self.sharpen(self.family), self.dynamics[0], self.alpha, self.memory)

    def sharpen(self, family: Family) -> Family:
        """Return a known family at the requested resolution."""
        try:
            return family if self.resolution == 1.0 else sharpen(family, self.resolution)
        except ValueError as error:
            raise ValueError(f"resolution = {self.resolution!r} does not suit {family!r}: {error}") from None

    def check_clock(self, clock: Clock) -> None:
        """Raise if a duration is a timedelta but there are no times: the times were probably left out."""
        for kind in self.dynamics:
            for length in kind.durations():
                if clock is Clock.INDEX and isinstance(length, Seconds):
                    raise ValueError(
                        f"{kind!r} has a timedelta of {length:g} seconds, but there are no times: pass times, or give "
                        "the duration as a number of observations"
                    )

    def model(
        self, family: Family, dynamics: Dynamics, alpha: Any, memory: Any = math.inf, cloud: bool = False
    ) -> Model:
        """Return the model with these values for what may be unknown."""
        return Model(family, dynamics, positive("alpha", alpha), check_memory(memory), self.rules, cloud is True)


def as_family(family: Any) -> Family:
    """Return a family; raise ``ValueError`` for anything else.

    >>> as_family(Gaussian)
    Traceback (most recent call last):
        ...
    ValueError: family must be a Family such as Gaussian(1.0, 100.0), got <class ...>; did you mean Gaussian()?
    """
    if isinstance(family, Family):
        return family
    is_class = isinstance(family, type) and issubclass(family, Family)
    hint = f"; did you mean {family.__name__}()?" if is_class else ""
    raise ValueError(f"family must be a Family such as Gaussian(1.0, 100.0), got {family!r}{hint}")


def check_memory(memory: Any) -> float:
    """Return the memory, how many members a table remembers, as a float.

    >>> check_memory(100), check_memory(math.inf)
    (100.0, inf)
    """
    value = real(memory)
    if value is None or not value >= SHORTEST_MEMORY:
        raise ValueError(
            f"memory must be a number ≥ {SHORTEST_MEMORY:g}, math.inf or None (to be learned), got {memory!r}"
        )
    return value


def check_rate(name: str, rate: Any) -> float:
    """Return the share of rows that may bring a false event, as a float. name: "alarm_rate" or "surge_rate".

    >>> check_rate("alarm_rate", 0.001)
    0.001
    """
    value, (highest, example) = real(rate), RATES[name]
    if value is None or not 0.0 < value <= highest:
        raise ValueError(
            f"{name} must be None or a number from 0, exclusive, to {highest}, such as {example}; got {rate!r}"
        )
    return value


def _resolve_warmup(given: Any, family: Family) -> int:
    """Return how many rows to learn from."""
    if isinstance(given, str) and given == "auto":
        return DOCUMENTS_WARMUP if family.sparse else WARMUP
    return integer("warmup", given, 2)


def _resolve_dynamics(given: Any, family_known: bool) -> tuple[Dynamics, ...]:
    """Return the dynamics to choose from; only one if there is no choice."""
    kinds: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
    if given is None or (isinstance(given, str) and given == "auto"):
        kinds = [Stationary()] if given is not None and family_known else DYNAMICS_TO_TRY
    if not kinds or not all(isinstance(kind, Dynamics) for kind in kinds):
        raise ValueError(
            f"dynamics must be a Dynamics such as Exponential(20.0), a list of such, None or 'auto', got {given!r}"
        )
    if any(kind.n_unknown > MOST_UNKNOWN_DURATIONS for kind in kinds):
        raise ValueError(f"dynamics may have {MOST_UNKNOWN_DURATIONS} unknown durations each, got {given!r}")
    return tuple(kinds)
