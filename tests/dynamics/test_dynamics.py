"""Dynamics: kernels against their closed forms, modes, the algebra, and what is refused."""

from dataclasses import FrozenInstanceError
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from cases import DYNAMICS, SIGNED, UNKNOWN_DYNAMICS
from dyncrp import DynamicalCRP
from dyncrp import dynamics as module
from dyncrp.dynamics import Exponential, Hyperbolic, LinearODE, Oscillatory, Stationary
from dyncrp.testing import check_dynamics

NAMED = [DYNAMICS[name] for name in ("stationary", "exponential", "oscillatory", "hyperbolic")]
RINGING = DYNAMICS["ringing"]
DELAYS = np.random.default_rng(0).exponential(10.0, size=200)

NO_NUMBERS = ["1", True, np.True_, None, 1j, [1.0]]
NO_LENGTHS = [
    timedelta(0),
    timedelta(seconds=-1),
    np.timedelta64("NaT"),
    np.timedelta64(-1, "s"),
    np.timedelta64(1, "Y"),
]
# None is a duration that is unknown.
NO_DURATIONS = [0, 0.0, -1.0, np.nan, np.inf, 10**400, 1e-310, *NO_LENGTHS]
NO_DURATIONS += [value for value in NO_NUMBERS if value is not None]

generated = settings(derandomize=True, deadline=None, max_examples=60)
durations = st.floats(0.1, 100.0)


def each(dynamics):
    return pytest.mark.parametrize("dynamics", dynamics, ids=repr)


def relative_error(hyperbolic, x):
    return np.max(np.abs(hyperbolic.kernel(x * hyperbolic.timescale) * (1.0 + x) - 1.0))


def solution(coefficients, start, times):
    """Integrate Σ_k a_k N^(k) = 0 numerically from N, N', … = ``start``."""
    *lower, highest = coefficients

    def slope(_, derivatives):
        return [*derivatives[1:], -np.dot(lower, derivatives) / highest]

    path = solve_ivp(slope, (0.0, times[-1]), start, t_eval=times, method="DOP853", rtol=1e-12, atol=1e-13)
    return path.y[0]


@pytest.mark.parametrize("name", DYNAMICS)
def test_checks(name):
    check_dynamics(DYNAMICS[name])


@pytest.mark.parametrize("name", UNKNOWN_DYNAMICS)
def test_checks_of_what_is_unknown(name):
    check_dynamics(UNKNOWN_DYNAMICS[name], scaled=True)


def test_every_dynamics_has_a_case():
    assert {type(dynamics) for dynamics in DYNAMICS.values()} >= {
        kind
        for kind in module.DYNAMICS.values()
        if kind.__name__ != "Scaled"  # kernel(0) of a multiple is not 1
    }
    for name, dynamics in DYNAMICS.items():
        assert (np.min(dynamics.kernel(np.linspace(0.0, 30.0, 1001))) < -1e-9) == (name in SIGNED)


