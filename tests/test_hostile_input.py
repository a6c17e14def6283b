"""Attacks on purpose: numbers, shapes, gaps and files that nobody sends by accident."""

import copy
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dyncrp import (
    Bernoulli,
    Categorical,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    NormalGamma,
    NormalWishart,
    Oscillatory,
    Poisson,
    Stationary,
    VonMisesFisher,
    plots,
)
from dyncrp.engine.reference import ReferenceEngine
from dyncrp.engine.types import Model
from dyncrp.io import model_file

TINY, HUGE, LARGEST = 1e-300, 1e300, np.finfo(float).max
KNOWN = {
    "gaussian": Gaussian(1.0, 100.0),
    "tiny gaussian": Gaussian(1e-100, 1e100),
    "huge gaussian": Gaussian(1e100, 1e-100),
    "narrow gaussian": Gaussian(1.0, 1e-100),
    "uneven gaussian": Gaussian([1e-100, 1e100], [1.0, 1e-50], [0.0, -1e30]),
    "full gaussian": Gaussian.from_covariances([[1.0, 0.5], [0.5, 1.0]], [[9.0, 0.0], [0.0, 9.0]]),
    "unknown variance": NormalGamma(1.0, 100.0),
    "tiny unknown variance": NormalGamma(1e-100, 1e100),
    "unknown covariance": NormalWishart(1.0, 100.0),
    "tiny unknown covariance": NormalWishart(1e-100, 1e100),
    "bernoulli": Bernoulli(1.0, 1.0),
    "extreme bernoulli": Bernoulli(1e-100, 1e100),
    "poisson": Poisson(1.0, 0.1),
    "categorical": Categorical(1.0),
    "extreme categorical": Categorical(1e-100),
    "extreme poisson": Poisson(1e-100, 1e100),
    "huge poisson": Poisson(1e100, 1e-100),
    "sphere": VonMisesFisher(10.0),
    "sharp sphere": VonMisesFisher(1e9),
}
UNKNOWN = {
    "gaussian": Gaussian(),
    "gaussian of unknown spread": Gaussian(variance=1.0),
    "gaussian of unknown variance": Gaussian(prior_variance=1.0),
    "unknown variance": NormalGamma(),
    "unknown covariance": NormalWishart(),
    "bernoulli": Bernoulli(),
    "poisson": Poisson(),
    "categorical": Categorical(),
    "sphere": VonMisesFisher(),
}
TABLES = {
    "tiny": [[TINY, -TINY], [2 * TINY, TINY], [TINY, TINY], [0.0, TINY]],
    "denormal": [[5e-324, -5e-324], [0.0, 5e-324], [-0.0, 1e-310], [5e-324, 0.0]],
    "huge": [[HUGE, -HUGE], [HUGE / 2, HUGE], [HUGE, HUGE], [0.0, HUGE]],
    "both": [[TINY, -HUGE], [HUGE, TINY], [TINY, TINY], [0.0, HUGE]],
    "a tiny column": [[TINY, 1.0], [2 * TINY, 2.0], [TINY, 9.0], [0.0, 8.0]],
    "a huge column": [[HUGE, 1.0], [-HUGE, 2.0], [HUGE, 9.0], [HUGE, 8.0]],
    "as large as can be learned from": [[1e44, TINY], [-1e44, -TINY], [1e44, 2 * TINY], [0.0, 0.0]],
    "as large as it gets": [[1e139, TINY], [-1e139, 1e139], [TINY, 1.0], [0.0, 0.0]],
    "small": [[1e-60, -1e-60], [2e-60, 1e-60], [1e-60, 0.0], [0.0, 5e-60]],
    "small and large": [[1e-45, 1e44], [2e-45, -1e44], [1e-45, 1e43], [0.0, 5e43]],
    "axes": [[1.0, TINY], [TINY, 1.0], [-1.0, TINY], [TINY, -1.0]],
    "bits": [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]],
    "the largest": [[LARGEST, -LARGEST], [-LARGEST, 5e-324], [LARGEST, LARGEST], [LARGEST, 0.0]],
}


