"""The reference engine against paper and pencil, against a slow oracle, and against its own promises."""

import itertools
import math
import re
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma

from cases import pairwise
from dyncrp import (
    Bernoulli,
    Columns,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    Oscillatory,
    Stationary,
    VonMisesFisher,
)
from dyncrp.engine import Model, ReferenceEngine, Rules, reference
from dyncrp.engine.reference import advance, initial_state, log_density, run, step

HALF_LIFE_1 = Exponential(1.0 / math.log(2.0))  # kernel(1) = 1/2, kernel(2) = 1/4


def make_model(family, dynamics=None, alpha=1.0, **rules):
    return Model(family, dynamics or Stationary(), alpha, rules=Rules(**rules))


def walk(model, X, times):
    """Return the state after the stream, and what each step reported."""
    state, steps = initial_state(model, np.shape(X)[1]), []
    for x, t in zip(X, times, strict=True):
        state, done = step(state, np.asarray(x, dtype=float), float(t), model)
        steps.append(done)
    return state, steps


def normal(x, mean, variance):
    return math.exp(-((x - mean) ** 2) / (2.0 * variance)) / math.sqrt(2.0 * math.pi * variance)


# --- three observations on paper ------------------------------------------------------------------------------------
#
# x = 2, 1, -3 at t = 0, 1, 3; x ~ N(φ, 1), φ ~ N(0, 3), alpha = 1/2, kernel(Δ) = 2^-Δ.
# A table with n customers summing to s has φ ~ N(3s/(1 + 3n), 3/(1 + 3n)), and predicts with 1 more variance.

PAPER_X = [[2.0], [1.0], [-3.0]]
PAPER_TIMES = [0.0, 1.0, 3.0]


def paper_model(**rules):
    return make_model(Gaussian(1.0, 3.0), HALF_LIFE_1, alpha=0.5, **rules)


def test_three_observations_on_paper():
    state, (first, second, third) = walk(paper_model(), PAPER_X, PAPER_TIMES)

    # 1: nobody is there, so table 0 opens; its prior predictive is N(0, 1 + 3).
    assert first.log_evidence == pytest.approx(math.log(normal(2, 0, 4)))
    assert first.responsibilities.tolist() == [1.0]

    # 2: table 0 (n = 1, s = 2) counts 1/2 and predicts N(6/4, 3/4 + 1); a new table counts alpha = 1/2.
    old, new = 0.5 * normal(1, 1.5, 1.75), 0.5 * normal(1, 0, 4)
    assert new / (old + new) == pytest.approx(0.3853, abs=1e-4)  # less than 0.5: dropped
    assert second.prior_weights == pytest.approx([0.5, 0.5])
    assert second.scores == pytest.approx([math.log(old), math.log(new)])
    assert second.log_evidence == pytest.approx(math.log(old + new))  # weights sum to 1
    assert second.responsibilities.tolist() == [1.0]

    # 3: table 0 (n = 2, s = 3) counts 2^-3 + 2^-2 = 3/8 and predicts N(9/7, 3/7 + 1).
    old, new = 0.375 * normal(-3, 9 / 7, 10 / 7), 0.5 * normal(-3, 0, 4)
    assert new / (old + new) == pytest.approx(0.9938, abs=1e-4)  # opens table 1
    assert third.prior_weights == pytest.approx([0.375, 0.5])
    assert third.log_evidence == pytest.approx(math.log((old + new) / 0.875))
    share = old / (old + new)
    assert third.responsibilities == pytest.approx([share, 1 - share])

    assert [first.label, second.label, third.label] == [0, 0, 1]
    assert state.stats == pytest.approx(np.array([[2 + share, 3 - 3 * share], [1 - share, -3 + 3 * share]]))
    assert state.mode_states[:, 0] == pytest.approx([0.375 + share, 1 - share])
    assert state.n_tables_posterior.tolist() == [0.0, 0.0, 1.0]
    assert state.time == 3.0


