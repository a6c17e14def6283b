"""The engine for counts of words against the reference on generated streams, and its own promises about bits."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import ENGINE_DYNAMICS, pairwise
from dyncrp import Exponential, Hyperbolic, Multinomial, Stationary
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.engine import Model, ReferenceEngine, Rules, make_engine
from dyncrp.engine.native import TextEngine
from dyncrp.engine.types import NEW, UNKNOWN, TableConstraints
from engines import assert_same_bits

pytestmark = pytest.mark.usefixtures("no_lower_bounds")

TOLERANCE = 1e-9
FAMILIES = {"symmetric": Multinomial(5.0), "background": Multinomial(20.0, 3.0), "sharp": Multinomial(0.01, 0.5)}
RULES = {
    "plain": Rules(),
    "max_tables": Rules(max_tables=7),
    "prune_below": Rules(prune_below=0.05),
    "both": Rules(max_tables=9, prune_below=0.01),
    "posterior": Rules(table_count="posterior"),
    "threshold": Rules(new_table_threshold=0.05),
}


def stream(n, n_words=25, seed=0, length=4.0, n_topics=12):
    """Return documents of topics that come and go, some of them empty, and their times."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), n_topics)
    at = (np.arange(n) // 10 + rng.integers(3, size=n)) % n_topics
    X = np.array([rng.multinomial(rng.poisson(length), topics[k]) for k in at], dtype=np.float64)
    return X, np.cumsum(rng.exponential(size=n))


def model_of(family, dynamics, rules=None, alpha=1.0):
    return Model(family, dynamics, alpha, rules=rules or Rules())


def both(model, X, times, told=None):
    """Run the reference and the engine on a stream, compare what they found, and return them."""
    reference, text = ReferenceEngine(model, X.shape[1]), TextEngine(model, 1)
    expected, found = reference.run(X, times, told), text.run(as_counts(X), times, told)
    same(expected, found)
    compare_states(reference, text)
    return reference, text


def same(expected, found):
    assert np.array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, rtol=TOLERANCE, atol=TOLERANCE)
    R, S = (trace.responsibilities.toarray() for trace in (expected, found))
    np.testing.assert_allclose(S, R, rtol=1e-8, atol=TOLERANCE)
    assert np.array_equal(S > 0, R > 0)
    for name in ("closed", "closed_rows"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    np.testing.assert_allclose(found.absences, expected.absences, rtol=TOLERANCE)


def compare_states(reference, text):
    expected, found = reference.state, text.state
    for name in ("stats", "ids", "sizes", "n_opened", "first_times", "last_times", "mark", "taken"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    np.testing.assert_allclose(found.mode_states, expected.mode_states, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(text.log_evidence, reference.log_evidence, rtol=1e-9)
    for mine, its in (
        (text.word_totals(), reference.word_totals()),
        *((text.word_counts(i), reference.word_counts(i)) for i in reference.ids),
    ):
        assert np.array_equal(mine.columns, its.columns)
        assert np.array_equal(mine.counts, its.counts)


@pytest.mark.parametrize(("family", "dynamics", "rules"), pairwise(FAMILIES, ENGINE_DYNAMICS, RULES))
def test_the_engine_does_what_the_reference_says(family, dynamics, rules):
    reference, text = both(model_of(FAMILIES[family], ENGINE_DYNAMICS[dynamics], RULES[rules]), *stream(110))
    X, t = stream(12, seed=1)
    t = reference.time + 10.0 * t
    np.testing.assert_array_equal(text.predict(as_counts(X), t), reference.predict(X, t))
    np.testing.assert_allclose(text.responsibilities(X, t), reference.responsibilities(X, t), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(text.log_density(X, t), reference.log_density(X, t), rtol=TOLERANCE)
    for x, when in zip(X, t, strict=True):
        assert text.predict_one(x, when) == pytest.approx(reference.predict_one(x, when), rel=TOLERANCE)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(FAMILIES)),
    st.sampled_from(sorted(ENGINE_DYNAMICS)),
    st.sampled_from(sorted(RULES)),
    st.floats(0.02, 50.0),
    st.integers(0, 10_000),
    st.sampled_from([0.5, 3.0, 12.0, 100.0]),
)
def test_generated_streams(family, dynamics, rules, alpha, seed, length):
    model = model_of(FAMILIES[family], ENGINE_DYNAMICS[dynamics], RULES[rules], alpha)
    both(model, *stream(60, n_words=12, seed=seed, length=length, n_topics=5))


@pytest.mark.parametrize("dynamics", [Stationary(), Exponential(40.0), Hyperbolic(20.0)], ids=repr)
def test_hundreds_of_tables_are_bounded_by_chunks(dynamics):
    """Most tables share no word with a document, and some of them are the likeliest, or have a share to report."""
    rng = np.random.default_rng(2)
    X = np.zeros((360, 320))
    X[np.arange(300), np.arange(300)] = rng.integers(1, 4, size=300)
    X[300:, 300:] = rng.random((60, 20)) < 0.05
    told = TableConstraints(np.where(np.arange(360) < 300, NEW, UNKNOWN), np.full(360, UNKNOWN))
    reference, _ = both(model_of(Multinomial(30.0), dynamics, alpha=0.05), X, np.arange(360.0), told)
    assert 300 <= reference.n_tables < 360


def test_of_tables_alike_the_oldest_has_the_label():
    """Their gains are products of the same numbers in different orders, which rounding makes unequal."""
    counts = np.array(
        [[3.0, 5.0, 7.0], [5.0, 7.0, 3.0], [7.0, 3.0, 5.0], [3.0, 7.0, 5.0], [5.0, 3.0, 7.0], [7.0, 5.0, 3.0]]
    )
    X = np.vstack([counts, [[1.0, 1.0, 1.0]]])
    told = TableConstraints(np.r_[np.full(6, NEW), UNKNOWN], np.full(7, UNKNOWN))
    for concentration in np.linspace(0.7, 9.1, 12):
        _, text = both(model_of(Multinomial(float(concentration)), Stationary()), X, np.arange(7.0), told)
        assert text.seating.sizes[0] == 2


def test_a_new_table_opens_where_it_ties_with_the_best():
    """A table of n words weighs B/(n + B) for a word that nobody has, and a new one weighs alpha."""
    X = np.eye(12)
    told = TableConstraints(np.r_[np.full(8, NEW), np.full(4, UNKNOWN)], np.full(12, UNKNOWN))
    for concentration in (5.0, 0.7, 3.3):
        model = model_of(Multinomial(concentration), Stationary(), alpha=concentration / (1.0 + concentration))
        reference, _ = both(model, X, np.arange(12.0), told)
        assert reference.n_opened == 12


@pytest.mark.parametrize("rules", [Rules(), Rules(max_tables=4)], ids=["all", "max_tables"])
def test_rows_that_are_told(rules):
    X, times = stream(80)
    rng = np.random.default_rng(3)
    tables = np.where(rng.random(80) < 0.3, NEW, UNKNOWN)
    tables[60:] = np.where(rng.random(20) < 0.5, 2 if rules.max_tables is None else NEW, UNKNOWN)
    marks = np.repeat(np.arange(20), 4)
    marks[rng.random(80) < 0.3] = UNKNOWN
    both(model_of(Multinomial(5.0), Exponential(9.0), rules), X, times, TableConstraints(tables, marks))


def test_a_row_told_to_be_at_a_closed_table_ends_the_run():
    X, times = stream(30)
    engine = TextEngine(model_of(Multinomial(5.0), Exponential(9.0)), 25)
    told = np.full(30, UNKNOWN)
    told[17] = 999
    assert len(engine.run(X, times, TableConstraints(told, np.full(30, UNKNOWN))).labels) == 17
    assert engine.n_observations == 17


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1e6, 3.0, 0.0], [1e6 - 9, 0.0, 2.0], [0.0, 1e3, 1e5], [1e6, 5.0, 0.0]]),
        np.repeat(np.eye(60)[:2] + np.eye(60)[2:4], 30, axis=1)[:, :60] * 3,
        np.vstack([np.full((1, 60), 1e3), np.ones((2, 60)), np.eye(60)[:3], np.tril(np.ones((60, 60)))[[9, 30]]]),
    ],
    ids=["large counts", "long documents", "short and long ones"],
)
def test_weights_far_apart(X):
    """Products of such likelihoods are beyond the range of floats."""
    for family in (Multinomial(1e-6), Multinomial(100.0, 5.0)):
        for alpha in (1e-200, 1.0):
            both(model_of(family, Stationary(), alpha=alpha), np.vstack([X, X[::-1], X]), np.arange(3.0 * len(X)))


