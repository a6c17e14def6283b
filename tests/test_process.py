"""The process: exact marginals and samples against the enumeration of every seating."""

from dataclasses import FrozenInstanceError
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from cases import DYNAMICS, SIGNED
from dyncrp.dynamics import Exponential, Hyperbolic, LinearODE, Oscillatory, Stationary
from dyncrp.process import DynamicalCRP, _choose_customer, _choose_table, occupancy_path

NONNEGATIVE = [
    *(dynamics for name, dynamics in DYNAMICS.items() if name not in SIGNED),
    2.5 * (Hyperbolic(1.0) + Oscillatory(2.0)) * Exponential(8.0),
    Stationary() + -0.5 * Exponential(1.0),
]
UNDULATING = LinearODE([1.0, 0.0, 1.0])  # kernel(Δ) = cos Δ: occupancies need the clip
TIMES = (0.0, 0.3, 0.3, 1.7, 2.0, 2.0, 6.5)
N_SAMPLES = 20_000


def each(dynamics):
    return pytest.mark.parametrize("dynamics", dynamics, ids=repr)


@cache
def seatings(times, alpha, dynamics):
    """Every seating of the customers with its probability, straight from the definition; and whether any clip bit."""
    kernel = dynamics.kernel(np.abs(np.subtract.outer(times, times)))
    seated, clipped = {(): 1.0}, False
    for n in range(len(times)):
        longer = {}
        for tables, probability in seated.items():
            occupancy = np.zeros(max(tables, default=-1) + 1)
            for earlier, table in enumerate(tables):
                occupancy[table] += kernel[n, earlier]
            clipped |= bool(np.any(occupancy < -1e-9))
            weights = np.append(np.maximum(occupancy, 0.0), alpha)
            for table, weight in enumerate(weights / np.sum(weights)):
                longer[(*tables, table)] = probability * weight
        seated = longer
    return seated, clipped


def enumerated_marginals(times, alpha, dynamics):
    N = len(times)
    assignments, n_tables = np.zeros((N, N)), np.zeros((N, N))
    for tables, probability in seatings(times, alpha, dynamics)[0].items():
        for n in range(N):
            assignments[n, tables[n]] += probability
            n_tables[n, max(tables[: n + 1])] += probability
    return assignments, n_tables


def sampled_marginals(tables):
    columns = np.arange(tables.shape[1])
    n_open = np.maximum.accumulate(tables, axis=1)
    return np.mean(tables[:, :, None] == columns, axis=0), np.mean(n_open[:, :, None] == columns, axis=0)


def assert_frequencies(frequencies, probabilities, n_samples):
    """Every |z| stays below the Bonferroni bound of a 0.1 % test.

    The standard error is √(p(1−p)/n), for rare events at least that of 10 expected ones, where z is nearly normal.
    """
    frequencies, probabilities = np.ravel(frequencies), np.ravel(probabilities)
    standard_error = np.sqrt(np.maximum(probabilities * (1.0 - probabilities), 10.0 / n_samples) / n_samples)
    bound = norm.isf(0.0005 / len(probabilities))
    assert np.max(np.abs(frequencies - probabilities) / standard_error) < bound
    assert np.all(frequencies[probabilities == 0.0] == 0.0)


