"""What a command line says about a model is read as Python would read it, and nothing is ever evaluated."""

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dyncrp
from dyncrp import (
    DynamicalMixture,
    Exponential,
    Gaussian,
    GaussianUnknownVariance,
    Hyperbolic,
    LinearODE,
    Oscillatory,
    Stationary,
)
from dyncrp.expressions import as_options, as_python, parse_dynamics, parse_model

durations = st.floats(0.01, 1e6)
simple = st.one_of(
    st.just(Stationary()),
    st.builds(Exponential, st.none() | durations),
    st.builds(Oscillatory, st.none() | durations),
    st.builds(Hyperbolic, durations, st.just(24), st.floats(10.0, 1e4)),
    st.builds(LinearODE, st.lists(st.floats(0.1, 10.0), min_size=2, max_size=2)),
)
composed = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda w, a: w * a, st.floats(-9.0, 9.0).filter(lambda w: abs(w) > 1e-9), inner),
    ),
    max_leaves=3,
)


@given(composed)
def test_a_dynamics_reads_as_it_is_written(dynamics):
    assert parse_dynamics(repr(dynamics)) == dynamics


@pytest.mark.parametrize(
    ("text", "dynamics"),
    [
        ("stationary()", Stationary()),
        ("EXPONENTIAL(2)", Exponential(2.0)),
        ("exponential()", Exponential()),
        ("exponential(timescale=1.5e2)", Exponential(150.0)),
        ("exponential(2h)", Exponential(timedelta(hours=2))),
        ("oscillatory(1.5d)", Oscillatory(timedelta(days=1.5))),
        ("exponential(90min)", Exponential(5400.0)),
        (" 0.5 * ( exponential(2)+stationary( ) ) ", 0.5 * (Exponential(2.0) + Stationary())),
        ("exponential(2) * 0.5", 0.5 * Exponential(2.0)),
        ("2 * 0.5 * exponential(2)", 1.0 * Exponential(2.0)),
        (
            "exponential(2) + 0.1 * oscillatory(7) * stationary()",
            Exponential(2.0) + 0.1 * Oscillatory(7.0) * Stationary(),
        ),
        ("hyperbolic(3, horizon=100)", Hyperbolic(3.0, horizon=100.0)),
        ("hyperbolic(3, n_modes=30)", Hyperbolic(3.0, n_modes=30)),
        ("LinearODE([1, 0, 1], derivatives=[-0.5])", LinearODE([1, 0, 1], [-0.5])),
    ],
)
def test_dynamics(text, dynamics):
    assert parse_dynamics(text) == dynamics


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("", "expected a number, a dynamics or \\(, found the end", 0),
        ("0.5", "a number alone", 0),
        ("exponential", "expected \\(, found the end", 11),
        ("exponential(2", "expected ,, found the end", 13),
        ("exponential(2))", "expected \\+, \\* or the end, found \\)", 14),
        ("exponential(2) exponential(3)", "expected \\+, \\* or the end", 15),
        ("exponential(-2)", "timescale must be a positive", 0),
        ("exponential(2y)", "there is no unit y; there are ms, s", 13),
        ("exponential(2 fortnights)", "there is no unit fortnights; there are ms, s", 14),
        ("2h * exponential(2)", "a weight has no unit", 0),
        ("exponential(2, 3)", "Exponential takes timescale", 15),
        ("exponential(tau=3)", "Exponential takes timescale; found tau", 12),
        ("exponential(2, timescale=3)", "was already given its timescale", 15),
        ("stationary() + 0.5", "\\+ adds two dynamics", 13),
        ("stationary() - stationary()", "expected \\+, \\* or the end, found -", 13),
        ("__import__('os').system('true')", "there is no dynamics __import__", 0),
        ("exponential(exponential(2))", "Exponential takes timescale; found exponential", 12),
        ("Sum()", "there is no dynamics Sum", 0),
        ("LinearODE([1, [2]])", "expected a number, found \\[", 14),
        ("(" * 60 + "stationary()", "nest at most 50", 51),
        ("0 * stationary()", "scaled by a finite number", 2),
        ("stationary() ∗ stationary()", "found ∗", 13),
        ("exponential(1e999d)", "cannot convert float infinity to integer", 12),
    ],
)
def test_a_mistake_is_shown_where_it_is(text, message, caret):
    with pytest.raises(ValueError, match=message) as error:
        parse_dynamics(text)
    shown, pointer = str(error.value).splitlines()[-2:]
    assert shown == "  " + text
    assert pointer.index("^") == 2 + caret