@pytest.mark.parametrize("rules", [Rules(), Rules(max_tables=7), Rules(prune_below=0.05)], ids=["all", "max", "prune"])
def test_no_bit_depends_on_the_cuts_or_on_a_file(rules):
    X, times = stream(5000, length=6.0)
    rows = as_counts(X)
    model = model_of(Multinomial(5.0, 2.0), 0.7 * Exponential(9.0) + 0.3 * Hyperbolic(50.0), rules)
    whole, parts = TextEngine(model, 25), TextEngine(model, 25)
    expected = whole.run(rows, times)
    begin, found = 0, []
    for end in (1, 2, 700, 701, 4000, 4600, 5000):
        found.append(parts.run(rows[begin:end], times[begin:end]))
        again = pickle.loads(pickle.dumps(parts))  # as from a file
        assert_same_bits(parts.arrays(), again.arrays())
        parts, begin = again, end
    assert_same_bits(whole.arrays(), parts.arrays())
    assert np.array_equal(np.concatenate([trace.labels for trace in found]), expected.labels)
    assert np.concatenate([trace.log_evidence for trace in found]).tobytes() == expected.log_evidence.tobytes()
    one_by_one = TextEngine(model, 25)
    for i in range(300):
        label, log_evidence = one_by_one.run_one(X[i], times[i])
        assert (label, log_evidence) == (expected.labels[i], expected.log_evidence[i])
        assert one_by_one.predict_one(X[i + 1], times[i + 1]) != ()  # which changes nothing