def refusal(function, *args):
    """Return the message with which a call was refused, None if it was not."""
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    return None


def check_answers(model, X):
    """Every answer is a finite number, and shares are shares."""
    for answer in (
        model.log_evidence_,
        model.occupancies_,
        model.centers_,
        model.novelty_,
        model.responsibilities_.data,
        model.score_samples(X),
    ):
        assert np.all(np.isfinite(answer))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-9)
    assert set(model.predict(X)) <= {-1, *range(model.n_tables_)}


def check_all_or_nothing(model, X):
    """Learning X works, however it is cut, or is refused and leaves the model as it was."""
    message = refusal(model.fit, X)
    if message is not None:
        assert " at row " in message
        assert not hasattr(model, "n_tables_")
        return False
    check_answers(model, X)
    parts = copy.deepcopy(model)
    parts.fit(X[:5]).partial_fit(X[5:])
    assert parts.labels_.tolist() == model.labels_[5:].tolist()
    assert parts.log_evidence_ == model.log_evidence_
    assert DynamicalMixture.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    return True


@pytest.mark.slow
@pytest.mark.parametrize("assignment", ["predictive", "variational"])
@pytest.mark.parametrize("family", KNOWN.values(), ids=KNOWN)
def test_tiny_and_huge_values_are_learned_or_refused(family, assignment):
    learned = set()
    for name, rows in TABLES.items():
        model = DynamicalMixture(family, Exponential(20.0), assignment=assignment)
        if check_all_or_nothing(model, np.array(rows * 3)):
            learned.add(name)
    if isinstance(family, Gaussian | NormalGamma):
        assert {"tiny", "denormal", "a tiny column", "small", "small and large", "bits"} <= learned
    assert learned & {"axes", "bits"}
    assert not learned & {"huge", "both", "a huge column", "the largest"}


@pytest.mark.slow
@pytest.mark.parametrize("family", KNOWN.values(), ids=KNOWN)
def test_clusters_of_tiny_and_huge_values_can_be_drawn(family):
    learned, begin = 0, list(KNOWN.values()).index(family)
    for at, rows in enumerate(TABLES.values(), begin):
        model = DynamicalMixture(family, Exponential(20.0))
        if refusal(model.fit, np.array(rows * 3)) is None:
            ways = [model.clusters(n) for n in (None, 1, model.n_tables_)]
            assert all(np.all(np.isfinite(found.tree)) for found in ways)
            if at % 3 == 0:  # another third of them for each family
                plots.tree(ways[learned % 3]).savefig(io.BytesIO(), dpi=30)
            learned += 1
    assert learned


@pytest.mark.parametrize("family", UNKNOWN.values(), ids=UNKNOWN)
def test_tiny_and_huge_values_are_learned_from_or_refused(family):
    learned = set()
    for name, rows in TABLES.items():
        model = DynamicalMixture(family, Stationary())
        message = refusal(model.fit, rows * 3)
        if message is None:
            check_answers(model, np.array(rows))
            learned.add(name)
        else:
            assert " at row " in message
    assert learned & {"axes", "bits"}
    assert not learned & {"huge", "both", "a huge column", "the largest", "as large as it gets"}


extreme = st.sampled_from([10.0**k for k in (-320, -300, -160, -100, -8, 0, 8, 60, 89, 99, 139, 141, 160, 300)])
entries = st.builds(lambda size, sign: size * sign, extreme, st.sampled_from([-1.0, 0.0, 1.0]))


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(entries, entries), min_size=6, max_size=12),
    family=st.sampled_from(
        [
            family
            for family in KNOWN.values()
            if not isinstance(family, Bernoulli | Poisson | Categorical | VonMisesFisher)
        ]
    ),
    assignment=st.sampled_from(["predictive", "variational"]),
)
@settings(max_examples=200)
def test_any_magnitudes_are_learned_or_refused(rows, family, assignment):
    check_all_or_nothing(DynamicalMixture(family, Exponential(3.0), assignment=assignment), np.array(rows))


