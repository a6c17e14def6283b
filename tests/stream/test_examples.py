"""What ``Reservoir`` keeps of each table, against all rows sorted by hand; and what ``choose`` makes of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyncrp import Bernoulli, Columns, DynamicalMixture, Gaussian, Multinomial
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.arrays.rows import Dense
from dyncrp.io import model_file
from dyncrp.stream import examples
from dyncrp.stream.examples import Reservoir, choose, priorities


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    """Let few rows be many, so that small streams come to every branch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "BLOCK", 16)
        patch.setattr(examples, "FEW", 4)
        yield


def stream(n, n_tables, seed=0, D=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    X[rng.random((n, D)) < 0.1] = np.nan
    return X, np.cumsum(rng.random(n)), rng.integers(n_tables, size=n)


def splitmix64(number):
    mask = 2**64 - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def by_hand(size, labels, table):
    """Return the numbers of the sample of a table, and of its latest rows."""
    numbers = np.flatnonzero(labels == table).tolist()
    return sorted(sorted(numbers, key=splitmix64)[: 4 * size]), numbers[::-1][:size]


def same(one, other):
    first, second = one.arrays(), other.arrays()
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert array.dtype == second[name].dtype


@given(
    n=st.integers(1, 300),
    n_tables=st.integers(1, 12),
    size=st.integers(1, 4),
    cuts=st.lists(st.integers(0, 300), max_size=12),
)
def test_it_keeps_the_latest_and_a_sample_however_the_stream_is_cut(n, n_tables, size, cuts):
    X, times, labels = stream(n, n_tables)
    kept = Reservoir(size)
    for begin, end in pairwise([0, *sorted(min(cut, n) for cut in cuts), n]):
        kept.add(begin, X[begin:end], times[begin:end], labels[begin:end])
    for table in range(n_tables + 1):
        found = kept.of(table)
        sample, latest = by_hand(size, labels, table)
        assert found.sample.numbers.tolist() == sample
        assert found.latest.numbers.tolist() == latest
        for rows in (found.sample, found.latest):
            np.testing.assert_array_equal(rows.X, X[rows.numbers])
            np.testing.assert_array_equal(rows.times, times[rows.numbers])
    whole = Reservoir(size)
    whole.add(0, X, times, labels)
    same(kept, whole)


@given(
    cuts=st.lists(st.integers(0, 200), max_size=8),
    merges=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 5), st.integers(0, 5)), max_size=4),
)
def test_tables_may_be_joined_at_any_time(cuts, merges):
    n, size = 200, 2
    X, times, labels = stream(n, 6, seed=1)
    into = np.arange(6)
    kept = Reservoir(size)
    merges = sorted(merges)
    for begin, end in pairwise(sorted({0, n, *cuts, *(at for at, _, _ in merges)})):
        for at, a, b in merges:
            first, second = sorted((into[a], into[b]))
            if at == begin and first != second:
                kept.merge(int(first), int(second))
                into[into == second] = first
        kept.add(begin, X[begin:end], times[begin:end], into[labels[begin:end]])
    final = Reservoir(size)
    final.add(0, X, times, into[labels])
    if not any(at == n for at, _, _ in merges):
        same(kept, final)


def test_closed_tables_are_dropped_and_memory_is_bounded():
    rng = np.random.default_rng(0)
    kept, size = Reservoir(2), 2
    labels = np.sort(rng.integers(400, size=4000))
    X, times = rng.standard_normal((4000, 3)), np.arange(4000.0)
    for i in range(4000):
        kept.add(i, X[i : i + 1], times[i : i + 1], labels[i : i + 1])
        if i and labels[i] != labels[i - 1]:
            kept.forget(range(labels[i - 1], labels[i]))  # one is open at a time
        held = sum(store.X.shape[0] for store in kept._waiting) + len(kept._kept.X)
        assert held <= 5 * size * 17 + 17
    assert set(kept.arrays()["example_tables"].tolist()) == {399}
    assert kept.of(399).latest.numbers.tolist() == by_hand(size, labels, 399)[1]
    assert kept.of(7).sample.X.shape == (0, 3)


def test_a_model_keeps_rows_of_open_tables_only():
    X = 100.0 * np.repeat(np.arange(6.0), 3)[:, None]
    model = DynamicalMixture(Gaussian(1.0, 1e5), max_tables=2, n_examples=2).fit(X)
    kept = model_file.loads(model.to_bytes())[1]["example_tables"]
    assert set(kept.tolist()) == set(model.table_ids_.tolist()) == {4, 5}


