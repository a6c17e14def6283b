"""``fill`` and ``predict_cells`` against integrals of the density of whole rows, and what they do with frames."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

from dyncrp import (
    Bernoulli,
    Categorical,
    Columns,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    Multinomial,
    NormalGamma,
    NormalWishart,
    Poisson,
    VonMisesFisher,
)
from dyncrp.families.base import Family
from dyncrp.views.fill import PredictedCategories, PredictedNumbers

NAN = float("nan")
COVARIANCES = ([[1.0, 0.7, 0.2], [0.7, 1.5, 0.1], [0.2, 0.1, 0.8]], np.diag([9.0, 4.0, 25.0]))
FEW_DIRECTIONS = Gaussian(
    1.0, [4.0, 30.0], [1.0, 0.0, -1.0], [[1.0, 0.5, 0.0], [0.0, 1.0, -0.5]], residual_variance=0.6
)
NUMBERS = {
    "round": Gaussian(1.0, 9.0),
    "diagonal": Gaussian([1.0, 0.3, 2.0], [9.0, 4.0, 30.0], [1.0, 0.0, -2.0]),
    "shared covariance": Gaussian.from_covariances(*COVARIANCES, prior_mean=[0.5, -1.0, 2.0]),
    "few directions": FEW_DIRECTIONS,
    "NormalGamma": NormalGamma([1.0, 0.5, 2.0], 9.0, 5.0, [0.0, 1.0, 0.0]),
    "NormalWishart": NormalWishart(1.0, 9.0, 6.0, [0.0, 1.0, 0.0]),
    "a part of numbers": Columns({(0, 2): NormalWishart(1.0, 9.0, 6.0), 1: NormalGamma(1.0, 9.0, 6.0)}),
}
CODES = {
    "Bernoulli": (Bernoulli([0.5, 0.8, 1.0], 0.7), 2),
    "Categorical": (Categorical(0.9, 4), 4),
    "Poisson": (Poisson([2.0, 1.0, 3.0], 0.4), 400),
    "mixed": (Columns({0: Gaussian(1.0, 9.0), 1: Bernoulli(0.5, 0.5), 2: Categorical(0.5, 4)}), 2),
}


def fitted(family, dynamics=None, n=40, **options):
    """Return a model that has learned rows of three clusters, drawn from the family."""
    rng = np.random.default_rng(5)
    clusters = family.sample_parameters(3, 3, seed=2)
    X = family.sample(clusters[rng.integers(3, size=n)], seed=3)
    model = DynamicalMixture(family, dynamics or Exponential(15.0), alpha=0.8, **options)
    return model.fit(X, times=np.arange(n) * 1.3), family.sample(clusters, seed=4)


def density(model, row, d, value, time):
    """Return p of a whole row, with a value put in at d."""
    whole = np.array(row)
    whole[d] = value
    return np.exp(model.score_samples(whole[None], times=[time])[0])


def expectation(function, of):
    """Return ∫ f(x) p(x) dx over the real line."""
    at = np.linspace(-40.0, 40.0, 81)
    pairs = itertools.pairwise(at)
    parts = [quad(lambda x: function(x) * of(x), *ends, epsabs=0.0, epsrel=1e-11)[0] for ends in pairs]
    ends = (quad(lambda x: function(x) * of(x), *limits)[0] for limits in ((-np.inf, -40.0), (40.0, np.inf)))
    return sum(parts) + sum(ends)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_quadrature(name):
    model, rows = fitted(NUMBERS[name])
    d, row, time = 1, rows[1], 70.0
    found = model.predict_cells(row[None], d, times=[time])
    assert isinstance(found, PredictedNumbers)
    total = expectation(lambda x: 1.0, lambda x: density(model, row, d, x, time))
    mean = expectation(lambda x: x, lambda x: density(model, row, d, x, time)) / total
    square = expectation(lambda x: (x - mean) ** 2, lambda x: density(model, row, d, x, time)) / total
    assert found.mean == pytest.approx([mean], rel=1e-8)
    assert found.std**2 == pytest.approx([square], rel=1e-6)
    for value in (-3.0, 0.2, 4.0):
        expected = np.log(density(model, row, d, value, time) / total)
        assert found.log_density(value) == pytest.approx([expected], rel=1e-9, abs=1e-9)
    hole = row.copy()
    hole[d] = NAN
    assert model.fill(hole[None], times=[time])[0, d] == found.mean


@pytest.mark.parametrize("name", NUMBERS)
def test_two_missing_cells_are_integrated_out(name):
    model, rows = fitted(NUMBERS[name])
    row = rows[0].copy()
    row[[0, 2]] = NAN
    grid = np.linspace(-45.0, 45.0, 901)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    whole = np.column_stack([a.ravel(), np.full(a.size, row[1]), b.ravel()])
    p = np.exp(model.score_samples(whole)).reshape(a.shape)
    # The trapezoidal rule is exact to rounding for smooth densities; what is left out are the tails of Student's t.
    tolerance = 1e-10 if isinstance(NUMBERS[name], Gaussian) else 2e-4
    expected = [np.sum(a * p) / np.sum(p), np.sum(b * p) / np.sum(p)]
    assert model.fill(row[None])[0, [0, 2]] == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("name", CODES)
def test_codes_are_those_of_enumeration(name):
    family, n = CODES[name]
    model, rows = fitted(family, Hyperbolic(4.0))
    d, row, time = 1, rows[2], 61.0
    found = model.predict_cells(row[None], d, times=[time])
    each = np.array([density(model, row, d, float(code), time) for code in range(n)])
    hole = row.copy()
    hole[d] = NAN
    whole = np.exp(model.score_samples(hole[None], times=[time])[0])
    filled = model.fill(hole[None], times=[time])[0, d]
    if isinstance(found, PredictedNumbers):
        p = each / whole
        mean = np.sum(p * np.arange(n))
        assert np.sum(p) == pytest.approx(1.0, rel=1e-12)
        assert filled == pytest.approx(mean, rel=1e-10)
        assert found.std[0] ** 2 == pytest.approx(np.sum(p * (np.arange(n) - mean) ** 2), rel=1e-9)
        assert np.exp(found.log_density(3)[0]) == pytest.approx(p[3], rel=1e-12)
        assert found.log_density(2.5) == -np.inf
        for x in range(-1, 12):
            below = found.weights[0] @ found.cell.below(np.array([x + 0.5]))[0]
            assert below == pytest.approx(np.sum(p[: x + 1]), rel=1e-10)
        for q in (0.01, 0.5, 0.93):
            assert found.quantile(q)[0] == np.argmax(np.cumsum(p) >= q)
        return
    assert found.probabilities[0, :n] == pytest.approx(each / whole, rel=1e-12)
    assert np.sum(found.probabilities, axis=1) == pytest.approx([1.0], rel=1e-12)
    assert filled == np.argmax(each)
    assert np.exp(found.log_density([1])) == pytest.approx(found.probabilities[:, 1])


def test_codes_beyond_those_that_are_counted():
    family = Categorical(0.9, 2)
    cell = family.cell(family.statistics(np.array([[0.0], [5.0], [5.0]])).sum(axis=0, keepdims=True))
    codes = np.arange(6.0)[:, None]
    stats = family.statistics(np.array([[0.0], [5.0], [5.0]])).sum(axis=0, keepdims=True)
    assert cell.first(6)[0] == pytest.approx(np.exp(family.log_predictive(codes, stats)[:, 0]), rel=1e-12)


@pytest.mark.parametrize("name", ["round", "NormalGamma", "NormalWishart"])
def test_quantiles_are_those_of_the_density(name):
    model, rows = fitted(NUMBERS[name])
    found = model.predict_cells(rows, 0)
    for q in (1e-4, 0.05, 0.5, 0.95):
        x = found.quantile(q)
        for i in range(len(rows)):
            below = quad(lambda z: np.exp(found.log_density(z)[i]), -60.0, x[i], limit=400)[0]  # noqa: B023
            assert below == pytest.approx(q, abs=1e-6)
    low, high = found.interval(0.9)
    assert low == pytest.approx(found.quantile(0.05), rel=1e-12)
    assert high == pytest.approx(found.quantile(0.95), rel=1e-12)


@pytest.mark.parametrize("options", [{}, {"table_count": "posterior"}, {"assignment": "variational"}])
def test_each_row_has_its_own_time(options):
    model, rows = fitted(Gaussian(1.0, 9.0), **options)
    X, times = np.repeat(rows, 2, axis=0), np.array([60.0, 90.0, 60.0, 75.0, 120.0, 60.0])
    X[:, 2] = NAN
    together = model.predict_cells(X, 2, times)
    alone = [model.predict_cells(X[i : i + 1], 2, times[i : i + 1]) for i in range(len(X))]
    assert together.weights == pytest.approx(np.vstack([one.weights for one in alone]), rel=1e-13)
    assert together.weights[4, -1] > together.weights[5, -1]  # old tables are forgotten
    assert np.array_equal(model.fill(X, times)[:, 2], together.mean)


def test_a_column_that_is_there_is_ignored_and_all_may_be_missing():
    model, rows = fitted(NUMBERS["shared covariance"])
    hole = rows.copy()
    hole[:, 1] = NAN
    assert np.array_equal(model.predict_cells(rows, 1).mean, model.predict_cells(hole, 1).mean)
    nothing = model.predict_cells(np.full((1, 3), NAN), 1)
    weights = np.append(model.occupancies_, model.alpha_)
    assert nothing.weights[0] == pytest.approx(weights / weights.sum(), rel=1e-12)
    centers = np.append(model.centers_[:, 1], -1.0)
    assert nothing.mean == pytest.approx([weights @ centers / weights.sum()], rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, object])
def test_cells_that_are_there_stay(dtype):
    model, rows = fitted(NUMBERS["diagonal"])
    X = np.vstack([rows, rows]).astype(dtype)
    X[0, 1] = X[1, 0] = X[1, 2] = X[4] = NAN
    before, missing = X.copy(), np.isnan(X.astype(np.float64))
    found = model.fill(X)
    assert X.tobytes() == before.tobytes() or dtype is object
    assert found.dtype == (np.float64 if dtype is object else dtype)
    assert np.array_equal(found[~missing].astype(dtype), X[~missing])
    assert np.all(np.isfinite(found))
    assert model.fill(rows) is not rows
    assert np.array_equal(model.fill(rows), rows)
    masked = np.ma.masked_array(np.nan_to_num(X.astype(np.float64)), missing)
    assert model.fill(masked) == pytest.approx(found.astype(np.float64), rel=1e-6)
    assert model.fill(X.tolist()) == pytest.approx(found.astype(np.float64), rel=1e-6)


def test_nothing_is_learned_and_files_say_the_same():
    model, rows = fitted(NUMBERS["NormalGamma"])
    rows[:, 1] = NAN
    before = model.to_bytes()
    found = model.fill(rows)
    assert model.to_bytes() == before
    assert np.array_equal(DynamicalMixture.from_bytes(before).fill(rows), found)
    model.partial_fit(rows, times=[60.0] * 3)  # from now on its tables count each column
    again = DynamicalMixture.from_bytes(model.to_bytes())
    assert np.array_equal(again.fill(rows), model.fill(rows))


def test_many_rows_are_filled_in_pieces(monkeypatch):
    model, rows = fitted(NUMBERS["NormalWishart"])
    X = np.tile(rows, (5, 1))
    X[np.random.default_rng(0).random(X.shape) < 0.4] = NAN
    found, cells = model.fill(X), model.predict_cells(X, 1)
    monkeypatch.setattr("dyncrp.views.fill.MOST_NUMBERS", 1)
    assert model.fill(X) == pytest.approx(found, rel=1e-12)
    assert model.predict_cells(X, 1).mean == pytest.approx(cells.mean, rel=1e-12)


def test_a_feature_that_the_others_determine():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 2))
    X = np.column_stack([z, z.sum(axis=1)])
    X[100:] += 30.0
    within = np.cov(X[:100].T) + 1e-18 * np.eye(3)
    within += 1e-15 * np.eye(3)
    model = DynamicalMixture(Gaussian.from_covariances(within, 900.0 * np.eye(3))).fit(X)
    hole = X[:5].copy()
    hole[:, 2] = NAN
    assert model.fill(hole)[:, 2] == pytest.approx(X[:5, 2], abs=1e-3)


def visits(n=300):
    """Return rows of three kinds, whole, as a frame."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=n)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "seconds": np.array([20.0, 300.0, 90.0])[kind] * rng.normal(1.0, 0.1, n),
            "clicks": np.array([2.0, 30.0, 12.0])[kind] + rng.normal(0.0, 1.0, n),
            "page": np.array(["home", "cart", "help"])[kind],
            "member": kind == 1,
            "answer": np.where(kind == 2, "Yes", "No"),
        }
    )