def test_three_observations_on_paper_variational():
    state, (first, second, third) = walk(paper_model(assignment="variational", n_iter=2), PAPER_X, PAPER_TIMES)

    def table(x, n, s):  # exp E[log N(x; φ, 1)] = N(x; mean, 1) exp(-variance/2)
        return normal(x, 3 * s / (1 + 3 * n), 1.0) * math.exp(-3 / (1 + 3 * n) / 2)

    assert first.log_evidence == pytest.approx(math.log(normal(2, 0, 4)))

    # 2: first with table 0 before x, then with r of x added to it; the new table has its marginal each time.
    new = 0.5 * normal(1, 0, 4)
    old = 0.5 * table(1, 1, 2)
    r = old / (old + new)
    old = 0.5 * table(1, 1 + r, 2 + r)
    assert second.scores == pytest.approx([math.log(old), math.log(new)])
    assert second.log_evidence == pytest.approx(math.log(old + new))
    assert new / (old + new) < 0.5
    assert second.responsibilities.tolist() == [1.0]

    # 3: table 0 has n = 2, s = 3 and counts 3/8, as before.
    new = 0.5 * normal(-3, 0, 4)
    old = 0.375 * table(-3, 2, 3)
    r = old / (old + new)
    old = 0.375 * table(-3, 2 + r, 3 - 3 * r)
    r = old / (old + new)
    assert third.responsibilities == pytest.approx([r, 1 - r])
    assert third.log_evidence == pytest.approx(math.log((old + new) / 0.875))
    assert state.stats == pytest.approx(np.array([[2 + r, 3 - 3 * r], [1 - r, -3 + 3 * r]]))


def test_three_observations_on_paper_posterior_over_table_counts():
    # A low threshold opens table 1 with the second observation, so that the number of tables is uncertain.
    model = paper_model(table_count="posterior", new_table_threshold=0.1)
    state, (first, second, third) = walk(model, PAPER_X, PAPER_TIMES)

    # 1: weights alpha q_0(0) = alpha; afterwards one table for certain, q_1(1) = 1.
    assert first.prior_weights.tolist() == [0.5]

    # 2: table 0: 1/2 + alpha q_1(0) = 1/2; new: alpha q_1(1) = 1/2. Afterwards q_2(1) = r_0, q_2(2) = r_1.
    old, new = 0.5 * normal(1, 1.5, 1.75), 0.5 * normal(1, 0, 4)
    r0, r1 = old / (old + new), new / (old + new)
    assert second.prior_weights == pytest.approx([0.5, 0.5])
    assert second.responsibilities == pytest.approx([r0, r1])
    assert second.label == 0

    # 3: two time units later. Table 0: 2^-3 + r_0/4 + 0; table 1: r_1/4 + alpha q_2(1); new: alpha q_2(2).
    weights = [0.125 + r0 / 4, r1 / 4 + 0.5 * r0, 0.5 * r1]
    assert third.prior_weights == pytest.approx(weights)
    counts, sums = [1 + r0, r1], [2 + r0, r1]
    joint = [
        w * normal(-3, 3 * s / (1 + 3 * n), 1 + 3 / (1 + 3 * n))
        for w, n, s in zip(weights, [*counts, 0], [*sums, 0], strict=True)
    ]
    shares = [j / sum(joint) for j in joint]
    assert third.log_evidence == pytest.approx(math.log(sum(joint) / sum(weights)))
    assert third.responsibilities == pytest.approx(shares)

    # q_3(1) = q_2(1) r_0;  q_3(2) = q_2(2) (r_0 + r_1) + q_2(1) (1 - r_0);  q_3(3) = q_2(2) (1 - r_0 - r_1).
    s0, s1, s2 = shares
    assert state.n_tables_posterior == pytest.approx([0, r0 * s0, r1 * (s0 + s1) + r0 * (s1 + s2), r1 * s2])


# --- the slow oracle ------------------------------------------------------------------------------------------------


def gaussian_oracle(variance, prior_variance, prior_mean):
    def posterior(data):
        precision = 1 / prior_variance + sum(w for w, _ in data) / variance
        pull = prior_mean / prior_variance + sum((w * x for w, x in data), start=0.0) / variance
        return pull / precision, 1 / precision

    def log_predictive(x, data):
        mean, spread = posterior(data)
        return stats.norm.logpdf(x, mean, np.sqrt(variance + spread)).sum()

    def expected(x, data):
        mean, spread = posterior(data)
        return stats.norm.logpdf(x, mean, math.sqrt(variance)).sum() - len(x) * spread / (2 * variance)

    return log_predictive, expected