def test_what_stands_waiting_counts_at_once():
    kept = Reservoir(3)
    kept.add(0, np.array([[1.0]]), np.zeros(1), np.array([4]))
    assert kept.of(4).latest.X.tolist() == [[1.0]]
    kept.forget([4])
    assert kept.of(4).latest.X.tolist() == []
    kept.add(1, np.array([[2.0]]), np.zeros(1), np.array([5]))
    assert kept.of(5).latest.numbers.tolist() == [1]


def test_input_is_copied():
    X, times, labels = stream(40, 2)
    for n in (1, 40):
        kept, rows = Reservoir(2), X[:n].copy()
        kept.add(0, rows, times[:n], labels[:n])
        rows[:] = 7.0
        assert not np.any(kept.arrays()["example_rows"] == 7.0)


def test_the_sample_is_fair():
    # A row is in the sample of 4 of 40 rows with a chance of 1/10; 2,000 tables, 5 standard errors.
    n_tables, n = 2000, 40
    kept = Reservoir(1)
    labels = np.tile(np.arange(n_tables), n)
    kept.add(0, np.zeros((n * n_tables, 1)), np.zeros(n * n_tables), labels)
    places = np.concatenate([kept.of(table).sample.numbers // n_tables for table in range(0, n_tables, 4)])
    counts = np.bincount(places, minlength=n)
    assert len(places) == 4 * 500
    assert np.all(np.abs(counts - 50.0) < 5.0 * np.sqrt(500 * 0.1 * 0.9))


def test_priorities_are_those_of_splitmix64():
    numbers = np.array([0, 1, 2, 10**12, 2**62])
    assert priorities(numbers).tolist() == [splitmix64(number) for number in numbers.tolist()]


# --- files ----------------------------------------------------------------------------------------------------------


def test_it_goes_on_from_its_arrays():
    X, times, labels = stream(300, 4)
    whole, part = Reservoir(2), Reservoir(2)
    whole.add(0, X, times, labels)
    part.add(0, X[:130], times[:130], labels[:130])
    part = Reservoir.restore(2, X.shape[1], Dense, {name: array.copy() for name, array in part.arrays().items()})
    part.add(130, X[130:], times[130:], labels[130:])
    same(part, whole)


def test_nothing_goes_through_a_file_too():
    kept = Reservoir.restore(2, 3, Dense, Reservoir(2).arrays())
    kept.add(0, np.ones((1, 3)), np.zeros(1), np.zeros(1, dtype=np.int64))
    assert kept.of(0).latest.X.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("example_times"), "'example_times' is missing"),
        (lambda arrays: arrays.update(example_tables=arrays["example_tables"].astype(float)), "int64"),
        (lambda arrays: arrays.update(example_rows=arrays["example_rows"][1:]), "'example_rows' has shape"),
        (lambda arrays: arrays.update(example_rows=arrays["example_rows"][:, 0]), "'example_rows' has shape"),
        (lambda arrays: arrays.update(example_rows=arrays["example_rows"][:, 1:]), "its examples have"),
        (
            lambda arrays: arrays.update(example_tables=arrays["example_tables"] - 1),
            "'example_tables' must hold numbers from 0",
        ),
        (lambda arrays: arrays.update(example_numbers=arrays["example_numbers"][::-1]), "count up"),
        (lambda arrays: arrays.update(example_numbers=arrays["example_numbers"] - 1000), "count up"),
        (lambda arrays: arrays.update(example_times=arrays["example_times"] / 0.0), "'example_times' must hold finite"),
        (lambda arrays: arrays.update(example_rows=np.full_like(arrays["example_rows"], np.inf)), "finite numbers"),
        (lambda arrays: arrays.update(example_tables=arrays["example_tables"] * 0), "more examples of a table"),
    ],
)
def test_arrays_of_another_kind_are_refused(change, message):
    X, times, labels = stream(60, 3)
    kept = Reservoir(2)
    kept.add(0, X, times, labels)
    arrays = dict(kept.arrays())
    with np.errstate(divide="ignore"):
        change(arrays)
    with pytest.raises(ValueError, match=message):
        Reservoir.restore(2, X.shape[1], Dense, arrays)


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", True, 10**6])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ValueError, match="size"):
        Reservoir(size)


def test_features_that_come_later():
    kept = Reservoir(2)
    kept.add(0, np.array([[1.0]]), np.zeros(1), np.zeros(1, dtype=np.int64))
    kept.widen(3, np.nan)
    kept.add(1, np.array([[2.0, 3.0, 4.0]]), np.ones(1), np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(kept.of(0).latest.X, [[2.0, 3.0, 4.0], [1.0, np.nan, np.nan]])


# --- typical rows ---------------------------------------------------------------------------------------------------


def test_the_likeliest_of_the_sample_are_typical():
    family = Gaussian([1.0, 4.0], 100.0)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 2)) * [1.0, 2.0] + 3.0
    kept = Reservoir(3)
    kept.add(0, X, np.arange(200.0), np.zeros(200, dtype=np.int64))
    stats = family.statistics(X).sum(axis=0)
    found = choose(family, stats, kept.of(0))
    sample = kept.of(0).sample.numbers
    likely = family.log_predictive(X, stats[None])[:, 0]
    assert found.typical.numbers.tolist() == sorted(sample.tolist(), key=lambda i: -likely[i])[:3]
    assert found.latest.numbers.tolist() == [199, 198, 197]
    np.testing.assert_array_equal(found.typical.X, X[found.typical.numbers])
    np.testing.assert_array_equal(found.typical.times, found.typical.numbers)


