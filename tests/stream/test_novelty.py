"""Past novelty as a sketch: p-values against all scores kept, a rate that is kept, and any division into calls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import genpareto

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Gaussian, VonMisesFisher
from dyncrp.stream.bins import SlowBins, Tail, make_bins
from dyncrp.stream.novelty import NoveltySketch

RATE = 0.001


class Everything:
    """All scores are kept, with their weights; nothing waits but what the definition says. Slow, and right."""

    def __init__(self, scores):
        self.scores, self.weights = np.empty(0), np.empty(0)
        n = 0
        while n < len(scores):
            rows = min(max(n // 4, 32), 16_384)
            if n + rows > len(scores):
                break
            keep = (n / (n + rows)) ** 2 if n + rows <= 131_072 else np.exp(-rows / 65_536)
            self.scores = np.append(self.scores, scores[n : n + rows])
            self.weights = np.append(keep * self.weights, np.ones(rows))
            n += rows
        self.n = n  # scores after these still wait

    def rows_above(self, score):
        return np.sum(self.weights[self.scores >= score])

    def rows_between(self, score):
        """Rows as high as this score, 1/rows linear between scores that were."""
        above, below = np.min(self.scores[self.scores >= score]), np.max(self.scores[self.scores <= score])
        share = 0.0 if above == below else (score - below) / (above - below)
        return 1.0 / ((1.0 - share) / self.rows_above(below) + share / self.rows_above(above))

    def highest(self, rows):
        """The highest so many rows: their scores, falling, and weights."""
        falling = np.argsort(-self.scores)
        falling = falling[np.cumsum(self.weights[falling]) <= rows]
        return self.scores[falling], self.weights[falling]

    def factor(self):
        """What p is multiplied by where a tenth of a nat makes no difference."""
        scores, weights = self.highest(96.0)
        below = self.scores[self.scores < scores[-1]]
        excess = scores - (np.max(below) if len(below) else scores[-1])
        if not len(below):
            weights = weights * (scores > scores[-1])
        return np.exp(-0.1 / max(np.sum(weights * excess) / np.sum(weights), 1.0))

    def p(self, score):
        """Weighted rank, where a tenth of a nat makes no difference among high scores."""
        W = np.sum(self.weights)
        if score >= self.highest(max(W / 64, 24.0))[0][-1]:
            return self.factor() * self.rows_between(score - 0.1) / (1.0 + W)
        return self.rows_between(score) / (1.0 + W)


def exponential(n, seed=0):
    return np.random.default_rng(seed).exponential(size=n)


def ratio(p, first=2000, rate=RATE):
    """Return alarms raised over alarms expected."""
    return np.mean(p[first:] <= rate) / rate


def test_the_first_block_is_ranked_exactly():
    scores = exponential(33)
    sketch = NoveltySketch()
    sketch.add(scores[:32])
    truth = Everything(scores[:32])
    asked = np.sort(scores[:32])[:31] + 1e-4  # within gaps
    for score in asked:
        assert sketch.p_values(np.array([score]))[0] == pytest.approx(truth.p(score), rel=1e-12)
    np.testing.assert_array_equal(NoveltySketch().p_values(scores[:32]), 1.0)


@pytest.mark.parametrize("n", [100, 2000, 30_000, 200_000])
def test_p_is_the_share_of_all_past_scores_that_are_as_high(n):
    scores = exponential(400_000, seed=1)
    # blocks of the same lengths end there; what waits does not count for the scores asked about
    n = Everything(scores[:n]).n
    truth, sketch = Everything(scores[:n]), NoveltySketch()
    sketch.add(scores[:n])
    rows = np.sum(truth.weights)
    for share in (0.5, 0.2, 0.1, 0.03, 0.01, 0.003, 0.001):
        score = -np.log(share)
        if share * rows < 3:
            continue
        found, wanted = sketch.p_values(np.array([score]))[0], truth.p(score)
        # Cells are a 45th of what lies above, and at least a quarter of a row. Of low scores in long blocks one in 32
        # is kept: with some 2,000 of them the standard error of a share p is √(p (1 − p)/2000); four of these.
        sampled = 4.0 * np.sqrt(wanted * (1.0 - wanted) / 2000.0) if n > 2000 and share > 1 / 64 else 0.0
        assert found == pytest.approx(wanted, rel=0.03, abs=max(sampled, 0.5 / rows)), share


@pytest.mark.parametrize("n", [100, 30_000, 200_000, 600_000])
def test_weights_fall_as_defined(n):
    scores = np.random.default_rng(0).exponential(size=n)
    scores[: n // 3] += 100.0
    n = Everything(scores).n
    truth, sketch = Everything(scores[:n]), NoveltySketch()
    sketch.add(scores[:n])
    found = sketch.arrays()
    assert np.sum(found["novelty_weights"]) == pytest.approx(np.sum(truth.weights), rel=1e-9)
    old = np.sum(found["novelty_weights"][found["novelty_values"] > 50.0])
    assert old == pytest.approx(truth.rows_above(50.0), rel=0.05, abs=0.5)  # a bin may hold a few of both


def test_frequent_scores_keep_cells_of_their_own():
    rng = np.random.default_rng(0)
    sketch = NoveltySketch()
    sketch.add(np.where(rng.random(50_000) < 0.5, 0.0, rng.exponential(size=50_000)))
    at, above = (sketch.p_values(np.array([score]))[0] for score in (0.0, 0.05))
    assert at > 0.99
    assert above == pytest.approx(0.5 * np.exp(-0.05), abs=0.05)  # some 1,500 low scores count: standard error 0.013


def test_what_weighs_nothing_takes_no_space():
    sketch = NoveltySketch()
    sketch.add(exponential(100))
    for _ in range(200):
        sketch.add(np.full(10_000, 7.0))
        assert np.all(np.diff(sketch.arrays()["novelty_values"]) > 0.0)
    np.testing.assert_array_equal(sketch.arrays()["novelty_values"], [7.0])


def test_high_scores_that_wait_count_at_once():
    sketch = NoveltySketch()
    sketch.add(exponential(20_000))
    truth = Everything(exponential(20_000))
    waiting = 20_000 - truth.n
    p = sketch.p_values(np.full(40, 1000.0))
    rows = 1.0 + np.sum(truth.weights) + waiting
    # The i-th of a flood has i − 1 before it as high, and next to nothing of the tail.
    np.testing.assert_allclose(p[1:], truth.factor() * np.arange(1, 40) / (rows + np.arange(1, 40)), rtol=5e-3)
    assert p[0] < 1e-20


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.0, 0.2, 0.5])
def test_beyond_all_scores_a_generalised_pareto_tail_goes_on(shape):
    law = genpareto(c=shape, scale=3.0, loc=-50.0)
    shares = np.array([1e-5, 1e-6])
    errors = []
    for seed in range(40):
        sketch = NoveltySketch()
        sketch.add(law.ppf(np.random.default_rng(seed).random(200_000)))
        p = [sketch.p_values(law.isf([share]))[0] for share in shares]
        errors.append(np.log(p / shares))
    # One row of 70,000 is a share of 1.4e-5. The shape, known to 0.1, makes the logarithm of a share that is 14 times
    # smaller uncertain by 1.6; of the mean over 40 streams the standard error is 0.13 and 0.25. As the highest score is
    # at p = 1/70,000 on average, its logarithm is so but for 0.58; and ξ is drawn to 0.5.
    assert np.all(np.abs(np.mean(errors, axis=0)) < [0.9, 1.6])
    assert np.all(np.std(errors, axis=0) < [1.2, 2.4])


@pytest.mark.parametrize("shape", [0.0, 0.2, 0.5])
def test_the_tail_of_exact_quantiles(shape):
    n = 20_000
    law = genpareto(c=shape, scale=3.0, loc=-50.0)
    values = law.ppf(np.arange(1, n + 1) / (n + 1))  # where the scores are on average
    tail = Tail(values, np.ones(n), np.arange(n, 0.0, -1.0))
    # The highest 96 have the shape of all, but for what lies beyond the last, which is most if it is heavy.
    assert tail.shape == pytest.approx((96 * shape + 10 * 0.5) / 106, abs=0.1)
    law_again = genpareto(c=tail.shape, scale=tail.scale, loc=tail.start)
    for share in (1e-1, 1e-2, 1e-3):
        assert tail.above(law_again.isf([share]))[0] == pytest.approx(share, rel=1e-9)
    assert tail.above(law.isf([0.1 / n]))[0] == pytest.approx(0.1, rel=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_the_tail_falls_and_never_reaches_zero(seed):
    sketch = NoveltySketch()
    sketch.add(np.random.default_rng(seed).standard_cauchy(5000))
    asked = np.sort(np.concatenate([np.random.default_rng(seed).standard_cauchy(500), np.logspace(0, 300, 200)]))
    p = np.array([sketch.p_values(np.array([score]))[0] for score in asked])
    assert np.all(np.diff(p) <= 0.0)
    assert p[-1] > 0.0


SCORES = {
    "continuous": lambda rng, n: rng.normal(size=n),
    "whole": lambda rng, n: rng.poisson(3.0, n).astype(float),
    "constant": lambda rng, n: np.full(n, 7.0),
    "rising": lambda rng, n: np.arange(n) + rng.normal(size=n),
    "flood": lambda rng, n: rng.normal(size=n) + 50.0 * (np.arange(n) > n // 3),
    "enormous": lambda rng, n: rng.choice([-1.7e308, -1.0, 0.0, 2.0, 1.7e308], n),
}


@given(
    st.sampled_from(sorted(SCORES)), st.integers(0, 6000), st.lists(st.integers(0, 6000), max_size=6), st.integers(0, 9)
)
def test_any_division_into_calls_gives_the_same_bits(kind, n, cuts, seed):
    scores = SCORES[kind](np.random.default_rng(seed), n)
    whole = NoveltySketch()
    wanted = whole.p_values(scores)
    whole.add(scores)
    parts, found = NoveltySketch(), []
    for part in np.split(scores, sorted(min(cut, n) for cut in cuts)):
        found.append(parts.p_values(part))
        if len(part) < 500:
            for score in part.tolist():
                parts.add_one(score)
        else:
            parts.add(part)
        parts = NoveltySketch.restore(parts.arrays())
    np.testing.assert_array_equal(np.concatenate(found), wanted)
    assert parts.n == whole.n == n
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(parts.arrays()[name], array, err_msg=name)
    assert np.all((wanted > 0.0) & (wanted <= 1.0))


@pytest.mark.parametrize("kind", sorted(SCORES))
@pytest.mark.parametrize("seed", range(3))
def test_the_bins_in_cpp_are_those_of_the_reference(kind, seed):
    pytest.importorskip("dyncrp.engine.loop")
    rng = np.random.default_rng(seed)
    scores = np.clip(SCORES[kind](rng, 60_000), -1e300, 1e300)
    fast, slow = make_bins(), SlowBins()
    for part in np.split(scores, np.sort(rng.integers(60_000, size=30))):
        most = float(rng.choice([1.0, 0.05, 1e-3]))
        p = np.full(len(part), np.nan), np.full(len(part), np.nan)
        for bins, of_bins in zip((fast, slow), p, strict=True):
            bins.take(part, of_bins, most)
        np.testing.assert_allclose(*p, rtol=1e-12)
        assert (fast.n, fast.start, fast.end, fast.border) == (slow.n, slow.start, slow.end, slow.border)
        np.testing.assert_array_equal(fast.values, slow.values)
        np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-13)
        assert (fast.high, fast.low) == (slow.high, slow.low)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("most", [0.5, 0.02, 0.001, 1e-300])
def test_low_p_are_the_same_where_others_are_not_asked_for(kind, most):
    scores = SCORES[kind](np.random.default_rng(1), 20_000)
    sketch = NoveltySketch()
    wanted, found = sketch.p_values(scores), sketch.p_values(scores, most)
    asked = wanted <= most
    np.testing.assert_array_equal(found[asked], wanted[asked])
    assert np.all(found[~asked] > most)
    np.testing.assert_array_equal(sketch.add_with_p(scores, most), found)


def test_p_values_change_nothing_and_a_copy_goes_on_alone():
    scores = exponential(3000)
    sketch = NoveltySketch()
    sketch.add(scores[:1000])
    before, kept = sketch.arrays(), scores.copy()
    sketch.p_values(scores)
    other = sketch.copy()
    other.add(scores)
    other.add_one(3.0)
    for name, array in sketch.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_array_equal(scores, kept)
    assert (sketch.n, other.n) == (1000, 4001)


def test_the_zero_of_scores_does_not_matter():
    scores = np.random.default_rng(3).normal(size=20_000)
    wanted = NoveltySketch().p_values(scores)
    np.testing.assert_allclose(NoveltySketch().p_values(scores - 5000.0), wanted, rtol=1e-6)


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_near_ties_that_rise_are_no_alarms(share):
    # As of rows that no table explains, whose score is the price of a new table, the logarithm of the rows so far.
    rng = np.random.default_rng(0)
    far = rng.random(100_000) < share
    scores = np.where(far, 20.0 + np.log(np.arange(1, 100_001)), rng.exponential(size=100_000))
    # Each is the highest so far: without near ties all would be alarms, 10 or 50 times as many as the rate says.
    assert ratio(NoveltySketch().p_values(scores)) < 0.5


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused_and_change_nothing(wrong):
    sketch = NoveltySketch()
    sketch.add(exponential(100))
    before = sketch.arrays()
    for refused in (lambda: sketch.add(np.array([1.0, wrong])), lambda: sketch.add_one(wrong)):
        with pytest.raises(ValueError, match="scores must be finite, got"):
            refused()
    with pytest.raises(ValueError, match="one number for each row"):
        sketch.add(np.ones((2, 2)))
    for name, array in sketch.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def forged(arrays):
    """Yield arrays that no sketch returned."""
    yield {name: array for name, array in arrays.items() if name != "novelty_low"}
    yield arrays | {"novelty_counts": arrays["novelty_counts"].astype(np.float64)}
    yield arrays | {"novelty_counts": np.array([5])}
    yield arrays | {"novelty_counts": arrays["novelty_counts"][::-1].copy()}
    yield arrays | {"novelty_counts": np.array([10**9, arrays["novelty_counts"][1]])}
    yield arrays | {"novelty_counts": np.array([arrays["novelty_counts"][0], 0])}
    yield arrays | {"novelty_counts": np.array([-1, -1])}
    yield arrays | {"novelty_values": arrays["novelty_values"][::-1].copy()}
    yield arrays | {"novelty_values": arrays["novelty_values"][:-1]}
    yield arrays | {"novelty_values": np.full_like(arrays["novelty_values"], np.nan)}
    yield arrays | {"novelty_values": arrays["novelty_values"][:, None]}
    yield arrays | {"novelty_weights": -arrays["novelty_weights"]}
    yield arrays | {"novelty_weights": 0.0 * arrays["novelty_weights"]}
    yield arrays | {"novelty_weights": 1e200 * arrays["novelty_weights"]}
    yield arrays | {"novelty_high": arrays["novelty_high"] - 100.0}
    yield arrays | {"novelty_low": arrays["novelty_low"] + 100.0}
    yield arrays | {"novelty_low": np.append(arrays["novelty_low"], np.zeros(10_000))}
    yield arrays | {"novelty_high": np.append(arrays["novelty_high"], np.full(10_000, 99.0))}


def test_forged_arrays_are_refused():
    sketch = NoveltySketch()
    sketch.add(exponential(5500))
    arrays = sketch.arrays()
    assert len(arrays["novelty_high"]) > 0
    assert len(arrays["novelty_low"]) > 0
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float64), np.dtype(np.int64)}
    found = list(forged(arrays))
    for wrong in found:
        with pytest.raises(ValueError, match="novelty"):
            NoveltySketch.restore(wrong)
    assert NoveltySketch.restore(NoveltySketch().arrays()).n == 0


@pytest.mark.parametrize("kind", sorted(SCORES))
def test_it_stays_small(kind):
    sketch = NoveltySketch()
    scores = SCORES[kind](np.random.default_rng(0), 400_000)
    sizes = []
    for part in np.split(scores, np.arange(0, len(scores), 997)):
        sketch.add(part)
        sizes.append(sum(array.nbytes for array in sketch.arrays().values()))
    assert max(sizes) <= 16_000
    assert max(sizes[:2]) <= 8 * 1000  # no more than the scores themselves, while there are few


STREAMS = {
    "gaussian": lambda rng, n: 0.5 * rng.chisquare(8, size=n),  # as of rows of 8 features
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "sticky": lambda rng, n: sticky(rng, n) + rng.exponential(size=n),
}


def sticky(rng, n, switches=0.01, levels=20):
    """Return the level of a regime for each row; one row in a hundred switches to another."""
    switch = rng.random(n) < switches
    since = np.maximum.accumulate(np.where(switch, np.arange(n), 0))
    return 2.0 * rng.normal(size=levels)[rng.integers(levels, size=n)[since]] + 3.0 * switch


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("kind", sorted(STREAMS))
def test_the_rate_is_kept_whatever_the_scores(kind, rate):
    # Ten streams of 50,000 rows: 480 alarms at the lowest rate, with a standard error of 5 %; those of a sticky stream
    # come in runs. A fifth either way.
    p = [NoveltySketch().p_values(STREAMS[kind](np.random.default_rng(seed), 50_000)) for seed in range(10)]
    assert np.mean([ratio(each, rate=rate) for each in p]) == pytest.approx(1.0, abs=0.2)


def test_the_rate_is_kept_early():
    # Rows 2,000 to 10,000 of 100 streams: 800 alarms, with a standard error of 3.5 % for scores in random order.
    p = [NoveltySketch().p_values(exponential(10_000, seed)) for seed in range(100)]
    assert np.mean([ratio(each) for each in p]) == pytest.approx(1.0, abs=0.14)


@pytest.mark.slow
def test_the_rate_is_kept_in_the_long_run():
    # Two million rows: 1,998 alarms, with a standard error of 2.2 %.
    assert ratio(NoveltySketch().p_values(exponential(2_000_000))) == pytest.approx(1.0, abs=0.1)


def quiet(kind, n, seed):
    """Return rows (n, 2) of 12 clusters among which nothing happens."""
    rng = np.random.default_rng(seed)
    at = np.arange(n)
    if kind == "sticky":
        at = np.maximum.accumulate(np.where(rng.random(n) < 0.02, at, 0))
    clusters = rng.integers(12, size=n)[at]
    noise = rng.standard_t(3.0, (n, 2)) if kind == "heavy" else rng.normal(size=(n, 2))
    return rng.normal(0.0, 10.0, (12, 2))[clusters] + noise


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stationary", "sticky", "heavy"])
def test_the_rate_is_kept_by_novelty(kind):
    # Three streams of 100,000 rows: 294 alarms, with a standard error of 6 % if they come independently.
    ratios = []
    for seed in range(3):
        dynamics = Exponential(50.0) if kind == "sticky" else None
        known = Gaussian(3.0 if kind == "heavy" else 1.0, 100.0)
        model = DynamicalMixture(known, dynamics, max_tables=200) if dynamics else DynamicalMixture(known)
        ratios.append(ratio(NoveltySketch().p_values(model.fit(quiet(kind, 100_000, seed)).novelty_)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["few booleans", "directions with outliers"])
def test_near_ties_of_novelty_are_no_alarms(kind):
    # Without near ties there are 13 times as many alarms as expected of the first, 40 times of the second.
    rng, n = np.random.default_rng(50), 50_000
    clusters = rng.integers(8, size=n)
    if kind == "few booleans":
        model = DynamicalMixture(Bernoulli(0.5, 0.5), max_tables=100)
        X = (rng.random((n, 3)) < rng.beta(0.5, 0.5, (8, 3))[clusters]).astype(float)
    else:
        model = DynamicalMixture(VonMisesFisher(150.0), max_tables=100)
        X = rng.normal(size=(8, 16))[clusters] + 0.3 * rng.normal(size=(n, 16))
        X = np.where(rng.random((n, 1)) < 0.05, rng.normal(size=(n, 16)), X)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert ratio(NoveltySketch().p_values(model.fit(X).novelty_)) < 1.2


def test_ties_count_as_high():
    # One row in 500 has the higher of two scores: as it is more frequent than the rate, it is no alarm but by chance.
    scores = (np.random.default_rng(0).random(100_000) < 0.002).astype(float)
    assert ratio(NoveltySketch().p_values(scores)) < 0.5
    rarer = (np.random.default_rng(0).random(100_000) < 0.0005).astype(float)
    p = NoveltySketch().p_values(rarer)
    assert np.all(p[2000:][rarer[2000:] == 0.0] > 0.99)
    assert np.mean(p[2000:][rarer[2000:] == 1.0] <= RATE) > 0.9


@pytest.mark.parametrize("period", [2, 24, 32, 37])
def test_a_period_of_the_stream_is_no_matter(period):
    rng = np.random.default_rng(0)
    # Each row of a period has its own level. At a rate of 0.1 the scores are not high, so only some of them are kept.
    scores = np.arange(200_000) % period + 0.1 * rng.exponential(size=200_000)
    assert ratio(NoveltySketch().p_values(scores), rate=0.1) == pytest.approx(1.0, abs=0.15)


def test_a_flood_ends_by_itself():
    scores = exponential(30_000) + 100.0 * (np.arange(30_000) >= 20_000)
    alarms = np.flatnonzero(NoveltySketch().p_values(scores)[2000:] <= RATE) + 2000
    flood = alarms[alarms >= 20_000]
    assert flood[0] == 20_000
    # Some 12,000 rows are remembered. The i-th row of the new level is an alarm if it is among the 12 highest of i, so
    # 12 (1 + log(1000/12)) = 65 are expected among the first thousand, with a standard error of at most √65 = 8.
    assert 33 <= np.sum(flood < 21_000) <= 97
    assert np.sum(flood >= 21_000) <= 0.004 * 9000  # 16 (1 + log(10,000/16)) − 65 = 54 if nothing were forgotten


def test_a_steady_rise_raises_more_alarms():
    # Such as docs/alarms.md gives; some 400 alarms or more, so standard errors of at most 5 %.
    rise = np.arange(300_000)
    assert ratio(NoveltySketch().p_values(exponential(300_000) + rise / 1e5)) == pytest.approx(1.4, abs=0.2)
    assert ratio(NoveltySketch().p_values(exponential(300_000) + rise / 1e4)) == pytest.approx(5.0, abs=0.5)


def test_what_was_high_long_ago_is_forgotten():
    rng = np.random.default_rng(0)
    early = rng.exponential(size=500) + 100.0 * (rng.random(500) < 0.1)  # as when most tables open
    sketch = NoveltySketch()
    sketch.add(np.concatenate([early, rng.exponential(size=9500)]))
    assert sketch.p_values(np.array([50.0]))[0] < RATE
    sketch.add(rng.exponential(size=300_000) - 30.0)
    assert sketch.p_values(np.array([0.0]))[0] < RATE


def test_a_copy_goes_on_by_itself_from_what_nobody_has_looked_at():
    scores = np.random.default_rng(0).exponential(size=300)
    asked = np.linspace(0.0, 8.0, 20)
    one = NoveltySketch()
    one.add(scores[:100])
    other = one.copy()
    one.add(scores[100:200])
    other.add(scores[200:])
    other.add_one(2.0)
    one.add_one(3.0)
    for sketch, rest in ((one, [*scores[100:200], 3.0]), (other, [*scores[200:], 2.0])):
        straight = NoveltySketch()
        straight.add(np.concatenate([scores[:100], rest]))
        assert sketch.n == straight.n == 201
        np.testing.assert_array_equal(sketch.p_values(asked), straight.p_values(asked))