class TestKernels:
    @pytest.mark.parametrize(
        ("dynamics", "closed_form"),
        [
            (Stationary(), lambda delta: np.ones_like(delta)),
            (Exponential(3.0), lambda delta: np.exp(-delta / 3.0)),
            (Oscillatory(7.0), lambda delta: np.cos(np.pi * delta / 7.0) ** 2),
        ],
        ids=["stationary", "exponential", "oscillatory"],
    )
    def test_closed_form(self, dynamics, closed_form):
        np.testing.assert_allclose(dynamics.kernel(DELAYS), closed_form(DELAYS), rtol=0, atol=1e-13)

    @pytest.mark.parametrize("timescale", [1.0, 0.01, 300.0])
    @pytest.mark.parametrize(("n_modes", "horizon", "accuracy"), [(24, 1e4, 2e-6), (48, 1e6, 2e-9)])
    def test_hyperbolic_holds_its_stated_accuracy_over_its_whole_range(self, timescale, n_modes, horizon, accuracy):
        x = np.concatenate([np.linspace(0.0, 10.0, 10_001), np.geomspace(1e-9, horizon, 50_001)])
        assert relative_error(Hyperbolic(timescale, n_modes, horizon), x) < accuracy

    def test_hyperbolic_defaults_are_24_modes_to_ten_thousand_timescales(self):
        assert Hyperbolic(2.0) == Hyperbolic(2.0, n_modes=24, horizon=1e4)

    def test_more_modes_make_hyperbolic_more_accurate(self):
        x = np.geomspace(1e-3, 1e4, 2001)
        errors = [relative_error(Hyperbolic(1.0, n_modes), x) for n_modes in (12, 16, 20, 24, 32)]
        assert errors == sorted(errors, reverse=True)

    @pytest.mark.parametrize("horizon", [1e-6, 1e-2, 0.5])
    def test_hyperbolic_is_accurate_to_a_horizon_below_one(self, horizon):
        assert relative_error(Hyperbolic(1.0, horizon=horizon), np.linspace(0.0, horizon, 101)) < 1e-8

    def test_hyperbolic_forgets_past_its_horizon(self):
        assert Hyperbolic(1.0, horizon=100.0).kernel(1e5) < 1e-30

    @each(NAMED)
    def test_named_kernels_are_never_negative(self, dynamics):
        half_periods = 3.5 * np.arange(1000.0)
        delays = np.concatenate([np.linspace(0.0, 50.0, 5001), np.geomspace(1e-6, 1e9, 5001), half_periods])
        assert np.all(dynamics.kernel(delays) >= 0.0)

    @pytest.mark.parametrize("delta", [timedelta(minutes=1), np.timedelta64(1, "m"), np.int64(60)])
    def test_a_delay_may_be_a_timedelta(self, delta):
        assert Exponential(timedelta(hours=1)).kernel(delta) == pytest.approx(np.exp(-1 / 60), rel=1e-14)

    @each([Oscillatory(1e-150), LinearODE([1e70, 0.0, 1e-70]), Oscillatory(1e-150) * Oscillatory(1e-150)])
    def test_no_phase_overflows(self, dynamics):
        assert np.all(np.isfinite(dynamics.kernel([1e100, 2e150])))
        with pytest.raises(ValueError, match=r"at most 2e\+150"):
            dynamics.kernel(1e299)

    @pytest.mark.parametrize("delta", [-1e-9, [0.0, -1.0], np.nan, np.inf, "1", None, 1j, True, np.timedelta64("NaT")])
    def test_a_delay_is_finite_and_not_negative(self, delta):
        with pytest.raises(ValueError, match="delta must be"):
            Exponential(1.0).kernel(delta)


@each(DYNAMICS.values())
class TestModes:
    def test_a_mode_of_rate_zero_is_real(self, dynamics):
        amplitudes, rates = dynamics.modes()
        assert np.all(amplitudes[rates.imag == 0.0].imag == 0.0)

    def test_each_rate_appears_once_and_without_its_conjugate(self, dynamics):
        rates = dynamics.modes().rates
        assert np.all(rates.imag >= 0.0)
        assert len(np.unique(rates)) == len(rates)

    def test_the_kernel_to_the_last_digits(self, dynamics):
        total = sum(np.real(a * np.exp(-rate * DELAYS)) for a, rate in zip(*dynamics.modes(), strict=True))
        np.testing.assert_allclose(dynamics.kernel(DELAYS), total, rtol=0, atol=1e-13)
        assert dynamics.kernel(0.0) == pytest.approx(1.0, abs=1e-15)

    def test_advancing_a_then_b_equals_a_plus_b_to_the_last_digits(self, dynamics):
        amplitudes, rates = dynamics.modes()
        for a, b in DELAYS.reshape(-1, 2):
            states = np.exp(-rates * b) * (np.exp(-rates * a) * np.ones(len(rates)))
            assert np.real(amplitudes @ states) == pytest.approx(dynamics.kernel(a + b), abs=1e-13)