class TestMarginals:
    @pytest.mark.parametrize("alpha", [0.3, 2.5])
    @each(NONNEGATIVE)
    def test_against_every_seating_of_seven_customers(self, dynamics, alpha):
        marginals = DynamicalCRP(alpha, dynamics).marginals(TIMES)
        assignments, n_tables = enumerated_marginals(TIMES, alpha, dynamics)
        np.testing.assert_allclose(marginals.assignments, assignments, rtol=0, atol=1e-13)
        np.testing.assert_allclose(marginals.n_tables, n_tables, rtol=0, atol=1e-13)

    @each(NONNEGATIVE)
    def test_against_samples(self, dynamics):
        times = np.cumsum(np.random.default_rng(1).exponential(0.7, size=15)).round(0)
        process = DynamicalCRP(1.5, dynamics)
        sampled = sampled_marginals(process.sample(times, N_SAMPLES, seed=2))
        assert_frequencies(sampled, process.marginals(times), N_SAMPLES)

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 7.0])
    def test_stationary_against_stirling_numbers(self, alpha):
        """P(C_n = k) = |s(n, k)| α^k / (α (α+1) … (α+n−1)), |s| the unsigned Stirling numbers of the first kind."""
        N = 20
        stirling = np.zeros((N + 1, N + 1), dtype=object)
        stirling[0, 0] = 1
        for n in range(N):
            for k in range(1, N + 1):
                stirling[n + 1, k] = n * stirling[n, k] + stirling[n, k - 1]
        closed_form = [
            [stirling[n, k] * alpha**k / np.prod(alpha + np.arange(n)) for k in range(1, N + 1)]
            for n in range(1, N + 1)
        ]
        n_tables = DynamicalCRP(alpha).marginals(np.arange(N)).n_tables
        np.testing.assert_allclose(n_tables, closed_form, rtol=1e-12)

    @each(NONNEGATIVE)
    def test_a_long_stream_follows_the_recursion_by_direct_sums(self, dynamics):
        """E[occupancy_c(t_n)] = Σ_{n'<n} kernel(t_n − t_n') P(c_n' = c), over many blocks of customers."""
        N, alpha = 150, 2.0
        times = np.cumsum(np.random.default_rng(3).exponential(1.0, size=N)).round(1)
        marginals = DynamicalCRP(alpha, dynamics).marginals(times)
        kernel = dynamics.kernel(np.abs(np.subtract.outer(times, times)))
        for n in range(1, N):
            opened = np.append(0.0, marginals.n_tables[n - 1][:-1])
            expected = kernel[n, :n] @ marginals.assignments[:n] + alpha * opened
            expected /= alpha + np.sum(kernel[n, :n])
            np.testing.assert_allclose(marginals.assignments[n], expected, rtol=0, atol=1e-12)

    @each(NONNEGATIVE)
    def test_rows_sum_to_one(self, dynamics):
        times = np.cumsum(np.random.default_rng(4).exponential(1.0, size=150))
        for marginal in DynamicalCRP(2.0, dynamics).marginals(times):
            assert np.all(marginal >= 0.0)
            np.testing.assert_allclose(np.sum(marginal, axis=1), 1.0, rtol=1e-12)

    def test_stationary_does_not_care_about_time(self):
        process = DynamicalCRP(2.0)
        for some, others in zip(process.marginals(TIMES), process.marginals(np.arange(7) * 100.0), strict=True):
            np.testing.assert_array_equal(some, others)

    @each([UNDULATING, -1.0 * Stationary(), 1e-3 * UNDULATING, Stationary() + -1.1 * Exponential(1.0)])
    def test_a_negative_kernel_is_refused(self, dynamics):
        with pytest.raises(ValueError, match=r"never negative.*use sample"):
            DynamicalCRP(1.0, dynamics).marginals(TIMES)

    def test_a_kernel_negative_only_at_other_delays_is_taken(self):
        marginals = DynamicalCRP(1.0, UNDULATING).marginals([0.0, 0.5, 1.5])
        assignments, _ = enumerated_marginals((0.0, 0.5, 1.5), 1.0, UNDULATING)
        np.testing.assert_allclose(marginals.assignments, assignments, rtol=0, atol=1e-13)

    def test_rounding_below_zero_of_a_large_kernel_is_no_negative_kernel(self):
        dynamics = 1e6 * (Oscillatory(7.0) * Exponential(10.0))
        marginals = DynamicalCRP(1.0, dynamics).marginals(0.25 * np.arange(300))
        np.testing.assert_allclose(np.sum(marginals.assignments, axis=1), 1.0, rtol=1e-12)