def test_words_that_no_open_table_has_are_forgotten():
    """Each document has words of its own, and memory stays that of the open tables."""
    n = 3000
    rows = Counts(np.arange(0, 2 * n + 1, 2), np.arange(2 * n), np.ones(2 * n), 2 * n)
    engine = TextEngine(model_of(Multinomial(5.0), Stationary(), Rules(max_tables=5)), 1)
    engine.run(rows, np.arange(float(n)))
    assert engine.n_tables == 5
    assert engine.n_opened > n // 2
    columns, counts = engine.word_totals()
    assert 2 * n - 1 in columns
    assert counts.sum() == sum(engine.word_counts(i).counts.sum() for i in engine.ids) < n
    assert engine.n_features == 2 * n


def test_columns_grow():
    X, times = stream(90)
    X[:30, 10:] = 0.0
    model = model_of(Multinomial(5.0, 1.0), Exponential(20.0))
    whole, growing, reference = TextEngine(model, 25), TextEngine(model, 10), ReferenceEngine(model, 10)
    expected = whole.run(X, times)
    for width, part in ((10, slice(0, 30)), (25, slice(30, 60)), (25, slice(60, 90))):
        rows = as_counts(X[part, :width])
        trace = growing.run(rows, times[part])
        assert np.array_equal(trace.labels, expected.labels[part])
        same(reference.run(rows, times[part]), trace)
    assert_same_bits(whole.arrays(), growing.arrays())
    assert growing.n_features == reference.n_features == 25


def test_states_are_exchanged_with_the_reference():
    X, times = stream(60)
    model = model_of(Multinomial(5.0, 1.0), Exponential(20.0), Rules(max_tables=6))
    reference, text = ReferenceEngine(model, 25), TextEngine(model, 25)
    reference.run(X[:40], times[:40])
    text.restore(reference.arrays())
    same(reference.run(X[40:50], times[40:50]), text.run(X[40:50], times[40:50]))
    other = ReferenceEngine(model, 25)
    other.restore(text.arrays())
    same(other.run(X[50:], times[50:]), text.run(X[50:], times[50:]))
    compare_states(other, text)


