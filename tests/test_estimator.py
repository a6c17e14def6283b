"""DynamicalMixture by its public names only: whatever engine is underneath must keep these promises."""

from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_mutual_info_score

from cases import DYNAMICS, RULES, THREE_FEATURES
from dyncrp import (
    Bernoulli,
    Columns,
    DynamicalCRP,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Oscillatory,
    Stationary,
    VonMisesFisher,
    tune,
)
from dyncrp.datasets import sample_mixture
from dyncrp.engine.reference import advance, occupancy

every_family = pytest.mark.parametrize("family", THREE_FEATURES.values(), ids=THREE_FEATURES)
every_dynamics = pytest.mark.parametrize("dynamics", DYNAMICS.values(), ids=DYNAMICS)
every_option = pytest.mark.parametrize("options", RULES.values(), ids=RULES)


def stream(family, n=16, seed=0):
    """A sampled mixture in three dimensions at irregular and tied times."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n))
    X, _, _ = sample_mixture(DynamicalCRP(2.0, Exponential(30.0)), family, times, rng, n_features=3)
    return X, times


def fingerprint(model, probe):
    """Everything a model says, to the bit; the probe is predicted at the model's own next time."""
    return [
        model.n_tables_,
        model.log_evidence_,
        model.table_ids_.tobytes(),
        model.occupancies_.tobytes(),
        model.centers_.tobytes(),
        model.predict(probe).tobytes(),
        model.predict_proba(probe).tobytes(),
        model.score_samples(probe).tobytes(),
    ]


def gaussian_model(**params):
    return DynamicalMixture(**{"family": Gaussian(1.0, 100.0), "dynamics": Exponential(20.0), **params})


# --- the stream may be cut anywhere ---------------------------------------------------------------------------------


def check_cutting(family, dynamics, options):
    X, times = stream(family)
    whole = DynamicalMixture(family, dynamics, alpha=1.5, **options).fit(X, times=times)
    for seed in range(2):
        cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(X)), 4, replace=False))
        parts = DynamicalMixture(family, dynamics, alpha=1.5, **options)
        labels = []
        for rows, at in zip(np.split(X, cuts), np.split(times, cuts), strict=True):
            labels.extend(parts.partial_fit(rows, times=at).labels_)
        assert labels == whole.labels_.tolist()
        assert fingerprint(parts, X[:3]) == fingerprint(whole, X[:3])


@every_option
@every_family
def test_cutting_the_stream_changes_nothing(family, options):
    check_cutting(family, DYNAMICS["sum-of-products"], options)


@every_dynamics
def test_cutting_the_stream_changes_nothing_for_any_dynamics(dynamics):
    check_cutting(THREE_FEATURES["gaussian"], dynamics, {})


@settings(max_examples=15)
@given(cuts=st.sets(st.integers(1, 23)), seed=st.integers(0, 100), options=st.sampled_from(list(RULES.values())))
def test_cutting_the_stream_changes_nothing_without_times(cuts, seed, options):
    X, _ = stream(THREE_FEATURES["gaussian"], n=24, seed=seed)
    whole = gaussian_model(**options).fit(X)
    parts = gaussian_model(**options)
    labels = [label for rows in np.split(X, sorted(cuts)) for label in parts.partial_fit(rows).labels_]
    assert labels == whole.labels_.tolist()
    assert fingerprint(parts, X[:3]) == fingerprint(whole, X[:3])


def test_times_default_to_the_index_of_arrival():
    X, _ = stream(THREE_FEATURES["gaussian"])
    implicit = gaussian_model().partial_fit(X[:10]).partial_fit(X[10:])
    explicit = gaussian_model().fit(X, times=np.arange(len(X)))
    assert implicit.log_evidence_ == explicit.log_evidence_
    assert implicit.occupancies_.tobytes() == explicit.occupancies_.tobytes()


def test_predict_defaults_to_the_time_at_which_the_next_observation_is_due():
    X, times = stream(THREE_FEATURES["gaussian"])
    by_index = gaussian_model().fit(X)
    assert np.array_equal(by_index.predict_proba(X[:5]), by_index.predict_proba(X[:5], times=[len(X)] * 5))
    by_clock = gaussian_model().fit(X, times=times)
    assert np.array_equal(by_clock.predict_proba(X[:5]), by_clock.predict_proba(X[:5], times=[times[-1]] * 5))


# --- invariances ----------------------------------------------------------------------------------------------------


@every_option
@every_family
def test_permuting_the_features_leaves_the_labels(family, options):
    X, times = stream(family)
    order = np.array([2, 0, 1])
    if isinstance(family, Columns):
        pytest.skip("its parts say which columns they have")
    values = {field.name: getattr(family, field.name) for field in fields(family)}
    vectors = {name: value[..., order] for name, value in values.items() if np.shape(value)[-1:] == (3,)}
    permuted = replace(family, **vectors)
    before = DynamicalMixture(family, Exponential(15.0), **options).fit(X, times=times)
    after = DynamicalMixture(permuted, Exponential(15.0), **options).fit(X[:, order], times=times)
    assert after.labels_.tolist() == before.labels_.tolist()
    assert after.centers_ == pytest.approx(before.centers_[:, order])
    assert after.log_evidence_ == pytest.approx(before.log_evidence_)