def bernoulli_oracle(a, b):
    def posterior(data):
        ones = sum((w * x for w, x in data), start=0.0)
        zeros = sum((w * (1 - x) for w, x in data), start=0.0)
        return a + ones, b + zeros

    def log_predictive(x, data):
        return np.sum(stats.betabinom.logpmf(x, 1, *posterior(data)))

    def expected(x, data):
        one, zero = posterior(data)
        return np.sum(np.where(x == 1, digamma(one), digamma(zero)) - digamma(one + zero))

    return log_predictive, expected


def sphere_oracle(kappa):
    """On the sphere in three dimensions C(κ) = κ / (4π sinh κ) and A(κ) = coth κ − 1/κ."""

    def log_c(k):
        return math.log(k / (4 * math.pi * math.sinh(k))) if k > 0 else -math.log(4 * math.pi)

    def direction(data):
        return kappa * sum((w * x for w, x in data), start=np.zeros(3))

    def log_predictive(x, data):
        h = direction(data)
        return log_c(kappa) + log_c(np.linalg.norm(h)) - log_c(np.linalg.norm(h + kappa * x))

    def expected(x, data):
        h = direction(data)
        k = np.linalg.norm(h)
        return log_c(kappa) + kappa * (1 / math.tanh(k) - 1 / k) * float(h @ x) / k

    return log_predictive, expected


FAMILIES = {
    "gaussian": (Gaussian(1.0, 9.0, 0.5), gaussian_oracle(1.0, 9.0, 0.5)),
    "bernoulli": (Bernoulli(0.4, 0.7), bernoulli_oracle(0.4, 0.7)),
    "sphere": (VonMisesFisher(9.0), sphere_oracle(9.0)),
}
DYNAMICS = {
    "stationary": (Stationary(), lambda d: 1.0),
    "exponential": (Exponential(6.0), lambda d: math.exp(-d / 6)),
    "oscillatory": (Oscillatory(9.0), lambda d: (1 + math.cos(2 * math.pi * d / 9)) / 2),
    "hyperbolic": (Hyperbolic(3.0, n_modes=48, horizon=1e6), lambda d: 1 / (1 + d / 3)),
    "negative": (LinearODE([1.25, 1.0, 1.0]), lambda d: math.exp(-d / 2) * (math.cos(d) + math.sin(d) / 2)),
    "composite": (
        0.9 * Exponential(4.0) * Oscillatory(9.0) + 0.1 * Stationary(),
        lambda d: 0.9 * math.exp(-d / 4) * (1 + math.cos(2 * math.pi * d / 9)) / 2 + 0.1,
    ),
}
THRESHOLDS = {"map": 0.5, "posterior": 0.05}


def oracle(X, times, densities, kernel, alpha, rules):
    """Section 3 of the design, from the whole history at every step: labels, responsibilities, log evidence."""
    log_predictive, expected = densities
    history = []
    count = {0: 1.0}  # q(C = k)
    n_tables = 0
    report = []

    def data(c):
        return [(r[c], x) for _, x, r in history if c < len(r)]

    for x, t in zip(X, times, strict=True):
        occupancy = [max(0.0, sum(kernel(t - s) * r[c] for s, _, r in history if c < len(r))) for c in range(n_tables)]
        if rules.table_count == "map":
            weights = [*occupancy, alpha]
        else:
            weights = [o + alpha * count.get(c, 0.0) for c, o in enumerate([*occupancy, 0.0])]

        if rules.assignment == "predictive":
            joint = [w * math.exp(log_predictive(x, data(c))) for c, w in enumerate(weights)]
        else:
            new = weights[-1] * math.exp(log_predictive(x, []))
            r = [0.0] * n_tables
            for _ in range(rules.n_iter):
                joint = [w * math.exp(expected(x, [*data(c), (r[c], x)])) for c, w in enumerate(weights[:-1])] + [new]
                r = [j / sum(joint) for j in joint]
        evidence = math.log(sum(joint) / sum(weights))
        if n_tables == 0 or joint[-1] / sum(joint) >= rules.new_table_threshold:
            n_tables += 1
        else:
            joint = joint[:-1]
        r = [j / sum(joint) for j in joint]
        history.append((t, x, r))
        report.append((int(np.argmax(r)), r, evidence))
        count = {
            k: count.get(k, 0.0) * sum(r[:k]) + count.get(k - 1, 0.0) * (1 - sum(r[: k - 1]))
            for k in range(1, n_tables + 1)
        }
    return report


