"""Run by itself in an environment that has only an installed wheel: the extension is there, and agrees with the
reference.

With ``--without-extension`` it must not be there, and the reference computes.
"""

import sys
import tempfile
import warnings
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np

import dyncrp
from dyncrp import (
    Bernoulli,
    Categorical,
    Columns,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Multinomial,
    NormalGamma,
    NormalWishart,
    Poisson,
    VonMisesFisher,
)
from dyncrp.engine import ReferenceEngine

FAMILIES = [
    Gaussian(1.0, 100.0),
    NormalGamma(1.0, 100.0),
    NormalWishart(1.0, 100.0),
    Bernoulli(0.3, 0.3),
    Poisson(0.5, 0.1),
    Categorical(0.3),
    VonMisesFisher(50.0),
    Columns([([0, 1], Gaussian(1.0, 100.0)), ([2, 3], Poisson(0.5, 0.1))]),
]
WITHOUT = "--without-extension" in sys.argv

rng = np.random.default_rng(0)
with warnings.catch_warnings(record=True) as said:
    for family in FAMILIES:
        X = family.sample(family.sample_parameters(5, 4, rng)[rng.integers(5, size=200)], rng)
        model = DynamicalMixture(family, Exponential(20.0)).fit(X)
        assert isinstance(model.engine_, ReferenceEngine) == WITHOUT, "the wheel has no extension, or has one"
        reference = ReferenceEngine(model.engine_.model, 4)
        assert reference.run(family.check(X), np.arange(200.0)).labels.tolist() == model.labels_.tolist(), family
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.npz")
            again = DynamicalMixture.load(Path(folder) / "model.npz")
        assert again.partial_fit(X).labels_.tolist() == model.partial_fit(X).labels_.tolist(), family
    texts = DynamicalMixture(Multinomial(0.1)).fit(["rain and snow", "goal and match", "snow and rain"])
    assert texts.labels_.tolist() == [0, 1, 0]
    assert DynamicalMixture().fit(X).n_tables_ > 1
assert [warning.category for warning in said] == [RuntimeWarning] * WITHOUT, [str(warning.message) for warning in said]
package = files("dyncrp")
assert (package / "serve" / "static" / "index.html").is_file(), "the wheel has no page"
assert (package / "py.typed").is_file(), "the wheel has no py.typed"
assert not list(Path(str(package)).rglob("*.?pp")), "the wheel has sources of the extension"
assert version("dyncrp") == dyncrp.__version__, "the wheel has another version than the package"
print(f"dyncrp {dyncrp.__version__} works" + WITHOUT * " without its extension")