# --- shapes ---------------------------------------------------------------------------------------------------------

WIDE = 100_000


def wide_rows(n):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    return rng.normal(size=(3, WIDE))[truth] + 0.3 * rng.normal(size=(n, WIDE)), truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "convert"),
    [
        (Gaussian(0.09, 1.0), lambda X: X),
        (Gaussian(0.09, np.linspace(0.5, 1.5, WIDE)), lambda X: X),
        (NormalGamma(0.09, 1.0), lambda X: X),
        (Bernoulli(1.0, 1.0), lambda X: (X > 0).astype(float)),
        (VonMisesFisher(1e5), lambda X: X / np.linalg.norm(X, axis=1, keepdims=True)),
        # A search learns them many times.
        (VonMisesFisher(), lambda X: X[:, :30_000] / np.linalg.norm(X[:, :30_000], axis=1, keepdims=True)),
        (Gaussian(), lambda X: X[:, :30_000]),
    ],
    ids=["gaussian", "diagonal", "unknown variance", "bernoulli", "sphere", "unknown sphere", "unknown gaussian"],
)
def test_a_hundred_thousand_columns(family, convert):
    X, truth = wide_rows(9)
    X = convert(X)
    model = DynamicalMixture(family, Stationary(), alpha=1.0).fit(X)
    assert model.labels_.tolist() == truth.tolist()
    loaded = DynamicalMixture.from_bytes(model.to_bytes())
    assert loaded.predict(X).tolist() == truth.tolist()
    assert loaded.family_ == model.family_


def test_a_hundred_thousand_columns_need_no_covariance_matrix():
    X, truth = wide_rows(9)
    for family in (Gaussian(), NormalGamma()):
        proposals = family.proposals(X, truth, (1.0,))
        assert [proposal.variance.shape for proposal in proposals] == [(WIDE,)]
        assert np.mean(proposals[0].variance) == pytest.approx(0.09, rel=0.05)


def grow(model, K):
    """Return a model as if it had continued until table K − 1, given one whose table c lies at c and holds one row.

    Everything that it keeps of a table is a linear function of c; a stream of a million rows, each of which is compared
    with all tables before it, would take half an hour.
    """
    with np.load(io.BytesIO(model.to_bytes())) as file:
        members = {name: file[name] for name in file.files if name != "sha256"}
    k = model.n_tables_
    for name, array in members.items():
        if array.shape[:1] == (k,):
            steps = np.arange(K, dtype=array.dtype).reshape(-1, *[1] * (array.ndim - 1))
            members[name] = array[:1] + steps * (array[1:2] - array[:1])
        elif name == "n_tables_posterior":
            members[name] = np.append(np.zeros(K), 1.0) if array[-1] else np.append(1.0, np.zeros(K))
        elif name in ("latest_place", "n_opened", "n_observations"):
            members[name] = array + (K - k)
        elif name == "mode_total":
            members[name] = array * (K / k)
        elif name == "time":
            members[name] = np.array(K - 1.0)
    file = io.BytesIO()
    np.savez(file, sha256=model_file._digest(members), **members)
    return DynamicalMixture.from_bytes(file.getvalue())


