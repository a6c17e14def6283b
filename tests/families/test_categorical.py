"""Categories against sums over all codes, the Dirichlet process's urn, and quadrature over the prior."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dyncrp.families import Categorical
from dyncrp.families.categorical import STRENGTHS

X = np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 7.0], [40.0, 3.0]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.3, 0.0, 0.8, 0.45]])
FAMILIES = [Categorical(1.0, 2), Categorical(0.3, 5), Categorical([2.0, 0.5], 4)]


@pytest.fixture(params=FAMILIES, ids=repr)
def family(request):
    return request.param


def base(k):
    return 1.0 / ((k + 1.0) * (k + 2.0))


def test_probabilities_of_all_codes_sum_to_one():
    """Those of the codes from N on, N > n_codes, are a multiple of Σ_{k ≥ N} H(k) = 1/(N + 1)."""
    family, N = Categorical(0.7, 5), 1000
    tables = RESPONSIBILITIES @ family.statistics(X[:, :1])
    probabilities = np.exp(family.log_predictive(np.arange(N + 1.0)[:, None], tables))
    rest = probabilities[N] / base(N) / (N + 1)
    np.testing.assert_allclose(probabilities[:N].sum(axis=0) + rest, 1.0, rtol=1e-13)


def test_predictive_is_the_urn_of_the_dirichlet_process():
    """For codes below n_codes, (κ H(k) + Σ r [x = k])/(κ + Σ r), whatever n_codes is."""
    for n_codes in (8, 9, 50):
        family = Categorical([2.0, 0.5], n_codes)
        for share in RESPONSIBILITIES:
            table = (share @ family.statistics(X))[None]
            for x in product(range(8), repeat=2):
                exact = 0.0
                for d, kappa in enumerate([2.0, 0.5]):
                    seen = share @ (X[:, d] == x[d])
                    exact += np.log((kappa * base(x[d]) + seen) / (kappa + share.sum()))
                assert family.log_predictive(np.array([x], float), table)[0, 0] == pytest.approx(exact, abs=1e-12)


def test_codes_that_share_a_count_are_as_likely_as_the_base_says(family):
    table = family.statistics(X).sum(axis=0, keepdims=True)
    rows = np.column_stack([np.full(3, 1.0), [50.0, 51.0, 2.0**53]])
    log_p = family.log_predictive(rows, table)[:, 0]
    np.testing.assert_allclose(np.diff(log_p), np.diff(np.log(base(rows[:, 1]))), rtol=1e-12)


@pytest.mark.parametrize("share", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])
def test_expectations_by_quadrature(family, share):
    """A probability of a Dirichlet is a Beta variable: its mean is the predictive, and E log is integrated."""
    table = (share @ family.statistics(X))[None]
    for x in ([0.0, 3.0], [1.0, 1.0], [9.0, 0.0]):
        expected = predictive = 0.0
        for d, kappa in enumerate(np.broadcast_to(family.concentration, 2)):
            C, k = family.n_codes, x[d]
            mass = base(k) if k < C else 1.0 / (C + 1)
            seen = share @ (X[:, d] == k if k < C else X[:, d] >= C)
            beta = stats.beta(kappa * mass + seen, kappa * (1 - mass) + share.sum() - seen)
            rest = 0.0 if k < C else np.log(base(k) * (C + 1))
            # E log φ = −∫ P(φ ≤ exp(−y)) dy over y > 0; beyond 400 the integrand falls as exp(−y a), a the first
            # parameter of the Beta distribution
            tail = beta.cdf(np.exp(-400.0)) / beta.args[0]
            expected += rest - tail - quad(lambda y, b=beta: b.cdf(np.exp(-y)), 0, 400, epsabs=1e-11, limit=800)[0]
            predictive += rest + np.log(beta.mean())
        assert family.log_predictive(np.array([x]), table)[0, 0] == pytest.approx(predictive, abs=1e-10)
        assert family.expected_log_likelihood(np.array([x]), table)[0, 0] == pytest.approx(expected, abs=1e-6)


def test_marginals_of_every_pair_of_rows_sum_to_one():
    """Of one feature; codes from N on are summed up as above, the first n_codes below N."""
    family, N = Categorical(0.7, 3), 12
    weight = np.append(np.ones(N), 1.0 / base(N) / (N + 1))
    total = sum(
        weight[a] * weight[b] * np.exp(family.log_marginal(np.array([[a], [b]], float)))
        for a, b in product(range(N + 1), repeat=2)
    )
    assert total == pytest.approx(1.0, abs=1e-12)


def test_codes_of_the_sampler():
    """Five standard errors, of the share of each code and of those from n_codes on."""
    family, n = Categorical(3.0, 4), 100_000
    draws = family.sample(family.sample_parameters(n, 1, seed=0), seed=1)[:, 0]
    for k in (0, 1, 3, 4, 5, 9):
        p = base(k)
        assert abs(np.mean(draws == k) - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert abs(np.mean(draws >= 100) - 1 / 101) < 5 * np.sqrt(0.01 / n)


def test_the_most_frequent_code_is_the_center():
    family = Categorical(0.1, 4)
    table = family.statistics(np.array([[2.0, 9.0], [2.0, 8.0], [1.0, 1.0]])).sum(axis=0, keepdims=True)
    assert family.centers(table).tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize("value", [0, -1.0, np.nan, "1", [[1.0]], [], True, 1e-101], ids=repr)
def test_bad_concentration(value):
    with pytest.raises(ValueError, match=r"^concentration must be a positive finite number"):
        Categorical(value)


@pytest.mark.parametrize("value", [1, 0, -3, 2.5, "4", None, True, 10_001], ids=repr)
def test_bad_number_of_codes(value):
    with pytest.raises(ValueError, match=r"^n_codes must be"):
        Categorical(1.0, value)


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0**53 + 2, np.inf])
def test_bad_data_name_the_first_row_and_column(value):
    bad = X.copy()
    bad[2, 1] = bad[3, 0] = value
    with pytest.raises(ValueError, match=r"Categorical takes codes, integers from 0 to 2\*\*53, .*row 2, column 1$"):
        Categorical(1.0).check(bad)


def test_wrong_width():
    with pytest.raises(ValueError, match=r"^concentration has 3 entries, but X has 2 features"):
        Categorical([1.0, 2.0, 3.0]).check(X)


def test_the_most_extreme_concentrations_stay_finite():
    for concentration in (1e-100, 1e100):
        family = Categorical(concentration)
        for table in (np.zeros((1, 67)), family.statistics(X)):
            assert np.all(np.isfinite(family.log_predictive(X, table)))
            assert np.all(np.isfinite(family.expected_log_likelihood(X, table)))
            assert np.all(np.isfinite(family.log_partition(table)))


@pytest.mark.parametrize("concentration", [0.25, 1.0, 4.0])
def test_of_the_proposals_the_true_one_has_the_evidence(concentration):
    truth = Categorical(concentration)
    labels = np.repeat(np.arange(60), 40)
    rows = truth.sample(truth.sample_parameters(60, 10, seed=0)[labels], seed=1)
    found = Categorical().proposals(rows)
    assert [family.concentration for family in found] == list(STRENGTHS)
    best = max(found, key=lambda family: sum(family.log_marginal(rows[labels == c]) for c in range(60)))
    assert best == truth
    assert Categorical().proposals(rows, labels) == []
