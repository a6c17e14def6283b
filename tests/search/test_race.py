"""Hyperparameters of counts of words: the race finds what trying all candidates to the end finds."""

import math
import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Exponential, Multinomial, Oscillatory, Stationary, tune
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.engine import make_engine
from dyncrp.engine.types import Model
from dyncrp.search import learn, race
from dyncrp.search.candidate import durations
from dyncrp.search.spec import ModelSpec


def topics(n, n_topics=8, n_words=60, life=None, seed=0, length=6):
    """Return counts of words (n, n_words) of topics, each of which lives for so many documents, if not for ever."""
    rng = np.random.default_rng(seed)
    if life is None:
        at = rng.integers(n_topics, size=n)
    else:
        at = np.arange(n) // life * n_topics + rng.integers(n_topics, size=n)
    words = rng.dirichlet(np.full(n_words, 0.05), size=int(at.max()) + 1)
    X = np.array([rng.multinomial(length, words[topic]) for topic in at], dtype=np.float64)
    return X, at


def spec_of(**params):
    return ModelSpec.resolve(**{"family": Multinomial()} | params)


def evidence(family, dynamics, alpha, rows, times):
    """Return log evidence and number of tables, by a run of its own."""
    engine = make_engine(Model(family, dynamics, alpha), rows.n_columns)
    engine.run(rows, times)
    return engine.log_evidence, engine.n_tables


