"""What every system promises."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from cases import SEPARATED
from dyncrp import Bernoulli, DynamicalCRP, Exponential, Gaussian, Hyperbolic, Oscillatory, Stationary
from dyncrp.baselines import SYSTEMS, make
from dyncrp.baselines.crp import nearest_exponential
from dyncrp.datasets import sample_mixture
from dyncrp.metrics import agreement

GAUSSIAN = SEPARATED["gaussian"].family
CASES = [
    pytest.param(name, family, id=f"{name}-{kind}")
    for name, system in SYSTEMS.items()
    for kind, (family, _) in SEPARATED.items()
    if isinstance(family, system.families)
    and (kind == "gaussian" or "CRP" not in name or name == "dd-CRP")  # our engine has tests of its own
]
TIMESCALE_50 = Exponential(50.0)


def stream(family):
    return sample_mixture(DynamicalCRP(0.5, TIMESCALE_50), family, range(150), seed=4, n_features=8)


def built(name, family, X_truth):
    return make(name, family=family, dynamics=TIMESCALE_50, alpha=0.5, n_clusters=len(np.unique(X_truth)), seed=1)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_clusters_well_and_the_same_way_again(name, family):
    X, truth, _ = stream(family)
    given = X.copy()
    model = built(name, family, truth)
    assert model.fit(X, times=np.arange(150.0)) is model
    labels = model.labels_
    assert labels.shape == (150,)
    assert labels.dtype == np.int64
    assert model.n_clusters_ == len(np.unique(labels))
    assert model.n_features_in_ == 8
    assert agreement(truth, labels).ami > 0.7
    np.testing.assert_array_equal(X, given)
    np.testing.assert_array_equal(clone(model).fit_predict(X), labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, labels)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_bad_input_is_refused_and_changes_nothing(name, family):
    X, truth, _ = stream(family)
    model = built(name, family, truth).fit(X)
    labels = model.labels_.copy()
    bad = X.copy()
    bad[3, 1] = np.inf
    for call in (
        lambda: model.fit(bad),
        lambda: model.fit(X, times=[1.0]),
        lambda: model.fit(X, times=-np.arange(150)),
    ):
        with pytest.raises(ValueError, match=r"X must be finite|times"):
            call()
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="7 features"):
            model.partial_fit(X[:, :7])
    np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("name", SYSTEMS)
def test_streaming_systems_can_go_on_and_others_cannot(name):
    model = built(name, GAUSSIAN, range(3))
    assert hasattr(model, "partial_fit") == SYSTEMS[name].streaming


@pytest.mark.parametrize("name", SYSTEMS)
def test_told_what_it_says_and_no_more(name):
    family = Gaussian(1.0, 9.0)  # clusters that overlap, so that whatever one is told matters
    X, truth, _ = sample_mixture(DynamicalCRP(5.0, TIMESCALE_50), family, range(150), seed=0)
    everything = {"family": family, "dynamics": TIMESCALE_50, "alpha": 5.0, "n_clusters": len(np.unique(truth))}
    others = {"family": Gaussian(3.0, 9.0), "dynamics": Exponential(5.0), "alpha": 1.0, "n_clusters": 5}
    labels = make(name, **everything).fit(X).labels_
    for fact, other in others.items():
        changed = make(name, **(everything | {fact: other})).fit(X).labels_
        assert np.array_equal(labels, changed) == (fact not in SYSTEMS[name].told)


@pytest.mark.parametrize(
    ("dynamics", "delay"),
    [(Hyperbolic(20.0), 20.0 * (np.e - 1)), (Oscillatory(30.0), 15.0 / np.pi * np.arccos(2 / np.e - 1))],
)
def test_the_nearest_exponential_falls_to_1_over_e_at_the_same_delay(dynamics, delay):
    assert nearest_exponential(dynamics).timescale == pytest.approx(delay, rel=1e-5)
    assert nearest_exponential(0.5 * Exponential(1.0) + 0.5 * Stationary()) == Stationary()


def test_the_paper_has_its_own_forms():
    paper, ours = (make(name, family=GAUSSIAN).get_params(deep=False) for name in ("D-CRP (paper)", "D-CRP"))
    assert {key: value for key, value in paper.items() if value != ours[key]} == {
        "assignment": "variational",
        "table_count": "posterior",
    }


def test_names_and_families_are_checked():
    with pytest.raises(ValueError, match="name must be one of 'D-CRP', "):
        make("DBSCAN", family=GAUSSIAN)
    with pytest.raises(ValueError, match="variational works on Gaussian, got Bernoulli"):
        make("variational", family=Bernoulli(1.0, 1.0))
    with pytest.raises(ValueError, match="give n_clusters"):
        make("k-means", family=GAUSSIAN)


def test_the_page_tells_what_the_registry_does():
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `(.+?)` \| (streaming|offline) \| (.+?) \| (.+?) \| .* \| (.+?) \|$", page, flags=re.MULTILINE
    )
    given = {"family": "family", "dynamics": "dynamics", "alpha": "alpha", "n_clusters": "K"}
    assert rows == [
        (
            name,
            "streaming" if system.streaming else "offline",
            ", ".join(given[fact] for fact in system.told),
            "any" if len(system.families) == 4 else ", ".join(f"`{kind.__name__}`" for kind in system.families),
            system.reference,
        )
        for name, system in SYSTEMS.items()
    ]