@given(st.text(alphabet="expontialsry()[]+*-.,=0123456789eh \x00é", max_size=30))
def test_no_text_breaks_it(text):
    try:
        message = f"{parse_dynamics(text)}^"
    except ValueError as error:
        message = str(error)
    assert message.endswith("^")


def test_a_unit_needs_a_time():
    with pytest.raises(ValueError, match="there is no time column"):
        parse_dynamics("exponential(2h)", units=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" + ".join(["stationary()"] * 101), "at most 100 dynamics may be added and multiplied, got 101"),
        ("*".join(["stationary()"] * 1200), "may have at most 10,000 characters, got 15,599"),
        ("*".join(["stationary()"] * 100), "may nest at most 100 levels deep"),
        ("1+" * 5001, "may have at most 10,000 characters"),
    ],
)
def test_what_is_too_long_or_too_deep_to_save_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_dynamics(text)


def test_what_is_just_short_enough_can_be_saved():
    for sign, n in (("+", 100), ("*", 96)):
        kind = parse_dynamics(f"0.001*(exponential(2){sign}" + sign.join(["exponential(3)"] * (n - 1)) + ")")
        model = DynamicalMixture(Gaussian(1.0, 9.0), kind, 1.0)
        model.fit([[0.0]])
        DynamicalMixture.from_bytes(model.to_bytes())


families = [
    Gaussian(1.0, 9.0),
    Gaussian([1.0, 0.1], 9.0, [1e-300, -0.1]),
    Gaussian([1.0], [3.0], [0.1]),
    Gaussian.from_covariances([[2.0, 1.0], [1.0, 2.0]], [[9.0, 0.0], [0.0, 9.0]]),
    Gaussian([1.0], [2.0], [0.5, 0.25], [[1.0, 0.3]], 0.1),
    GaussianUnknownVariance(1.0, 9.0),
    dyncrp.Bernoulli(0.5, 2.0),
    dyncrp.VonMisesFisher(50.0),
]


@pytest.mark.parametrize("family", families, ids=repr)
def test_a_model_reads_as_it_is_written(family):
    dynamics = 0.999 * Exponential(1 / 3) + 0.001 * Stationary()
    options = as_options(family, dynamics, 0.1)
    name, settings = options[1], [b for a, b in pairwise(options) if a == "--set"]
    read = parse_model(name, [options[-3]], float(options[-1]), settings)
    made = eval(as_python(family, dynamics, 0.1), {**vars(dyncrp), "DynamicalMixture": dyncrp.DynamicalMixture})
    for model in (read, made):
        assert (model.family, model.dynamics, model.alpha) == (family, dynamics, 0.1)
        for field in ("variance", "directions"):
            assert np.shape(getattr(model.family, field, 0)) == np.shape(getattr(family, field, 0))


def test_settings_are_of_the_family_or_the_model():
    settings = ["variance=1", "prior_variance=2", "learn_alpha=true", "n_jobs=none", "assignment=variational"]
    model = parse_model("gaussian", ["exponential()", "stationary()"], None, settings)
    assert (model.learn_alpha, model.n_jobs, model.assignment) == (True, None, "variational")
    assert model.dynamics == [Exponential(), Stationary()]
    assert model.alpha is None


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("gauss", [], "there is no family gauss; there are Gaussian, "),
        ("gaussian", ["variance"], "a setting is name=value, got 'variance'"),
        ("gaussian", ["varience=1"], "there is no setting 'varience'; Gaussian has variance, .* the model warmup"),
        ("gaussian", ["alpha=1"], "there is no setting 'alpha'"),
        ("gaussian", ["variance=1", "variance=2"], "variance is set twice"),
        ("gaussian", ["variance=-1"], "variance must be a positive"),
        ("gaussian", ["variance=1,x"], "variance must be numbers with commas"),
        ("gaussian", ["directions=1,2;3"], "directions must have rows of one length"),
        ("gaussian", ["warmup=1.5"], "warmup must be a whole number"),
        ("gaussian", ["warmup=many"], "warmup must be a whole number"),
    ],
)
def test_a_wrong_setting_is_named(family, settings, message):
    with pytest.raises(ValueError, match=message):
        parse_model(family, [], None, settings)


def test_families_by_any_name():
    names = ("von_mises_fisher", "VonMisesFisher", "von-mises-fisher")
    assert {type(parse_model(name, [], None, []).family) for name in names} == {dyncrp.VonMisesFisher}


def test_a_unit_may_stand_apart():
    assert parse_dynamics("exponential(2 h) + exponential(timescale=3 min)") == parse_dynamics(
        "exponential(7200) + exponential(180)"
    )