class TestSample:
    @each([*DYNAMICS.values(), UNDULATING])
    def test_every_seating_of_five_customers_is_as_likely_as_defined(self, dynamics):
        times, alpha = TIMES[:2] + TIMES[4:], 1.5
        exact, _ = seatings(times, alpha, dynamics)
        sampled, counts = np.unique(
            DynamicalCRP(alpha, dynamics).sample(times, N_SAMPLES, seed=5), axis=0, return_counts=True
        )
        frequencies = dict(zip(map(tuple, sampled.tolist()), counts / N_SAMPLES, strict=True))
        assert frequencies.keys() <= exact.keys()
        assert_frequencies([frequencies.get(tables, 0.0) for tables in exact], list(exact.values()), N_SAMPLES)

    def test_occupancies_are_clipped_at_zero(self):
        _, clipped = seatings(TIMES, 1.5, UNDULATING)
        assert clipped
        sampled = sampled_marginals(DynamicalCRP(1.5, UNDULATING).sample(TIMES, N_SAMPLES, seed=6))
        assert_frequencies(sampled, enumerated_marginals(TIMES, 1.5, UNDULATING), N_SAMPLES)

    def test_a_long_stream_of_a_complex_composite(self):
        n_samples, times = 2000, np.cumsum(np.random.default_rng(7).exponential(1.0, size=150)).round(1)
        process = DynamicalCRP(2.0, Exponential(30.0) * Oscillatory(12.0) + 0.1 * Hyperbolic(2.0))
        sampled = sampled_marginals(process.sample(times, n_samples, seed=8))
        assert_frequencies(sampled, process.marginals(times), n_samples)

    @each([Stationary(), LinearODE([1.0, 0.0, 1.0])])
    def test_the_first_customer_sits_at_table_0_however_small_alpha(self, dynamics):
        assert np.all(DynamicalCRP(1e-250, dynamics).sample([0.0, 0.5], 100, seed=0) == 0)

    def test_rounding_never_skips_a_table(self):
        """A number drawn just below 1 may round up to the total."""
        tables = np.zeros((1, 1), dtype=np.int64)
        assert _choose_table(np.empty(0), 5e-324, tables, np.array([1 - 2**-53])) == [0]
        assert _choose_customer(np.empty(0), 5e-324, tables, np.array([1 - 2**-53])) == [0]

    def test_both_ways_to_choose_draw_the_same_law(self):
        """A kernel that is positive but not known to be, against the enumeration too (UNDULATING clips)."""
        exponential = LinearODE([1.0, 2.0])
        assert not exponential.nonnegative
        times, n = np.arange(12) / 2, N_SAMPLES
        slow, fast = (
            sampled_marginals(DynamicalCRP(1.5, dynamics).sample(times, n, seed=3))
            for dynamics in (exponential, Exponential(2.0))
        )
        exact = DynamicalCRP(1.5, exponential).marginals(times)
        assert_frequencies(slow, exact, n)
        assert_frequencies(fast, exact, n)

    def test_a_forgotten_table_is_never_joined(self):
        tables = DynamicalCRP(1.0, Exponential(1.0)).sample(1e6 * np.arange(6), n_samples=50, seed=0)
        assert np.all(tables == np.arange(6))

    def test_tables_count_from_zero_in_order_of_opening(self):
        tables = DynamicalCRP(3.0, Exponential(5.0)).sample(np.arange(80), n_samples=20, seed=0)
        highest = np.maximum.accumulate(tables, axis=1)
        assert tables.shape == (20, 80)
        assert tables.dtype == np.int64
        assert np.all(tables[:, 0] == 0)
        assert np.all(tables[:, 1:] <= highest[:, :-1] + 1)

    def test_a_seed_repeats_and_another_does_not(self):
        process = DynamicalCRP(3.0, Exponential(5.0))
        first, again, other = (process.sample(np.arange(30), 4, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_a_generator_is_used_and_advanced(self):
        process, rng = DynamicalCRP(3.0), np.random.default_rng(1)
        np.testing.assert_array_equal(process.sample(np.arange(30), seed=rng), process.sample(np.arange(30), seed=1))
        assert not np.array_equal(process.sample(np.arange(30), seed=rng), process.sample(np.arange(30), seed=1))

    @pytest.mark.parametrize("n_samples", [0, -1, 2.0, "2", None, True, np.timedelta64(2, "s"), 2j])
    def test_n_samples_is_a_whole_number_above_zero(self, n_samples):
        with pytest.raises(ValueError, match="n_samples must be"):
            DynamicalCRP(1.0).sample([0.0, 1.0], n_samples)


class TestInput:
    @pytest.mark.parametrize("method", ["sample", "marginals"])
    @pytest.mark.parametrize(
        ("times", "message"),
        [
            ([0.0, 2.0, 1.0], r"1\.0 is earlier than 2\.0, the time before it, at row 2"),
            ([0.0, np.nan, 1.0], r"finite, .* got nan, at row 1"),
            ([0.0, 1.0, np.inf], r"finite, .* got inf, at row 2"),
            ([[0.0, 1.0]], "one-dimensional"),
            (3.0, r"one-dimensional.*range\(10\)"),
            (None, "one-dimensional"),
            (["0", "1"], "numbers or dates"),
            ([0.0, None], "numbers or dates"),
            ([1j, 2j], "numbers or dates"),
        ],
    )
    def test_bad_times_are_refused(self, method, times, message):
        with pytest.raises(ValueError, match=message):
            getattr(DynamicalCRP(1.0), method)(times)

    def test_no_customers(self):
        process = DynamicalCRP(1.0, Hyperbolic(2.0))
        assert process.sample([], n_samples=3).shape == (3, 0)
        assert [marginal.shape for marginal in process.marginals([])] == [(0, 0), (0, 0)]

    def test_one_customer_opens_the_first_table(self):
        process = DynamicalCRP(1.0, Exponential(2.0))
        assert process.sample([5.0]).tolist() == [[0]]
        assert [marginal.tolist() for marginal in process.marginals([5.0])] == [[[1.0]], [[1.0]]]

    @pytest.mark.parametrize("dtype", [np.float64, np.int64])
    def test_times_are_not_modified(self, dtype):
        times = np.array([3, 5, 5, 9], dtype=dtype)
        kept = times.copy()
        process = DynamicalCRP(1.0, Exponential(2.0))
        process.sample(times, 3, seed=0)
        process.marginals(times)
        occupancy_path(np.eye(4), times, process.dynamics)
        np.testing.assert_array_equal(times, kept)

    def test_the_origin_of_time_does_not_matter(self):
        process = DynamicalCRP(1.0, Exponential(2.0) * Oscillatory(3.0))
        here, there = process.marginals(np.arange(9.0)), process.marginals(np.arange(9.0) - 1e6)
        np.testing.assert_allclose(here.assignments, there.assignments, rtol=0, atol=1e-13)

    def test_dates_count_in_seconds(self):
        dates = np.datetime64("2024-01-01") + np.array([0, 2, 2, 7], dtype="m8[s]")
        process = DynamicalCRP(1.0, Exponential(2.0))
        np.testing.assert_allclose(
            process.marginals(dates).assignments, process.marginals([0, 2, 2, 7]).assignments, rtol=0, atol=1e-13
        )

    @pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, "1", None, True, 1j, 1e-300, 1e300, np.timedelta64(1)])
    def test_alpha_is_positive_and_finite(self, alpha):
        with pytest.raises(ValueError, match="alpha must be"):
            DynamicalCRP(alpha)

    @pytest.mark.parametrize("dynamics", [None, "stationary", 1.0, Exponential])
    def test_dynamics_is_a_dynamics(self, dynamics):
        with pytest.raises(ValueError, match="dynamics must be"):
            DynamicalCRP(1.0, dynamics)

    def test_frozen_and_equal_by_value(self):
        process = DynamicalCRP(1, Exponential(2))
        assert process == DynamicalCRP(1.0, Exponential(2.0))
        assert DynamicalCRP(1.0) == DynamicalCRP(1.0, Stationary())
        with pytest.raises(FrozenInstanceError):
            process.alpha = 2.0


