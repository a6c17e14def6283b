"""The Gibbs sampler against the exact posterior, by enumeration of all partitions."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from cases import FAMILIES
from dyncrp import DynamicalCRP, Gaussian, NormalGamma, VonMisesFisher
from dyncrp.baselines import GibbsMixture
from dyncrp.baselines.gibbs import samples
from dyncrp.baselines.partition import prepare
from dyncrp.datasets import sample_mixture

CASES = ("gaussian-diagonal", "gaussian-directions", "bernoulli", "circle")
every_family = pytest.mark.parametrize("family", [FAMILIES[name].family for name in CASES], ids=CASES)


def partitions(n):
    """All partitions of n customers, as labels in order of appearance."""
    found = [()]
    for _ in range(n):
        found = [(*labels, c) for labels in found for c in range(max(labels, default=-1) + 2)]
    return found


def log_joint(family, alpha, X, labels):
    """log p(X, labels), a table at a time: the slow way."""
    labels = np.array(labels)
    total, seated = 0.0, Counter()
    for n, c in enumerate(labels):
        total += np.log((seated[c] or alpha) / (alpha + n))
        seated[c] += 1
    return total + sum(family.log_marginal(X[labels == c]) for c in set(labels))


@every_family
def test_samples_the_exact_posterior_over_partitions(family, worst_deviation):
    X, _, _ = sample_mixture(DynamicalCRP(2.0), family, range(5), seed=1, n_features=2)
    alpha = 1.5
    joint = {labels: log_joint(family, alpha, X, labels) for labels in partitions(5)}
    assert len(joint) == 52  # the Bell number
    chain = [
        (tuple(labels.tolist()), value)
        for labels, value in islice(samples(family, alpha, X, 10_100, seed=3), 100, None)
    ]
    assert max(abs(value - joint[labels]) for labels, value in chain) < 1e-9
    states = {labels: k for k, labels in enumerate(joint)}
    exact = np.exp(np.array(list(joint.values())) - np.logaddexp.reduce(list(joint.values())))
    assert worst_deviation(np.array([states[labels] for labels, _ in chain]), exact) < 4.0


@every_family
def test_log_partition_is_that_of_the_family(family):
    X, _, _ = sample_mixture(DynamicalCRP(2.0), family, range(6), seed=2, n_features=2)
    rows, partition, log_base = prepare("a test", family, X)
    for n in range(7):
        expected = family.log_partition(np.sum(family.statistics(X[:n]), axis=0, keepdims=True))[0]
        assert partition(n, rows[:n].sum(axis=0)) == pytest.approx(expected, abs=1e-12)
    assert log_base == pytest.approx(np.sum(family.log_base_measure(X)))


def test_the_bound_of_the_von_mises_fisher_holds_and_bites():
    rng = np.random.default_rng(0)
    X = VonMisesFisher(1.0).sample_parameters(60, 3, rng)
    rows, partition, _ = prepare("a test", VonMisesFisher(20.0), X)
    gaps = []
    for i in range(1, 59):
        s = rows[:i].sum(axis=0)
        gained = partition(i + 1, s + rows[i]) - partition(i, s)
        gaps.append(partition.most_gained(s, s + rows[i]) - gained)
    assert min(gaps) >= 0.0
    assert min(gaps) < 0.3


def test_keeps_the_most_probable_state():
    family = Gaussian(1.0, 9.0)
    X, _, _ = sample_mixture(DynamicalCRP(3.0), family, range(40), seed=0)
    model = GibbsMixture(family, 3.0, n_sweeps=30, seed=5).fit(X)
    states = list(samples(family, 3.0, X, 30, seed=5))
    np.testing.assert_array_equal(model.log_joint_, [state.log_joint for state in states])
    assert log_joint(family, 3.0, X, model.labels_) == pytest.approx(model.log_joint_.max())
    assert model.log_joint_.argmax() != 29  # here best and last differ


def test_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="Gibbs sampling needs a Gaussian or Bernoulli or VonMisesFisher, got"):
        GibbsMixture(NormalGamma(1.0, 1.0)).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="unknown hyperparameters"):
        GibbsMixture(Gaussian()).fit([[0.0], [1.0]])
    for name, value in [("alpha", 0.0), ("n_sweeps", 0), ("seed", -1)]:
        with pytest.raises(ValueError, match=name):
            GibbsMixture(Gaussian(1.0, 1.0)).set_params(**{name: value}).fit([[0.0], [1.0]])