@pytest.mark.slow
def test_a_million_tables(tmp_path):
    lines = np.arange(2000.0)[:, None]
    streamed = DynamicalMixture(Gaussian(1e-8, 1e14)).fit(lines)
    small = grow(DynamicalMixture(Gaussian(1e-8, 1e14)).fit(lines[:300]), 2000)
    assert small.predict_proba(lines[::97] + 1e-5).tolist() == streamed.predict_proba(lines[::97] + 1e-5).tolist()
    assert small.centers_.tolist() == streamed.centers_.tolist()

    million = 1_000_000
    model = grow(streamed, million)
    rows = np.array([[0.0], [777_777.0], [0.5], [999_999.0 + 2e-4]])
    assert model.predict(rows).tolist() == [0, 777_777, -1, 999_999]
    model.partial_fit([[5.0], [million + 0.0], [0.5], [million + 0.0]])
    assert model.labels_.tolist() == [5, million, million + 1, million]
    assert model.n_tables_ == million + 2
    assert model.learn_one([777_777.0]) == 777_777
    assert model.occupancies_[[5, 6, million, 777_777]].tolist() == [2.0, 1.0, 2.0, 2.0]
    model.save(tmp_path / "model")
    loaded = DynamicalMixture.load(tmp_path / "model")
    assert loaded.to_bytes() == model.to_bytes()
    assert loaded.partial_fit([[0.5]]).labels_.tolist() == [million + 1]


# --- gaps -----------------------------------------------------------------------------------------------------------

CENTURY = timedelta(days=36_525)
DYNAMICS = {
    "stationary": Stationary(),
    "exponential, a second": Exponential(timedelta(seconds=1)),
    "exponential, a century": Exponential(CENTURY),
    "oscillatory, a day": Oscillatory(timedelta(days=1)),
    "oscillatory, a century": Oscillatory(CENTURY),
    "hyperbolic, a microsecond": Hyperbolic(timedelta(microseconds=1)),
    "hyperbolic, a year": Hyperbolic(timedelta(days=365)),
    "equation": LinearODE([1.0, 1e9]),
    "damped equation": LinearODE([1.25e-18, 1e-9, 1.0]),
    "sticky": 0.999 * Exponential(timedelta(hours=1)) + 0.001 * Stationary(),
    "product": Exponential(CENTURY) * Oscillatory(timedelta(days=1)),
}


@pytest.mark.parametrize("dated", [True, False], ids=["dates", "numbers"])
@pytest.mark.parametrize("dynamics", DYNAMICS.values(), ids=DYNAMICS)
def test_gaps_of_a_century(dynamics, dated):
    """The occupancies are sums of the kernel, whatever the gaps: a microsecond, an hour, three centuries."""
    gaps = [timedelta(0), timedelta(microseconds=1), timedelta(hours=1), CENTURY, timedelta(seconds=1), 2 * CENTURY]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    seconds = np.array([age.total_seconds() for age in np.cumsum([datetime(1725, 1, 1, tzinfo=UTC) - epoch, *gaps])])
    clock = [epoch + timedelta(microseconds=round(1e6 * t)) for t in seconds] if dated else seconds
    X = np.array([[0.0], [50.0], [0.0], [0.0], [50.0], [0.0], [50.0]])
    model = DynamicalMixture(Gaussian(1.0, 1e4), dynamics, alpha=1e-3)
    parts = copy.deepcopy(model)
    for k in range(7):
        parts.partial_fit(X[k : k + 1], times=clock[k : k + 1])
        share = dynamics.kernel(seconds[k] - seconds[: k + 1])
        expected = [max(0.0, share[X[: k + 1, 0] == place].sum()) for place in (0.0, 50.0)]
        if parts.n_tables_ == 2:
            np.testing.assert_allclose(parts.occupancies_, expected, rtol=1e-6, atol=1e-6)
    model.fit(X, times=clock)
    assert model.log_evidence_ == parts.log_evidence_
    reference = ReferenceEngine(Model(model.family_, dynamics, 1e-3), 1)
    assert model.labels_.tolist() == reference.run(X, seconds).labels.tolist()
    assert model.log_evidence_ == pytest.approx(reference.log_evidence, rel=1e-6)
    times = [clock[-1] + 10 * CENTURY] * 7 if dated else [1e150] * 7
    assert np.all(np.isfinite(model.predict_proba(X, times)))
    assert np.all(np.isfinite(model.score_samples(X, times)))
    model.partial_fit(X, times=times)
    assert np.isfinite(model.log_evidence_)