@every_option
@pytest.mark.parametrize("shift", [[3.0, -7.0, 100.0], [1e6, 1e6, -1e6]], ids=["near", "far"])
def test_translating_data_and_prior_mean_leaves_the_labels(shift, options):
    X, times = stream(THREE_FEATURES["gaussian"])
    before = gaussian_model(family=Gaussian(1.0, 25.0), **options).fit(X, times=times)
    after = gaussian_model(family=Gaussian(1.0, 25.0, shift), **options).fit(X + shift, times=times)
    assert after.labels_.tolist() == before.labels_.tolist()
    assert after.centers_ - shift == pytest.approx(before.centers_, abs=1e-8)
    assert after.log_evidence_ == pytest.approx(before.log_evidence_, abs=1e-5)


@every_option
@every_family
def test_stationary_knows_no_time(family, options):
    X, times = stream(family)
    model = DynamicalMixture(family, Stationary(), **options)
    expected = model.fit(X).labels_.tolist(), model.log_evidence_, model.occupancies_.tobytes()
    for other in (1e9 * times - 5.0, np.zeros(len(X))):
        model.fit(X, times=other)
        assert (model.labels_.tolist(), model.log_evidence_, model.occupancies_.tobytes()) == expected


def test_dynamics_knows_time_only_by_its_differences_and_its_unit():
    X, times = stream(THREE_FEATURES["gaussian"])
    model = gaussian_model(dynamics=Exponential(8.0)).fit(X, times=times)
    other = gaussian_model(dynamics=Exponential(8.0 * 64)).fit(X, times=64 * times + 1024)
    assert other.labels_.tolist() == model.labels_.tolist()
    assert other.log_evidence_ == pytest.approx(model.log_evidence_)
    assert gaussian_model(dynamics=Exponential(8.0)).fit(X, times=64 * times).log_evidence_ != model.log_evidence_


# --- labels and attributes ------------------------------------------------------------------------------------------


@every_option
@every_family
def test_ids_count_up_in_order_of_opening(family, options):
    X, times = stream(family, n=24)
    model = DynamicalMixture(family, Exponential(5.0), alpha=2.0, **options)
    n_opened = 0
    for x, t in zip(X, times, strict=True):
        (label,) = model.partial_fit([x], times=[t]).labels_
        assert model.n_opened_ - n_opened in (0, 1)
        n_opened = model.n_opened_
        assert label in model.table_ids_
        assert model.table_ids_.tolist() == sorted(set(model.table_ids_.tolist()) & set(range(n_opened)))
        assert len(model.table_ids_) == n_opened or "max_tables" in options
    assert n_opened > 2


def test_a_table_keeps_its_id_while_others_open():
    model = gaussian_model(dynamics=Stationary())
    assert model.partial_fit([[0.0], [50.0], [0.5]]).labels_.tolist() == [0, 1, 0]
    assert model.partial_fit([[-50.0], [50.5], [99.0], [0.2]]).labels_.tolist() == [2, 1, 3, 0]
    assert model.predict([[50.2], [-50.2], [98.0], [0.0]]).tolist() == [1, 2, 3, 0]


def test_occupancies_count_what_time_has_left():
    model = gaussian_model(dynamics=Exponential(2.0), alpha=1e-9)
    model.fit([[0.0], [90.0], [0.0]], times=[0.0, 1.0, 4.0])
    assert model.occupancies_ == pytest.approx([np.exp(-2.0) + 1.0, np.exp(-1.5)])


def test_centers_of_well_separated_clusters_are_posterior_means():
    model = gaussian_model(family=Gaussian(1.0, 10_000.0)).fit([[0.0], [500.0], [1.0], [502.0]])
    # Precision-weighted: the sum over n + σ²/ρ².
    assert model.centers_ == pytest.approx(np.array([[1.0], [1002.0]]) / (2 + 1e-4))


@every_option
@every_family
def test_responsibilities_are_sparse_rows_that_sum_to_1(family, options):
    X, times = stream(family)
    model = DynamicalMixture(family, **options).fit(X[:9], times=times[:9]).partial_fit(X[9:], times=times[9:])
    shares = model.responsibilities_
    assert issparse(shares)
    assert shares.format == "csr"
    assert shares.shape == (7, model.n_tables_)
    assert shares.min() >= 0
    assert shares.sum(axis=1) == pytest.approx(np.ones(7))
    assert np.array_equal(shares.argmax(axis=1), model.labels_)


def test_fit_forgets():
    X, times = stream(THREE_FEATURES["gaussian"])
    fresh = gaussian_model().fit(X, times=times)
    used = gaussian_model().fit(-X[:10]).fit(X, times=times)
    assert fingerprint(used, X[:5]) == fingerprint(fresh, X[:5])
    assert used.fit(X[:, :2]).centers_.shape[1] == 2