@pytest.fixture(scope="module")
def frame_model():
    return DynamicalMixture().fit(visits())


def holes_in(frame):
    """Return the frame with holes in each column but the id, and where they are."""
    rng = np.random.default_rng(1)
    missing = rng.random(frame.shape) < 0.2
    missing[:, 0] = False
    missing[0] = [False, True, False, True, True, True]
    return frame.mask(missing), missing


def test_frames_get_words(frame_model):
    frame = visits()
    holes, missing = holes_in(frame)
    before = holes.copy(deep=True)
    found = frame_model.fill(holes)
    pd.testing.assert_frame_equal(holes, before)
    assert list(found.columns) == list(frame.columns)
    assert found["id"].equals(holes["id"])
    for at, name in enumerate(frame.columns):
        there = ~missing[:, at]
        assert found[name][there].equals(holes[name][there])
        assert not found[name].isna().any()
        if name in ("page", "member", "answer"):
            assert set(map(type, found[name])) == set(map(type, frame[name]))
            assert np.mean(found[name] == frame[name]) > 0.97
    assert np.corrcoef(found["clicks"], frame["clicks"])[0, 1] > 0.97
    probabilities = frame_model.predict_cells(holes, "page")
    assert isinstance(probabilities, PredictedCategories)
    assert set(probabilities.categories) == {"home", "cart", "help", "another"}
    assert np.sum(probabilities.probabilities, axis=1) == pytest.approx(np.ones(len(holes)))
    assert np.mean(probabilities.likeliest == frame["page"]) > 0.97
    assert frame_model.predict_cells(holes, 4).categories == ("false", "true")
    assert frame_model.predict_cells(holes, "answer").categories == ("no", "yes")


