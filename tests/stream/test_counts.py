"""Tests of how surprising counts in windows are, against slow and obvious oracles."""

import numpy as np
import pytest
from scipy.stats import nbinom

from dyncrp.engine import has_extension
from dyncrp.stream import counts
from dyncrp.stream.counts import (
    AFRESH,
    KEPT,
    LEAST_EXPECTED,
    LEAST_WINDOWS,
    NOT_SEEN,
    RUN,
    Past,
    add_up,
    count_rows,
    follow,
    surprise,
)


def tails(n, mean, variance):
    """P(N ≥ n) and P(N ≤ n), by adding up the probabilities of a negative binomial distribution."""
    size = mean**2 / (variance - mean)
    p = nbinom.pmf(np.arange(4000), size, size / (size + mean))
    return p[n:].sum(), p[: n + 1].sum()


@pytest.mark.parametrize(("mean", "variance"), [(4.0, 4.5), (20.0, 90.0), (300.0, 2000.0)])
def test_surprise_is_the_tail_of_the_predictive(mean, variance):
    for n in (0, 1, int(mean), int(2 * mean), int(4 * mean)):
        high, low = tails(n, mean, variance)
        at, m, v = np.array([n, n + 1.0]), np.full(2, mean), np.full(2, variance)
        found = surprise(at, m, v)
        z = (at - 0.5 - mean) / np.sqrt(variance)
        if z[0] > counts.NEAR:
            assert np.exp(-found[0][0]) == pytest.approx(high, rel=1e-9)
        if z[1] < -counts.NEAR:
            assert np.exp(-found[1][1]) == pytest.approx(low, rel=1e-9)
        assert np.exp(-found[0]) + np.exp(-found[1]) == pytest.approx(np.ones(2), abs=0.08)


def slowly(n, first, shift):
    """The surprises of one cluster with counts n (w,), from window ``first`` on, as the module defines them."""
    found, S, E, begun = [], 0.0, 0.0, first
    errors = [(0.0, 0.0)] * (RUN + 1)  # before each window, the latest last
    anew = 0  # the first window since the past began anew
    for i, one in enumerate(n):
        if i < first:
            found.append((NOT_SEEN, NOT_SEEN))
            continue
        looked = i - begun >= LEAST_WINDOWS and (S + 0.5) / E >= LEAST_EXPECTED
        pair, error = (NOT_SEEN, NOT_SEEN), 0.0
        total, weight = errors[-1 - RUN]
        spread = np.pi / 2.0 * ((total + 2.0 * np.sqrt(2.0 / np.pi)) / (weight + 2.0)) ** 2
        if looked:
            m = (S + 0.5) / E
            variance = m * (1.0 + 1.0 / E)
            error = abs(one - m) / np.sqrt(variance)
            arrays = (np.array([x]) for x in (one + shift[i], m, variance * max(spread, 1.0)))
            pair = tuple(float(x[0]) for x in surprise(*arrays))
        found.append(pair)
        S, E = KEPT * S + one, KEPT * E + 1.0
        errors.append((KEPT * errors[-1][0] + error, KEPT * errors[-1][1] + looked))
        run = np.array([(NOT_SEEN, NOT_SEEN)] * RUN + found[anew:])[-RUN:].min(axis=0)
        if i % RUN == RUN - 1 and run.max() >= AFRESH:
            S, E, begun, anew = float(one), 1.0, i, i + 1
            errors += [errors[-1 - RUN]] * (RUN + 1)  # those before the run
    return np.array(found).T


def streams(rng):
    steady, few, late = rng.poisson(20.0, 90), rng.poisson(7.5, 90), rng.poisson(30.0, 90)
    grown = np.concatenate([rng.poisson(20.0, 30), rng.poisson(90.0, 30), rng.poisson(8.0, 30)])
    return np.stack([steady, few, late, grown, 40 * (rng.random(90) < 0.3)], axis=1).astype(float)