def test_set_params_counts_from_the_next_fit():
    X, times = stream(THREE_FEATURES["gaussian"])
    model = gaussian_model(alpha=0.1).fit(X, times=times)
    before = fingerprint(model, X[:5])
    model.set_params(alpha=50.0, new_table_threshold=0.01)
    assert fingerprint(model, X[:5]) == before
    untouched = gaussian_model(alpha=0.1).fit(X, times=times).partial_fit(X, times=times + 50.0)
    assert fingerprint(model.partial_fit(X, times=times + 50.0), X[:5]) == fingerprint(untouched, X[:5])
    assert fingerprint(model.fit(X, times=times), X[:5]) == fingerprint(
        gaussian_model(alpha=50.0, new_table_threshold=0.01).fit(X, times=times), X[:5]
    )


# --- prediction -----------------------------------------------------------------------------------------------------


@every_option
@every_family
def test_prediction_is_pure_and_has_the_right_shape(family, options):
    X, times = stream(family)
    model = DynamicalMixture(family, Exponential(15.0), **options).fit(X[:12], times=times[:12])
    labels, shares = model.labels_.copy(), model.responsibilities_.toarray()
    before = fingerprint(model, X[12:])
    assert model.predict(X[12:]).shape == (4,)
    assert model.predict(X[12:]).dtype.kind == "i"
    assert model.predict_proba(X[12:]).shape == (4, model.n_tables_ + 1)
    assert model.predict_proba(X[12:]).sum(axis=1) == pytest.approx(np.ones(4))
    assert model.score_samples(X[12:], times=times[12:]).shape == (4,)
    assert fingerprint(model, X[12:]) == before
    assert np.array_equal(model.labels_, labels)
    assert np.array_equal(model.responsibilities_.toarray(), shares)


def occupancy_at(model, t):
    """Return the occupancies of the open tables at time t, (K,)."""
    modes = model.engine_.model.modes
    return occupancy(advance(model.engine_.seating, t, modes), modes)


@every_option
@every_family
def test_predict_says_what_learning_would_do(family, options):
    X, times = stream(family)
    model = DynamicalMixture(family, Exponential(15.0), alpha=2.0, **options).fit(X[:5], times=times[:5])
    for x, t in zip(X[5:], times[5:], strict=True):
        (predicted,) = model.predict([x], times=[t])
        open_tables, faint = model.table_ids_, occupancy_at(model, t) < 1.0
        (label,) = model.partial_fit([x], times=[t]).labels_
        if label in open_tables:
            assert predicted == label
        else:  # a table that has not been seen for long still answers for its own
            assert predicted == -1 or np.any(faint)


def test_a_low_threshold_may_open_a_table_without_giving_it_the_label():
    # The new table's share is 0.39: at a threshold of 0.2 it opens, but the row is still table 0's.
    model = gaussian_model(
        family=Gaussian(1.0, 3.0), dynamics=Exponential(1 / np.log(2)), alpha=0.5, new_table_threshold=0.2
    )
    model.fit([[2.0]])
    assert model.predict_proba([[1.0]])[0, 1] == pytest.approx(0.385, abs=1e-3)
    assert model.predict([[1.0]]).tolist() == [0]
    assert model.partial_fit([[1.0]]).labels_.tolist() == [0]
    assert model.n_tables_ == 2


@pytest.mark.parametrize("x", [-1e-11, 0.0, 1e-11])
def test_predict_breaks_ties_as_learning_does(x):
    model = gaussian_model(dynamics=Stationary(), alpha=1e-9).fit([[-8.0], [8.0]])
    assert model.predict_proba([[x]])[0] == pytest.approx([0.5, 0.5, 0.0], abs=0.01)
    assert model.predict([[x]]).tolist() == model.partial_fit([[x]]).labels_.tolist()


@every_family
def test_scores_add_up_to_the_evidence(family):
    X, times = stream(family)
    model = DynamicalMixture(family, Exponential(15.0)).fit(X[:1], times=times[:1])
    total = model.log_evidence_
    for x, t in zip(X[1:], times[1:], strict=True):
        total += model.score_samples([x], times=[t])[0]
        model.partial_fit([x], times=[t])
    assert model.log_evidence_ == pytest.approx(total)


def test_score_samples_is_low_for_the_novel():
    model = gaussian_model().fit([[0.0], [0.3], [-0.2]])
    near, far = model.score_samples([[0.1], [30.0]])
    assert near > far + 3


def test_rows_to_be_judged_may_come_in_any_order_of_time():
    model = gaussian_model(dynamics=Exponential(1.0)).fit([[0.0], [3.0], [0.1]])
    later, sooner = model.predict_proba([[0.0], [0.0]], times=[9.0, 3.0])
    assert later.tolist() == model.predict_proba([[0.0]], times=[9.0])[0].tolist()
    assert sooner.tolist() == model.predict_proba([[0.0]], times=[3.0])[0].tolist()
    assert later[-1] > sooner[-1]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples"])
