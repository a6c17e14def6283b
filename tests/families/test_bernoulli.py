"""Binary clusters against quadrature over the Beta prior and enumeration of every binary vector."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betainc

from dyncrp.families import Bernoulli
from dyncrp.families.bernoulli import STRENGTHS

FAMILIES = [
    Bernoulli(1.0, 1.0),
    Bernoulli(0.5, 0.5),
    Bernoulli(3.0, 0.7),
    Bernoulli([0.5, 2.0, 1.0], 1.5),
    Bernoulli([2.0, 0.4, 1.0], [1.0, 5.0, 0.8]),
]
X = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
RESPONSIBILITIES = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.3, 0.0, 0.8, 0.45]])
EVERY_VECTOR = np.array(list(product([0.0, 1.0], repeat=3)))


@pytest.fixture(params=FAMILIES, ids=repr)
def family(request):
    return request.param


def hyperparameters(family, d):
    return np.broadcast_to(family.a, 3)[d], np.broadcast_to(family.b, 3)[d]


def integral(a, b, integrand):
    """∫ integrand(φ) φ^(a−1) (1−φ)^(b−1) dφ over the unit interval, the singular ends in quad's own weight."""
    return quad(integrand, 0, 1, weight="alg", wvar=(a - 1, b - 1), epsabs=0, epsrel=1e-11)[0]


def beta_expectation(family, d, responsibilities, integrand):
    """The posterior mean of integrand(φ_d) after likelihood^responsibility of each row of X."""
    a, b = hyperparameters(family, d)
    ones, zeros = responsibilities @ X[:, d], responsibilities @ (1 - X[:, d])

    def posterior(phi):
        return phi**ones * (1 - phi) ** zeros

    return integral(a, b, lambda phi: posterior(phi) * integrand(phi)) / integral(a, b, posterior)


def test_log_marginal(family):
    exact = 0.0
    for d in range(3):
        a, b = hyperparameters(family, d)
        likelihood = integral(a, b, lambda phi, d=d: np.prod(np.where(X[:, d] == 1, phi, 1 - phi)))
        exact += np.log(likelihood / integral(a, b, lambda phi: 1.0))
    assert family.log_marginal(X) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])
def test_log_predictive_and_centers(family, responsibilities):
    table = (responsibilities @ family.statistics(X))[None]
    ones = np.array([beta_expectation(family, d, responsibilities, lambda phi: phi) for d in range(3)])
    np.testing.assert_allclose(family.centers(table)[0], ones, rtol=1e-9)
    exact = np.log(np.where(EVERY_VECTOR == 1, ones, 1 - ones)).sum(axis=1)
    np.testing.assert_allclose(family.log_predictive(EVERY_VECTOR, table)[:, 0], exact, rtol=0, atol=1e-9)


def expected_log(a, b):
    """E log φ = −∫ P(φ ≤ exp(−y)) dy over y > 0 for φ ~ Beta(a, b)."""
    return -quad(lambda y: betainc(a, b, np.exp(-y)), 0, 100, epsabs=1e-11, limit=400)[0]


@pytest.mark.parametrize("responsibilities", RESPONSIBILITIES, ids=["empty", "whole", "fractional"])
def test_expected_log_likelihood(family, responsibilities):
    table = (responsibilities @ family.statistics(X))[None]
    expected = np.zeros(len(EVERY_VECTOR))
    for d in range(3):
        a, b = hyperparameters(family, d)
        a, b = a + responsibilities @ X[:, d], b + responsibilities @ (1 - X[:, d])
        expected += np.where(EVERY_VECTOR[:, d] == 1, expected_log(a, b), expected_log(b, a))
    np.testing.assert_allclose(family.expected_log_likelihood(EVERY_VECTOR, table)[:, 0], expected, rtol=0, atol=1e-9)


def test_probabilities_of_every_vector_sum_to_one(family):
    tables = RESPONSIBILITIES @ family.statistics(X)
    totals = np.exp(family.log_predictive(EVERY_VECTOR, tables)).sum(axis=0)
    np.testing.assert_allclose(totals, 1.0, rtol=1e-14)


def test_marginals_of_every_pair_of_vectors_sum_to_one(family):
    pairs = product(EVERY_VECTOR, repeat=2)
    assert sum(np.exp(family.log_marginal(np.array(pair))) for pair in pairs) == pytest.approx(1.0, abs=1e-13)


def test_rounding_of_responsibilities_cannot_make_a_count_negative():
    family = Bernoulli(1e-20, 1e-20)
    table = np.array([[0.3, 0.1 + 0.2]])
    assert table[0, 0] < table[0, 1]
    assert np.isfinite(family.log_predictive(np.array([[0.0]]), table)).all()


