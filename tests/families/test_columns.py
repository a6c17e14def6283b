"""Columns: a product of families, and missing cells against integrals over what is missing."""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

from cases import FAMILIES
from dyncrp import BadRow, Bernoulli, Categorical, Columns, Gaussian, NormalGamma, Poisson, VonMisesFisher
from dyncrp.families.base import check_rows
from dyncrp.families.protocols import feature

NAN = np.nan
INDEPENDENT = {
    "gaussian": Gaussian([0.5, 2.0], [3.0, 1.0], [0.4, -2.0]),
    "gaussian-of-one-unit": Gaussian(0.7, 2.0),
    "normal-gamma": NormalGamma([0.5, 2.0], [3.0, 1.0], 7.0, [0.4, -2.0]),
    "bernoulli": Bernoulli([0.6, 1.0], 1.5),
    "poisson": Poisson([0.6, 2.0], [0.9, 0.7]),
    "categorical": Categorical([0.6, 2.0], 4),
}


def integral(log_density, family):
    """log ∫ exp(log_density(x)) dx over all that x may be."""
    if isinstance(family, (Gaussian, NormalGamma)):
        return np.log(quad(lambda x: np.exp(log_density(x)), -np.inf, np.inf, epsabs=0, epsrel=1e-10, limit=200)[0])
    most = {Bernoulli: 2, Poisson: 400, Categorical: 200_000}[type(family)]
    if isinstance(family, Categorical):  # beyond C, codes differ by their base alone: H(k), which sums to 1/(k + 1)
        return logsumexp([log_density(k) for k in range(4)] + [log_density(4) + np.log(5 * 6 / 5)])
    return logsumexp([log_density(float(k)) for k in range(most)])


@pytest.mark.parametrize("family", INDEPENDENT.values(), ids=INDEPENDENT)
def test_a_missing_cell_is_integrated_out(family):
    """Of the joint density of four rows by the family itself, which knows of no missing cells."""
    X = family.sample(np.repeat(family.sample_parameters(1, 2, seed=3), 4, axis=0), seed=4)
    columns = Columns.of(family, 2)

    def log_joint(x):
        filled = X.copy()
        filled[1, 0] = x
        return family.log_marginal(filled)

    holed = X.copy()
    holed[1, 0] = NAN
    assert columns.log_marginal(X) == pytest.approx(family.log_marginal(X), abs=1e-11)
    assert columns.log_marginal(holed) == pytest.approx(integral(log_joint, family), abs=1e-7)


@pytest.mark.parametrize("family", INDEPENDENT.values(), ids=INDEPENDENT)
def test_the_predictive_of_a_row_with_a_missing_cell(family):
    X = family.sample(np.repeat(family.sample_parameters(1, 2, seed=5), 4, axis=0), seed=6)
    columns = Columns.of(family, 2)
    T = columns.statistics(np.vstack([X[:2], [[NAN, X[2, 1]]]]))
    stats = np.vstack([T.sum(axis=0), 0.0 * T[0]])
    for method in (columns.log_predictive, columns.expected_log_likelihood):
        found = method(np.array([[X[3, 0], NAN], [NAN, X[3, 1]], X[3], [NAN, NAN]]), stats)
        np.testing.assert_allclose(found[0] + found[1], found[2], atol=1e-12)
        assert np.array_equal(found[3], [0.0, 0.0])
    for one in (stats[:1], stats[1:]):

        def log_density(x, one=one):
            return columns.log_predictive(np.array([[X[3, 0], x]]), one)[0, 0]

        here = columns.log_predictive(np.array([[X[3, 0], NAN]]), one)[0, 0]
        assert integral(log_density, feature(family, 1)) == pytest.approx(here, abs=1e-7)


def test_a_missing_part_with_directions_is_integrated_out():
    family = Gaussian([0.5, 2.0], [3.0, 1.0], [0.4, -0.2], [[1.0, 0.4], [-0.3, 2.0]])
    columns = Columns({(0, 1): family, 2: Bernoulli(0.5, 0.7)})
    X = columns.sample(np.repeat(columns.sample_parameters(1, 3, seed=3), 3, axis=0), seed=4)
    holed = X.copy()
    holed[1, :2] = NAN

    # The trapezoidal rule: the density vanishes at all four edges, and is smooth on the scale of a step.
    total, step = 0.0, 0.3
    for X[1, 0] in np.arange(-12.0, 12.0, step):
        for X[1, 1] in np.arange(-12.0, 12.0, step):
            total += step**2 * np.exp(columns.log_marginal(X))
    assert columns.log_marginal(holed) == pytest.approx(np.log(total), abs=1e-6)