def generated_stream(family, n, seed, n_features=3):
    """Three clusters at irregular and tied times."""
    rng = np.random.default_rng(seed)
    parameters = family.sample_parameters(3, n_features, rng)
    X = family.sample(parameters[rng.integers(3, size=n)], rng)
    return X, np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))


@pytest.mark.parametrize(
    ("family", "dynamics", "assignment", "table_count"),
    pairwise(FAMILIES, DYNAMICS, ["predictive", "variational"], ["map", "posterior"]),
)
def test_engine_equals_the_oracle(family, dynamics, assignment, table_count):
    family, densities = FAMILIES[family]
    dynamics, kernel = DYNAMICS[dynamics]
    rules = Rules(assignment, table_count, n_iter=2, new_table_threshold=THRESHOLDS[table_count])
    X, times = generated_stream(family, 20, seed=7)

    _, steps = walk(Model(family, dynamics, 0.8, rules=rules), X, times)
    expected = oracle(X, times, densities, kernel, 0.8, rules)

    tolerance = 1e-6 if isinstance(dynamics, Hyperbolic) else 1e-9
    assert max(label for label, _, _ in expected) >= 1
    assert [s.label for s in steps] == [label for label, _, _ in expected]
    for done, (_, r, evidence) in zip(steps, expected, strict=True):
        assert done.responsibilities == pytest.approx(r, abs=tolerance)
        assert done.log_evidence == pytest.approx(evidence, abs=tolerance)


def test_the_first_pi_uses_the_parameters_before_x():
    model = make_model(Gaussian(1.0, 9.0), assignment="variational", n_iter=1)
    state, _ = walk(model, [[0.0], [0.5]], [0, 1])
    _, done = step(state, np.array([1.0]), 2.0, model)
    expected = model.family.expected_log_likelihood(np.array([[1.0]]), state.stats)[0]
    assert done.scores[0] == pytest.approx(math.log(2.0) + expected[0])


def test_run_is_step_after_step():
    model = make_model(Gaussian(1.0, 9.0), Exponential(5.0))
    X, times = generated_stream(model.family, 40, seed=1)
    state, trace = run(initial_state(model, 3), X, times, model)
    expected, steps = walk(model, X, times)
    assert np.array_equal(state.stats, expected.stats)
    assert np.array_equal(state.mode_states, expected.mode_states)
    assert trace.labels.tolist() == [s.label for s in steps]
    assert trace.log_evidence.tolist() == [s.log_evidence for s in steps]
    for row, done in zip(trace.responsibilities.toarray(), steps, strict=True):
        assert row.tolist() == [*done.responsibilities, *[0.0] * (len(row) - len(done.responsibilities))]


# --- evidence -------------------------------------------------------------------------------------------------------


def line():
    x = np.linspace(-40.0, 40.0, 801)
    return x[:, None], np.full(len(x), x[1] - x[0])


def cube():
    return np.array(list(itertools.product([0.0, 1.0], repeat=3))), np.ones(8)


def circle():
    angles = np.linspace(0.0, 2.0 * np.pi, 100, endpoint=False)
    return np.column_stack([np.cos(angles), np.sin(angles)]), np.full(100, 2.0 * np.pi / 100)


@pytest.mark.parametrize("table_count", ["map", "posterior"])
@pytest.mark.parametrize(
    ("family", "space"), [(Gaussian(1.0, 9.0), line), (Bernoulli(0.5, 0.8), cube), (VonMisesFisher(4.0), circle)]
)
def test_evidence_of_a_step_is_a_density_that_integrates_to_1(family, space, table_count):
    points, volumes = space()
    model = make_model(family, Exponential(5.0), table_count=table_count, new_table_threshold=0.2)
    X, times = generated_stream(family, 25, seed=3, n_features=points.shape[1])
    state, _ = walk(model, X, times)
    assert len(state.stats) > 1
    densities = [math.exp(step(state, x, times[-1] + 2.0, model)[1].log_evidence) for x in points]
    assert volumes @ densities == pytest.approx(1.0, abs=1e-9)