def leaves():
    """Strategy: a dynamics and its kernel as a plain function, computed without modes."""
    return st.one_of(
        st.just((Stationary(), np.ones_like)),
        durations.map(lambda tau: (Exponential(tau), lambda delta: np.exp(-delta / tau))),
        durations.map(lambda period: (Oscillatory(period), lambda delta: np.cos(np.pi * delta / period) ** 2)),
        durations.map(
            lambda period: (
                LinearODE([(2 * np.pi / period) ** 2, 0, 1]),
                lambda delta: np.cos(2 * np.pi * delta / period),
            )
        ),
        st.just((Hyperbolic(2.0, n_modes=6, horizon=10.0), Hyperbolic(2.0, n_modes=6, horizon=10.0).kernel)),
    )


def combinations(parts):
    weights = st.floats(0.01, 3.0) | st.floats(-3.0, -0.01)
    return st.one_of(
        st.tuples(parts, parts).map(lambda p: (p[0][0] + p[1][0], lambda delta: p[0][1](delta) + p[1][1](delta))),
        st.tuples(parts, parts).map(lambda p: (p[0][0] * p[1][0], lambda delta: p[0][1](delta) * p[1][1](delta))),
        st.tuples(weights, parts).map(lambda p: (p[0] * p[1][0], lambda delta: p[0] * p[1][1](delta))),
        st.tuples(weights, parts).map(lambda p: (p[1][0] * p[0], lambda delta: p[0] * p[1][1](delta))),
    )


composites = st.recursive(leaves(), combinations, max_leaves=5)


class TestAlgebra:
    @generated
    @given(composites, st.lists(st.floats(0.0, 100.0), min_size=1, max_size=10).map(np.array))
    def test_generated_composites_equal_direct_sums_and_products(self, composite, delays):
        dynamics, direct = composite
        scale = np.sum(np.abs(dynamics.modes().amplitudes))
        np.testing.assert_allclose(dynamics.kernel(delays), direct(delays), rtol=0, atol=1e-10 * scale)

    @generated
    @given(composites)
    def test_the_repr_of_a_generated_composite_makes_it_again(self, composite):
        dynamics, _ = composite
        again = eval(repr(dynamics), module.DYNAMICS.copy())
        assert again == dynamics
        assert hash(again) == hash(dynamics)

    def test_product_of_two_oscillations_with_complex_amplitudes(self):
        left = LinearODE([1.04, 0.4, 1.0], derivatives=[0.7])
        right = LinearODE([4.01, 0.2, 1.0], derivatives=[-1.3])
        assert np.all(left.modes().amplitudes.imag != 0)
        np.testing.assert_allclose(
            (left * right).kernel(DELAYS), left.kernel(DELAYS) * right.kernel(DELAYS), rtol=0, atol=1e-14
        )

    def test_the_square_of_an_oscillation_has_three_modes(self):
        rates = (Oscillatory(7.0) * Oscillatory(7.0)).modes().rates
        np.testing.assert_allclose(np.sort(rates.imag), [0.0, 2 * np.pi / 7, 4 * np.pi / 7], atol=1e-15)

    def test_equal_rates_merge(self):
        amplitudes, rates = (0.25 * Exponential(2.0) + 0.5 * Exponential(2.0)).modes()
        assert (amplitudes.tolist(), rates.tolist()) == ([0.75], [0.5])

    @pytest.mark.parametrize("weight", [2, 2.0, np.float64(2.0), np.float32(2.0), np.int64(2)])
    def test_any_real_number_scales_from_either_side(self, weight):
        assert weight * Exponential(3.0) == Exponential(3.0) * weight == 2.0 * Exponential(3.0)

    def test_scaling_twice_multiplies_the_weights(self):
        assert 2.0 * (3.0 * Exponential(1.0)) == 6.0 * Exponential(1.0)

    @pytest.mark.parametrize("weight", [0, 0.0, np.nan, np.inf, -np.inf])
    def test_a_weight_is_finite_and_not_zero(self, weight):
        with pytest.raises(ValueError, match="scaled by a finite number"):
            weight * Exponential(1.0)

    @pytest.mark.parametrize("other", ["2", None, True, 2j, [2.0]])
    def test_other_things_neither_scale_nor_add(self, other):
        with pytest.raises(TypeError):
            Exponential(1.0) * other
        with pytest.raises(TypeError):
            Exponential(1.0) + other

    @pytest.mark.parametrize("weight", [1e101, -1e101, 1e-101, -1e-101, 10**400, -(10**400)])
    def test_a_weight_is_neither_huge_nor_tiny(self, weight):
        with pytest.raises(ValueError, match="from 1e-100 to 1e100 in magnitude"):
            weight * Exponential(1.0)

    def test_amplitudes_that_overflow_are_refused(self):
        huge = 1e60 * Stationary()
        for make in (lambda: huge * huge, lambda: 1e60 * (huge + Exponential(1.0))):
            with pytest.raises(ValueError, match="amplitudes"):
                make()

    def test_sum_and_division(self):
        a, b = Exponential(2.0), Stationary()
        assert sum([a, b]) == a + b
        assert a / 2 == 0.5 * a
        assert (3.0 * a) / np.int64(2) == 1.5 * a
        with pytest.raises(ValueError, match="scaled by a finite number"):
            a / 0
        for other in (1, 0.0, False, "0"):
            with pytest.raises(TypeError):
                other + a
        for other in ("2", None, True, b, np.timedelta64(2, "s")):
            with pytest.raises(TypeError):
                a / other

    def test_a_timedelta_is_no_weight(self):
        with pytest.raises(TypeError):
            Exponential(1.0) * np.timedelta64(2, "s")

    def test_too_many_modes_are_refused_at_once(self):
        many = Hyperbolic(1.0, n_modes=60, horizon=1e8)
        with pytest.raises(ValueError, match="but at most 4096 are allowed"):
            many * Hyperbolic(1.3, n_modes=60, horizon=1e8) * many

    def test_equal_rates_of_many_merge(self):
        cube = Hyperbolic(1.0) * Hyperbolic(1.0)
        rates = cube.modes().rates
        n = len(Hyperbolic(1.0).modes().rates)
        assert len(rates) == len(np.unique(rates)) <= n * (n + 1) // 2
        np.testing.assert_allclose(cube.kernel(DELAYS), Hyperbolic(1.0).kernel(DELAYS) ** 2, rtol=1e-12)