# --- files ----------------------------------------------------------------------------------------------------------


def saved(**params):
    X = np.random.default_rng(0).normal(0.0, 5.0, (12, 2))
    return DynamicalMixture(Gaussian(1.0, 50.0), Exponential(20.0), **params).fit(X).to_bytes()


FILES = [saved(), saved(learn_alpha=True), saved(table_count="posterior"), saved(assignment="variational")]


def check_file(content):
    """A file is refused by a ValueError that is one of ours, or it is one that was saved."""
    message = refusal(DynamicalMixture.from_bytes, content)
    if message is None:
        assert DynamicalMixture.from_bytes(content).to_bytes() in FILES
    else:
        assert message.startswith("this ")


@pytest.mark.slow
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0), st.binary(max_size=8)), min_size=1, max_size=4))
@settings(max_examples=300)
def test_files_with_bytes_written_over(content, edits):
    damaged = bytearray(content)
    for position, patch in edits:
        position %= len(content)
        damaged[position : position + len(patch)] = patch
    check_file(bytes(damaged))


@given(st.sampled_from(FILES), st.integers(0), st.integers(0), st.binary(max_size=40))
@settings(max_examples=200)
@example(FILES[0], 0, 0, b"")
def test_files_with_a_piece_cut_out_and_another_put_in(content, begin, end, piece):
    begin, end = sorted((begin % len(content), end % len(content)))
    check_file(content[:begin] + piece + content[end:])
    check_file(content[begin:end])


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


@pytest.mark.slow
@given(
    st.sampled_from(FILES),
    st.dictionaries(st.sampled_from(sorted(members_of(FILES[0]))), st.sampled_from(FILES), max_size=4),
    st.dictionaries(st.text("abé./", min_size=1, max_size=5), st.binary(max_size=20), max_size=2),
)
@settings(max_examples=150)
def test_files_spliced_from_the_members_of_several(content, others, strangers):
    members = members_of(content) | {name: members_of(other)[name] for name, other in others.items()} | strangers
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as spliced:
        for name, content in members.items():
            spliced.writestr(name, content)
    check_file(file.getvalue())


def places(value, path=()):
    """Return the path to every value in a JSON header."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in inner for place in places(entry, (*path, key)))]


kinds = st.sampled_from(["Gaussian", "Bernoulli", "VonMisesFisher", "Exponential", "Sum", "Scaled", "Product", "Sums"])
numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 1e300, 1e-300, 2**63, 10**400])
plain = st.none() | st.booleans() | numbers | st.text(max_size=5)
json_values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.fixed_dictionaries({"kind": kinds | plain}, optional={"variance": inner, "a": inner, "terms": inner})
        | st.fixed_dictionaries({"array": st.sampled_from(["sums", "config_1"]) | plain})
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.sampled_from(FILES), st.data())
@settings(max_examples=200)
def test_files_whose_header_was_edited_and_sealed_again(content, data):
    """Whoever seals a file anew may make another model of it, or be refused; nothing else happens."""
    with np.load(io.BytesIO(content)) as file:
        members = {name: file[name] for name in file.files if name != "sha256"}
    header = json.loads(members["header"].tobytes())
    *path, last = data.draw(st.sampled_from([place for place in places(header) if place]))
    owner = header
    for key in path:
        owner = owner[key]
    if data.draw(st.booleans()):
        owner[last] = data.draw(json_values)
    else:
        del owner[last]
    members["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, sha256=model_file._digest(members), **members)
    message = refusal(DynamicalMixture.from_bytes, file.getvalue())
    if message is None:
        model = DynamicalMixture.from_bytes(file.getvalue())
        model.predict([[0.0, 0.0]])
        assert DynamicalMixture.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    else:
        assert message.startswith("this ")
