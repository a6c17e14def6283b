"""The distance-dependent CRP against enumeration of all links, and against the Dynamical CRP that it is."""

from collections import Counter
from itertools import islice, product

import numpy as np
import pytest

from dyncrp import DynamicalCRP, Exponential, Gaussian, Hyperbolic, LinearODE, Oscillatory, VonMisesFisher
from dyncrp.baselines import DistanceDependentCRP, DistanceDependentMixture
from dyncrp.baselines.base import in_order
from dyncrp.baselines.ddcrp import samples, tables
from dyncrp.datasets import sample_mixture

TIMES = np.array([0.0, 0.5, 2.0, 2.0])


def configurations(process, times):
    """All links of each customer, and their probabilities by definition."""
    for links in product(*(range(n + 1) for n in range(len(times)))):
        probability = 1.0
        for n, link in enumerate(links):
            kernel = [float(process.dynamics.kernel(times[n] - times[j])) for j in range(n)]
            weights = [*kernel, process.alpha]
            probability *= weights[link] / sum(weights)
        yield links, probability


def seated(links):
    """Who sits where: customers reach each other by following links either way."""
    labels = list(range(len(links)))
    for _ in links:
        for n, link in enumerate(links):
            labels[n] = labels[link] = min(labels[n], labels[link])
    return tuple(in_order(np.array(labels)).tolist())


@pytest.mark.parametrize("dynamics", [Exponential(1.5), Oscillatory(3.0), Hyperbolic(1.0)])
def test_links_and_tables_of_the_prior(dynamics):
    process = DistanceDependentCRP(0.8, dynamics)
    links = process.sample_links(TIMES, n_samples=40_000, seed=0)
    seen = Counter(map(tuple, links.tolist()))
    total, marginals = 0.0, np.zeros((4, 4))
    for configuration, probability in configurations(process, TIMES):
        error = np.sqrt(probability * (1 - probability) / len(links)) + 1e-12  # at most 0.0025
        assert abs(seen[configuration] / len(links) - probability) < 4.0 * error
        labels = seated(configuration)
        np.testing.assert_array_equal(tables(np.array([configuration]))[0], labels)
        marginals[np.arange(4), labels] += probability
        total += probability
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(marginals, DynamicalCRP(0.8, dynamics).marginals(TIMES).assignments, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "dynamics"), [(Gaussian(1.0, 5.0), Exponential(1.5)), (VonMisesFisher(2.0), Oscillatory(5.0))]
)
def test_samples_the_exact_posterior_over_partitions(family, dynamics, worst_deviation):
    X, _, _ = sample_mixture(DynamicalCRP(2.0), family, range(4), seed=6, n_features=2)
    process = DistanceDependentCRP(1.0, dynamics)
    joint = Counter()
    for links, probability in configurations(process, TIMES):
        labels = np.array(seated(links))
        likelihood = sum(family.log_marginal(X[labels == c]) for c in set(labels.tolist()))
        joint[tuple(labels.tolist())] += probability * np.exp(likelihood)
    assert len(joint) == 15  # the Bell number
    chain = [
        (tuple(in_order(roots).tolist()), value)
        for roots, value in islice(samples(family, process, X, TIMES, 8100, seed=2), 100, None)
    ]
    assert max(abs(value - np.log(joint[labels])) for labels, value in chain) < 1e-9
    states = {labels: k for k, labels in enumerate(joint)}
    exact = np.array(list(joint.values())) / sum(joint.values())
    assert worst_deviation(np.array([states[labels] for labels, _ in chain]), exact) < 4.0


def test_the_mixture_keeps_the_most_probable_partition():
    family, dynamics = Gaussian(1.0, 9.0), Exponential(5.0)
    X, _, _ = sample_mixture(DynamicalCRP(2.0, dynamics), family, range(30), seed=0)
    model = DistanceDependentMixture(family, dynamics, 2.0, n_sweeps=40, seed=1).fit(X, times=range(30))
    states = list(samples(family, DistanceDependentCRP(2.0, dynamics), X, np.arange(30.0), 40, seed=1))
    best = max(states, key=lambda state: state.log_joint)
    np.testing.assert_array_equal(model.labels_, in_order(best.labels))
    assert model.log_joint_.max() == best.log_joint
    assert best.log_joint > states[-1].log_joint


def test_a_negative_kernel_is_refused():
    with pytest.raises(ValueError, match="never negative"):
        DistanceDependentCRP(1.0, LinearODE([1.0, 0.0, 1.0])).sample_links(range(5))