def test_a_missing_direction_is_integrated_out():
    columns = Columns({(0, 1): VonMisesFisher(3.0), 2: Poisson(2.0, 0.4)})
    X = columns.sample(np.repeat(columns.sample_parameters(1, 3, seed=3), 3, axis=0), seed=4)
    holed = X.copy()
    holed[1, :2] = NAN

    def density(angle):
        filled = X.copy()
        filled[1, :2] = np.cos(angle), np.sin(angle)
        return np.exp(columns.log_marginal(filled))

    assert columns.log_marginal(holed) == pytest.approx(np.log(quad(density, 0, 2 * np.pi)[0]), abs=1e-8)


def test_the_density_is_the_product_of_the_parts():
    columns = FAMILIES["columns-of-all-kinds"].family
    X = columns.sample(np.repeat(columns.sample_parameters(1, 9, seed=1), 5, axis=0), seed=2)
    parts = sum(family.log_marginal(X[:, list(part)]) for part, family in columns.parts)
    assert columns.log_marginal(X) == pytest.approx(parts, abs=1e-10)
    stats = np.sum(columns.statistics(X), axis=0, keepdims=True)
    for part, family in columns.parts:
        own = np.sum(family.statistics(X[:, list(part)]), axis=0, keepdims=True)
        np.testing.assert_allclose(columns.centers(stats)[:, list(part)], family.centers(own), rtol=1e-12)


def test_an_empty_row_changes_nothing_but_the_number_of_rows():
    columns = FAMILIES["columns-of-all-kinds"].family
    nothing = np.full((1, 9), NAN)
    assert np.array_equal(columns.check(nothing), nothing, equal_nan=True)
    T = columns.statistics(nothing)
    assert T[0, 0] == 1.0
    assert not T[0, 1:].any()
    assert columns.log_base_measure(nothing) == 0.0
    seen, squares_seen = columns.observed(nothing)
    assert seen[0, 0] == 1.0
    assert not seen[0, 1:].any()
    assert not squares_seen.any()


def test_stats_from_before_cells_could_be_missing():
    for family in INDEPENDENT.values():
        X = family.sample(np.repeat(family.sample_parameters(1, 2, seed=5), 40, axis=0), seed=6)
        columns = Columns.of(family, 2)
        split = columns.split(*(np.sum(of(X), axis=0, keepdims=True) for of in (family.statistics, family.squares)))
        for name, of in {"stats": columns.statistics, "squares": columns.squares}.items():
            expected = np.sum(of(X), axis=0, keepdims=True)
            np.testing.assert_allclose(split.get(name, expected), expected, rtol=1e-12)


def test_what_is_missing_does_not_fade():
    columns = Columns({0: Gaussian(1.0, 9.0), 1: Bernoulli(1.0, 1.0)})
    seen, _ = columns.observed(np.array([[NAN, 1.0]]))
    assert seen.tolist() == [[1.0, 0.0, 0.0, 1.0, 1.0]]


def test_shapes_of_tables_that_have_not_seen_a_column():
    columns = Columns({(0, 1): Gaussian([1.0, 4.0], 9.0), 2: Categorical(1.0, 3), 3: NormalGamma(1.0, 9.0)})
    X = np.array([[1.0, NAN, 1.0, 2.0], [2.0, NAN, 1.0, 3.0], [1.5, 4.0, NAN, 2.0]])
    stats = np.vstack([columns.statistics(X[:2]).sum(axis=0), columns.statistics(X[2:])])
    squares = np.vstack([columns.squares(X[:2]).sum(axis=0), columns.squares(X[2:])])
    shapes = columns.shapes(stats, squares)
    assert shapes.counts.tolist() == [2.0, 1.0]
    assert all(np.isfinite(part).all() for part in shapes)
    assert (
        shapes.centers[0, 1] == shapes.centers[1, 1] == 2.0
    )  # 4 in units of 2; the one that never saw it is no further
    assert shapes.spread.shape == shapes.centers.shape == (2, 2 + 4 + 1)


def test_names_become_positions():
    columns = Columns({"city": Categorical(1.0), ("height", "weight"): Gaussian(1.0, 9.0)})
    found = columns.at(["height", "city", "weight"])
    assert found == Columns({1: Categorical(1.0), (0, 2): Gaussian(1.0, 9.0)})
    with pytest.raises(ValueError, match=r"X has no names: pass a DataFrame, or give positions"):
        columns.at(None)
    with pytest.raises(ValueError, match=r"X has no columns \['weight'\]"):
        columns.at(["height", "city"])
    with pytest.raises(ValueError, match=r"columns \['age'\] of X have no part"):
        columns.at(["height", "city", "weight", "age"])
    with pytest.raises(ValueError, match="needs the names of the columns"):
        Columns({0: Gaussian(1.0, 1.0), "auto": Gaussian(1.0, 1.0)}).require_known()  # as the model of a forged file
    with pytest.raises(ValueError, match="needs the names of the columns"):
        columns.check(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "got none"),
        ({0: Gaussian}, "must be a dict of families by their columns"),
        ({0: Columns({0: Gaussian()})}, "must be a dict of families by their columns"),
        (7, "must be a dict of families by their columns"),
        ({-1: Gaussian()}, "names or positions from 0"),
        ({True: Gaussian()}, "names or positions from 0"),
        ({(): Gaussian()}, "names or positions from 0"),
        ({0: Gaussian(), (0, 1): Bernoulli()}, "column 0 is in two parts"),
        ({0: Gaussian(), 2: Bernoulli()}, "but 1 has none"),
        ({(0, 1, 2): Gaussian([1.0, 2.0], 3.0)}, "has 2 features, but its part has 3"),
    ],
)
def test_bad_parts(parts, message):
    with pytest.raises(ValueError, match=message):
        Columns(parts)