class TestLinearODE:
    @pytest.mark.parametrize(
        ("coefficients", "derivatives"),
        [
            ([1.0, 3.0], None),
            ([1.0, 0.0, 1.0], None),
            ([1.04, 0.4, 1.0], [0.7]),
            ([-2.0, -1.6, -0.5], [-1.0]),
            ([2.0, 3.0, 1.0], [-1.5]),
            ([0.3, 1.3, 0.7, 1.0], None),
            ([0.3, 1.3, 0.7, 1.0], [-0.5, 0.25]),
            ([0.0, 2.0, 0.5, 0.1], [0.2, -3.0]),
            ([24.0, 50.0, 35.0, 10.0, 1.0], [1.0, -1.0, 2.0]),
        ],
    )
    def test_solves_its_equation(self, coefficients, derivatives):
        order = len(coefficients) - 1
        start = [1.0, *(derivatives or [0.0] * (order - 1))]
        times = np.linspace(0.0, 20.0, 81)
        kernel = LinearODE(coefficients, derivatives).kernel(times)
        np.testing.assert_allclose(kernel, solution(coefficients, start, times), rtol=0, atol=1e-9)

    @pytest.mark.parametrize(
        ("equation", "dynamics"),
        [
            (LinearODE([0.0, 5.0]), Stationary()),
            (LinearODE([1.0, 20.0]), Exponential(20.0)),
            (LinearODE([-1.0, 0.0, 1.0], derivatives=[-1.0]), Exponential(1.0)),
            (LinearODE([0.0, 4.0, 0.0, 1.0], derivatives=[0.0, -2.0]), Oscillatory(np.pi)),
        ],
        ids=repr,
    )
    def test_special_cases(self, equation, dynamics):
        np.testing.assert_allclose(equation.kernel(DELAYS), dynamics.kernel(DELAYS), rtol=0, atol=1e-12)

    def test_undamped_oscillations_never_fade(self):
        undamped = LinearODE(np.poly([1j, -1j, 2.3j, -2.3j, 0.7j, -0.7j])[::-1].real)
        assert np.all(undamped.modes().rates.real == 0.0)

    def test_a_slow_real_root_decays(self):
        assert LinearODE([1e-13, 1.0, 1.0]).kernel(1e14) == pytest.approx(np.exp(-10.0), rel=1e-11)

    def test_a_weakly_damped_oscillation_decays(self):
        damped = LinearODE([1.0, 1e-13, 1.0])
        assert damped.modes().rates.real == pytest.approx(5e-14, rel=1e-9)

    @pytest.mark.parametrize("coefficients", [[1e70, 1e-70], [1e-70, 1e70], [1e-13, 1.0], [3e-20, 2e20]])
    def test_first_order_of_any_size(self, coefficients):
        (rate,) = LinearODE(coefficients).modes().rates
        assert rate == pytest.approx(coefficients[0] / coefficients[1], rel=1e-14)

    @pytest.mark.parametrize(
        ("coefficients", "message"),
        [
            ([1e-300, 1e300], "from 1e-70 to 1e70"),
            ([1.0, 1e-320], "from 1e-70 to 1e70"),
            ([1e-70, 1e70, 1e70, 1e-70], "roots of too different sizes"),
            ([1e-60, 1.0, 1e60, 1.0], "roots of too different sizes"),
        ],
    )
    def test_extreme_coefficients_are_refused(self, coefficients, message):
        with pytest.raises(ValueError, match=message):
            LinearODE(coefficients)

    def test_extreme_derivatives_are_refused(self):
        with pytest.raises(ValueError, match="amplitudes"):
            LinearODE([1.0, 0.1, 1.0], [1e200])

    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_the_unit_of_time_does_not_matter(self, scale):
        slow = LinearODE([1.04, 0.4 * scale, scale**2])
        np.testing.assert_allclose(slow.kernel(DELAYS * scale), RINGING.kernel(DELAYS), rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        "roots", [[0, 0], [-1, -1], [-1, -1, -3], [-2] * 3, [-1] * 4, [-2] * 6, [1j, -1j, 1j, -1j], [-3, -3e9, -3]]
    )
    def test_repeated_roots_are_refused(self, roots):
        with pytest.raises(ValueError, match="repeated root"):
            LinearODE(np.poly(roots)[::-1].real)

    @pytest.mark.parametrize("gap", [1e-3, 1e-2])
    def test_roots_merely_close_are_not_repeated(self, gap):
        nearby = LinearODE([1.0 + gap, 2.0 + gap, 1.0], derivatives=[-1.0])
        np.testing.assert_allclose(nearby.kernel(DELAYS), np.exp(-DELAYS), rtol=0, atol=1e-10)

    @pytest.mark.parametrize("coefficients", [[-1.0, 1.0], [-1.0, 0.0, 1.0], [1.0, -0.1, 1.0], [1.0, 1.0, -1.0]])
    def test_growth_is_refused(self, coefficients):
        with pytest.raises(ValueError, match="grows without bound"):
            LinearODE(coefficients)

    @pytest.mark.parametrize(
        "coefficients", [None, "12", 1.0, [], [1.0], [[1.0, 2.0]], [1.0, np.nan], [np.inf, 1.0], ["1", "2"], [1j, 1.0]]
    )
    def test_coefficients_are_at_least_two_finite_numbers(self, coefficients):
        with pytest.raises(ValueError, match="coefficients must be"):
            LinearODE(coefficients)

    def test_the_highest_coefficient_is_not_zero(self):
        with pytest.raises(ValueError, match="highest coefficient"):
            LinearODE([1.0, 2.0, 0.0])

    @pytest.mark.parametrize("derivatives", [[], [1.0, 2.0]])
    def test_the_number_of_derivatives_follows_from_the_order(self, derivatives):
        with pytest.raises(ValueError, match="order 2 takes 1 derivatives"):
            LinearODE([1.0, 0.0, 1.0], derivatives)

    @pytest.mark.parametrize("derivatives", ["a", [np.nan], [None], 1.0])
    def test_derivatives_are_finite_numbers(self, derivatives):
        with pytest.raises(ValueError, match="derivatives must be"):
            LinearODE([1.0, 0.0, 1.0], derivatives)


