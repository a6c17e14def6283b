"""A text is read as Python would read it, nothing is ever evaluated, and a mistake is shown where it is."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyncrp import DynamicalMixture, Exponential, Gaussian, Hyperbolic, LinearODE, Oscillatory, Stationary
from dyncrp.dynamics.text import parse_dynamics

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
        ("", "expected a dynamics, such as 0.9", 0),
        ("0.5", "a number is not a dynamics", 0),
        ("exponential", "expected Exponential\\(…\\), with brackets", 11),
        ("expo", "unknown dynamics 'expo'; choose from Stationary, Exponential", 0),
        ("exponential(2", "'\\(' was never closed; a dynamics looks like 0.9", 11),
        ("exponential(2))", "unmatched '\\)'", 14),
        ("exponential(2) exponential(3)", "invalid syntax; a dynamics looks like 0.9", 15),
        ("0.5 exponential(3)", "invalid syntax; a dynamics looks like 0.9", 4),
        ("exponential(2h 30min)", "invalid syntax; a dynamics looks like 0.9", 12),
        ("exponential(-2)", "timescale must be a positive", 0),
        ("exponential(2y)", "unknown unit 'y'; choose from ms, s", 13),
        ("exponential(2 fortnights)", "unknown unit 'fortnights'; choose from ms, s", 14),
        ("2h * exponential(2)", "a weight has no unit", 0),
        ("exponential(2, 3)", "Exponential takes timescale", 15),
        ("exponential(tau=3)", "Exponential takes timescale; found tau", 12),
        ("exponential(2, timescale=3)", "was already given its timescale", 15),
        ("stationary() + 0.5", "\\+ adds two dynamics", 13),
        ("  (stationary()) - (stationary())", "expected \\+ or \\*, found -", 17),
        ("exponential(2)**2", "expected \\+ or \\*, found \\*\\*", 14),
        ("-exponential(2)", "expected a number or a dynamics, found -exponential", 0),
        ("__import__('os').system('true')", "unexpected character", 11),
        ("__import__(os)", "unknown dynamics '__import__'", 0),
        ("exponential(2).kernel(3)", "expected a number or a dynamics, found exponential", 0),
        ("exponential(exponential(2))", "expected a number, found exponential\\(2\\)", 12),
        ("exponential(*[2])", "expected a number, found \\*\\[2\\]", 12),
        ("exponential(**2)", "Exponential takes timescale; found \\*\\*", 12),
        ("exponential(True)", "expected a number, found True", 12),
        ("LinearODE()", "LinearODE needs coefficients", 0),
        ("Sum()", "unknown dynamics 'Sum'", 0),
        ("LinearODE([1, [2]])", "expected a number, found \\[2", 14),
        ("(" * 300 + "stationary()" + ")" * 300, "too many nested parentheses", 200),
        ("-" * 5000 + "1", "the text is nested too deeply", 0),
        ("1*" * 4000 + "stationary()", "the text is nested too deeply", 0),
        ("1" * 5000 + "*stationary()", "Exceeds the limit", 0),
        ("0 * stationary()", "scaled by a finite number", 2),
        ("stationary() ∗ stationary()", "unexpected character '∗'", 13),
        ("exponential(1e999d)", "the number is too large", 12),
        ("1" + "0" * 400 + "*stationary()", "the number is too large", 0),
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
    with pytest.raises(ValueError, match="without a time column, durations count rows"):
        parse_dynamics("exponential(2h)", units=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" + ".join(["stationary()"] * 101), "at most 100 dynamics may be combined, got 101"),
        ("*".join(["stationary()"] * 1200), "may have at most 10,000 characters, got 15,599"),
        ("*0.5*".join(["stationary()"] * 52), "may nest at most 100 deep"),
        ("1+" * 5001, "may have at most 10,000 characters"),
    ],
)
def test_what_is_too_long_or_too_deep_to_save_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_dynamics(text)


def check_saved(dynamics):
    model = DynamicalMixture(Gaussian(1.0, 9.0), dynamics, 1.0).fit([[0.0]])
    assert DynamicalMixture.from_bytes(model.to_bytes()).dynamics_ == dynamics
    assert parse_dynamics(repr(dynamics)) == dynamics


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["+", "*"])
def test_the_longest_accepted_can_be_saved_and_read_again(sign):
    check_saved(parse_dynamics(f"0.001*(exponential(2){sign}" + sign.join(["exponential(3)"] * 99) + ")"))


def nested(depth):
    """Sums, which cost a file most, and weights between them, since sums within sums are one sum."""
    text = "LinearODE([1, 20])"
    for level in range(depth):
        text = f"0.5*({text})" if level % 2 else f"stationary() + {text}"
    return text


@pytest.mark.slow
def test_the_deepest_accepted_can_be_saved_and_read_again():
    check_saved(parse_dynamics(nested(100)))
    with pytest.raises(ValueError, match="may nest at most 100 deep"):
        parse_dynamics(nested(101))


def test_a_unit_may_stand_apart():
    assert parse_dynamics("exponential(2 h) + exponential(timescale=3 min)") == parse_dynamics(
        "exponential(7200) + exponential(180)"
    )
