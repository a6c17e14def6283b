"""What a command line says about a model is read as it is written."""

from itertools import pairwise

import numpy as np
import pytest

import dyncrp
from dyncrp import DynamicalMixture, Exponential, Gaussian, NormalGamma, Stationary
from dyncrp.jobs.model_text import as_options, as_python, parse_model

families = [
    Gaussian(1.0, 9.0),
    Gaussian([1.0, 0.1], 9.0, [1e-300, -0.1]),
    Gaussian([1.0], [3.0], [0.1]),
    Gaussian.from_covariances([[2.0, 1.0], [1.0, 2.0]], [[9.0, 0.0], [0.0, 9.0]]),
    Gaussian([1.0], [2.0], [0.5, 0.25], [[1.0, 0.3]], 0.1),
    NormalGamma(1.0, 9.0),
    dyncrp.Bernoulli(0.5, 2.0),
    dyncrp.Poisson(0.5, 2.0),
    dyncrp.Categorical(0.5, 8),
    dyncrp.VonMisesFisher(50.0),
]


@pytest.mark.parametrize("family", families, ids=repr)
def test_a_model_reads_as_it_is_written(family):
    dynamics = 0.999 * Exponential(1 / 3) + 0.001 * Stationary()
    options = as_options(family, dynamics, 0.1)
    name, settings = options[1], [b for a, b in pairwise(options) if a == "--set"]
    read = DynamicalMixture(**parse_model(name, [options[-3]], float(options[-1]), settings).params)
    made = eval(as_python(family, dynamics, 0.1), {name: getattr(dyncrp, name) for name in dyncrp.__all__})
    for model in (read, made):
        assert (model.family, model.dynamics, model.alpha) == (family, dynamics, 0.1)
        for field in ("variance", "directions"):
            assert np.shape(getattr(model.family, field, 0)) == np.shape(getattr(family, field, 0))


def test_settings_are_of_the_family_or_the_model():
    settings = ["variance=1", "prior_variance=2", "learn_alpha=true", "n_jobs=none", "assignment=variational"]
    spec = parse_model("gaussian", ["exponential()", "stationary()"], None, settings)
    assert (spec.learn_alpha, spec.n_jobs, spec.rules.assignment) == (True, None, "variational")
    assert spec.dynamics == (Exponential(), Stationary())
    assert spec.alpha is None


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("gauss", [], "unknown family 'gauss'; choose from Gaussian, "),
        ("gaussian", ["variance"], "a setting must be name=value, got 'variance'"),
        (
            "gaussian",
            ["varience=1"],
            "unknown setting 'varience'; Gaussian has variance, .*; the model has alarm_rate, .*, warmup",
        ),
        ("gaussian", ["alpha=1"], "unknown setting 'alpha'"),
        ("gaussian", ["variance=1", "variance=2"], "variance is set twice"),
        ("gaussian", ["variance=-1"], "variance must be a positive"),
        ("gaussian", ["variance=1,x"], "variance must be numbers separated by commas"),
        ("gaussian", ["directions=1,2;3"], "directions must have rows of one length"),
        ("gaussian", ["warmup=1.5"], "warmup must be an integer"),
        ("gaussian", ["warmup=many"], "warmup must be an integer"),
    ],
)
def test_a_wrong_setting_is_named(family, settings, message):
    with pytest.raises(ValueError, match=message):
        parse_model(family, [], None, settings)


def test_families_by_any_name():
    names = ("von_mises_fisher", "VonMisesFisher", "von-mises-fisher")
    assert {type(parse_model(name, [], None, []).family) for name in names} == {dyncrp.VonMisesFisher}


def test_no_family_is_left_open():
    assert parse_model(None, [], None, ["warmup=500"]).chooses_family
    assert parse_model(None, [], None, ["variance=2"]).family == Gaussian(variance=2.0)
