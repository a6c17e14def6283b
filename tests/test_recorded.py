"""Streams recorded once, in ``recorded.npz``: labels must stay the same, and numbers to 1e-9, whatever is rewritten.

``python tests/test_recorded.py`` records them again. Only a change of the mathematics, told in the changelog, may need
that.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dyncrp import (
    Bernoulli,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    NormalGamma,
    Oscillatory,
    Stationary,
    VonMisesFisher,
)

RECORDED = Path(__file__).with_name("recorded.npz")
SCALES = np.array([0.5, 1.0, 2.0])
DIRECTIONS = np.array([[1.0, 0.4, 0.0], [-0.3, 2.0, 0.5]])
STICKY = 0.99 * Exponential(4.0) + 0.01 * Stationary()
FAMILIES = {
    "gaussian": Gaussian(1.3, 40.0, 0.5),
    "gaussian-diagonal": Gaussian(SCALES, np.array([4.0, 60.0, 30.0]), SCALES),
    "gaussian-directions": Gaussian(1.3, np.array([40.0, 10.0]), 0.5, DIRECTIONS, 0.7),
    "normal-gamma": NormalGamma(1.3, 40.0, 6.0, 0.5),
    "bernoulli": Bernoulli(0.3, 0.45),
    "von-mises-fisher": VonMisesFisher(40.0),
}
DYNAMICS = {
    "stationary": Stationary(),
    "exponential": Exponential(9.0),
    "oscillatory": Oscillatory(23.0),
    "hyperbolic": Hyperbolic(5.0),
    "negative": LinearODE([0.2, 0.1, 1.0]),
    "sticky": STICKY,
}
OPTIONS = {
    "variational": {"assignment": "variational"},
    "posterior": {"table_count": "posterior"},
    "paper": {"assignment": "variational", "table_count": "posterior"},
    "closing": {"max_tables": 4, "prune_below": 0.05},
    "learn-alpha": {"learn_alpha": True},
    "sharper": {"resolution": 2.0},
}


def draw(family, n, seed):
    """Six clusters at irregular times, some of them tied."""
    rng = np.random.default_rng(seed)
    D = 8 if isinstance(family, Bernoulli) else 3
    X = family.sample(family.sample_parameters(6, D, rng)[rng.integers(6, size=n)], rng)
    return X, np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


def cases():
    """Yield a name, a model, its rows and their times."""
    for i, (name, family) in enumerate(FAMILIES.items()):
        for kind, dynamics in DYNAMICS.items():
            yield f"{name}/{kind}", DynamicalMixture(family, dynamics, 0.83), *draw(family, 300, i)
        for option, rules in OPTIONS.items():
            yield f"{name}/{option}", DynamicalMixture(family, STICKY, 0.83, **rules), *draw(family, 300, 10 + i)
    for i, name in enumerate(["gaussian", "normal-gamma", "bernoulli", "von-mises-fisher"]):
        family = FAMILIES[name]
        yield f"unknown/{name}", DynamicalMixture(type(family)(), warmup=250), *draw(family, 300, 20 + i)


def outcome(model, X, times):
    """Return what a model makes of a stream, in three calls, the last of them after a file."""
    parts = []
    for start, stop in pairwise([0, 250, 260, 300]):
        if start == 260:
            model = DynamicalMixture.from_bytes(model.to_bytes())
        model.partial_fit(X[start:stop], times=times[start:stop])
        parts.append((model.labels_, model.novelty_))
    labels, novelty = map(np.concatenate, zip(*parts, strict=True))
    numbers = [novelty, model.occupancies_, model.centers_.ravel(), [model.alpha_, model.log_evidence_]]
    return labels, np.concatenate([*numbers, model.score_samples(X[:20])])


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case[0])
def test_recorded_streams_are_the_same(case):
    name, *stream = case
    labels, numbers = outcome(*stream)
    with np.load(RECORDED) as recorded:
        np.testing.assert_array_equal(labels, recorded[name + "/labels"])
        np.testing.assert_allclose(numbers, recorded[name + "/numbers"], rtol=1e-9, atol=1e-9)


if __name__ == "__main__":
    found = {name: outcome(*stream) for name, *stream in cases()}
    arrays = {f"{name}/labels": labels.astype(np.int16) for name, (labels, _) in found.items()}
    np.savez_compressed(RECORDED, **arrays, **{f"{name}/numbers": numbers for name, (_, numbers) in found.items()})
