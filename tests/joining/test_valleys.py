"""Tables with no valley between them, against a slow oracle."""

from itertools import product

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.special import gamma, xlogy
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import Bernoulli, Gaussian, NormalGamma, VonMisesFisher
from dyncrp.joining.linkage import linkage
from dyncrp.joining.valleys import join_by_valleys
from tiles import tables


def slow_valleys(shapes):
    """The rule of valleys.py, table by table and point by point, and the height of every pair's joining."""
    n, mu = shapes.counts, shapes.centers
    K, Q = mu.shape
    forms, weights, windows = [], [], []
    for c in range(K):
        spread = shapes.spread[c]
        cov = spread if np.ndim(spread) == 2 else np.diag(np.broadcast_to(spread, Q))
        cov = (n[c] ** 2 / max(n[c] - 1.0, 1.0) * cov + 5.0 * np.eye(Q)) / (n[c] + 5.0)
        values, vectors = np.linalg.eigh(cov)
        values = np.maximum(values, shapes.least)
        cov = vectors @ np.diag(values) @ vectors.T
        size = np.prod(values) ** (min(Q, 2) / (2.0 * Q))
        forms.append(np.linalg.inv(1.25 ** min(1.0, 2.0 / Q) * cov))
        weights.append(n[c] / size)
        windows.append(1.0 if shapes.least else size)

    def density(x):
        gaps = [(x - m) @ A @ (x - m) for m, A in zip(mu, forms, strict=True)]
        return sum(w * np.exp(-((gap / gamma(1 / 3)) ** 1.5)) for w, gap in zip(weights, gaps, strict=True))

    peaks = [density(m) for m in mu]
    gaps = np.sum((mu[:, None] - mu) ** 2, axis=2)
    saddles = {}
    for a in range(K):
        for b in np.argsort(gaps[a])[:16]:
            if a != b:
                between = [density(mu[a] + i / 16 * (mu[b] - mu[a])) for i in range(1, 16)]
                saddles[min(a, b), max(a, b)] = min(*between, peaks[a], peaks[b])  # the same number for each pair
    cluster = list(range(K))
    for (a, b), saddle in sorted(saddles.items(), key=lambda item: (-item[1], gaps[item[0]])):
        low, high = sorted((cluster[a], cluster[b]), key=lambda c: peaks[c])
        if low == high:
            continue
        ratio = min(saddle / peaks[low], 1.0)
        P = peaks[low] * windows[low]
        P = min(
            max(P, sum(w * v for w, v, g in zip(weights, windows, cluster, strict=True) if g == low))
            if ratio < 1e-3
            else P,
            250.0,
        )
        m = P * (1.0 + ratio) / 2.0
        if 2.0 * (P * np.log(P / m) + xlogy(P * ratio, P * ratio / m)) <= 3.5**2:
            cluster = [high if g == low else g for g in cluster]
    return np.array(cluster)


@pytest.mark.parametrize(
    ("name", "seed"), [*product(["full", "round", "diagonal", "sphere", "bits"], range(2)), ("full", 2)]
)
def test_the_rule_is_the_one_that_the_module_states(name, seed):
    rng = np.random.default_rng(seed)
    family, D = {
        "full": (Gaussian(1.0, 25.0), 2 + seed % 3),
        "round": (Gaussian(1.0, 25.0), 10),
        "diagonal": (NormalGamma(1.0, 25.0), 2),
        "sphere": (VonMisesFisher(30.0), 3),
        "bits": (Bernoulli(0.5, 0.5), 6),
    }[name]
    K = 20
    centers = rng.normal(size=(K, D)) * {10: 2.0, 6: 1.3}.get(D, 6.0)
    rows = [center + rng.normal(size=(rng.integers(2, 40), D)) * rng.uniform(0.5, 2.0, D) for center in centers]
    if name == "sphere":
        rows = [
            family.sample(np.tile(c / np.linalg.norm(c), (len(X), 1)), rng) for c, X in zip(centers, rows, strict=True)
        ]
    if name == "bits":
        rows = [(X > 0.0).astype(float) for X in rows]
    stats = np.array([family.statistics(X).sum(axis=0) for X in rows])
    squares = np.array([family.squares(X).sum(axis=0) for X in rows])
    _, roots = join_by_valleys(family.shapes(stats, squares))
    expected = slow_valleys(family.shapes(stats, squares))
    assert len(np.unique(roots)) == len(np.unique(expected))
    assert adjusted_mutual_info_score(expected, roots) == pytest.approx(1.0)
    assert 1 < len(np.unique(roots)) < K or name == "bits"  # neither all nor none: the rule is at work


def test_of_many_tables_only_the_near_ones_count_and_the_result_is_the_same():
    family, stats, squares, _ = tables(45, 2, 3, scale=20.0)
    _, roots = join_by_valleys(family.shapes(stats, squares))
    expected = slow_valleys(family.shapes(stats, squares))
    assert adjusted_mutual_info_score(expected, roots) > 0.999
    assert 3 < len(np.unique(roots)) < 40


def test_the_tree_connects_tables_however_far_apart():
    family = Gaussian(1.0, 1e6)
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(place, 2.0, size=(40, 2)) for place in (0.0, 1e4, 2e4)])
    stats, squares = family.statistics(X), family.squares(X)
    merges, _ = join_by_valleys(family.shapes(stats, squares))
    tree = linkage(merges, 120)
    assert is_valid_linkage(tree)
    assert np.all(np.isfinite(tree))
    assert tree[-3, 2] < 100.0 < 1e6 < tree[-2, 2]
    whole = hierarchy.fcluster(tree, 3, "maxclust")
    assert adjusted_mutual_info_score(np.repeat([0, 1, 2], 40), whole) == pytest.approx(1.0)
