"""The index of tables against a scan of all of them in double precision."""

import numpy as np
import pytest

from dyncrp.engine.loop import _TableIndex

MARGIN = 32.0


class Tables:
    """Tables in double precision, and an index that is told of every change; half of them are closed places at most."""

    def __init__(self, centers, a, h):
        self.centers, self.a, self.h = centers.copy(), a.copy(), h.copy()
        self.is_open = np.ones(len(a), bool)
        self.highest = a.max(initial=-np.inf)  # of all that the index was ever told
        self.index = _TableIndex(centers.shape[1])
        self.index.patience = np.inf
        self.index.build(centers.astype(np.float32), above(a), h.astype(np.float32))

    def scores(self, row):
        scores = self.a - self.h * np.sum((row - self.centers) ** 2, axis=1)
        return np.where(self.is_open, scores, -np.inf)

    def check(self, row, fresh=-np.inf, below=0.0):
        """Search for a row, when the scores lie so much below their bounds."""
        scores = self.scores(row)
        exact = scores - below
        found = self.index.search(row.astype(np.float32), fresh, exact)
        best = exact.max(initial=-np.inf)
        needed = [] if best < fresh - MARGIN else np.flatnonzero(exact >= best - MARGIN).tolist()
        assert found == sorted(set(found))
        assert set(needed) <= set(found)
        assert not found or scores[found].min() >= best - MARGIN - self.slack(row, best)
        assert found == [] or best >= fresh - MARGIN
        return found

    def slack(self, row, best):
        """What rounding may let through: a little, unless the row is far away."""
        reach = max(0.0, self.highest - best) + MARGIN
        size = np.linalg.norm(row)
        eta = (len(row) + 8) * 6e-8
        return (
            0.01
            + 10.0 * eta * (reach + size * np.sqrt(reach) + eta * size**2)
            + 1e-5 * max(abs(self.highest), np.abs(self.a).max())
        )

    def update(self, c, center, a, h):
        self.centers[c], self.a[c], self.h[c] = center, a, h
        self.highest = max(self.highest, a)
        self.index.update(c, center.astype(np.float32), above(a), h)

    def open(self, center, a, h):
        closed = np.flatnonzero(~self.is_open)
        if len(closed):
            c = int(closed[0])
        else:
            c = len(self.a)
            self.centers = np.vstack([self.centers, center])
            self.a, self.h = np.append(self.a, a), np.append(self.h, h)
            self.is_open = np.append(self.is_open, True)
        self.centers[c], self.a[c], self.h[c], self.is_open[c] = center, a, h, True
        self.highest = max(self.highest, a)
        self.index.open(c, center.astype(np.float32), above(a), h)

    def close(self, c):
        self.is_open[c] = False
        self.index.close(c)

    def rename(self, c, to):
        self.index.rename(c, to)
        for values in (self.centers, self.a, self.h, self.is_open):
            values[to] = values[c]
        self.is_open[c] = False


def above(a):
    """The least float that is not below a."""
    single = np.float32(a)
    return np.where(single < a, np.nextafter(single, np.float32(np.inf)), single).astype(np.float32)[()]


def made(rng, K, D, spread, nats=3.0):
    """K tables with centres of a spread, weights within some nats, and h from .25 to .5."""
    q = rng.uniform(1.0, 50.0, K)
    h = (0.5 * q / (q + 1.0)).astype(np.float32).astype(float)
    return rng.normal(size=(K, D)) * spread, rng.uniform(-nats, 0.0, K), h