class TestConfiguration:
    @pytest.mark.parametrize("kind", [Exponential, Oscillatory, Hyperbolic])
    @pytest.mark.parametrize("minute", [60, timedelta(minutes=1), np.timedelta64(1, "m"), np.float32(60), np.int64(60)])
    def test_durations_are_numbers_or_timedeltas(self, kind, minute):
        assert kind(minute) == kind(60.0)

    @pytest.mark.parametrize("kind", [Exponential, Oscillatory, Hyperbolic])
    @pytest.mark.parametrize("value", NO_DURATIONS, ids=lambda value: repr(value)[:20])
    def test_anything_but_a_positive_finite_duration_is_refused(self, kind, value):
        with pytest.raises(ValueError, match=r"^(timescale|period) must be"):
            kind(value)

    @pytest.mark.parametrize("n_modes", [1, 0, -5, 101, 24.0, "24", None, True, np.timedelta64(24)])
    def test_n_modes_is_a_whole_number_from_2_to_100(self, n_modes):
        with pytest.raises(ValueError, match="n_modes must be"):
            Hyperbolic(1.0, n_modes=n_modes)

    @pytest.mark.parametrize(("n_modes", "horizon"), [(2, 1.0), (4, 1e4), (8, 1e4), (24, 1e12)])
    def test_a_poor_hyperbola_is_refused(self, n_modes, horizon):
        with pytest.raises(ValueError, match=r"miss 1/\(1 \+ x\) by .* %.*raise n_modes or lower the horizon"):
            Hyperbolic(1.0, n_modes, horizon)

    @pytest.mark.parametrize("horizon", [0.0, -1.0, np.nan, np.inf, 1.1e12, "1", timedelta(1)])
    def test_the_horizon_is_a_positive_number_of_timescales(self, horizon):
        with pytest.raises(ValueError, match="horizon must be"):
            Hyperbolic(1.0, horizon=horizon)

    def test_equal_by_value(self):
        def make():
            return [*NAMED, LinearODE((1, 3)), 0.5 * Exponential(3) + Stationary(), Exponential(3) * Oscillatory(7)]

        assert make() == make()
        assert len({*make(), *make()}) == len(make())

    def test_different_values_are_not_equal(self):
        assert Exponential(3.0) != Exponential(3.5)
        assert Exponential(3.0) != Oscillatory(3.0)
        assert LinearODE([1.0, 0.0, 1.0]) != LinearODE([1.0, 0.0, 1.0], [0.5])

    @pytest.mark.parametrize(
        ("dynamics", "text"),
        [
            (Stationary(), "Stationary()"),
            (Exponential(timedelta(minutes=2)), "Exponential(timescale=120.0)"),
            (Hyperbolic(2, np.int64(16)), "Hyperbolic(timescale=2.0, n_modes=16, horizon=10000.0)"),
            (LinearODE([1, 20]), "LinearODE(coefficients=(1.0, 20.0), derivatives=())"),
            (0.5 * (Exponential(2) + Stationary()), "0.5 * (Exponential(timescale=2.0) + Stationary())"),
            (0.5 * Exponential(2) * Stationary(), "(0.5 * Exponential(timescale=2.0)) * Stationary()"),
        ],
        ids=str,
    )
    def test_repr(self, dynamics, text):
        assert repr(dynamics) == text

    @pytest.mark.parametrize(
        ("dynamics", "name"),
        [
            (Exponential(1.0), "timescale"),
            (Oscillatory(1.0), "period"),
            (Hyperbolic(1.0), "n_modes"),
            (LinearODE([1.0, 1.0]), "coefficients"),
            (2.0 * Stationary(), "weight"),
        ],
    )
    def test_frozen(self, dynamics, name):
        with pytest.raises(FrozenInstanceError):
            setattr(dynamics, name, 2.0)

    def test_later_changes_to_the_given_coefficients_are_not_seen(self):
        coefficients = np.array([1.0, 3.0])
        dynamics = LinearODE(coefficients)
        coefficients[1] = 100.0
        assert dynamics == LinearODE([1.0, 3.0])