def test_second_moments_of_the_samplers():
    """Five standard errors, from the spread of the squares."""
    family, n = Bernoulli([0.5, 3.0], [2.0, 1.0]), 100_000
    parameters = family.sample_parameters(n, 2, seed=0)
    squares = (parameters - stats.beta.mean(family.a, family.b)) ** 2
    error = squares.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(squares.mean(axis=0) - stats.beta.var(family.a, family.b)) < 5 * error)
    draws = family.sample(np.tile([0.3, 0.8], (n, 1)), seed=1)
    assert set(np.unique(draws)) == {0.0, 1.0}
    both = draws.prod(axis=1)
    assert abs(both.mean() - 0.24) < 5 * both.std() / np.sqrt(n)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize(
    "value",
    [0, -1.0, np.nan, np.inf, "1", [[1.0, 2.0]], [], [1.0, 0.0], [1.0, np.inf], True, 1e-101, 1e101],
    ids=repr,
)
def test_bad_hyperparameters(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive finite number"):
        Bernoulli(**{"a": 1.0, "b": 1.0, name: value})


@pytest.mark.parametrize("name", ["a", "b"])
def test_wrong_width(name):
    family = Bernoulli(**{"a": 1.0, "b": 1.0, name: [1.0, 2.0]})
    with pytest.raises(ValueError, match=f"^{name} has 2 entries, but X has 3 features"):
        family.check(X)


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, 1 + 1e-12, np.inf])
def test_bad_data_name_the_first_row_and_column(value):
    bad = X.copy()
    bad[2, 1] = bad[3, 0] = value
    with pytest.raises(ValueError, match=r"row 2, column 1$"):
        Bernoulli(1.0, 1.0).check(bad)


def test_zeros_and_ones_pass():
    assert np.array_equal(Bernoulli(1.0, 1.0).check(EVERY_VECTOR), EVERY_VECTOR)


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        Bernoulli([1.0, 2.0], [1.0, 2.0, 3.0])


def test_the_most_extreme_hyperparameters_stay_finite():
    for a, b in product([1e-100, 1e100], repeat=2):
        family = Bernoulli(a, b)
        assert np.all(np.isfinite(family.log_predictive(X, family.statistics(X))))


# What data suggest


def test_proposals_have_the_mean_of_the_data_and_strengths_from_vague_to_certain():
    rows = (np.random.default_rng(0).random((200, 3)) < [0.1, 0.5, 0.8]).astype(float)
    found = Bernoulli().proposals(rows)
    common, each = found[: len(STRENGTHS)], found[len(STRENGTHS) :]
    assert [family.a + family.b for family in common] == pytest.approx(list(STRENGTHS))
    assert [family.a / (family.a + family.b) for family in common] == pytest.approx([rows.mean()] * len(STRENGTHS))
    for family, strength in zip(each, STRENGTHS, strict=True):
        np.testing.assert_allclose(family.a + family.b, strength)
        # As if one more row had been seen, of the mean of all.
        np.testing.assert_allclose(family.a / strength, (rows.sum(axis=0) + rows.mean()) / 201)
    assert Bernoulli().proposals(rows, np.arange(200) % 5) == []


@pytest.mark.parametrize("strength", [0.25, 1.0, 4.0])
def test_of_the_proposals_the_true_one_has_the_evidence(strength):
    """400 probabilities tell a + b to about 10 %; the grid has factors of 2 and more."""
    truth = Bernoulli(0.3 * strength, 0.7 * strength)
    labels = np.repeat(np.arange(40), 50)
    rows = truth.sample(truth.sample_parameters(40, 10, seed=0)[labels], seed=1)
    common = Bernoulli().proposals(rows)[: len(STRENGTHS)]
    evidence = [sum(family.log_marginal(rows[labels == c]) for c in range(40)) for family in common]
    best = common[int(np.argmax(evidence))]
    assert best.a + best.b == pytest.approx(strength)
    assert abs(best.a / strength - 0.3) < 5 * np.sqrt(0.21 / (1 + strength) / 400 + 0.21 / rows.size)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_features_that_never_change_are_not_taken_to_be_certain(value):
    for family in Bernoulli().proposals(np.full((20, 3), value)):
        assert np.all(np.asarray(family.a) > 0)
        assert np.all(np.asarray(family.b) > 0)


@pytest.mark.parametrize("known", [{"a": 0.5}, {"b": 2.0}, {"a": [0.5, 1.0, 2.0]}])
def test_what_is_known_is_kept(known):
    ((name, value),) = known.items()
    found = Bernoulli(**known).proposals(X)
    assert len(found) == 2 * len(STRENGTHS)
    assert all(np.array_equal(getattr(family, name), value) for family in found)


def test_sharper_tables_have_more_certain_ones():
    assert Bernoulli(1.0, [2.0, 4.0]).sharpen(2.0) == Bernoulli(0.5, [1.0, 2.0])