def test_bad_rows_name_the_column_of_the_row():
    columns = Columns({(2, 0): Gaussian(1.0, 9.0), 1: Bernoulli(1.0, 1.0), (3, 4): VonMisesFisher(1.0)})
    good = [1.0, 1.0, 1.0, 0.6, 0.8]
    for row, column, fault in [
        ([1.0, 2.0, 1.0, 0.6, 0.8], 1, "Bernoulli takes 0 and 1 only"),
        ([1.0, 1.0, 1e200, 0.6, 0.8], 2, "X must lie within"),
        ([1.0, 1.0, 1.0, 0.6, NAN], 4, "VonMisesFisher takes whole rows only: use a family of independent features"),
        ([1.0, 1.0, 1.0, 0.6, 0.7], None, "unit vectors"),
    ]:
        with pytest.raises(BadRow, match=fault) as caught:
            columns.check(np.array([good, [NAN, 1.0, NAN, NAN, NAN], row]))
        assert (caught.value.row, caught.value.column) == (2, column)
    with pytest.raises(ValueError, match="parts for 5 columns, but X has 4 features"):
        columns.check(np.zeros((1, 4)))


def test_rows_with_holes_are_refused_where_features_depend_on_each_other():
    holed = np.array([[1.0, 0.0], [NAN, 1.0]])
    for family in (VonMisesFisher(1.0), Gaussian(1.0, 9.0, 0.0, [[1.0, 0.5], [0.0, 1.0]])):
        with pytest.raises(BadRow, match=r"takes whole rows only.*row 1, column 0"):
            check_rows(family, holed)
    for family in INDEPENDENT.values():
        assert check_rows(family, holed) is holed


def test_columns_are_values():
    columns = FAMILIES["columns-of-all-kinds"].family
    assert pickle.loads(pickle.dumps(columns)) == columns
    assert hash(Columns(columns.parts)) == hash(columns)
    assert Columns({0: Gaussian(1.0, 9.0)}) != Columns({0: Gaussian(1.0, 8.0)})
    assert columns.sharpen(2.0) != columns
    with pytest.raises(ValueError, match="no part of Columns has a resolution"):
        Columns({0: Poisson(1.0, 1.0)}).sharpen(2.0)


def test_proposals_choose_by_column():
    """Columns of different units and clusters; a category that follows them and one that does not; and holes."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 100)
    X = np.column_stack(
        [
            100.0 * labels + rng.normal(size=400),
            0.01 * rng.normal(size=400),
            labels,
            rng.integers(0, 4, 400),
        ]
    ).astype(float)
    X[rng.random(X.shape) < 0.2] = NAN
    unknown = Columns({(0, 1): Gaussian(), (2, 3): Categorical()})
    (found,) = unknown.proposals(X, labels, (1.0,))
    numbers, categories = (family for _, family in found.parts)
    assert 0.1 < np.sqrt(numbers.variance[0] / 100.0**2) < 1.0  # shrunk towards the other column's share
    assert numbers.variance[1] == pytest.approx(1e-4, rel=0.2)
    assert categories.concentration[0] < 0.2 < 2.0 <= categories.concentration[1]
    coarse = unknown.proposals(X)
    assert len(coarse) == 18
    assert all(one.known for one in coarse)


def test_what_a_column_tells_is_its_evidence_for_the_tables():
    columns = Columns({0: Gaussian(1.0, 9.0), 1: Categorical(1.0, 4), 2: Bernoulli(0.5, 0.5)})
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    X = np.column_stack([4.0 * labels + rng.normal(size=90), labels, rng.integers(0, 2, 90)])
    X[::7, 1] = NAN
    stats = np.array([np.sum(columns.statistics(X[labels == k]), axis=0) for k in range(3)])
    for d, (_, family) in enumerate(columns.parts):
        column = Columns.of(family, 1)
        apart = sum(column.log_marginal(X[labels == k, d : d + 1]) for k in range(3))
        expected = (apart - column.log_marginal(X[:, d : d + 1])) / 90
        assert columns.told(stats)[d] == pytest.approx(expected, abs=1e-10)
    assert columns.told(stats)[2] < 0.0 < columns.told(stats)[1]
    assert columns.counts(stats, 1).sum() == np.sum(~np.isnan(X[:, 1]))