class TestLogProb:
    @pytest.mark.parametrize("alpha", [0.3, 2.5])
    @each([*NONNEGATIVE, UNDULATING, *(DYNAMICS[name] for name in SIGNED)])
    def test_against_every_seating_of_seven_customers(self, dynamics, alpha):
        enumerated, _ = seatings(TIMES, alpha, dynamics)
        process = DynamicalCRP(alpha, dynamics)
        found = np.exp(process.log_prob(list(enumerated), TIMES))
        np.testing.assert_allclose(found, list(enumerated.values()), rtol=1e-11, atol=1e-15)
        assert np.sum(found) == pytest.approx(1.0, abs=1e-12)

    @each(NONNEGATIVE)
    def test_agrees_with_marginals(self, dynamics):
        process, tables = DynamicalCRP(0.8, dynamics), np.array(list(seatings(TIMES, 0.8, dynamics)[0]))
        weights = np.exp(process.log_prob(tables, TIMES))
        assignments = np.stack([weights @ (tables == k) for k in range(len(TIMES))], axis=1)
        np.testing.assert_allclose(assignments, process.marginals(TIMES).assignments, atol=1e-12)

    @each([*NONNEGATIVE, UNDULATING])
    def test_long_seatings_are_the_sum_of_the_steps(self, dynamics):
        rng = np.random.default_rng(3)
        t = np.cumsum(rng.choice([0.0, 0.1, 1.0], 300))
        process = DynamicalCRP(1.5, dynamics)
        tables = process.sample(t, seed=4)[0]
        weights = (tables[:, None] == np.arange(tables.max() + 1)).astype(float)
        expected = 0.0
        for n, table in enumerate(tables):
            kernel = dynamics.kernel(t[n] - t[:n])
            occupancy = np.maximum(kernel @ weights[:n], 0.0)
            own = occupancy[table] if table in tables[:n] else 1.5
            expected += np.log(own / (1.5 + np.sum(occupancy)))
        assert process.log_prob(tables, t) == pytest.approx(expected, rel=1e-9)

    def test_only_who_sits_together_counts(self):
        process = DynamicalCRP(1.5, Exponential(2.0))
        expected = process.log_prob([0, 1, 0, 2], range(4))
        for seating in (["b", "a", "b", "c"], [7, 3, 7, -5], [2.5, 1.5, 2.5, 0.5], np.array(["x", "y", "x", "z"])):
            assert process.log_prob(seating, range(4)) == expected
        assert process.log_prob([[0, 1, 0, 2]], range(4)).tolist() == [expected]

    def test_a_seating_that_cannot_be(self):
        half = DynamicalCRP(1.0, Oscillatory(2.0))  # kernel(1) = 0
        assert half.log_prob([0, 0], [0.0, 1.0]) == -np.inf
        assert half.log_prob([0, 1], [0.0, 1.0]) == pytest.approx(0.0, abs=1e-15)
        assert DynamicalCRP(1.0, UNDULATING).log_prob([0, 0], [0.0, 3.0]) == -np.inf  # cos 3 < 0
        assert DynamicalCRP(1.0, UNDULATING).log_prob([0, 0], [0.0, np.pi / 2]) == -np.inf  # cos π/2 = 6e-17

    def test_an_absence_of_a_thousand_timescales_is_possible(self):
        for dynamics in (Exponential(1.0), 0.5 * (Exponential(1.0) + Exponential(1.0))):
            found = DynamicalCRP(2.0, dynamics).log_prob([0, 0], [0.0, 1000.0])
            assert found == pytest.approx(-1000.0 - np.log(2.0))

    def test_nobody(self):
        assert DynamicalCRP(2.0).log_prob([], []) == 0.0

    @pytest.mark.parametrize(
        ("seating", "message"),
        [
            ([0, 1], r"seating must have one entry for each of 3 rows, got shape \(2,\)"),
            ([0, -1, 0], "seating must name a block for each row, got -1, at row 1"),
            (["a", None, "a"], "seating must name a block for each row, got None, at row 1"),
            ([0.0, float("nan"), 0.0], "seating must name a block for each row, got nan, at row 1"),
            ([[0, 1, 0], [0, 1, -1]], "seating must name a block for each row, got -1, at row 2"),
            ([[0, 1, 0], [0, 1]], r"seating must have one entry for each of 3 rows, got shape \(2,\)"),
            (7, "seating must have one entry for each of 3 rows, got 7"),
        ],
    )
    def test_bad_seatings(self, seating, message):
        with pytest.raises(ValueError, match=message):
            DynamicalCRP(1.0).log_prob(seating, range(3))