def test_types_of_pandas_and_polars(frame_model):
    pl = pytest.importorskip("polars")
    holes, missing = holes_in(visits())
    found = frame_model.fill(holes)
    typed = holes.astype({"page": "category", "member": "boolean"})
    filled = frame_model.fill(typed)
    assert filled["page"].dtype == typed["page"].dtype
    assert filled["member"].dtype == "boolean"
    assert filled["page"].astype(object).tolist() == found["page"].tolist()
    fewer = typed[typed["page"] != "help"]
    fewer = fewer.assign(page=fewer["page"].cat.remove_unused_categories())
    assert frame_model.fill(fewer)["page"].notna().all()
    columns = {name: [None if gone else cell for cell, gone in zip(visits()[name], missing[:, at], strict=True)]
               for at, name in enumerate(holes)}  # fmt: skip
    polar = pl.DataFrame(columns, strict=False)
    got = frame_model.fill(polar)
    assert got.schema == polar.schema
    nothing = polar.head(3).with_columns(page=pl.lit(None), answer=pl.lit(None), clicks=pl.lit(None))
    assert frame_model.fill(nothing)["page"].to_list() == found["page"].head(3).tolist()
    assert frame_model.fill(nothing)["clicks"].dtype == pl.Float64
    for name in holes:
        assert got[name].to_list() == found[name].tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_in_which_all_is_missing_may_have_the_type_of_numbers(frame_model, library):
    made = pytest.importorskip(library)
    row = {"id": [1.0], "seconds": [300.0], "clicks": [29.0], "page": [NAN], "member": [NAN], "answer": [NAN]}
    frame = made.DataFrame({name: np.array(cells) for name, cells in row.items()})
    if library == "polars":
        frame = frame.fill_nan(None)
    found = frame_model.fill(frame)
    assert [next(iter(found[name])) for name in ("page", "member", "answer")] == ["cart", 1.0, 0.0]
    assert list(found["seconds"]) == [300.0]