def slow_choice(spec, rows, times):
    """Return what the rule chooses when every candidate runs to the end."""
    n, found = len(rows), []
    for kind in spec.dynamics:
        for lengths in product(*[durations(kind, times)] * kind.n_unknown):
            dynamics = kind.with_durations(lengths)
            for family, alpha in product(spec.family.proposals(rows), race.ALPHAS):
                log_evidence, n_tables = evidence(family, dynamics, alpha, rows, times)
                if n_tables <= max(1, n // 2):
                    found.append((log_evidence - math.log(n) * kind.n_unknown, n_tables, family, dynamics, alpha))
    best = max(found, key=lambda one: one[0])
    near = [one for one in found if one[3] == best[3] and one[0] >= best[0] - race.HARDLY_TOLD_APART * n]
    return min(near, key=lambda one: (one[1], -one[0]))[2:]


@pytest.mark.parametrize("life", [None, 40])
def test_before_the_first_look_all_candidates_run_to_the_end(life):
    X, _ = topics(200, life=life)
    rows, times = as_counts(X), np.arange(200.0)
    spec = spec_of(dynamics=[Stationary(), Exponential()])
    found, candidates = learn(spec, rows, times)
    assert (found.family, found.dynamics, found.alpha) == slow_choice(spec, rows, times)
    assert found.memory == math.inf
    assert sum(candidate.chosen for candidate in candidates) == 1
    one = next(c for c in candidates if c.chosen)
    assert (one.family, one.dynamics, one.alpha) == (found.family, found.dynamics, found.alpha)
    assert (one.log_evidence, one.n_tables) == evidence(found.family, found.dynamics, found.alpha, rows, times)


@pytest.mark.parametrize(("life", "seed"), [(None, 1), (150, 2), (60, 3)])
def test_dropping_losers_on_the_way_changes_nothing_here(life, seed):
    X, _ = topics(1100, life=life, seed=seed)
    rows, times = as_counts(X), np.arange(1100.0)
    spec = spec_of(dynamics=[Stationary(), Exponential()])
    found, candidates = learn(spec, rows, times)
    assert (found.family, found.dynamics, found.alpha) == slow_choice(spec, rows, times)
    assert len(candidates) == 35 * (1 + len(durations(Exponential(), times)))
    finished = [c for c in candidates if c.log_evidence > -math.inf]
    assert len(finished) < len(candidates) / 2


def test_those_next_to_the_best_are_given_another_chance(monkeypatch):
    for name, value in {"KEPT": 10**6, "FEWEST_KEPT": 1, "LAST_QUOTA": 0}.items():
        monkeypatch.setattr(race, name, value)
    X, _ = topics(600, life=60, seed=6)
    rows, times = as_counts(X), np.arange(600.0)
    _, candidates = learn(spec_of(dynamics=[Stationary()]), rows, times)
    finished = {(c.family.concentration, c.alpha): c.log_evidence for c in candidates if c.log_evidence > -math.inf}
    B, alpha = max(finished, key=finished.get)
    grids = sorted({c.family.concentration for c in candidates}), list(race.ALPHAS)
    near = [
        [v for v in grid if abs(grid.index(v) - grid.index(at)) <= 1]
        for grid, at in zip(grids, (B, alpha), strict=True)
    ]
    assert set(product(*near)) <= finished.keys()
    for (strength, readiness), log_evidence in finished.items():
        assert log_evidence == evidence(Multinomial(strength), Stationary(), readiness, rows, times)[0]


def long_texts(n=600, n_words=4000, length=150):
    shares = 1.0 / np.arange(3, n_words + 3)
    return as_counts(np.random.default_rng(0).multinomial(length, shares / np.sum(shares), n))


def test_candidates_that_start_again_find_the_same(monkeypatch):
    rows, times = long_texts(), np.arange(600.0)
    spec = spec_of(dynamics=[Stationary(), Exponential(30.0)])
    expected = learn(spec, rows, times)
    monkeypatch.setattr(race, "MOST_WORDS", 1 << 16)
    for most in (0, 1 << 16, 1 << 20):
        monkeypatch.setattr(race, "MOST_BYTES", most)
        assert learn(spec, rows, times) == expected


def test_candidates_need_little_memory_between_their_turns(monkeypatch):
    rows, times = long_texts(), np.arange(600.0)
    monkeypatch.setattr(race, "MOST_WORDS", 1 << 16)
    monkeypatch.setattr(race, "MOST_BYTES", most := 1 << 20)
    steps, held = race.race(spec_of(dynamics=[Stationary(), Exponential(30.0)]), rows, times), []
    tracemalloc.start()
    try:
        jobs = next(steps)
        while True:
            assert len(jobs) * race.BYTES_OF_WORD * len(rows[:250].data) <= most or len(jobs) == 1
            results = [run(*arguments) for run, arguments in jobs]
            held.append(tracemalloc.get_traced_memory()[0])
            jobs = steps.send(results)
    except StopIteration:
        pass
    finally:
        tracemalloc.stop()
    # Those that wait, those that are done, those that have just run, and a few arrays; without a bound, it is 30 MB.
    assert max(held) < 4 * most


def test_how_a_stream_forgets_is_found():
    still, passing = topics(2000, seed=4)[0], topics(2000, life=100, seed=4)[0]
    assert tune(still, family=Multinomial()).model.dynamics == Stationary()
    assert tune(passing, family=Multinomial(), dynamics=Exponential()).model.dynamics.timescale < 300.0
    assert tune(passing, family=Multinomial()).model.dynamics != Stationary()


def test_what_is_given_stays():
    X, _ = topics(150)
    known = {"family": Multinomial(50.0, background=3.0), "dynamics": Exponential(), "alpha": 2.0}
    model = DynamicalMixture(**known).fit(X)
    assert model.family_ == known["family"]
    assert model.alpha_ == 2.0
    assert isinstance(model.dynamics_, Exponential)
    model = DynamicalMixture(Multinomial(background=3.0), Exponential(70.0)).fit(X)
    assert model.family_.background == 3.0
    assert model.family_.concentration is not None
    assert model.dynamics_ == Exponential(70.0)


def test_times_set_the_scale():
    X, _ = topics(600, life=60, seed=5)
    by_index = tune(X, family=Multinomial(), dynamics=Exponential()).model
    by_minute = tune(X, np.arange(600.0) * 60.0, family=Multinomial(), dynamics=Exponential()).model
    assert by_minute.dynamics.timescale == pytest.approx(60.0 * by_index.dynamics.timescale)
    assert (by_minute.family, by_minute.alpha) == (by_index.family, by_index.alpha)


def test_processes_find_the_same():
    X, _ = topics(300)
    spec = spec_of(dynamics=[Stationary(), Exponential()])
    rows, times = as_counts(X), np.arange(300.0)
    assert learn(replace(spec, n_jobs=2), rows, times) == learn(spec, rows, times)


def test_two_unknown_durations_start_no_more_candidates_than_can_be_run():
    X, _ = topics(300, life=60)
    _, candidates = tune(X, family=Multinomial(), dynamics=Oscillatory() * Exponential())
    assert len(candidates) <= race.MOST_STARTED
    assert len({candidate.dynamics for candidate in candidates}) == len(durations(Oscillatory(), np.arange(300.0))) ** 2
    (chosen,) = (candidate for candidate in candidates if candidate.chosen)
    assert chosen.dynamics.n_unknown == 0


def test_documents_that_share_no_word():
    found = DynamicalMixture(Multinomial()).fit([[f"a{i}", f"b{i}"] for i in range(40)])
    assert found.family_.known
    assert found.n_tables_ >= 1


def test_empty_documents_and_one_document():
    model = DynamicalMixture(Multinomial()).partial_fit([""])
    assert model.partial_fit(["", "a word", ""]).n_observations_ == 4
    with pytest.raises(ValueError, match="too few to learn"):
        DynamicalMixture(Multinomial()).fit(["one"])


class TestBeginning:
    """The warm-up of a stream of documents."""

    def model(self, **params):
        return DynamicalMixture(Multinomial(), [Stationary(), Exponential()], **{"warmup": 96} | params)

    @pytest.mark.parametrize("sizes", [[160], [1] * 70 + [90], [33, 63, 1, 63], [96, 64]])
    def test_the_state_does_not_depend_on_the_cut(self, sizes):
        X, _ = topics(160, life=40)
        whole = self.model()
        whole.partial_fit(X[:50]).partial_fit(X[50:])
        model, begin = self.model(), 0
        for size in sizes:
            model.partial_fit(X[begin : begin + size])
            begin += size
        assert model.learned_
        assert model.to_bytes() == whole.to_bytes()

    def test_learn_one_is_the_same(self):
        X, _ = topics(120)
        model = self.model()
        for x in X:
            model.learn_one(x)
        assert model.to_bytes() == self.model().partial_fit(X).to_bytes()

    @pytest.mark.parametrize("n", [1, 40, 95, 96, 110])
    def test_a_file_goes_on_to_the_bit(self, n):
        X, _ = topics(160, life=40)
        before = self.model().partial_fit(X[:n])
        after = DynamicalMixture.from_bytes(before.to_bytes())
        assert after.learned_ == before.learned_ == (n >= 96)
        np.testing.assert_array_equal(after.partial_fit(X[n:]).labels_, before.partial_fit(X[n:]).labels_)
        assert after.to_bytes() == before.to_bytes()

    def test_words_that_come_later_and_columns_that_grow(self):
        texts = [f"word{i % 7} word{i % 5} new{i}" for i in range(120)]
        one, many = self.model(), self.model()
        one.partial_fit(texts)
        for text in texts:
            many.partial_fit([text])
        assert one.to_bytes() == many.to_bytes()
        assert one.n_features_in_ == len(one.vocabulary_) == 127
        assert self.model().partial_fit(texts[:20]).partial_fit(texts[20:30]).n_features_in_ == 37

    def test_words_are_not_forgotten_while_documents_are_kept(self, monkeypatch):
        monkeypatch.setattr("dyncrp.input.words.ROWS_TO_FORGET", 16)
        texts = [f"word{i % 7} word{i % 5} new{i}" for i in range(120)]
        whole = self.model(max_tables=3, alpha=30.0).fit(texts)
        part = self.model(max_tables=3, alpha=30.0)
        for begin in range(0, 120, 24):
            part.partial_fit(texts[begin : begin + 24])
        assert part.to_bytes() == whole.to_bytes()
        assert len(whole.vocabulary_) < 120

    @pytest.mark.parametrize("name", ["indptr", "indices", "counts", "times", "learnt_from"])
    def test_a_damaged_file_is_refused(self, name):
        from dyncrp.io import model_file

        config, arrays = model_file.loads(self.model().partial_fit(topics(50)[0]).to_bytes())
        array = arrays["warmup_" + name]
        for damaged in (array - 1000, array.reshape(-1)[:-1], -array.astype(np.complex128)):
            content = model_file.dumps(config, arrays | {"warmup_" + name: damaged})
            with pytest.raises(ValueError, match="does not hold a DynamicalMixture"):
                DynamicalMixture.from_bytes(content)

    def test_auto_is_ten_thousand_documents_and_a_thousand_rows(self):
        assert ModelSpec.resolve(Multinomial()).warmup == 10_000
        assert ModelSpec.resolve().warmup == 1000
        assert ModelSpec.resolve(Multinomial(), warmup=500).warmup == 500
        with pytest.raises(ValueError, match="warmup must be"):
            ModelSpec.resolve(warmup="all")


def test_counts_are_joined_as_arrays_are():
    X, _ = topics(20)
    rows = as_counts(X)
    joined = Counts.join([rows[:7], rows[7:7], rows[7:]])
    assert all(np.array_equal(a, b) for a, b in zip(joined.csr, rows.csr, strict=True))