def test_prequential_evidence_is_the_joint_density_when_seating_is_certain():
    # One table for certain: the sum of log evidences less the log prior of the seats is the family's log marginal.
    family = Gaussian(1.0, 1.0)
    X = np.random.default_rng(0).normal(size=(6, 2)) * 0.1
    _, steps = walk(make_model(family, alpha=1e-12), X, range(6))
    assert sum(s.log_evidence for s in steps) == pytest.approx(family.log_marginal(X), abs=1e-9)


# --- the lower bound ------------------------------------------------------------------------------------------------


@given(
    family=st.sampled_from([Gaussian(0.5, 9.0), Bernoulli(0.3, 0.6), VonMisesFisher(6.0)]),
    table_count=st.sampled_from(["map", "posterior"]),
    threshold=st.floats(0.05, 1.0),
    alpha=st.floats(0.01, 20.0),
    n_iter=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_lower_bound_never_decreases_and_stays_below_the_evidence(family, table_count, threshold, alpha, n_iter, seed):
    rules = Rules("variational", table_count, n_iter, threshold)
    model = Model(family, Exponential(4.0), alpha, rules=rules)
    X, times = generated_stream(family, 8, seed)
    state = initial_state(model, 3)
    for x, t in zip(X, times, strict=True):
        truth = log_density(state, x, t, model)
        state, done = step(state, x, t, model)
        assert len(done.lower_bounds) == 2 * n_iter
        assert np.all(np.diff(done.lower_bounds) >= -1e-10 * (1 + np.abs(done.lower_bounds[:-1])))
        assert done.lower_bounds[-1] <= truth + 1e-10 * (1 + abs(truth))


def test_lower_bound_by_quadrature():
    model = make_model(Gaussian(1.5, 4.0), HALF_LIFE_1, assignment="variational", n_iter=2, new_table_threshold=0.2)
    state, _ = walk(model, [[-1.5], [1.0], [1.4]], [0.0, 0.0, 1.0])
    K = len(state.stats)
    assert K > 1
    x, t = 0.3, 2.0
    _, done = step(state, np.array([x]), t, model)

    # π as of the last step, q(φ_c) = p(φ_c | stats_c + π_c T(x)), on a fine grid.
    phi = np.linspace(-40.0, 40.0, 80_001)
    cell = phi[1] - phi[0]
    weights = [*(state.mode_states[:, 0].real / 2), 1.0]
    pi = np.exp(done.scores) / np.sum(np.exp(done.scores))
    bound = pi[K] * (stats.norm.logpdf(x, 0.0, math.sqrt(5.5)) + math.log(weights[K] / sum(weights) / pi[K]))
    for c in range(K):
        n, s = state.stats[c]
        before = stats.norm.logpdf(phi, 4 * s / (1.5 + 4 * n), math.sqrt(6 / (1.5 + 4 * n)))
        n, s = n + pi[c], s + pi[c] * x
        after = stats.norm.logpdf(phi, 4 * s / (1.5 + 4 * n), math.sqrt(6 / (1.5 + 4 * n)))
        q = np.exp(after) * cell
        likelihood = q @ stats.norm.logpdf(x, phi, math.sqrt(1.5))
        bound += pi[c] * (likelihood + math.log(weights[c] / sum(weights) / pi[c])) - q @ (after - before)
    assert done.lower_bounds[-1] == pytest.approx(bound, abs=1e-9)


def test_predictive_has_no_lower_bound_to_report():
    _, steps = walk(paper_model(), PAPER_X, PAPER_TIMES)
    assert all(s.lower_bounds.size == 0 for s in steps)


# --- the posterior over table counts --------------------------------------------------------------------------------


def test_posterior_over_table_counts_equals_enumeration():
    model = make_model(Gaussian(1.0, 6.0), Exponential(8.0), table_count="posterior", new_table_threshold=0.05)
    state, steps = walk(model, np.random.default_rng(2).normal(scale=2.5, size=(8, 1)), range(8))
    assert len(state.stats) >= 4

    # Every customer sits independently at table c with probability r_c; a table beyond those open opens the next.
    brute = np.zeros(len(state.stats) + 1)
    for seats in itertools.product(*(range(len(s.responsibilities)) for s in steps)):
        opened = 0
        for seat in seats:
            opened += seat >= opened
        brute[opened] += math.prod(s.responsibilities[c] for s, c in zip(steps, seats, strict=True))
    assert state.n_tables_posterior == pytest.approx(brute, abs=1e-12)
    assert np.sum(state.n_tables_posterior) == pytest.approx(1.0, abs=1e-12)


@given(seed=st.integers(0, 10_000), threshold=st.floats(0.01, 1.0))
def test_posterior_over_table_counts_stays_a_distribution(seed, threshold):
    model = make_model(Bernoulli(0.5, 0.5), Oscillatory(7.0), table_count="posterior", new_table_threshold=threshold)
    X, times = generated_stream(model.family, 30, seed)
    state, _ = walk(model, X, times)
    assert len(state.n_tables_posterior) == len(state.stats) + 1
    assert np.all(state.n_tables_posterior >= 0)
    assert np.sum(state.n_tables_posterior) == pytest.approx(1.0, abs=1e-12)


# --- opening tables -------------------------------------------------------------------------------------------------


def test_a_share_equal_to_the_threshold_opens_a_table():
    model = paper_model()
    state, _ = walk(model, PAPER_X[:1], PAPER_TIMES[:1])
    share = reference.responsibilities(state, np.array([1.0]), 1.0, model)[-1]

    def tables_after(threshold):
        rules = replace(model.rules, new_table_threshold=threshold)
        return len(step(state, np.array([1.0]), 1.0, replace(model, rules=rules))[0].stats)

    assert tables_after(share) == 2
    assert tables_after(share + 1e-6) == 1


def test_a_dropped_share_is_renormalised_away():
    model = make_model(Gaussian(1.0, 4.0), alpha=1.0)
    state, _ = walk(replace(model, rules=Rules(new_table_threshold=0.05)), [[0.0], [1.5]], [0, 1])
    shares = reference.responsibilities(state, np.array([0.8]), 2.0, model)
    _, done = step(state, np.array([0.8]), 2.0, model)
    assert 0.05 < shares[-1] < 0.5
    assert done.responsibilities == pytest.approx(shares[:-1] / np.sum(shares[:-1]))


@pytest.mark.parametrize("assignment", ["predictive", "variational"])
@pytest.mark.parametrize("table_count", ["map", "posterior"])
def test_first_observation_opens_table_0(assignment, table_count):
    rules = {"assignment": assignment, "table_count": table_count, "new_table_threshold": 1.0}
    family = Gaussian(1.0, 9.0)
    state, (done,) = walk(make_model(family, Exponential(1.0), alpha=1e-9, **rules), [[40.0, 40.0]], [5.0])
    assert done.label == 0
    assert done.responsibilities.tolist() == [1.0]
    assert state.stats.tolist() == [[1.0, 40.0, 40.0]]
    assert done.log_evidence == pytest.approx(family.log_marginal(np.array([[40.0, 40.0]])))


@pytest.mark.parametrize("silence", [1e5, 1e12, 1e200])
@pytest.mark.parametrize("assignment", ["predictive", "variational"])
def test_after_a_long_silence_every_table_is_forgotten(assignment, silence):
    model = make_model(Gaussian(1.0, 9.0), Exponential(1.0), alpha=0.5, assignment=assignment)
    state, _ = walk(model, [[0.0], [8.0], [0.1]], [0, 1, 2])
    after, done = step(state, np.array([0.0]), silence, model)
    assert done.label == len(state.stats)
    assert done.log_evidence == pytest.approx(stats.norm.logpdf(0.0, 0.0, math.sqrt(10.0)))
    assert done.responsibilities.tolist() == [*[0.0] * len(state.stats), 1.0]
    assert np.all(np.isfinite(after.stats))


def test_after_a_long_silence_the_posterior_over_table_counts_still_knows_the_tables():
    model = make_model(Gaussian(1.0, 9.0), Exponential(1.0), table_count="posterior", new_table_threshold=0.05)
    state, _ = walk(model, [[0.0], [2.0], [1.0]], [0, 1, 2])
    _, done = step(state, np.array([0.0]), 1e5, model)
    assert done.prior_weights == pytest.approx(model.alpha * state.n_tables_posterior, abs=1e-300)
    assert np.isfinite(done.log_evidence)


# --- state in, state out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["predictive", "variational"])
def test_a_step_modifies_nothing_it_is_given(assignment):
    model = make_model(Gaussian(1.0, 9.0), Oscillatory(5.0), assignment=assignment, table_count="posterior")
    state, _ = walk(model, [[0.0], [8.0], [0.1]], [0, 1, 2])
    x = np.array([0.3])
    for array in (x, state.stats, state.mode_states, state.n_tables_posterior):
        array.flags.writeable = False
    copy = deepcopy(state)
    after, _ = step(state, x, 4.0, model)
    assert np.array_equal(state.stats, copy.stats)
    assert np.array_equal(state.mode_states, copy.mode_states)
    assert np.array_equal(state.n_tables_posterior, copy.n_tables_posterior)
    assert not any(np.shares_memory(getattr(after, f), getattr(state, f)) for f in ("stats", "mode_states"))
    assert not np.shares_memory(after.stats, x)


@pytest.mark.parametrize("assignment", ["predictive", "variational"])
def test_helpers_say_what_the_step_would_do(assignment):
    model = make_model(Bernoulli(0.5, 0.5), Exponential(5.0), assignment=assignment, new_table_threshold=0.2)
    X, times = generated_stream(model.family, 20, seed=4)
    state, _ = walk(model, X[:-1], times[:-1])
    _, done = step(state, X[-1], times[-1], model)
    shares = reference.responsibilities(state, X[-1], times[-1], model)
    assert shares == pytest.approx(np.exp(done.scores) / np.sum(np.exp(done.scores)))
    if assignment == "predictive":
        assert log_density(state, X[-1], times[-1], model) == pytest.approx(done.log_evidence, abs=1e-12)


def test_advancing_in_two_steps_is_advancing_in_one():
    model = make_model(Gaussian(1.0, 9.0), 0.5 * Exponential(3.0) * Oscillatory(4.0) + 0.5 * Hyperbolic(2.0))
    state, _ = walk(model, [[0.0], [8.0], [0.1]], [0, 1, 2])
    twice = reference.advance(reference.advance(state, 3.3, model.modes), 7.1, model.modes)
    once = reference.advance(state, 7.1, model.modes)
    assert twice.time == once.time
    assert twice.mode_states == pytest.approx(once.mode_states, rel=1e-12)


# --- rules ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("assignment", "hard"),
        ("assignment", None),
        ("table_count", "MAP"),
        ("n_iter", 0),
        ("n_iter", 2.0),
        ("n_iter", True),
        ("new_table_threshold", 0.0),
        ("new_table_threshold", 1.5),
        ("new_table_threshold", math.nan),
        ("new_table_threshold", True),
        ("new_table_threshold", "0.5"),
    ],
)
def test_rules_refuse_what_they_do_not_know(name, value):
    with pytest.raises(ValueError, match=name):
        Rules(**{name: value})