def test_words_among_numbers_are_filled_in():
    kind = np.arange(60) % 3
    frame = pd.DataFrame({"x": 10.0 * kind, "code": np.array([7, 8, "none of these"], dtype=object)[kind]})
    model = DynamicalMixture().fit(frame)
    found = model.fill(pd.DataFrame({"x": [0.0, 20.0], "code": [7.0, NAN]}))
    assert found["code"].tolist() == [7.0, "none of these"]


def test_categories_that_are_numbers():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=200)
    frame = pd.DataFrame({"x": 10.0 * kind + rng.normal(size=200), "code": pd.Categorical(kind + 3)})
    model = DynamicalMixture().fit(frame)
    holes = frame.assign(code=pd.Categorical([None] * 200, categories=[3, 4]))
    pd.testing.assert_frame_equal(model.fill(holes), frame)
    found = model.predict_cells(holes, "code")
    assert np.all(found.log_density(frame["code"]) > np.log(0.9))
    assert np.array_equal(found.log_density(frame["code"]), found.log_density(frame["code"].astype(float)))


def test_categories_are_written_as_in_the_rows(frame_model):
    rows = visits().head(4)
    for name in ("page", "member", "answer"):
        found = frame_model.predict_cells(rows, name)
        likely = found.log_density(rows[name])
        assert np.all(likely > np.log(0.9))
        for one in set(rows[name]):  # the same for all rows
            assert np.array_equal(found.log_density(one) == likely, rows[name] == one)
        assert np.isnan(found.log_density([None, NAN, *rows[name][2:]])).tolist() == [True, True, False, False]
        with pytest.raises(ValueError, match="values must be 4 of the categories"):
            found.log_density(list(rows[name])[:3])
    page = frame_model.predict_cells(rows, "page")
    assert np.array_equal(page.log_density("never seen"), np.log(page.probabilities[:, -1]))
    with pytest.raises(ValueError, match=r"values must be 4 of the categories \('false', 'true'\), got 'perhaps'"):
        frame_model.predict_cells(rows, "member").log_density("perhaps")


