"""Whether ellipses cut through curves: rows on their borders, counted border by border."""

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.datasets import make_blobs, make_circles, make_moons

from dyncrp import DynamicalMixture, Gaussian, Stationary
from dyncrp.engine import make_engine
from dyncrp.engine.types import Model
from dyncrp.families import protocols
from dyncrp.joining import clusters as module

STREAMS = {
    "moons": make_moons(500, noise=0.05, random_state=0)[0],
    "circles": make_circles(500, noise=0.03, factor=0.5, random_state=1)[0],
    "blobs": make_blobs(500, centers=6, cluster_std=0.4, random_state=2)[0] / 2.0,
    "many": np.random.default_rng(3).normal(0.0, 0.3, (900, 3)),
}


def slowly(rows, roots, basins):
    """Rows on borders as tables have them, and as ellipses have them."""
    K, Q = rows.means.shape
    full = np.zeros((K, Q, Q))
    lower = np.tril_indices(Q)
    full[:, lower[0], lower[1]] = full[:, lower[1], lower[0]] = rows.scatter

    def ellipse(tables):
        n = sum(rows.counts[c] for c in tables)
        mean = sum(rows.counts[c] * rows.means[c] for c in tables) / n
        scatter = sum(full[c] + rows.counts[c] * np.outer(rows.means[c] - mean, rows.means[c] - mean) for c in tables)
        return n, mean, (scatter + module.PRIOR_ROWS * np.eye(Q)) / (n + module.PRIOR_ROWS)

    def between(one, direction, low, high):
        n, mean, covariance = one
        scale = np.sqrt(direction @ covariance @ direction)
        return n * (ndtr((high - direction @ mean) / scale) - ndtr((low - direction @ mean) / scale))

    members = [np.flatnonzero(roots == root).tolist() for root in np.unique(roots)]
    ellipses = [ellipse(tables) for tables in members]
    basin = [basins[max(tables, key=lambda c: rows.counts[c])] for tables in members]
    found = expected = 0.0
    for a, one in enumerate(ellipses):
        others = [b for b in range(len(ellipses)) if b != a and basin[b] == basin[a]]
        others = sorted(others, key=lambda b: np.sum((ellipses[b][1] - one[1]) ** 2))[: module.CANDIDATES - 1]
        borders = []
        for b in others:
            gap = ellipses[b][1] - one[1]
            direction = np.linalg.solve(one[2] + ellipses[b][2], gap)
            borders.append((direction @ gap, b, direction))
        for length, b, direction in sorted(borders, key=lambda border: border[0])[: module.NEIGHBOURS]:
            if min(one[0], ellipses[b][0]) < module.FEWEST_ROWS:
                continue
            here, there = (np.sqrt(direction @ each[2] @ direction) for each in (one, ellipses[b]))
            middle = direction @ one[1] + length * here / (here + there)
            ends = direction, middle - module.BORDER * length, middle + module.BORDER * length
            expected += between(one, *ends) + between(ellipses[b], *ends)
            found += sum(between(ellipse([c]), *ends) for c in (*members[a], *members[b]))
    return found, expected


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("at_once", [None, 3])
def test_the_borders_are_those_of_a_slow_count(name, at_once, monkeypatch):
    if at_once:
        monkeypatch.setattr(module, "CELLS_AT_ONCE", at_once)
        monkeypatch.setattr(module, "TABLES_AT_ONCE", at_once)
    X = STREAMS[name]
    engine = make_engine(Model(Gaussian(0.02, 2.0), Stationary(), 1.0), X.shape[1])
    engine.run(X, np.arange(float(len(X))))
    family, state = engine.model.family, engine.state
    rows = protocols.scatter(family, state.stats, state.squares)
    rng, K = np.random.default_rng(4), len(state.ids)
    groups = rng.integers(K // 3, size=K)
    roots = np.array([np.flatnonzero(groups == group)[0] for group in groups])
    basins = np.where(rows.means[:, 0] < np.median(rows.means[:, 0]), 0, K - 1)
    found, expected = slowly(rows, roots, basins)
    assert expected > 0.0
    ratio = found / expected
    for limit, cuts in ((ratio * (1.0 - 1e-9), True), (ratio * (1.0 + 1e-9), False)):
        monkeypatch.setattr(module, "MOST_ON_BORDERS", limit)
        assert module._cuts_curves(rows, roots, basins) == cuts


@pytest.mark.parametrize(("n_features", "shape"), [(2, "any"), (8, "any"), (9, "elliptical")])
def test_curves_are_looked_for_where_tables_keep_covariances(n_features, shape, monkeypatch):
    """Of more features tables keep one variance, and what has no valleys with it is no curve."""
    monkeypatch.setattr(module, "_cuts_curves", lambda *_: True)
    rng = np.random.default_rng(0)
    centers, widths = 20.0 * rng.normal(size=(6, n_features)), np.where(np.arange(n_features) == 0, 3.0, 1.0)
    X = centers[rng.integers(6, size=1500)] + widths * rng.normal(size=(1500, n_features))
    family = Gaussian(1.0, np.linspace(410.0, 390.0, n_features).tolist())
    model = DynamicalMixture(family, Stationary(), 1.0).fit(X)
    assert model.n_tables_ > 6
    assert model.clusters().shape == shape
    assert model.clusters(shape="any").shape == "any"