def test_follow_is_the_definition_for_each_cluster():
    rng = np.random.default_rng(0)
    n, shift = streams(rng), rng.random((90, 5))
    first = np.array([0, 0, 17, 1, 0])
    full = np.arange(90)[:, None] >= first
    ends_run = np.arange(90) % RUN == RUN - 1
    whole = follow(Past.none(5), n, full, ends_run, shift)
    for c in range(5):
        assert whole.surprises[:, :, c] == pytest.approx(slowly(n[:, c], first[c], shift[:, c]), rel=1e-12)
    assert (whole.runs[:, ends_run, 3] >= AFRESH).any(axis=1).all()  # so the past began anew after a rise and a fall
    assert (whole.surprises[:, :, 1] == NOT_SEEN).any()  # too few were expected

    past, parts = Past.none(5), []
    for begin, end in ((0, 1), (1, 30), (30, 31), (31, 34), (34, 77), (77, 90)):
        at = slice(begin, end)
        parts.append(follow(past, n[at], full[at], ends_run[at], shift[at]))
    for name in ("counts", "expected"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in parts]), getattr(whole, name))
    for name in ("surprises", "runs", "looked"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in parts], axis=1), getattr(whole, name))


def test_a_cluster_of_several_tables_is_as_one():
    rng = np.random.default_rng(1)
    n, shift = streams(rng)[:, [3]], rng.random((90, 1))
    part = rng.binomial(n.astype(int), 0.3).astype(float)
    ends_run = np.arange(90) % RUN == RUN - 1
    one = follow(Past.none(1), n, np.ones((90, 1), bool), ends_run, shift)
    past = Past.none(1)
    past.sums, past.windows = np.zeros(2), np.zeros(2, dtype=np.int64)
    two = follow(
        past, np.hstack([part, n - part]), np.ones((90, 2), bool), ends_run, shift, np.zeros(2, dtype=np.int64)
    )
    assert two.surprises == pytest.approx(one.surprises, rel=1e-9)
    assert (two.runs >= AFRESH).any()


@pytest.fixture(params=["C++", "NumPy"])
def either(request, monkeypatch):
    """Run a test with the functions in C++, and with those in NumPy."""
    if request.param == "NumPy":
        monkeypatch.setattr(counts, "has_extension", lambda: False)
    elif not has_extension():
        pytest.skip("needs the extension")


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("ids", [[3, 4, 5, 6], [0, 9, 2000], [5, 1 << 40, (1 << 62) - 1], [7], []])
@pytest.mark.parametrize(("n", "before", "length"), [(0, 0, 8), (1, 7, 8), (40, 0, 8), (41, 3, 8), (5, 1, 512)])
def test_rows_are_counted_by_table_and_window(ids, n, before, length):
    rng = np.random.default_rng(n)
    labels = rng.choice([*ids, -1], n)
    found = count_rows(labels, np.array(ids, dtype=np.int64), before, length)
    assert found.shape == (-(-(before + n) // length), len(ids))
    for i, k in np.ndindex(found.shape):
        assert found[i, k] == sum(labels[r] == ids[k] for r in range(n) if (before + r) // length == i)
    if n:
        for other in (2, 8, 1999, 1 << 41, (1 << 63) - 1):  # of no table
            labels[-1] = other
            assert count_rows(labels, np.array(ids, dtype=np.int64), before, length) is None


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (50, 7), (9, 0)])
def test_sums_forget_to_the_bit(shape):
    sums = np.random.default_rng(0).exponential(100.0, shape)
    by_hand = sums.tolist()
    for i, k in np.ndindex(shape):
        by_hand[i][k] += by_hand[i - 1][k] * KEPT if i else 0.0
    add_up(sums)
    np.testing.assert_array_equal(sums, np.array(by_hand).reshape(shape))


def test_one_window_at_a_time_of_one_cluster_is_seen_as_all_at_once():
    counts = np.random.default_rng(0).poisson(40.0, (30, 1)).astype(float)
    full, shift = np.ones((30, 1), dtype=bool), np.full((30, 1), 0.5)
    ends_run = np.arange(30) % 3 == 2
    whole = follow(Past.none(1), counts, full, ends_run, shift)
    past, parts = Past.none(1), []
    for i in range(30):
        at = slice(i, i + 1)
        parts.append(follow(past, counts[at], full[at], ends_run[at], shift[at]))
    np.testing.assert_array_equal(np.concatenate([part.surprises for part in parts], axis=1), whole.surprises)
    assert np.all(whole.surprises[:, 4:] >= 0.0)