TEXTS = {
    "exponential": "Exponential(timescale=None)",
    "oscillatory": "Oscillatory(period=None)",
    "hyperbolic": "Hyperbolic(timescale=None, n_modes=16, horizon=10000.0)",
    "scaled": "0.9 * Exponential(timescale=None)",
    "sum": "Exponential(timescale=None) + Stationary()",
    "sum-with-a-known-one": "Exponential(timescale=3.0) + Exponential(timescale=None)",
    "product": "Exponential(timescale=None) * Oscillatory(period=None)",
    "three": "(0.5 * (Exponential(timescale=None) + 2.0 * Oscillatory(period=7.0))) * Hyperbolic(timescale=None, "
    "n_modes=24, horizon=10000.0) + Oscillatory(period=None)",
}
unknown = pytest.mark.parametrize(
    ("dynamics", "text"), [(UNKNOWN_DYNAMICS[name], text) for name, text in TEXTS.items()], ids=TEXTS
)


class TestUnknownDurations:
    @unknown
    def test_they_are_counted_and_shown(self, dynamics, text):
        assert dynamics.n_unknown == text.count("None")
        assert repr(dynamics) == text
        again = eval(text, module.DYNAMICS.copy())
        assert again == dynamics
        assert hash(again) == hash(dynamics)

    @unknown
    def test_no_kernel_without_them(self, dynamics, text):
        process = DynamicalCRP(1.0, dynamics)
        for use in (
            dynamics.modes,
            lambda: dynamics.kernel(1.0),
            lambda: process.sample([0.0, 1.0], seed=0),
            lambda: process.marginals([0.0, 1.0]),
        ):
            with pytest.raises(ValueError, match=r"=None.* has an unknown duration: give it, or learn it with"):
                use()

    @unknown
    def test_they_are_written_in_from_left_to_right(self, dynamics, text):
        durations = [2.0, 3.0, 5.0][: dynamics.n_unknown]
        for duration in durations:
            text = text.replace("None", repr(duration), 1)
        for given_as in (list, tuple, iter, np.array):
            known = dynamics.with_durations(given_as(durations))
            assert repr(known) == text
            assert known == eval(text, module.DYNAMICS.copy())
        np.testing.assert_array_equal(known.kernel(DELAYS), eval(text, module.DYNAMICS.copy()).kernel(DELAYS))

    @pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "1"])
    def test_what_is_written_in_is_checked(self, value):
        for dynamics in (Exponential(), Oscillatory(), Hyperbolic(), Stationary() + 0.5 * Exponential()):
            with pytest.raises(ValueError, match=r"^(timescale|period) must be"):
                dynamics.with_durations([value])

    def test_the_algebra_does_not_need_to_know(self):
        a, b = Exponential(), Stationary()
        assert sum([a, b]) == a + b
        assert 2.0 * (3.0 * a) == 6.0 * a
        assert a / 2 == 0.5 * a
        assert a != Exponential(1.0)
        assert (a * b).with_durations([4.0]) == Exponential(4.0) * b
        with pytest.raises(ValueError, match="scaled by a finite number"):
            0.0 * a

    @unknown
    def test_the_sign_of_a_kernel_is_known_without_them(self, dynamics, text):
        assert dynamics.nonnegative
        assert not (-1.0 * dynamics).nonnegative
        assert dynamics.with_durations([2.0, 3.0, 5.0]).nonnegative

    def test_what_overflows_is_refused_once_they_are_known(self):
        huge = 1e60 * Stationary() * (1e60 * Exponential())
        with pytest.raises(ValueError, match="amplitudes"):
            huge.with_durations([1.0])
