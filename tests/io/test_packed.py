"""States as bytes without parameters: a model goes on from them to the bit, and other bytes are refused."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from cases import DYNAMICS, FAMILIES, RULES, draw
from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.io.packed import pack, unpack

PARAMS = {"family": Gaussian(1.0, 50.0), "dynamics": Exponential(30.0), "alpha": 1.0}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return 5.0 * rng.integers(0, 4, (n, 1)) + rng.normal(size=(n, 2))


def check_goes_on(params, X, times):
    """Learn the first half, then the second in that model, in a new one and in one that learned something else."""
    half = len(X) // 2
    model = DynamicalMixture(**params).fit(X[:half], times=times[:half])
    kept = model.to_state()
    used = DynamicalMixture(**params).fit(X[::-1], times=times)
    models = [model, DynamicalMixture(**params).set_state(kept), used.set_state(kept)]
    assert not hasattr(used, "labels_")
    for one in models:
        one.partial_fit(X[half:], times=times[half:])
        np.testing.assert_array_equal(one.labels_, model.labels_)
        np.testing.assert_array_equal(one.novelty_, model.novelty_)
        assert one.to_state() == model.to_state()
        assert one.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
def test_every_family_goes_on(case):
    X, _ = draw(case)
    check_goes_on({"family": case.family, "dynamics": Exponential(30.0), "alpha": 1.0}, X, np.arange(len(X)))


@pytest.mark.parametrize("dynamics", DYNAMICS.values(), ids=DYNAMICS.keys())
def test_every_dynamics_goes_on(dynamics):
    check_goes_on(PARAMS | {"dynamics": dynamics}, rows(), np.arange(60.0))


@pytest.mark.parametrize(
    "params", [{"learn_alpha": True}, {"memory": 10.0}, {"max_tables": 2}, {"resolution": 3.0}], ids=str
)
def test_every_parameter_goes_on(params):
    check_goes_on(PARAMS | params, rows(500), np.arange(500.0))


def test_the_reference_goes_on(monkeypatch):
    monkeypatch.setattr("dyncrp.engine.has_extension", lambda: False)
    check_goes_on(PARAMS, rows(), np.arange(60.0))


def test_times_are_of_their_kind():
    kept = DynamicalMixture(**PARAMS).fit(rows(), times=np.arange(60).astype("M8[s]")).to_state()
    assert DynamicalMixture(**PARAMS).set_state(kept).clock_ == "dates"
    with pytest.raises(ValueError, match="another kind of times"):
        DynamicalMixture(**PARAMS).fit(rows()).set_state(kept)


@pytest.mark.parametrize(
    "other",
    [
        {"alpha": 2.0},
        {"family": Gaussian(1.0, 50.0 + 1e-12)},
        {"family": Gaussian(1.0, 50.0, directions=[[1.0, 0.0], [0.0, 1.0]])},
        {"dynamics": Exponential(30.5)},
        {"memory": 9.0},
        {"max_tables": 9},
        {"learn_alpha": True},
    ],
    ids=str,
)
def test_other_parameters_are_refused(other):
    kept = DynamicalMixture(**PARAMS).fit(rows()).to_state()
    model = DynamicalMixture(**PARAMS | other)
    with pytest.raises(ValueError, match="of a model with other parameters"):
        model.set_state(kept)
    model.fit(rows(seed=1))
    before = model.to_bytes()
    with pytest.raises(ValueError, match="of a model with other parameters"):
        model.set_state(kept)
    with pytest.raises(ValueError, match="with 2 features, not"):
        DynamicalMixture(**PARAMS).fit(rows()[:, :1]).set_state(kept)
    assert model.to_bytes() == before


def test_what_is_unknown_is_refused():
    model = DynamicalMixture().partial_fit(rows())
    with pytest.raises(ValueError, match="still learns its hyperparameters"):
        model.to_state()
    kept = model.learn_unknown().to_state()
    assert model.set_state(kept).n_observations_ == 60
    with pytest.raises(ValueError, match=r"dyncrp\.tune"):
        DynamicalMixture().set_state(kept)
    with pytest.raises(NotFittedError):
        DynamicalMixture(**PARAMS).to_state()


def test_every_number_of_a_family_counts():
    """Also those that its repr leaves out."""
    means, X = np.arange(20.0), np.random.default_rng(0).normal(size=(10, 20))
    families = [Gaussian(1.0, 9.0, means), Gaussian(1.0, 9.0, means[::-1])]
    families += [Gaussian(1.0, 9.0, 0.0, np.linalg.qr(X.T @ X + at * np.diag(means))[0]) for at in (0, 1)]
    kept = [DynamicalMixture(family).fit(X).to_state() for family in families]
    for i, family in enumerate(families):
        for j, state in enumerate(kept):
            if i != j:
                with pytest.raises(ValueError, match="of a model with other parameters"):
                    DynamicalMixture(family).set_state(state)


def test_bytes_of_databases():
    model = DynamicalMixture(**PARAMS).fit(rows())
    kept = model.to_state()
    for content in (bytearray(kept), memoryview(kept)):
        assert DynamicalMixture(**PARAMS).set_state(content).to_state() == kept
        assert model.set_state(content).to_state() == kept
    with pytest.raises(ValueError, match="a state must be bytes, got NoneType"):
        model.set_state(None)


def test_other_bytes_are_refused():
    model = DynamicalMixture(**PARAMS).fit(rows())
    kept = model.to_state()
    rng = np.random.default_rng(0)
    for length in [*range(0, 60), *rng.integers(0, len(kept), 100)]:
        with pytest.raises(ValueError, match=r"state|array"):
            DynamicalMixture(**PARAMS).set_state(kept[:length])
    for _ in range(3000):
        forged = bytearray(kept)
        forged[rng.integers(0, len(kept))] ^= 1 << int(rng.integers(0, 8))
        other = DynamicalMixture(**PARAMS)
        try:
            other.set_state(bytes(forged))
        except ValueError:
            continue
        other.predict(rows())  # numbers may be wrong, and nothing worse


@pytest.mark.parametrize(
    ("params", "name", "value"),
    [
        ({}, "stats", np.array(1.0)),
        ({}, "table_ids", np.array(1)),
        ({"n_examples": 2}, "example_rows", np.array(1.0)),
        ({"n_examples": 2}, "example_tables", np.array([-1])),
        ({"learn_alpha": True}, "alpha_total", np.array([np.inf])),
        ({"learn_alpha": True}, "alpha_total", None),
        ({}, "n_observations", np.array(2**63 - 1)),
    ],
)
def test_a_state_with_another_array_is_refused_and_changes_nothing(params, name, value):
    model = DynamicalMixture(**PARAMS | params).fit(rows())
    state = model.to_state()
    arrays = model.stream_.learner.arrays()
    assert name in arrays
    head = state[: len(state) - len(pack(arrays))]
    forged = {key: array for key, array in (arrays | {name: value}).items() if array is not None}
    holes = np.where(np.arange(60)[:, None] % 7 == 0, np.nan, rows())
    other = DynamicalMixture(**PARAMS | params).fit(holes)  # whose engine is of another kind
    for fitted in (model, other):
        before = fitted.to_state()
        with pytest.raises(ValueError, match="it"):
            fitted.set_state(head + pack(forged))
        assert fitted.to_state() == before


def test_arrays_as_bytes():
    arrays = {
        "a": np.array(2.5),
        "b": np.arange(6, dtype=np.int64).reshape(2, 3),
        "c": np.array([1 + 2j]),
        "none": np.zeros((0, 4)),
    }
    found = unpack(pack(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_every_rule_goes_on(rules):
    check_goes_on(PARAMS | rules, rows(), np.arange(60.0))