def test_prediction_needs_fitting_first(method):
    with pytest.raises(NotFittedError):
        getattr(gaussian_model(), method)([[0.0]])


@pytest.mark.parametrize("name", ["n_tables_", "table_ids_", "occupancies_", "centers_"])
def test_attributes_need_fitting_first(name):
    with pytest.raises(NotFittedError):
        getattr(gaussian_model(), name)


def test_saving_needs_fitting_first(tmp_path):
    with pytest.raises(NotFittedError):
        gaussian_model().save(tmp_path / "model.npz")


# --- what counts as input -------------------------------------------------------------------------------------------


class Frame:
    """The part of a data frame that matters: it turns into an array when asked."""

    def __init__(self, table):
        self.table = table

    def __array__(self, dtype=None, copy=None):
        return np.array(self.table, dtype=dtype)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        lambda X: [tuple(row) for row in X.tolist()],
        lambda X: X.astype(np.float32),
        lambda X: X.astype(np.int16),
        lambda X: X.astype(object),
        read_only,
        np.asfortranarray,
        lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda X: X[::-1][::-1],
        Frame,
    ],
    ids=["list", "tuples", "float32", "int16", "object", "read-only", "fortran", "strided", "reversed", "frame"],
)
def test_any_table_of_numbers_will_do(convert):
    X = np.round(stream(THREE_FEATURES["gaussian"])[0])  # integers, exact in every type
    expected = gaussian_model().fit(X)
    model = gaussian_model().fit(convert(X))
    assert model.labels_.tolist() == expected.labels_.tolist()
    assert fingerprint(model, convert(X)) == fingerprint(expected, X)


def test_booleans_will_do_for_bernoulli():
    X, _ = stream(THREE_FEATURES["bernoulli"])
    model = DynamicalMixture(THREE_FEATURES["bernoulli"]).fit(X.astype(bool))
    assert fingerprint(model, X) == fingerprint(DynamicalMixture(THREE_FEATURES["bernoulli"]).fit(X), X)


def test_directions_are_unit_vectors_up_to_single_precision():
    X, _ = stream(THREE_FEATURES["sphere"])
    model = DynamicalMixture(THREE_FEATURES["sphere"]).fit(X.astype(np.float32))
    assert model.labels_.tolist() == DynamicalMixture(THREE_FEATURES["sphere"]).fit(X).labels_.tolist()
    assert np.linalg.norm(model.centers_, axis=1) == pytest.approx(np.ones(model.n_tables_), abs=1e-12)


@every_option
@every_family
def test_input_is_neither_modified_nor_kept(family, options):
    X, times = stream(family)
    mine, clock = X.copy(), times.copy()
    model = DynamicalMixture(family, Exponential(15.0), **options).fit(mine, times=clock)
    model.predict(mine[-3:], times=clock[-3:] + clock[-1])
    assert np.array_equal(mine, X)
    assert np.array_equal(clock, times)
    before = fingerprint(model, X[:3])
    mine[:], clock[:] = 0.0, 0.0
    assert fingerprint(model, X[:3]) == before


def test_results_handed_out_are_not_the_state():
    X, times = stream(THREE_FEATURES["gaussian"])
    model = gaussian_model().fit(X, times=times)
    before = fingerprint(model, X)
    for array in (model.occupancies_, model.centers_, model.table_ids_, model.predict_proba(X), model.labels_):
        array[:] = 0
    model.responsibilities_.data[:] = 0.0
    assert fingerprint(model, X) == before


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_datetimes_count_in_seconds(unit):
    X, times = stream(THREE_FEATURES["gaussian"])
    seconds = np.round(times).astype(int)
    start = np.datetime64("2024-03-01T12:00:00", unit)
    clock = start + (seconds * np.timedelta64(1, "s")).astype(f"timedelta64[{unit}]")
    later = np.array([clock[-1] + np.timedelta64(s, "s") for s in (3, 1, 60)])

    model = gaussian_model(dynamics=Exponential(timedelta(seconds=8))).partial_fit(X[:10], times=clock[:10])
    model.partial_fit(X[10:], times=clock[10:])
    plain = gaussian_model(dynamics=Exponential(8.0)).fit(X, times=seconds)

    assert model.log_evidence_ == pytest.approx(plain.log_evidence_)
    at = seconds[-1] + np.array([3, 1, 60])
    assert model.predict_proba(X[:3], times=later) == pytest.approx(plain.predict_proba(X[:3], times=at))
    assert model.score_samples(X[:3], times=later) == pytest.approx(plain.score_samples(X[:3], times=at))
    assert model.predict(X[:3], times=later).tolist() == plain.predict(X[:3], times=at).tolist()


# --- bad input ------------------------------------------------------------------------------------------------------


def spoiled(X, row, column, value):
    X = np.array(X, dtype=object if isinstance(value, (str, complex)) else float)
    X[row, column] = value
    return X


