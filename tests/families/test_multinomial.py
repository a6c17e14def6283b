"""Counts of words: a proper probability while the vocabulary grows, by enumeration of urns and of documents."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Multinomial, Stationary
from dyncrp.engine import Model, Rules, reference
from dyncrp.testing import check_family

FAMILIES = [Multinomial(3.0), Multinomial(0.4, 2.0), Multinomial(50.0, 0.1)]
KNOWN = 3  # words that the tables below have
TABLES = np.array([[2.0, 3.0, 0.0, 1.0], [1.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


def partitions(total: int, largest: int | None = None):
    """Yield the ways to write a number as a sum of others, largest first."""
    if total == 0:
        yield ()
    for first in range(min(total, total if largest is None else largest), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


def documents(length: int, n_known: int) -> np.ndarray:
    """Return every document of a length: counts of known words, and of new ones in no order, in columns after them."""
    found = []
    for n_new in range(length + 1):
        for known in product(range(length + 1), repeat=n_known):
            if sum(known) == length - n_new:
                found += [(*known, *new, *[0] * (length - len(new))) for new in partitions(n_new)]
    return np.array(found, dtype=np.float64).reshape(-1, n_known + length)


def widened(stats: np.ndarray, n_features: int) -> np.ndarray:
    return np.pad(stats, ((0, 0), (0, 1 + n_features - stats.shape[1])))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("length", range(5))
def test_documents_of_a_length_sum_to_one_at_every_table(family, length):
    X = documents(length, KNOWN)
    stats = widened(TABLES, X.shape[1])
    np.testing.assert_allclose(np.exp(family.given(stats).log_predictive(X, stats)).sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_counts_over_fixed_columns_sum_to_one(family):
    X = np.array([row for row in product(range(5), repeat=3) if sum(row) == 4], dtype=np.float64)
    np.testing.assert_allclose(np.exp(family.log_predictive(X, TABLES)).sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("background", [None, 2])
def test_predictive_is_an_urn_whose_orders_are_summed(background):
    """Every sequence of four words is drawn from the urn in fractions; new words are named as they come."""
    B, s = Fraction(3), Fraction(background or 1)
    table, others = {0: 3, 2: 1}, {0: 3, 1: 4, 2: 1}  # its counts, and those of all tables
    weight = {w: n + s if background else s for w, n in others.items()}
    total = sum(weight.values()) + s
    prior = {w: B * value / total for w, value in weight.items()}

    def sequences(length, urn, n_new):
        if length == 0:
            yield (), Fraction(1)
            return
        norm = sum(urn.values()) + sum(prior.values()) + B * s / total
        for word in [*range(KNOWN), *(f"new {j}" for j in range(n_new + 1))]:
            fresh = word == f"new {n_new}"
            chance = (B * s / total if fresh else urn.get(word, 0) + prior.get(word, 0)) / norm
            for rest, p in sequences(length - 1, urn | {word: urn.get(word, 0) + 1}, n_new + fresh):
                yield (word, *rest), chance * p

    expected: dict[tuple[int, ...], Fraction] = Counter()
    for words, p in sequences(4, table, 0):
        counts = Counter(words)
        new = sorted((n for word, n in counts.items() if isinstance(word, str)), reverse=True)
        expected[(*(counts[w] for w in range(KNOWN)), *new, *[0] * (4 - len(new)))] += p
    assert sum(expected.values()) == 1

    X = documents(4, KNOWN)
    stats = widened(TABLES, X.shape[1])
    found = Multinomial(3.0, background).given(stats).log_predictive(X, stats)[:, 0]
    assert len(X) == len(expected)
    np.testing.assert_allclose(np.exp(found), [float(expected[tuple(map(int, x))]) for x in X], rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("max_tables", [None, 2])
def test_a_stream_gives_a_probability_at_every_step(family, max_tables):
    """The words that are new are those that no open table has, also after tables have closed."""
    model = Model(family, Stationary(), 2.0, rules=Rules(max_tables=max_tables))
    rng = np.random.default_rng(1)
    state = reference.initial_state(model, 6)
    forgot = 0
    for t, x in enumerate(rng.poisson(0.5, size=(20, 6)).astype(np.float64)):
        has = np.flatnonzero(state.stats[:, 1:].sum(axis=0) > 0)
        X = documents(3, len(has))
        renamed = np.zeros((len(X), 9))  # the words that are known keep their columns, and new ones take others
        others = [w for w in range(9) if w not in has]
        renamed[:, [*has, *others[:3]]] = X
        wide = reference.initial_state(model, 9)
        if len(state.stats):
            wide = reference.replace(state, stats=widened(state.stats, 9))
        total = sum(math.exp(reference.log_density(wide, row, float(t), model)) for row in renamed)
        assert total == pytest.approx(1.0, rel=1e-11)
        state, done = reference.step(state, x, float(t), model)
        forgot += len(done.closed) > 0 and (state.stats[:, 1:].sum(axis=0) > 0).sum() < len(has)
    assert (forgot > 0) == (max_tables is not None)


def test_a_document_is_seated_wholly():
    model = Model(Multinomial(5.0), Stationary(), 1.0)
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, size=(60, 5)).astype(np.float64)
    state, trace = reference.run(reference.initial_state(model, 5), X, np.arange(60.0), model)
    assert np.array_equal(state.stats[:, 1:].sum(axis=0), X.sum(axis=0))
    assert np.array_equal(state.stats, np.floor(state.stats))
    assert np.array_equal(state.stats[:, 0], state.sizes)
    sure = trace.responsibilities.max(axis=1).toarray().ravel()
    assert 0.0 < sure.min() < 0.9 < sure.max()


def test_a_new_table_opens_if_it_is_the_likeliest():
    """Ten tables of one document each and a new one: the new one has the most, and much less than a half."""
    model = Model(Multinomial(5.0), Stationary(), 1.5)
    X = np.eye(12) * 3.0
    state, trace = reference.run(reference.initial_state(model, 12), X[:11], np.arange(11.0), model)
    assert trace.labels.tolist() == list(range(11))
    shares = reference.responsibilities(state, X[11], 11.0, model)
    assert 0.1 < shares[-1] < 0.4
    assert np.argmax(shares) == 11


def test_common_words_say_less_with_a_background():
    """A table that shares a word that all have gains less than one that shares a rare word."""
    stats = np.array([[9.0, 9.0, 3.0, 0.0], [9.0, 9.0, 0.0, 3.0], [9.0, 90.0, 0.0, 0.0]])
    x = np.array([[1.0, 1.0, 0.0]])
    for background, least, most in ((None, 0.0, 0.3), (1.0, 1.0, 9.0)):
        family = Multinomial(10.0, background).given(stats)
        gain = family.log_predictive(x, stats)[0] - family.log_predictive(x, 0.0 * stats)[0]
        rare = gain[0] - gain[1]
        common = (
            family.log_predictive(x * [1, 0, 0], stats)[0, 0] - family.log_predictive(x * [1, 0, 0], 0 * stats)[0, 0]
        )
        assert least < rare - common < most


@pytest.mark.parametrize(("family", "n_features"), [(Multinomial(4.0), 4), (Multinomial(0.8, 2.0), 2)])
def test_the_promises_of_families(family, n_features):
    check_family(family, n_features)


def test_a_vocabulary_widens():
    family = Multinomial(3.0, 1.0)
    assert family.can_widen
    stats, X = family.widen(TABLES, 5), np.array([[1.0, 2.0, 0.0, 0.0, 0.0]])
    expected = family.given(TABLES).log_predictive(X[:, :3], TABLES)
    np.testing.assert_allclose(family.given(stats).log_predictive(X, stats), expected, rtol=1e-13)


@pytest.mark.parametrize("name", ["concentration", "background"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1e-7, 1e10, math.nan, "3", True, [1.0, 2.0]])
def test_hyperparameters_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number from 1e-06 to 1e\\+09, or None, got"):
        Multinomial(**({"concentration": 1.0} | {name: value}))


def test_what_is_unknown():
    assert not Multinomial().known
    assert not Multinomial(background=1.0).known
    assert Multinomial(1.0).known


@pytest.mark.parametrize("value", [-1.0, 0.5, 1e300])
def test_rows_are_counts(value):
    X = np.ones((4, 3))
    X[2, 1] = value
    with pytest.raises(ValueError, match=r"Multinomial takes counts of words, integers .*row 2, column 1$"):
        Multinomial(1.0).check(X)


@pytest.mark.parametrize(("settings", "memory"), [({"assignment": "variational"}, math.inf), ({}, 10.0)])
def test_models_it_is_not_for(settings, memory):
    with pytest.raises(ValueError, match=r"Multinomial needs (assignment='predictive'|memory=inf)"):
        Model(Multinomial(1.0), Stationary(), 1.0, memory, Rules(**settings))


@pytest.mark.parametrize("settings", [{"assignment": "variational"}, {"memory": 10.0}])
def test_models_it_is_not_for_are_refused_before_anything_is_learned(settings, monkeypatch):
    monkeypatch.setattr("dyncrp.stream.warmup.learn", None)
    model = DynamicalMixture(Multinomial(), **settings)
    with pytest.raises(ValueError, match=r"Multinomial needs (assignment='predictive'|memory=inf)"):
        model.fit(["one text", "another"])


def test_there_is_no_memory_to_learn():
    model = DynamicalMixture(Multinomial(1.0), Stationary(), alpha=1.0, memory=None).partial_fit(["a text"])
    assert model.learned_
    assert model.memory_ == math.inf
