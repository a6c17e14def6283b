"""Run by itself in an environment that has only an installed wheel: the extension is there, and agrees with the law."""

from importlib.resources import files

import numpy as np

from dyncrp import Bernoulli, Categorical, DynamicalMixture, Exponential, Gaussian, NormalGamma, Poisson, VonMisesFisher
from dyncrp.engine import LawEngine

FAMILIES = [
    Gaussian(1.0, 100.0),
    NormalGamma(1.0, 100.0),
    Bernoulli(0.3, 0.3),
    Poisson(0.5, 0.1),
    Categorical(0.3),
    VonMisesFisher(50.0),
]

rng = np.random.default_rng(0)
for family in FAMILIES:
    X = family.sample(family.sample_parameters(5, 4, rng)[rng.integers(5, size=200)], rng)
    model = DynamicalMixture(family, Exponential(20.0)).fit(X)
    assert not isinstance(model.engine_, LawEngine), "the wheel has no extension"
    law = LawEngine(model.engine_.model, 4)
    assert law.run(family.check(X), np.arange(200.0)).labels.tolist() == model.labels_.tolist(), family
assert DynamicalMixture().fit(X).n_tables_ > 1
assert (files("dyncrp") / "serve" / "static" / "index.html").is_file(), "the wheel has no page"
print("the wheel works")