def test_logarithms_come_back_in_their_units():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=400)
    frame = pd.DataFrame(
        {"kind": np.array(["a", "b"])[kind], "bytes": np.exp(rng.normal(np.array([4.0, 9.0])[kind], 0.7)).round()}
    )
    model = DynamicalMixture().fit(frame)
    assert model.encoding_["bytes"].kind == "log"
    found = model.predict_cells(pd.DataFrame({"kind": ["a", "b"], "bytes": [NAN, NAN]}), "bytes")
    middle = found.quantile(0.5)
    assert np.log(middle) == pytest.approx([4.0, 9.0], abs=0.2)
    assert np.log(found.mean) == pytest.approx([4.0, 9.0], abs=0.5)
    assert np.all(np.isnan(found.std))
    for i, edge in enumerate(found.quantile(0.8)):
        inside = quad(lambda x: np.exp(found.log_density(x)[i]), middle[i], edge)[0]  # noqa: B023
        assert inside == pytest.approx(0.3, rel=1e-6)


def test_frames_of_numbers():
    model, rows = fitted(NUMBERS["diagonal"])
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    named = DynamicalMixture(NUMBERS["diagonal"]).fit(frame)
    frame.loc[0, "b"] = NAN
    assert named.predict_cells(frame, "b").mean[0] == named.fill(frame)["b"][0]
    integers = frame.round().astype("Int64")
    integers.loc[1, "a"] = pd.NA
    filled = named.fill(integers)
    assert str(filled["a"].dtype) == "Float64"
    assert str(filled["c"].dtype) == "Int64"
    unnamed = pd.DataFrame(np.where(np.isnan(frame), NAN, frame))
    assert model.fill(unnamed)[1].notna().all()
    assert model.predict_cells(unnamed, "x1").column == "x1"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("shoes", "no column 'shoes'"),
        (7, "from 0 to 5, got 7"),
        (-1, "from 0 to 5, got -1"),
        (True, "got True"),
        ("id", "knows nothing of column 'id', which it left out"),
    ],
)
def test_columns_that_are_none(frame_model, column, message):
    with pytest.raises(ValueError, match=message):
        frame_model.predict_cells(visits(3), column)