def test_copies_are_independent():
    X, times = stream(40)
    engine = make_engine(model_of(Multinomial(5.0), Exponential(20.0)), 25)
    assert isinstance(engine, TextEngine)
    engine.run(X[:20], times[:20])
    twin = copy.deepcopy(engine)
    twin.run(X[20:], times[20:])
    assert engine.n_observations == 20
    engine.run(X[20:], times[20:])
    assert_same_bits(engine.arrays(), twin.arrays())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("words_counts", lambda a: a - 0.3),
        ("words_counts", lambda a: -a),
        ("words_indices", lambda a: a[::-1].copy()),
        ("words_indices", lambda a: a.astype(np.float64)),
        ("words_indptr", lambda a: a + 1),
        ("words_indptr", lambda a: a[:-1]),
        ("mode_sums", lambda a: a[:-1]),
        ("mode_states", lambda a: a[:-1]),
        ("sizes", lambda a: -a),
        ("table_ids", lambda a: a[::-1].copy()),
    ],
)
def test_arrays_of_another_kind_are_refused(name, change):
    X, times = stream(40)
    model = model_of(Multinomial(5.0), Exponential(20.0))
    engine = TextEngine(model, 25)
    engine.run(X, times)
    arrays = engine.arrays()
    with pytest.raises(ValueError, match="its"):
        TextEngine(model, 25).restore(arrays | {name: change(arrays[name])})
    if name != "mode_sums":  # which is found anew
        with pytest.raises(ValueError, match=f"its array '{name}' is missing|its array 'mode_states' has shape"):
            TextEngine(model, 25).restore({key: value for key, value in arrays.items() if key != name})


def test_rows_that_changed_since_they_were_checked_do_no_harm():
    engine = TextEngine(model_of(Multinomial(5.0), Stationary()), 3)
    engine.run(np.eye(3), np.arange(3.0))
    before = engine.arrays()
    for data, columns in (
        ([0.5], [1]),
        ([-1.0], [1]),
        ([np.nan], [1]),
        ([np.inf], [0]),
        ([1.0, 1.0], [2, 1]),
        ([1.0], [-1]),
    ):
        rows = Counts(np.array([0, len(data)]), np.array(columns), np.array(data), 3)
        with pytest.raises(ValueError, match="counts"):
            engine.run(rows, np.array([3.0]))
    for name, array in engine.arrays().items():
        assert array.tobytes() == before[name].tobytes()


def test_large_shares_are_too_many_to_be_dense():
    rows = Counts(np.arange(11), np.arange(10) * 10_000_000, np.ones(10), 100_000_000)
    engine = TextEngine(model_of(Multinomial(5.0), Stationary()), 1)
    engine.run(rows, np.arange(10.0))
    with pytest.raises(ValueError, match="too many for a dense array: ask the engine for word_counts"):
        _ = engine.state
    assert len(engine.seating.ids) == engine.n_tables


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_rows_that_are_only_judged_may_have_columns_that_nobody_has_seen(family):
    X, times = stream(60)
    reference, text = both(model_of(family, Exponential(9.0)), X, times)
    Y, t = stream(12, n_words=40, seed=1)
    Y[3], Y[4, 30:] = 0.0, 2.0
    rows, t = as_counts(Y), reference.time + t
    before = [engine.arrays() for engine in (reference, text)]
    assert np.any(Y[:, 25:])
    np.testing.assert_array_equal(text.predict(rows, t), reference.predict(rows, t))
    np.testing.assert_allclose(
        text.responsibilities(rows, t), reference.responsibilities(rows, t), rtol=1e-7, atol=1e-12
    )
    np.testing.assert_allclose(text.log_density(rows, t), reference.log_density(rows, t), rtol=TOLERANCE)
    for i, when in enumerate(t):
        one = rows[i : i + 1]
        assert text.predict_one(one, when) == pytest.approx(reference.predict_one(one, when), rel=TOLERANCE)
        stats = text.word_stats(one.indices)
        np.testing.assert_array_equal(stats, reference.word_stats(one.indices))
        np.testing.assert_array_equal(np.sum(stats[:, 1:], axis=1), np.sum(reference.state.stats[:, 1:], axis=1))
    for engine, arrays in zip((reference, text), before, strict=True):
        assert engine.n_features == 25
        assert all(np.array_equal(array, arrays[name]) for name, array in engine.arrays().items())