def test_whole_rows_come_before_those_with_missing_cells():
    family = Columns.of(Bernoulli(1.0, 1.0), 3)
    X = np.array([[np.nan, np.nan, np.nan], [1.0, np.nan, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    kept = Reservoir(4)
    kept.add(0, X, np.arange(5.0), np.zeros(5, dtype=np.int64))
    stats = family.statistics(X).sum(axis=0, keepdims=True)
    assert choose(family, stats, kept.of(0)).typical.numbers.tolist() == [3, 4, 2, 1]


def test_a_table_without_rows_has_no_examples():
    found = choose(Gaussian(1.0, 2.0), np.zeros(2), Reservoir(2).of(0))
    assert len(found.typical.X) == len(found.latest.X) == 0


@given(
    n=st.integers(1, 120),
    n_tables=st.integers(1, 6),
    size=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    closed=st.sets(st.integers(0, 5), max_size=3),
)
def test_of_documents_it_keeps_what_it_keeps_of_dense_rows(n, n_tables, size, cuts, closed):
    _, times, labels = stream(n, n_tables)
    X = np.random.default_rng(n).poisson(0.4, (n, 5)).astype(np.float64)
    dense, sparse = Reservoir(size), Reservoir(size, Counts)
    for begin, end in pairwise([0, *sorted(min(cut, n) for cut in cuts), n]):
        part = slice(begin, end)
        dense.add(begin, X[part], times[part], labels[part])
        sparse.add(begin, as_counts(X)[part], times[part], labels[part])
        sparse = Reservoir.restore(size, X.shape[1], Counts, sparse.arrays())
    for kept in (dense, sparse):
        kept.merge(0, n_tables - 1)
        kept.forget(closed)
        kept.widen(7)
    for table in range(n_tables):
        for mine, its in zip(sparse.of(table)[:2], dense.of(table)[:2], strict=True):
            assert isinstance(mine.X, Counts)
            np.testing.assert_array_equal(mine.X.toarray(7), its.X)
            np.testing.assert_array_equal(mine.numbers, its.numbers)
            np.testing.assert_array_equal(mine.times, its.times)


@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_documents_that_speak_most_for_a_table_are_typical(monkeypatch, cells):
    monkeypatch.setattr(examples, "CELLS", cells)
    X = np.array([[0, 0, 0], [0, 1, 0], [9, 0, 0], [3, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float64)
    kept = Reservoir(2, Counts)
    kept.add(0, as_counts(X), np.arange(6.0), np.zeros(6, dtype=np.int64))
    family, stats = Multinomial(2.0), np.append(6.0, np.sum(X, axis=0))
    logs = family.log_predictive(X, np.vstack([stats, np.zeros(4)]))
    score = (logs[:, 0] - logs[:, 1]) / np.sqrt(np.maximum(X.sum(axis=1), 1.0))
    found = choose(family, stats, kept.of(0), np.arange(3))
    assert found.typical.numbers.tolist() == np.argsort(-score)[:2].tolist() == [4, 3]
    assert found.typical.X.toarray().tolist() == [[1, 0, 0], [3, 1, 0]]
    assert found.latest.numbers.tolist() == [5, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"example_words_indptr": np.array([0, 1])}, "'example_words_indptr' has shape"),
        ({"example_words_indptr": np.array([0, 2, 1])}, "words must be counts"),
        ({"example_words_counts": np.array([1.5, 1.0])}, "words must be counts"),
        ({"example_words_indices": np.array([-1, 0])}, "words must be counts"),
        ({"example_words_counts": np.array([1, 1])}, "'example_words_counts' must hold finite numbers of type float64"),
        ({"example_words_indices": None}, "'example_words_indices' is missing"),
        ({"example_times": np.array([0.0, np.nan])}, "'example_times' must hold finite"),
    ],
)
def test_arrays_of_documents_of_another_kind_are_refused(change, message):
    kept = Reservoir(1, Counts)
    kept.add(0, as_counts([[0, 1], [2, 0]]), np.arange(2.0), np.array([0, 1]))
    arrays = {name: array for name, array in (kept.arrays() | change).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        Reservoir.restore(1, 2, Counts, arrays)