GOOD = {name: stream(family, n=12, seed=5) for name, family in THREE_FEATURES.items()}
G, T = GOOD["gaussian"]
LATER = T + 100.0
BAD_TABLES = {
    "nan": ("sphere", spoiled(GOOD["sphere"][0], 4, 1, np.nan), "takes whole rows only.*row 4, column 1"),
    "infinity": ("gaussian", spoiled(G, 7, 0, np.inf), "row 7, column 0"),
    "minus infinity": ("gaussian", spoiled(G, 0, 2, -np.inf), "row 0, column 2"),
    "first of two": ("gaussian", spoiled(spoiled(G, 9, 0, np.nan), 3, 2, np.inf), "row 3, column 2"),
    "too wide": ("gaussian", np.hstack([G, G]), "6 features"),
    "too narrow": ("gaussian", G[:, :2], "2 features"),
    "strings": ("gaussian", G.astype(str), "dtype"),
    "a string": ("gaussian", spoiled(G, 5, 1, "seven"), "row 5, column 1"),
    "complex": ("gaussian", G + 1j, "[Cc]omplex"),
    "a complex number": ("gaussian", spoiled(G, 2, 2, 1j), "row 2, column 2"),
    "dates": ("gaussian", np.zeros((12, 3), dtype="datetime64[s]"), "dtype"),
    "ragged": ("gaussian", [[0.0, 1.0, 2.0], [3.0]], "shape"),
    "no rows": ("gaussian", G[:0], "empty"),
    "no columns": ("gaussian", G[:, :0], "empty"),
    "one-dimensional": ("gaussian", G[:, 0], "two-dimensional"),
    "three-dimensional": ("gaussian", G[None], "two-dimensional"),
    "a number": ("gaussian", 3.0, "two-dimensional"),
    "nothing": ("gaussian", None, "two-dimensional"),
    "a half": ("bernoulli", spoiled(GOOD["bernoulli"][0], 6, 1, 0.5), "row 6, column 1"),
    "minus one": ("bernoulli", spoiled(GOOD["bernoulli"][0], 2, 0, -1.0), "row 2, column 0"),
    "off the sphere": ("sphere", GOOD["sphere"][0] * np.where(np.arange(12) == 8, 1.01, 1.0)[:, None], "row 8"),
    "zero direction": ("sphere", GOOD["sphere"][0] * np.where(np.arange(12) == 3, 0.0, 1.0)[:, None], "row 3"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_and_changes_nothing(case):
    name, bad, message = BAD_TABLES[case]
    X, times = GOOD[name]
    model = DynamicalMixture(THREE_FEATURES[name], Exponential(15.0)).fit(X, times=times)
    before = fingerprint(model, X[:2])
    attempts = [
        lambda: model.partial_fit(bad, times=LATER),
        lambda: model.predict(bad),
        lambda: model.predict_proba(bad),
        lambda: model.score_samples(bad),
    ]
    if not case.startswith("too "):
        attempts.append(lambda: model.fit(bad))
    for attempt in attempts:
        with pytest.raises(ValueError, match=message):
            attempt()
        assert fingerprint(model, X[:2]) == before


BAD_TIMES = {
    "backwards": (np.where(np.arange(12) == 5, 0.0, LATER), "row 5(; to sort|$)"),
    "before the last": (LATER - 101.0, "row 0$"),
    "too few": (LATER[:-1], "11 times for 12 rows"),
    "too many": (np.append(LATER, 1e9), "13 times for 12 rows"),
    "nan": (np.where(np.arange(12) == 3, np.nan, LATER), "row 3$"),
    "infinity": (np.where(np.arange(12) == 11, np.inf, LATER), "row 11$"),
    "not a time": (np.array(["2024-01-01"] * 11 + ["NaT"], dtype="datetime64[s]"), "one clock"),
    "a column": (LATER[:, None], "one-dimensional"),
    "a number": (200.0, "one-dimensional"),
    "strings": (LATER.astype(str), "one clock"),
    "complex": (LATER + 0j, "dtype"),
}


@pytest.mark.parametrize("case", BAD_TIMES)
def test_bad_times_are_refused_and_change_nothing(case):
    bad, message = BAD_TIMES[case]
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(15.0)).fit(G, times=T)
    before = fingerprint(model, G)
    for attempt in (model.partial_fit, model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(ValueError, match=message):
            attempt(G, times=bad)
        assert fingerprint(model, G) == before


def test_predict_names_the_row_whose_time_has_passed():
    model = gaussian_model().fit([[0.0]], times=[10.0])
    with pytest.raises(ValueError, match=r"9.0 is earlier .*, at row 1"):
        model.predict([[0.0], [0.0], [0.0]], times=[12.0, 9.0, 11.0])


@pytest.mark.parametrize("first", [None, [0.0, 1.0]], ids=["without", "with"])
def test_a_stream_has_one_clock(first):
    X = [[0.0], [1.0]]
    model = gaussian_model().partial_fit(X, times=first)
    before = fingerprint(model, X)
    with pytest.raises(ValueError, match="clock"):
        model.partial_fit(X, times=[5.0, 6.0] if first is None else None)
    assert fingerprint(model, X) == before


def test_a_model_that_never_saw_good_input_stays_unfitted():
    model = gaussian_model()
    with pytest.raises(ValueError, match="row 0"):
        model.partial_fit([[np.inf]])
    with pytest.raises(NotFittedError):
        model.predict([[0.0]])
    assert model.partial_fit([[1.0, 2.0]]).n_tables_ == 1


@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_width_is_that_of_the_first_call(width):
    model = gaussian_model().fit(G)
    for attempt in (model.partial_fit, model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(ValueError, match=f"{width} features.*expecting 3"):
            attempt(np.zeros((2, width)))


def test_hyperparameters_must_fit_the_width():
    with pytest.raises(ValueError, match="3 entries"):
        DynamicalMixture(Gaussian([1.0, 0.5, 2.0], 25.0)).fit([[0.0, 1.0]])


def test_sparse_tables_are_refused():
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(3))
    with pytest.raises(ValueError, match="toarray"):
        gaussian_model().fit(sparse)


# --- parameters -----------------------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    ("family", "gaussian"),
    ("family", Gaussian),
    ("dynamics", 20.0),
    ("dynamics", Stationary),
    ("alpha", 0.0),
    ("alpha", -1.0),
    ("alpha", np.nan),
    ("alpha", np.inf),
    ("alpha", "1"),
    ("alpha", True),
    ("assignment", "hard"),
    ("table_count", "mean"),
    ("n_iter", 0),
    ("n_iter", 1.5),
    ("new_table_threshold", 0.0),
    ("new_table_threshold", 1.01),
    ("new_table_threshold", np.nan),
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS)
def test_bad_parameters_are_refused_by_the_first_fit(name, value):
    model = gaussian_model(**{name: value})  # as scikit-learn wants it: nothing is checked before
    with pytest.raises(ValueError, match=name):
        model.fit([[0.0]])
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS)
def test_bad_parameters_set_later_are_refused_by_fit(name, value):
    model = gaussian_model().set_params(**{name: value})
    with pytest.raises(ValueError, match=name):
        model.fit([[0.0]])