@pytest.mark.parametrize("spread", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("D", [1, 2, 3, 8, 16, 17, 40, 130])
def test_as_a_scan(D, spread):
    rng = np.random.default_rng(D)
    tables = Tables(*made(rng, 3000, D, spread))
    for _ in range(100):
        assert tables.check(tables.centers[rng.integers(3000)] + rng.normal(size=D))


@pytest.mark.parametrize("K", [0, 1, 2, 12, 13, 16, 17, 192, 193, 3073])
def test_any_number_of_tables(K):
    rng = np.random.default_rng(K)
    tables = Tables(*made(rng, K, 5, 10.0))
    for _ in range(30):
        tables.check(rng.normal(size=5) * 10.0)
        tables.open(rng.normal(size=5) * 10.0, 0.0, 0.5)


def test_ties_and_duplicates():
    rng = np.random.default_rng(0)
    centers, a, h = made(rng, 1000, 6, 10.0)
    tables = Tables(np.repeat(centers, 3, axis=0), np.repeat(a, 3), np.repeat(h, 3))
    for _ in range(100):
        c = rng.integers(1000)
        assert {3 * c, 3 * c + 1, 3 * c + 2} <= set(tables.check(centers[c] + 0.1 * rng.normal(size=6)))


def test_all_centres_equal():
    tables = Tables(np.full((500, 4), 3.0), np.zeros(500), np.full(500, 0.5))
    for row in (np.full(4, 3.0), np.full(4, 1e3)):
        assert tables.check(row) == list(range(500))
    for _ in range(600):
        tables.open(np.full(4, 3.0), 0.0, 0.5)
    assert tables.check(np.full(4, 3.0)) == list(range(1100))


@pytest.mark.parametrize("away", [1e3, 1e6, 1e9, 1e14])
def test_far_from_the_reference_point(away):
    rng = np.random.default_rng(1)
    centers, a, h = made(rng, 2000, 7, 10.0)
    tables = Tables(centers + away, a, h)
    for _ in range(100):
        tables.check(tables.centers[rng.integers(2000)] + rng.normal(size=7))
        tables.check(centers[rng.integers(2000)] + rng.normal(size=7))


@pytest.mark.parametrize("away", [0.0, 1e4, 1e6])
def test_a_table_just_within_the_margin(away):
    """What rounding takes from its bound must not leave it out; and the best one decides whether there is any."""
    rng = np.random.default_rng(8)
    centers, a, h = made(rng, 1000, 20, 10.0)
    tables = Tables(centers + away, a, h)
    for _ in range(200):
        best, other = rng.choice(1000, 2, replace=False)
        row = tables.centers[best] + rng.normal(size=20)
        scores = tables.scores(row)
        tables.update(
            int(other), tables.centers[other], a[other] + scores.max() - MARGIN - scores[other] + 1e-6, h[other]
        )
        assert other in tables.check(row)
        tables.update(int(other), tables.centers[other], a[other], h[other])
        assert tables.check(row, fresh=tables.scores(row).max() + MARGIN - 1e-6)
        assert tables.check(row, fresh=tables.scores(row).max() + MARGIN + 1e-6) == []
        place = tables.centers[other].copy()
        tables.update(int(other), tables.centers[best] + 0.01 * rng.normal(size=20), a[best], h[best])
        assert tables.check(row, fresh=tables.scores(row).max() + MARGIN - 1e-6)  # of two that all but tie
        tables.update(int(other), place, a[other], h[other])


def test_weights_far_apart():
    rng = np.random.default_rng(2)
    tables = Tables(*made(rng, 3000, 6, 3.0, nats=60.0))
    for _ in range(200):
        tables.check(tables.centers[rng.integers(3000)] + rng.normal(size=6), below=rng.uniform(0.0, 20.0))
        tables.check(tables.centers[rng.integers(3000)] + rng.normal(size=6), below=rng.uniform(0.0, 20.0, 3000))


def test_a_new_table_that_is_far_better():
    rng = np.random.default_rng(3)
    tables = Tables(*made(rng, 2000, 8, 10.0))
    counts = {True: 0, False: 0}
    for _ in range(200):
        row = rng.normal(size=8) * 10.0
        best = tables.scores(row).max()
        for fresh in (best - 40.0, best + 20.0, best + 31.9, best + 32.1, best + 60.0, best + 200.0):
            found = tables.check(row, fresh)
            counts[bool(found)] += 1
            assert bool(found) == (fresh <= best + MARGIN)
    assert min(counts.values()) > 300


@pytest.mark.parametrize("D", [2, 6, 20])
@pytest.mark.parametrize("seed", range(4))
def test_tables_that_move_open_and_close(D, seed):
    rng = np.random.default_rng(seed)
    tables = Tables(*made(rng, [0, 5, 300, 2000][seed], D, 10.0))
    for _ in range(1000):
        here = np.flatnonzero(tables.is_open)
        act = rng.choice(["small", "far", "weight", "open", "close", "rename"], p=[0.5, 0.05, 0.1, 0.2, 0.1, 0.05])
        if act == "open" or len(here) == 0:
            tables.open(rng.normal(size=D) * 10.0, rng.uniform(-3.0, 0.0), 0.25)
        else:
            c = int(rng.choice(here))
            center, a, h = tables.centers[c], tables.a[c], tables.h[c]
            if act == "small":
                tables.update(c, center + 0.2 * rng.normal(size=D), a + 0.01, min(0.5, h * 1.0625))
            elif act == "far":
                tables.update(c, rng.normal(size=D) * 12.0, a, h)
            elif act == "weight":
                tables.update(c, center, a + rng.normal(), rng.choice([0.25, 0.375, 0.5]))
            elif act == "close":
                tables.close(c)
            elif not tables.is_open.all():
                tables.rename(c, int(rng.choice(np.flatnonzero(~tables.is_open))))
        assert tables.index.size == tables.is_open.sum()
        if tables.is_open.any():
            c = rng.choice(np.flatnonzero(tables.is_open))
            tables.check(tables.centers[c] + rng.normal(size=D))
            tables.check(rng.normal(size=D) * 10.0, fresh=-30.0)
    assert tables.index.n_rebuilt > 0


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_table_that_moves_within_the_spare_room_of_its_box(side):
    """The boxes above must have grown with its own: the table is just within the margin."""
    rng = np.random.default_rng(4)
    centers = np.column_stack([rng.uniform(-40.0, 40.0, 3000), rng.uniform(-50.0, 50.0, 3000)])
    centers[0], centers[1] = [50.0 * side, 0.0], [0.0, 200.0]
    tables = Tables(centers, np.zeros(3000), np.full(3000, 0.5))
    for x in (50.1, 50.55, 50.59, 51.0, 51.4):
        row = np.array([(x + 8.0) * side, 0.0])
        best = -0.5  # of table 1
        tables.update(1, centers[1], best + 0.5 * np.sum((row - centers[1]) ** 2), 0.5)
        tables.update(0, np.array([x * side, 0.0]), 0.0, 0.5)
        assert 0 in tables.check(row)


def test_grown_one_by_one():
    rng = np.random.default_rng(5)
    tables = Tables(*made(rng, 0, 4, 10.0))
    for n in range(3000):
        tables.open(rng.normal(size=4) * 10.0 + 0.01 * n, 0.0, 0.5)
        if n % 10 == 0:
            tables.check(tables.centers[rng.integers(n + 1)] + rng.normal(size=4))


def test_everything_closes():
    rng = np.random.default_rng(6)
    tables = Tables(*made(rng, 400, 4, 10.0))
    for c in rng.permutation(400):
        tables.close(int(c))
    assert tables.index.size == 0
    assert tables.index.search(np.zeros(4, np.float32), -np.inf, tables.a) == []
    tables.open(np.ones(4), 0.0, 0.5)
    assert tables.check(np.zeros(4)) == [0]


def test_a_search_is_given_up_where_centres_overlap():
    rng = np.random.default_rng(7)
    assert Tables(*made(rng, 100, 16, 1.0)).index.cost() == np.inf
    for spread, n_given_up in ((1.0, 50), (20.0, 0)):
        tables = Tables(*made(rng, 20000, 16, spread))
        tables.index.patience = 1.0
        answers = []
        for _ in range(50):
            row = tables.centers[rng.integers(20000)] + rng.normal(size=16)
            answers.append(tables.index.search(row.astype(np.float32), -np.inf, tables.scores(row)))
        assert answers.count(None) == n_given_up
        assert (tables.index.cost() > 0.5) == (n_given_up > 0)