# --- tables that close ----------------------------------------------------------------------------------------------


def far_apart(places):
    return np.array([[1000.0 * place] for place in places])


def test_one_too_many_closes_the_least_occupied():
    # Occupancies when place 3 comes at t = 6: place 0 has e⁻⁶ + e⁻⁵, place 1 e⁻⁴ + e⁻³, place 2 e⁻² + e⁻¹.
    model = make_model(Gaussian(1.0, 1e6), Exponential(1.0), max_tables=3)
    engine = ReferenceEngine(model, 1)
    trace = engine.run(far_apart([0, 0, 1, 1, 2, 2, 3]), np.arange(7.0))
    assert trace.labels.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert trace.closed.tolist() == [0]
    assert engine.ids.tolist() == [1, 2, 3]
    np.testing.assert_allclose(engine.state.stats[:, 0], [2.0, 2.0, 1.0])
    # What closed is forgotten: its place opens a new table, with a new id, and the least is now table 1.
    trace = engine.run(far_apart([0, 2]), np.array([7.0, 8.0]))
    assert trace.labels.tolist() == [4, 2]
    assert trace.closed.tolist() == [1]
    assert engine.ids.tolist() == [2, 3, 4]
    assert trace.responsibilities.shape == (2, 5)


def test_of_equals_the_oldest_closes_and_never_the_one_just_opened():
    model = make_model(Gaussian(1.0, 1e6), max_tables=2)
    engine = ReferenceEngine(model, 1)
    trace = engine.run(far_apart([0, 1, 0, 1, 2, 3]), np.arange(6.0))
    # Tables 0 and 1 tie at two; the new table 2 has one and stays, until 3 comes: then it is the least.
    assert trace.closed.tolist() == [0, 2]
    assert engine.ids.tolist() == [1, 3]