@every_option
@every_family
def test_clone_has_the_parameters_and_nothing_else(family, options):
    X, times = stream(family)
    model = DynamicalMixture(family, DYNAMICS["sum-of-products"], alpha=2.0, **options).fit(X, times=times)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert fingerprint(copy.fit(X, times=times), X[:5]) == fingerprint(model, X[:5])


def test_get_params_gives_back_what_was_given():
    params = {
        "family": Gaussian(1.0, 100.0),
        "dynamics": Oscillatory(7.0),
        "alpha": 3,
        "memory": 50.0,
        "warmup": 500,
        "resolution": 2.0,
        "learn_alpha": False,
        "n_jobs": 2,
        "assignment": "variational",
        "table_count": "posterior",
        "n_iter": 5,
        "new_table_threshold": 0.25,
        "max_tables": 9,
        "prune_below": 0.5,
        "alarm_rate": 0.001,
        "surge_rate": 0.0001,
        "n_examples": 3,
        "keep_clusters": True,
    }
    assert DynamicalMixture(**params).get_params(deep=False) == params


def test_repr_shows_what_differs_from_the_defaults():
    text = repr(gaussian_model(alpha=5.0))
    assert "Exponential(timescale=20.0)" in text
    assert "alpha=5.0" in text
    assert "n_iter" not in text


# --- does it find the clusters? -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "options"),
    [
        (Gaussian(1.0, 200.0), {}),
        (Gaussian(1.0, 200.0), {"assignment": "variational"}),
        (Gaussian(1.0, 200.0), {"table_count": "posterior", "new_table_threshold": 0.1}),
        (Bernoulli(0.05, 0.05), {}),
        (VonMisesFisher(200.0), {}),
    ],
    ids=["gaussian", "variational", "posterior", "bernoulli", "sphere"],
)
def test_clusters_of_a_sampled_mixture_are_found(family, options):
    process = DynamicalCRP(1.0, Exponential(50.0))
    X, labels, _ = sample_mixture(process, family, np.arange(250), seed=11, n_features=8)
    model = DynamicalMixture(family, process.dynamics, alpha=process.alpha, **options).fit(X)
    assert len(np.unique(labels)) >= 4
    assert adjusted_mutual_info_score(labels, model.labels_) > 0.9


def test_evidence_prefers_the_dynamics_that_made_the_data():
    process = DynamicalCRP(2.0, Exponential(10.0))
    family = Gaussian(1.0, 100.0)
    X, _, _ = sample_mixture(process, family, np.arange(400), seed=3, n_features=2)
    right = DynamicalMixture(family, Exponential(10.0), alpha=2.0).fit(X)
    wrong = DynamicalMixture(family, Stationary(), alpha=2.0).fit(X)
    assert right.log_evidence_ > wrong.log_evidence_ + 10


def test_a_stream_keeps_to_one_kind_of_clock():
    dates = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(15.0)).fit(G[:2], times=[0.0, 1.0])
    for times in (None, dates):
        with pytest.raises(ValueError, match="one clock"):
            model.partial_fit(G[:2], times=times)
    with pytest.raises(ValueError, match="one clock"):
        model.predict(G[:2], times=dates)


