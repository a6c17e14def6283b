"""Documents through the estimator: sparse input of any kind, words that grow in number, files, and what is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from dyncrp import BadRow, DynamicalMixture, Exponential, Gaussian, Multinomial, Stationary, combine
from dyncrp.arrays.counts import Counts, as_counts
from dyncrp.engine import ReferenceEngine

N_WORDS = 30


def documents(n=200, seed=0):
    """Return counts of words of topics that come and go: (n, N_WORDS) integers; some documents are empty."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(N_WORDS, 0.1), 8)
    at = (np.arange(n) // 20 + rng.integers(2, size=n)) % 8
    return np.array([rng.multinomial(rng.poisson(5.0), topics[k]) for k in at])


def mixture(**params):
    return DynamicalMixture(Multinomial(5.0), Exponential(30.0), alpha=1.0, **params)


KINDS = {
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_matrix,
    "floats": lambda X: sparse.csr_array(X.astype(np.float32)),
    "dense": np.array,
    "lists": lambda X: X.tolist(),
    "counts": as_counts,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_any_sparse_matrix_and_any_array_will_do(kind):
    X = documents()
    expected = mixture().fit(X)
    model = mixture().partial_fit(kind(X[:90])).partial_fit(kind(X[90:]))
    assert np.array_equal(model.labels_, expected.labels_[90:])
    assert model.log_evidence_ == expected.log_evidence_
    Y = documents(20, seed=1)
    assert np.array_equal(model.predict(kind(Y)), expected.predict(Y))
    assert np.array_equal(model.predict_proba(kind(Y)), expected.predict_proba(Y))
    assert np.array_equal(model.score_samples(kind(Y)), expected.score_samples(Y))
    assert model.n_features_in_ == N_WORDS


def test_it_is_the_reference():
    X = documents()
    model = mixture().fit(sparse.csr_array(X))
    reference = ReferenceEngine(model.engine_.model, N_WORDS)
    trace = reference.run(X.astype(np.float64), np.arange(200.0))
    assert np.array_equal(model.labels_, trace.labels)
    np.testing.assert_allclose(model.novelty_, -trace.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(model.responsibilities_.toarray(), trace.responsibilities.toarray(), atol=1e-10)
    np.testing.assert_allclose(model.occupancies_.sum(), np.exp(-np.arange(200.0) / 30.0).sum())
    assert [event.table for event in model.events_ if event.kind == "opened"] == list(range(model.n_opened_))


def test_zeros_duplicates_and_disorder_mean_what_they_mean_in_scipy():
    data, columns, indptr = np.array([1, 2, 0, 1, 3]), np.array([2, 0, 1, 2, 1]), np.array([0, 4, 5])
    odd = sparse.csr_array((data, columns, indptr), shape=(2, 3))
    rows = as_counts(odd)
    assert rows.toarray().tolist() == [[2, 0, 2], [0, 3, 0]]
    assert rows.indices.tolist() == [0, 2, 1]
    assert odd.data.tolist() == [1, 2, 0, 1, 3]  # as it was
    assert np.array_equal(rows[1:2].toarray(5), [[0, 3, 0, 0, 0]])


def test_words_grow_in_number_and_may_be_fewer():
    X = documents()
    X[:50, 12:] = 0
    whole = mixture().fit(X)
    model = mixture().partial_fit(sparse.csr_array(X[:50, :12]))
    assert model.n_features_in_ == 12
    later = model.partial_fit(sparse.csr_array(X[50:])).labels_
    assert model.n_features_in_ == N_WORDS
    assert np.array_equal(later, whole.labels_[50:])
    narrow = sparse.csr_array(X[:5, :12])
    assert np.array_equal(model.predict(narrow), whole.predict(X[:5]))
    assert np.isfinite(model.partial_fit(narrow).novelty_).all()
    assert model.n_features_in_ == N_WORDS
    assert np.isfinite(model.score_samples(np.ones((1, 99)))).all()  # with words that nobody has seen
    assert model.n_features_in_ == N_WORDS


def test_one_document_at_a_time():
    X = documents(60)
    expected = mixture().fit(X)
    model = mixture()
    one = [
        X[0],
        *(sparse.csr_array(X[i : i + 1]) for i in range(1, 30)),
        *(as_counts(X[i : i + 1]) for i in range(30, 60)),
    ]
    assert [model.learn_one(x) for x in one] == expected.labels_.tolist()
    assert model.log_evidence_ == expected.log_evidence_
    model.learn_one(np.ones(40))
    assert model.n_features_in_ == 40
    with pytest.raises(ValueError, match="expected one row, got 2"):
        model.learn_one(sparse.csr_array(X[:2]))


def test_a_pipeline_of_texts():
    texts = ["red green", "green red red", "one two", "two two three", "red", "three one"] * 3
    pipeline = make_pipeline(CountVectorizer(), DynamicalMixture(Multinomial(2.0), alpha=0.5))
    assert pipeline.fit_predict(texts).tolist() == [0, 0, 1, 1, 0, 1] * 3
    assert pipeline.predict(["green green", "three three", "nobody knows"]).tolist()[:2] == [0, 1]
    assert get_tags(pipeline[-1]).input_tags.sparse
    assert not get_tags(DynamicalMixture()).input_tags.sparse


def test_an_empty_document_joins_by_weight():
    model = DynamicalMixture(Multinomial(5.0), Stationary(), alpha=0.5).fit([[3, 0], [0, 3], [0, 4], [0, 2]])
    assert model.labels_.tolist() == [0, 1, 1, 1]
    model.partial_fit(sparse.csr_array((1, 2)))
    assert model.labels_.tolist() == [1]
    assert model.novelty_[0] == pytest.approx(0.0, abs=1e-12)  # of length 0 there is one document
    np.testing.assert_allclose(model.responsibilities_.toarray()[0], [0.25, 0.75])


def test_the_likeliest_table_has_the_document():
    model = DynamicalMixture(Multinomial(5.0), Stationary(), alpha=0.5).fit(documents())
    shares = model.predict_proba(documents(30, seed=2))
    best = np.append(model.table_ids_, -1)[np.argmax(shares, axis=1)]
    assert np.array_equal(model.predict(documents(30, seed=2)), best)


def test_files_go_on_to_the_bit(tmp_path):
    X = sparse.csr_array(documents())
    model = mixture(max_tables=6).partial_fit(X[:80])
    model.rename(int(model.table_ids_[0]), "news")
    model.save(tmp_path / "model.npz")
    loaded = DynamicalMixture.load(tmp_path / "model.npz")
    assert loaded.n_features_in_ == N_WORDS
    assert loaded.names_ == model.names_
    assert np.array_equal(loaded.partial_fit(X[80:]).labels_, model.partial_fit(X[80:]).labels_)
    assert loaded.to_bytes() == model.to_bytes()
    again = mixture(max_tables=6).set_state(mixture(max_tables=6).partial_fit(X[:80]).to_state())
    assert np.array_equal(again.partial_fit(X[80:]).labels_, model.labels_)


def test_a_file_is_sparse(tmp_path):
    n = 1000
    X = Counts(np.arange(n + 1), np.arange(n) * 1000, np.ones(n), 1_000_000)
    model = DynamicalMixture(Multinomial(5.0), alpha=1e6).fit(X)
    assert model.n_tables_ == n
    assert len(model.to_bytes()) < 200_000
    assert len(model.describe()) == n
    assert DynamicalMixture.from_bytes(model.to_bytes()).n_features_in_ == 1_000_000


def test_labels_merges_and_splits():
    X = sparse.csr_array([[2, 1, 0, 0], [0, 0, 2, 1], [2, 0, 0, 0], [0, 0, 1, 2], [1, 2, 0, 0]])
    model = DynamicalMixture(Multinomial(2.0), alpha=0.5).fit(X)
    assert model.labels_.tolist() == [0, 1, 0, 1, 0]
    before = model.engine_.arrays()
    assert model.split(0, X[[4]]) == 2
    for table, counts in ((2, [1.0, 2.0]), (0, [4.0, 1.0])):
        assert [part.tolist() for part in model.engine_.word_counts(table)] == [[0, 1], counts]
    assert model.merge(2, 0) == 0
    for name, array in model.engine_.arrays().items():
        assert name in ("n_opened", "last_times") or np.array_equal(array, before[name]), name
    with pytest.raises(ValueError, match="table 0 has 3 rows, and the rest without these 1 is not a table"):
        model.split(0, X[[1]])
    model.partial_fit(X[:, :2], labels=["a", None, -1, "a", "b"])
    assert model.labels_.tolist()[::3] == [3, 3]
    assert model.names_ == {3: "a", 4: "b"}


@pytest.mark.parametrize("value", [-1.0, 0.5, 2.0**32, np.nan, np.inf])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, np.array])
def test_what_is_no_count_is_named(kind, value):
    X = documents(6).astype(np.float64)
    model = mixture().fit(X)
    before = model.to_bytes()
    X[4, 7] = value
    with pytest.raises(BadRow) as error:
        model.partial_fit(kind(X))
    assert (error.value.row, error.value.column) == (4, 7)
    assert model.to_bytes() == before


def test_what_is_refused():
    X = documents(20)
    for empty in (sparse.csr_array((0, 3)), sparse.csr_array((3, 0)), np.zeros((0, 3))):
        with pytest.raises(ValueError, match="must not be empty"):
            mixture().fit(empty)
    with pytest.raises(ValueError, match="must hold counts, got dtype complex128"):
        mixture().fit(sparse.csr_array(X.astype(complex)))
    with pytest.raises(ValueError, match="X is sparse; dyncrp needs a dense array"):
        DynamicalMixture(Gaussian(1.0, 1.0)).fit(sparse.csr_array(X))


def test_models_of_words_are_not_combined():
    with pytest.raises(ValueError, match="models of counts of words cannot be combined"):
        combine([mixture().fit(documents(20), times=np.arange(20.0)) for _ in range(2)])


def test_counts_in_several_cells_of_a_column_add_up_whatever_their_type():
    for dtype, value in ((np.int8, 100), (np.uint8, 200), (np.int32, 2**30)):
        X = sparse.csr_array((np.array([value, value], dtype), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
        assert as_counts(X).data.tolist() == [2.0 * value]
        assert X.data.tolist() == [value, value]  # as it was
    X = sparse.csr_array((np.array([2**31, 2**31]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    with pytest.raises(BadRow, match=r"got 4294967296\.0, at row 0, column 0"):
        as_counts(X)


@pytest.mark.parametrize("column", [-1, 2])
def test_a_column_that_is_not_there_is_refused(column):
    X = sparse.csr_array([[1, 2], [0, 1]])
    X.indices[0] = column
    with pytest.raises(ValueError, match="X must have columns from 0 to 1"):
        mixture().fit(X)
    with pytest.raises(ValueError, match=r"must be two-dimensional \(documents, words\), got shape \(3,\)"):
        mixture().fit(sparse.coo_array(np.array([1, 2, 0])))