def test_families_that_say_nothing_of_cells():
    directions = np.random.default_rng(0).normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    model = DynamicalMixture(VonMisesFisher(10.0)).fit(directions)
    hole = directions[:2].copy()
    hole[1, 2] = NAN
    with pytest.raises(ValueError, match=r"VonMisesFisher takes whole rows only.* row 1, column 2"):
        model.fill(hole)
    with pytest.raises(ValueError, match="VonMisesFisher does not say how a cell is distributed"):
        model.predict_cells(directions, 0)
    words = DynamicalMixture(Multinomial(10.0)).fit(["a storm", "a goal"])
    with pytest.raises(ValueError, match="Multinomial counts words"):
        words.fill(["a storm"])
    whole = DynamicalMixture(NUMBERS["shared covariance"]).fit(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"must lie within .* row 0, column 0"):
        whole.fill([[1e300, NAN, 0.0]])
    part = Columns({(0, 1): VonMisesFisher(3.0), 2: Gaussian(1.0, 9.0)})
    angles = np.linspace(0.0, 6.0, 20)
    model = DynamicalMixture(part).fit(np.column_stack([np.cos(angles), np.sin(angles), angles]))
    assert np.isfinite(model.fill([[1.0, 0.0, NAN]])).all()
    with pytest.raises(ValueError, match="VonMisesFisher takes whole rows only"):
        model.fill([[1.0, NAN, 0.0]])


def test_a_family_of_ones_own_without_cells():
    counts = Poisson(1.0, 1.0)

    def delegate(name):
        return lambda self, *given: getattr(counts, name)(*given)

    methods = {name: delegate(name) for name in Family.__abstractmethods__} | {"independent": True}
    model = DynamicalMixture(type("Plain", (Family,), methods)()).fit([[1, 2], [3, 4]])
    assert np.array_equal(model.fill([[1, 2]]), [[1, 2]])
    with pytest.raises(ValueError, match=r"Plain does not say how a cell is distributed .* the method cell"):
        model.fill([[1, NAN]])


def test_numbers_for_each_row_or_one_for_all():
    model, rows = fitted(NUMBERS["round"])
    found = model.predict_cells(rows, 0)
    assert np.array_equal(found.log_density(1.5), found.log_density(np.full(len(rows), 1.5)))
    with pytest.raises(ValueError, match=r"values must be a number, or 3 of them, got shape \(2,\)"):
        found.log_density([1.0, 2.0])


@pytest.mark.parametrize("q", [0.0, 1.0, -0.5, NAN, "half", [0.1, 0.9]])
def test_quantiles_lie_between_0_and_1(q):
    model, rows = fitted(NUMBERS["round"])
    found = model.predict_cells(rows, 0)
    with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
        found.quantile(q)
    with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
        found.interval(q)