@every_family
@pytest.mark.parametrize("timed", [False, True])
def test_one_at_a_time_is_the_same_to_the_bit(family, timed):
    X, times = stream(family)
    whole = DynamicalMixture(family, Exponential(15.0)).fit(X, times=times if timed else None)
    one = DynamicalMixture(family, Exponential(15.0))
    labels = [one.learn_one(x, t if timed else None) for x, t in zip(X, times, strict=True)]
    assert labels == whole.labels_.tolist()
    assert one.log_evidence_ == whole.log_evidence_
    assert one.occupancies_.tobytes() == whole.occupancies_.tobytes()
    assert one.n_observations_ == len(X)


def test_learn_one_takes_dates_and_asks_for_them():
    day = np.datetime64("2024-01-01")
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(timedelta(days=3)))
    dates = day + np.arange(4) * np.timedelta64(1, "D")
    labels = [model.learn_one(x, t) for x, t in zip(G, dates, strict=False)]
    whole = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(timedelta(days=3))).fit(G[:4], times=dates)
    assert labels == whole.labels_.tolist()
    assert model.log_evidence_ == whole.log_evidence_
    before = fingerprint(model, G)
    for t in (None, 1e12):
        with pytest.raises(ValueError, match="one clock"):
            model.learn_one(G[0], t)
    assert fingerprint(model, G) == before


def test_learn_one_refuses_what_partial_fit_refuses():
    model = gaussian_model()
    model.learn_one(G[0], 1.0)
    before = fingerprint(model, G)
    for x, t, message in (
        (G[0], 0.5, "backwards"),
        (G[0], np.nan, "finite"),
        (G[0] * np.inf, 2.0, "finite"),
        (G[0][:1], 2.0, "features"),
        (G[0], None, "one clock"),
        (3.0, 2.0, "two-dimensional"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(x, t)
    assert fingerprint(model, G) == before


def test_an_interrupted_call_has_learned_the_rows_that_it_came_to(monkeypatch):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(15.0)).fit(X[:100])
    engine = type(model.engine_)
    run = engine.run

    def interrupted(self, X, times):
        run(self, X[:40], times[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:])
    with pytest.raises(KeyboardInterrupt):
        DynamicalMixture(THREE_FEATURES["gaussian"]).fit(X)
    monkeypatch.undo()
    straight = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(15.0)).fit(X[:140])
    assert model.n_observations_ == 140
    assert model.partial_fit(X[140:]).labels_.tolist() == straight.partial_fit(X[140:]).labels_.tolist()
    assert model.log_evidence_ == straight.log_evidence_


def test_an_interrupted_fit_leaves_the_model_as_it_was(monkeypatch):
    model = DynamicalMixture(THREE_FEATURES["gaussian"], Exponential(15.0)).fit(G)
    before = fingerprint(model, G)

    def interrupted(self, X, times):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model.engine_), "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(G[:3])
    monkeypatch.undo()
    assert fingerprint(model, G) == before


def test_novelty_is_minus_the_log_density_on_arrival():
    rng = np.random.default_rng(8)
    X = rng.normal(0.0, 5.0, (40, 2))
    model = DynamicalMixture(Gaussian(1.0, 25.0), Exponential(9.0)).fit(X[:30])
    expected = []
    for row in X[30:]:
        expected.append(-model.score_samples([row])[0])
        model.partial_fit([row])
    model.fit(X[:30]).partial_fit(X[30:])
    np.testing.assert_allclose(model.novelty_, expected, rtol=1e-12)


# --- tables that close ----------------------------------------------------------------------------------------------


def wandering(n, seed=0):
    """Rows from clusters that come and go: cluster c is visited about time 40 c."""
    rng = np.random.default_rng(seed)
    places = np.arange(n) // 40 + rng.integers(0, 3, n)
    return np.column_stack([100.0 * places, -70.0 * places]) + rng.normal(size=(n, 2)), places