class TestOccupancyPath:
    @each([*DYNAMICS.values(), UNDULATING])
    def test_against_a_double_loop(self, dynamics):
        rng = np.random.default_rng(9)
        weights = rng.dirichlet(np.ones(3), size=30)
        times = np.cumsum(rng.exponential(1.0, size=30)).round(0)
        kernel = dynamics.kernel(np.abs(np.subtract.outer(times, times)))
        direct = np.zeros((30, 3))
        for n in range(30):
            for earlier in range(n + 1):
                direct[n] += weights[earlier] * kernel[n, earlier]
        np.testing.assert_allclose(
            occupancy_path(weights, times, dynamics), np.maximum(direct, 0.0), rtol=0, atol=1e-12
        )

    def test_the_given_weights_are_not_modified(self):
        weights = np.ones((3, 2))
        occupancy_path(weights, [0.0, 1.0, 2.0], Exponential(1.0))
        np.testing.assert_array_equal(weights, np.ones((3, 2)))

    @pytest.mark.parametrize("weights", [1.0, [1.0, 2.0], [[[1.0]]]])
    def test_weights_are_customers_by_tables(self, weights):
        with pytest.raises(ValueError, match="weights must be two-dimensional"):
            occupancy_path(weights, [0.0, 1.0], Stationary())

    def test_one_time_for_each_customer(self):
        with pytest.raises(ValueError, match="2 times for 3 rows"):
            occupancy_path(np.ones((3, 1)), [0.0, 1.0], Stationary())

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1j, "a"])
    def test_weights_are_finite_numbers(self, bad):
        with pytest.raises(ValueError, match="weights"):
            occupancy_path(np.array([[1.0, bad]]), [0.0], Stationary())
