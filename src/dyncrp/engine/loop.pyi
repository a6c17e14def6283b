"""The extension in ``cpp/``, see ``native.py``. Names with an underscore are for that file and for tests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

class Mode:
    def __init__(self, amplitude: tuple[float, float], rate: tuple[float, float]) -> None: ...

class Rules:
    def __init__(
        self,
        *,
        alpha: float,
        variational: bool,
        posterior: bool,
        n_iter: int,
        new_table_threshold: float,
        max_tables: int,
        prune_below: float,
        clip: bool,
        memory: float,
    ) -> None: ...

class Coordinates:
    def __init__(
        self,
        *,
        n_features: int,
        shift: Float,
        scale: Float,
        directions: Float,
        inverse: Float,
        log_scale: float,
        half_precision: float,
    ) -> None: ...

class BesselSettings:
    def __init__(self, *, order: float, steps: int, stirling: float, u: Float, v: Float) -> None: ...

class Gaussian:
    def __init__(self, *, width: int, precision: float, log_normalizer: float, scale: Float) -> None: ...

class GaussianDiagonal:
    def __init__(self, *, precision: Float, log_normalizer: float, scale: Float) -> None: ...

class NormalGamma:
    def __init__(self, *, precision: Float, variance: Float, degrees: float, log_normalizer: float) -> None: ...

class Bernoulli:
    def __init__(self, *, a: Float, b: Float) -> None: ...

class Poisson:
    def __init__(self, *, shape: Float, rate: Float) -> None: ...

class Categorical:
    def __init__(self, *, concentration: Float, prior: Float) -> None: ...

class VonMisesFisher:
    def __init__(
        self,
        *,
        width: int,
        concentration: float,
        log_normalizer: float,
        log_uniform: float,
        bessel: BesselSettings,
    ) -> None: ...

PartFamily = Gaussian | GaussianDiagonal | NormalGamma | Bernoulli | Poisson | Categorical | VonMisesFisher

class Part:
    def __init__(self, *, at: list[int], family: PartFamily, coordinates: Coordinates) -> None: ...

class Columns:
    def __init__(self, *, parts: list[Part]) -> None: ...

class Engine:
    def __init__(
        self,
        family: PartFamily | Columns,
        coordinates: Coordinates,
        modes: list[Mode],
        rules: Rules,
    ) -> None: ...
    @property
    def n_tables(self) -> int: ...
    @property
    def n_opened(self) -> int: ...
    @property
    def ids(self) -> Int: ...
    @property
    def n_observations(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def log_evidence(self) -> float: ...
    def run_one(self, x: Float, t: float) -> tuple[int, float]: ...
    def judge_one(self, x: Float, t: float) -> tuple[int, float]: ...
    def labels(self, X: Float, times: Float) -> Int: ...
    def shares(self, X: Float, times: Float) -> Float: ...
    def log_density(self, X: Float, times: Float) -> Float: ...
    @property
    def _capacity(self) -> int: ...
    def _learn(
        self,
        X: Float,
        times: Float,
        tables: Int,
        marks: Int,
        labels: Int,
        log_evidence: Float,
        absences: Float,
        indptr: Int,
    ) -> tuple[int, Int, Float, Int, Int]: ...
    def _set_rules(self, rules: Rules) -> None: ...
    def _snapshot(self) -> dict[str, Any]: ...
    def _restore(self, arrays: dict[str, Any]) -> None: ...
    def _tune(self, *, block: int = 0, blunt_rows: int = 256) -> None: ...
    def _compare(self, X: Float) -> tuple[Float, Float, Float]: ...

def digamma(x: float) -> float: ...
def log_gamma_half(z: float) -> float: ...
def stirling_remainder(z: float) -> float: ...
def log_factorial(x: float) -> float: ...
def log_negative_binomial(x: float, A: float, B: float) -> float: ...
def bessel_excess(settings: BesselSettings, kappa: float) -> float: ...
def bessel_ratio(settings: BesselSettings, kappa: float) -> float: ...