@pytest.mark.parametrize("limits", [{"max_tables": 4}, {"prune_below": 0.01}, {"max_tables": 6, "prune_below": 0.1}])
def test_an_endless_stream_keeps_few_tables_and_never_reuses_an_id(limits, tmp_path):
    X, places = wandering(2000)
    model = DynamicalMixture(Gaussian(1.0, 1e8), Exponential(20.0), **limits).fit(X[:1500])
    assert model.n_tables_ <= 8
    ids = model.table_ids_
    assert len(ids) == model.n_tables_ == len(model.occupancies_) == len(model.centers_)
    assert np.all(np.diff(ids) > 0)
    assert ids[-1] > 35
    # Every table is a place, and what closed is what is not open.
    assert len(set(zip(places[:1500], model.labels_, strict=True))) == len(set(model.labels_)) == ids[-1] + 1
    assert sorted([*model.closed_ids_, *ids]) == list(range(ids[-1] + 1))
    assert model.responsibilities_.shape == (1500, ids[-1] + 1)
    assert model.responsibilities_.argmax(axis=1).tolist() == model.labels_.tolist()
    # Predictions go by id, and what has closed is unknown again.
    np.testing.assert_array_equal(model.predict(model.centers_), ids)
    assert model.predict(X[:1]) == [-1]
    shares = model.predict_proba(model.centers_)
    assert shares.shape == (len(ids), len(ids) + 1)
    assert shares.argmax(axis=1).tolist() == list(range(len(ids)))
    model.save(tmp_path / "model")
    again = DynamicalMixture.load(tmp_path / "model")
    np.testing.assert_array_equal(again.table_ids_, ids)
    whole = DynamicalMixture(Gaussian(1.0, 1e8), Exponential(20.0), **limits).fit(X)
    np.testing.assert_array_equal(again.partial_fit(X[1500:]).labels_, whole.labels_[1500:])
    assert [model.learn_one(x) for x in X[1500:]] == whole.labels_[1500:].tolist()
    assert whole.log_evidence_ == again.log_evidence_ == model.log_evidence_
    np.testing.assert_array_equal(again.closed_ids_, whole.closed_ids_[-len(again.closed_ids_) :])


def test_alpha_learns_from_openings_however_many_tables_have_closed():
    # While nothing that closes is visited again, closing changes neither the openings nor what has been forgotten.
    X, _ = wandering(1000)
    free = DynamicalMixture(Gaussian(1.0, 1e8), Exponential(5.0), learn_alpha=True).fit(X)
    limited = DynamicalMixture(Gaussian(1.0, 1e8), Exponential(5.0), learn_alpha=True, max_tables=8).fit(X)
    assert limited.n_tables_ == 8 < free.n_tables_
    np.testing.assert_array_equal(free.labels_, limited.labels_)
    np.testing.assert_allclose(limited.alpha_, free.alpha_, rtol=1e-9)


@pytest.mark.parametrize("limits", [{"max_tables": 0}, {"max_tables": True}, {"prune_below": -1}])
def test_limits_that_make_no_sense_are_refused(limits):
    with pytest.raises(ValueError, match=next(iter(limits))):
        DynamicalMixture(Gaussian(1.0, 9.0), **limits).fit([[0.0]])


def test_learn_one_leaves_the_last_batch_alone():
    X = [[0.0, 0.0], [50.0, 50.0]]
    dates = np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")
    for options, times, t in (({}, None, None), ({"learn_alpha": True}, None, None), ({}, dates, dates[1])):
        model = DynamicalMixture(Gaussian(1.0, 1e4), **options).fit(X, times=times)
        assert model.learn_one([51.0, 49.0], t) == 1
        assert model.labels_.tolist() == [0, 1]
        assert model.responsibilities_.shape == (2, 2)


def test_a_timescale_of_hours_needs_times():
    hour = Exponential(timedelta(hours=1))
    X = np.zeros((3, 2))
    for dynamics in (hour, 0.9 * hour + 0.1 * Stationary(), [Stationary(), hour], replace(hour)):
        with pytest.raises(ValueError, match="timedelta of 3600 seconds, but there are no times"):
            DynamicalMixture(Gaussian(1.0, 9.0), dynamics).fit(X)
        with pytest.raises(ValueError, match="there are no times"):
            tune(X, dynamics=dynamics)
    model = DynamicalMixture(Gaussian(1.0, 9.0), hour).fit(X, times=[0.0, 1.0, 2.0])  # numbers may be seconds
    assert clone(model).fit(X, times=np.array([0, 1, 2], dtype="M8[s]")).n_tables_ == 1
    assert DynamicalMixture(Gaussian(1.0, 9.0), Exponential(3600.0)).fit(X).n_tables_ == 1


@pytest.mark.parametrize("t", [True, Decimal(5), "5", np.nan])
def test_learn_one_takes_the_times_that_partial_fit_takes(t):
    model = DynamicalMixture(Gaussian(1.0, 9.0)).fit([[0.0]], times=[1.0])
    with pytest.raises(ValueError, match="times"):
        model.partial_fit([[0.0]], times=[t])
    with pytest.raises(ValueError, match="times"):
        model.learn_one([0.0], t)
    assert model.learn_one([0.0], 5) == model.learn_one([0.0], np.int8(5)) == 0


def test_dates_are_no_index_of_arrival():
    model = gaussian_model().fit(G[:2])
    assert model.predict(G[:1], times=[5.0]).shape == (1,)
    with pytest.raises(ValueError, match="a stream has one clock"):
        model.predict(G[:1], times=[np.datetime64("2024-01-01")])


def test_learn_one_makes_no_batch():
    model = gaussian_model(family=Gaussian(1.0, 100.0))
    assert [model.learn_one(x) for x in ([0.0], [9.0])] == [0, 1]
    for name in ("labels_", "responsibilities_", "novelty_", "closed_ids_"):
        with pytest.raises(AttributeError, match=f"no {name}, which describes the last batch"):
            getattr(model, name)
    assert model.partial_fit([[9.1]]).labels_.tolist() == [1]
