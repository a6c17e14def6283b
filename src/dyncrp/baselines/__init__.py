"""Baselines that the paper compares the Dynamical CRP with. One algorithm per file; to add one, add a line here.

>>> from dyncrp import Exponential, Gaussian, baselines
>>> model = baselines.make("DP-means, online", family=Gaussian(1.0, 100.0), dynamics=Exponential(20.0), alpha=1.0)
>>> model.fit([[0.0], [9.0], [0.5], [9.5]]).labels_
array([0, 1, 0, 1])
>>> baselines.SYSTEMS["DP-means, online"].streaming
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

try:
    from dyncrp.baselines import sweeps  # noqa: F401
except ImportError as error:
    raise ImportError(
        "the baselines need dyncrp's C++ extension, which was not built: install a wheel, or install a C++20 compiler "
        "such as g++ and then dyncrp again"
    ) from error

from dyncrp.baselines.base import Baseline, StreamingBaseline
from dyncrp.baselines.crp import StreamingMixture, nearest_exponential
from dyncrp.baselines.ddcrp import DistanceDependentCRP, DistanceDependentMixture
from dyncrp.baselines.dp_means import DPMeans, OnlineDPMeans
from dyncrp.baselines.gibbs import GibbsMixture
from dyncrp.baselines.kmeans import OfflineKMeans, OnlineKMeans
from dyncrp.baselines.variational import VariationalMixture
from dyncrp.dynamics import Dynamics, Stationary
from dyncrp.families import Bernoulli, Family, Gaussian, NormalGamma, VonMisesFisher

__all__ = [
    "SYSTEMS",
    "Baseline",
    "DPMeans",
    "DistanceDependentCRP",
    "DistanceDependentMixture",
    "GibbsMixture",
    "OfflineKMeans",
    "OnlineDPMeans",
    "OnlineKMeans",
    "StreamingBaseline",
    "StreamingMixture",
    "System",
    "Truth",
    "VariationalMixture",
    "make",
]


class Truth(NamedTuple):
    """Everything that a system might be told about a stream."""

    family: Family
    dynamics: Dynamics
    alpha: float
    n_clusters: int | None
    seed: int

    @property
    def spherical(self) -> bool:
        """Whether the rows are unit vectors."""
        return isinstance(self.family, VonMisesFisher)

    @property
    def known_n_clusters(self) -> int:
        """The number of clusters, for systems that need it."""
        if self.n_clusters is None:
            raise ValueError("k-means needs the number of clusters: give n_clusters")
        return self.n_clusters

    @property
    def truncation(self) -> int | None:
        """One and a half times the number of clusters, if it is known, for systems that need an upper bound."""
        return None if self.n_clusters is None else math.ceil(1.5 * self.n_clusters)


class System(NamedTuple):
    """A system: how to make it, whether it sees each row once and in order, what it is told, and its families."""

    make: Callable[[Truth], Baseline | StreamingMixture]
    streaming: bool
    told: tuple[str, ...]
    families: tuple[type[Family], ...]
    reference: str


_MODEL, _ALL = ("family", "alpha"), ("family", "dynamics", "alpha")
_TWO, _THREE = (Gaussian, VonMisesFisher), (Gaussian, Bernoulli, VonMisesFisher)
_ANY = (Gaussian, NormalGamma, Bernoulli, VonMisesFisher)
_THIS = "Schaeffer et al. 2022"


def _paper_crp(its: Truth) -> StreamingMixture:
    """Return the D-CRP in the paper's form: coordinate ascent, and alpha spread over the number of tables."""
    return StreamingMixture(its.family, its.dynamics, its.alpha, assignment="variational", table_count="posterior")


def _time_sensitive_crp(its: Truth) -> StreamingMixture:
    return StreamingMixture(its.family, nearest_exponential(its.dynamics), its.alpha)


def _online_k_means(its: Truth) -> OnlineKMeans:
    return OnlineKMeans(its.known_n_clusters, spherical=its.spherical, seed=its.seed)


def _dd_crp(its: Truth) -> DistanceDependentMixture:
    return DistanceDependentMixture(its.family, its.dynamics, its.alpha, seed=its.seed)


def _variational(its: Truth) -> VariationalMixture:
    return VariationalMixture(its.family, its.alpha, n_components=its.truncation, seed=its.seed)


def _k_means(its: Truth) -> OfflineKMeans:
    return OfflineKMeans(its.known_n_clusters, spherical=its.spherical, seed=its.seed)


#: Systems by the names that the paper's figures use.
SYSTEMS: dict[str, System] = {
    "D-CRP": System(lambda its: StreamingMixture(its.family, its.dynamics, its.alpha), True, _ALL, _ANY, _THIS),
    "D-CRP (paper)": System(_paper_crp, True, _ALL, _ANY, _THIS),
    "R-CRP": System(
        lambda its: StreamingMixture(its.family, Stationary(), its.alpha), True, _MODEL, _ANY, "Schaeffer et al. 2021"
    ),
    "ts-CRP": System(_time_sensitive_crp, True, _ALL, _ANY, "Zhu et al. 2005"),
    "DP-means, online": System(
        lambda its: OnlineDPMeans(its.family, its.alpha), True, _MODEL, _TWO, "Broderick et al. 2013"
    ),
    "k-means, online": System(_online_k_means, True, ("n_clusters",), _ANY, "Sculley 2010"),
    "dd-CRP": System(_dd_crp, False, _ALL, _THREE, "Blei and Frazier 2011"),
    "Gibbs": System(lambda its: GibbsMixture(its.family, its.alpha, seed=its.seed), False, _MODEL, _THREE, "Neal 2000"),
    "variational": System(_variational, False, (*_MODEL, "n_clusters"), (Gaussian,), "Blei and Jordan 2006"),
    "DP-means": System(lambda its: DPMeans(its.family, its.alpha), False, _MODEL, _TWO, "Kulis and Jordan 2012"),
    "k-means": System(_k_means, False, ("n_clusters",), _ANY, "Lloyd 1982"),
}


def make(
    name: str,
    *,
    family: Family,
    dynamics: Dynamics | None = None,
    alpha: float = 1.0,
    n_clusters: int | None = None,
    seed: int = 0,
) -> Baseline | StreamingMixture:
    """Return a system by its name in ``SYSTEMS``. It is told only those parts of the truth that it may use.

    Args:
        name: one of ``SYSTEMS``.
        family: how observations are distributed about a cluster.
        dynamics: how tables are forgotten; ``Stationary()`` by default.
        alpha: how readily new tables open.
        n_clusters: the true number of clusters. Only k-means needs it; the variational mixture uses it if given.
        seed: an integer, for systems that draw random numbers.
    """
    if name not in SYSTEMS:
        raise ValueError(f"name must be one of {', '.join(map(repr, SYSTEMS))}, got {name!r}")
    system = SYSTEMS[name]
    if not isinstance(family, system.families):
        raise ValueError(f"{name} works on {', '.join(kind.__name__ for kind in system.families)}, got {family!r}")
    return system.make(Truth(family, Stationary() if dynamics is None else dynamics, alpha, n_clusters, seed))