def test_a_table_closes_when_its_occupancy_falls_below_the_bar():
    model = make_model(Gaussian(1.0, 1e6), Exponential(1.0), prune_below=0.1)
    engine = ReferenceEngine(model, 1)
    # e⁻² > 0.1 > e⁻³; the table that is joined at t = 9 stays, though nothing had been left of it.
    trace = engine.run(far_apart([0, 1, 1]), np.array([0.0, 2.0, 3.0]))
    assert trace.closed.tolist() == [0]
    trace = engine.run(far_apart([1]), np.array([9.0]))
    assert (trace.labels.tolist(), trace.closed.tolist()) == ([1], [])
    model = make_model(Gaussian(1.0, 1e6), Exponential(1.0), prune_below=5.0)
    engine = ReferenceEngine(model, 1)
    trace = engine.run(far_apart([0, 0, 1]), np.arange(3.0))
    assert (trace.labels.tolist(), trace.closed.tolist()) == ([0, 0, 1], [0])


def test_what_is_left_is_what_would_be_had_the_closed_tables_never_been():
    rng = np.random.default_rng(5)
    X, times = far_apart(rng.integers(0, 12, 200)), np.arange(200.0)
    limited = ReferenceEngine(make_model(Gaussian(1.0, 1e6), Exponential(30.0), max_tables=5), 1)
    labels = limited.run(X, times).labels
    kept = np.isin(labels, limited.ids)
    alone = ReferenceEngine(make_model(Gaussian(1.0, 1e6), Exponential(30.0)), 1)
    again = alone.run(X[kept], times[kept]).labels
    assert np.unique(labels[kept], return_inverse=True)[1].tolist() == again.tolist()
    np.testing.assert_allclose(limited.state.stats, alone.state.stats, rtol=1e-12)
    later = advance(alone.state, limited.time, alone.model.modes)
    np.testing.assert_allclose(limited.state.mode_states, later.mode_states, rtol=1e-12)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_tables": 0}, "max_tables must be an integer ≥ 1, got 0"),
        ({"max_tables": 2.0}, "max_tables must be an integer ≥ 1, got 2.0"),
        ({"prune_below": -0.1}, "prune_below must be 0 or a number ≥ 1e-300, got -0.1"),
        ({"prune_below": np.nan}, "prune_below must be 0 or a number ≥ 1e-300, got nan"),
        ({"prune_below": "0"}, "prune_below must be 0 or a number ≥ 1e-300, got '0'"),
        ({"prune_below": 1e-310}, "prune_below must be 0 or a number ≥ 1e-300, got 1e-310"),
        ({"max_tables": 3, "table_count": "posterior"}, "need table_count='map'"),
        ({"prune_below": 0.1, "table_count": "posterior"}, "need table_count='map'"),
    ],
)
def test_bad_limits(rules, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Rules(**rules)


@pytest.mark.parametrize("assignment", ["predictive", "variational"])
def test_a_direction_that_is_missing_scores_nothing_under_a_table_without_any(assignment):
    # Zeros in its place are no direction: together with no sum of directions they would be 0/0.
    model = make_model(Columns({0: Gaussian(1.0, 30.0), (1, 2): VonMisesFisher(3.0)}), assignment=assignment)
    alone = make_model(Gaussian(1.0, 30.0), assignment=assignment)
    X = np.array([[0.0, np.nan, np.nan], [0.1, np.nan, np.nan], [9.0, np.nan, np.nan]])
    _, steps = walk(model, X, range(3))
    _, expected = walk(alone, X[:, :1], range(3))
    for one, other in zip(steps, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12)
