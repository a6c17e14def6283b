"""Streams of text, from the estimator to the command line: documents give the same tables, however they come."""

import gzip
import json
import shlex
import signal

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from dyncrp import DynamicalMixture, Exponential, Gaussian, Multinomial, Stationary
from dyncrp.cli.app import app
from dyncrp.input import words
from dyncrp.input.input import Input
from dyncrp.input.words import Vocabulary, tokenize
from dyncrp.jobs.run import Run
from dyncrp.search.spec import ModelSpec
from dyncrp.stream import Stream
from dyncrp.views.describe import describe_words

TOPICS = (
    ["storm", "coast", "flood", "rain", "wind"],
    ["vote", "poll", "seat", "tax", "leader"],
    ["goal", "cup", "match", "team", "coach"],
)
KNOWN = ["--set", "concentration=10", "--alpha", "1", "--dynamics", "exponential(50)"]


def headlines(n, seed=0, new=0.1):
    """Return n texts of three topics, in which some words are like no other."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        topic = TOPICS[rng.integers(3)]
        listed = [str(rng.choice(topic)) for _ in range(rng.integers(3, 7))]
        texts.append(" ".join(listed + [f"w{i}x"] * (rng.random() < new)).capitalize())
    return texts


def mixture(**settings):
    return DynamicalMixture(Multinomial(10.0), Exponential(50.0), alpha=1.0, **settings)


def state(model):
    return model.to_bytes()


@pytest.fixture
def forgetful(monkeypatch):
    monkeypatch.setattr(words, "ROWS_TO_FORGET", 16)


def test_documents_are_the_same_in_every_form():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    texts = headlines(60)
    model = mixture().fit(texts)
    tokens = [tokenize(text) for text in texts]
    counts = [{word: some.count(word) for word in some} for some in tokens]
    forms = [tokens, counts, pd.Series(texts, index=range(7, 67)), pl.Series(texts), np.array(texts), tuple(texts)]
    forms += [np.array(texts, dtype=object), pd.Series(tokens)]
    for form in forms:
        other = mixture().fit(form)
        assert state(other) == state(model)
        np.testing.assert_array_equal(other.labels_, model.labels_)
        np.testing.assert_array_equal(model.predict(form), model.predict(texts))
    dense = np.zeros((60, model.vocabulary_.n_columns))
    for i, some in enumerate(tokens):
        for word in some:
            dense[i, model.vocabulary_[word]] += 1.0
    by_counts = mixture().fit(csr_array(dense))
    np.testing.assert_array_equal(by_counts.labels_, model.labels_)
    assert by_counts.log_evidence_ == model.log_evidence_
    assert by_counts.vocabulary_ is None
    assert model.n_tables_ > 2


@pytest.mark.parametrize("cuts", [[], [1], [16], [15, 17, 50], list(range(1, 100))])
def test_words_are_forgotten_at_the_same_rows_however_a_stream_is_cut(forgetful, cuts):
    texts, settings = headlines(100), {"max_tables": 3, "alarm_rate": 0.01}
    whole = mixture(**settings).fit(texts)
    parts = mixture(**settings)
    labels = []
    for begin, end in zip([0, *cuts], [*cuts, 100], strict=True):
        labels += parts.partial_fit(texts[begin:end]).labels_.tolist()
    assert labels == whole.labels_.tolist()
    assert state(parts) == state(whole)
    one_by_one = mixture(**settings)
    assert [one_by_one.learn_one(text) for text in texts] == labels
    assert state(one_by_one) == state(whole)
    assert len(whole.vocabulary_) < len({word for text in texts for word in tokenize(text)})
    assert [event.row for event in whole.events_ if event.kind == "opened"][:2] == [
        labels.index(0),
        labels.index(1),
    ]
    assert whole.novelty_.shape == whole.novelty_p_.shape == (100,)
    assert whole.responsibilities_.shape == (100, whole.n_opened_)


def test_a_vocabulary_is_bounded_and_a_file_goes_on_with_it(forgetful):
    model = DynamicalMixture(Multinomial(10.0), Exponential(5.0), alpha=1.0, prune_below=0.2)
    texts = [f"a{i // 20} b{i // 20} c{i // 20} hour{i}" for i in range(400)]
    sizes = [model.partial_fit(texts[i : i + 20]).vocabulary_.n_columns for i in range(0, 400, 20)]
    assert max(sizes[10:]) < 150 < len({word for text in texts for word in text.split()})
    known = set(model.engine_.word_totals()[0].tolist())
    assert known <= {model.vocabulary_[word] for word in model.vocabulary_.words if word is not None}
    again = DynamicalMixture.from_bytes(state(model))
    assert again.vocabulary_.to_plain() == model.vocabulary_.to_plain()
    more = headlines(50, seed=1)
    np.testing.assert_array_equal(again.partial_fit(more).labels_, model.partial_fit(more).labels_)
    assert state(again) == state(model)


def test_what_is_refused_changes_nothing(forgetful):
    model = mixture().fit(["storm coast", "vote poll"], times=[0.0, 1.0])
    before, many = state(model), headlines(40)
    for texts, given in [
        (["new words", None], {"times": [2.0, 3.0]}),
        (["new words"], {"times": [0.5]}),
        (["new words"], {}),
        (["new words"], {"times": [2.0], "labels": [77]}),
        (["new words", {"more": -1}], {"times": [2.0, 3.0]}),
        (many, {"times": [*np.arange(2.0, 41.0), 3.0]}),
        (many, {"times": np.arange(2.0, 42.0), "labels": [-1] * 39 + [77]}),
        (many, {"times": np.arange(2.0, 41.0)}),
    ]:
        with pytest.raises(ValueError, match=r"\w"):
            model.partial_fit(texts, **given)
        assert state(model) == before
        with pytest.raises(ValueError, match=r"\w"):
            model.learn_one(texts[-1] or 3.5, 0.5)
        assert state(model) == before
    fresh = mixture()
    with pytest.raises(ValueError, match="backwards"):
        fresh.fit(many, times=[*range(39), 3.0])
    assert not hasattr(fresh, "vocabulary_")


def test_names_and_dates_go_with_pieces(forgetful):
    dates = np.datetime64("2030-01-01") + np.arange(40)
    labels = iter(["weather" if i == 35 else None for i in range(40)])
    model = DynamicalMixture(Multinomial(10.0), Stationary(), alpha=1.0).fit(headlines(40), times=dates, labels=labels)
    assert list(model.names_.values()) == ["weather"]
    assert model.clock_ == "dates"
    assert model.labels_[35] in model.names_


def test_questions_teach_no_words():
    model = mixture().fit(headlines(30))
    before = state(model)
    asked = ["Storm and flood on the coast", "quite another thing altogether", ""]
    assert model.predict(asked)[0] == model.predict(["storm flood coast"])[0]
    assert model.predict_proba(asked).shape == (3, model.n_tables_ + 1)
    assert np.all(np.isfinite(model.score_samples(asked)))
    assert state(model) == before
    one = model.score_samples([["storm", "new"]]), model.score_samples([["storm", "other"]])
    assert one[0] == one[1]


def test_words_and_counts_do_not_mix():
    by_words, by_counts = mixture().fit(["a b"]), mixture().fit(csr_array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="learned on words: give texts"):
        by_words.partial_fit(csr_array([[1.0, 2.0]]))
    for row in (csr_array([[1.0, 2.0]]), np.array([1.0, 2.0]), [1.0, 2.0]):
        with pytest.raises(ValueError, match="learned on words: give texts"):
            by_words.learn_one(row)
    with pytest.raises(ValueError, match="give it counts, not words"):
        by_counts.partial_fit(["a b"])
    with pytest.raises(ValueError, match="does not hold words"):
        by_words.to_state()
    assert by_words.fit(csr_array([[1.0, 2.0]])).vocabulary_ is None
    with pytest.raises(ValueError, match="list of documents"):
        mixture().fit("a text by itself")
    with pytest.raises(ValueError, match=r"\w"):
        DynamicalMixture(Gaussian(1.0, 9.0)).fit(["a text"])


def without_stop_words():
    spec = ModelSpec.resolve(**mixture().get_params(deep=False))
    return DynamicalMixture.from_stream(Stream(spec, Input(vocabulary=Vocabulary(stop_words=True))))


def test_stop_words_stay_with_a_model():
    model = without_stop_words()
    assert model.fit(["the storm"]).vocabulary_.words == ["storm"]
    assert DynamicalMixture.from_bytes(state(model)).partial_fit(["a flood"]).vocabulary_.words == ["storm", "flood"]
    assert model.fit(["the vote"]).vocabulary_.words == ["vote"]
    assert mixture().fit(["the vote"]).vocabulary_.words == ["the", "vote"]


def test_the_words_of_a_table_are_listed_by_lift():
    texts = ["the storm hits the coast"] * 20 + ["the vote splits the house"] * 20 + ["the storm on the rare coast"]
    model = DynamicalMixture(Multinomial(10.0), Stationary(), alpha=0.1).fit(texts)
    storm, vote = describe_words(model.engine_, model.vocabulary_.words)
    assert storm == "storm (lift 1.9), coast (1.9), hits (1.9), the (1)"
    assert vote == "vote (lift 2.1), splits (2.1), house (2.1), the (1)"
    assert describe_words(model.engine_)[1].startswith("x4 (lift 2.1)")
    pytest.importorskip("pandas")
    frame = model.describe()
    assert frame["words"].tolist() == [storm, vote]
    assert frame["rows"].tolist() == [21, 20]
    assert list(frame.columns)[-1] == "words"


def test_river_feeds_bags_of_words():
    pytest.importorskip("river")
    from river import compose, feature_extraction

    from dyncrp.river import DynamicalMixture as Clusterer

    texts = headlines(80)
    bag = feature_extraction.BagOfWords(lowercase=True, ngram_range=(1, 1))
    model = bag | Clusterer(Multinomial(10.0), Exponential(50.0), 1.0)
    for text in texts:
        model.learn_one(text)
    clusterer = model["DynamicalMixture"]
    wanted = mixture().fit([tokenize(text) for text in texts])
    assert clusterer.mixture.to_bytes() == wanted.to_bytes()
    assert model.predict_one("flood storm coast") == wanted.predict(["flood storm coast"])[0]
    assert clusterer.predict_proba_one({"storm": 2})[-1] == wanted.predict_proba([{"storm": 2}])[0, -1]
    assert clusterer.score_one({"storm": 2}) == -wanted.score_samples([{"storm": 2}])[0]
    assert clusterer.feature_names == tuple(wanted.vocabulary_.words)
    assert clusterer.n_tables == wanted.n_tables_
    center = clusterer.centers[wanted.predict(["flood storm coast"])[0]]
    assert sum(center.values()) == pytest.approx(1.0)
    assert "storm" in center
    pairs = compose.Pipeline(
        feature_extraction.BagOfWords(lowercase=True, ngram_range=(1, 2), stop_words=["the"]),
        Clusterer(Multinomial(10.0), Exponential(50.0), 1.0),
    )
    assert pairs.predict_one("the first document") == -1
    pairs.learn_one("This is the first document")
    assert "this is" in pairs["DynamicalMixture"].feature_names


def test_rivers_adapter_checks_words_and_times_at_once():
    pytest.importorskip("river")
    from dyncrp.river import DynamicalMixture as Clusterer

    model = Clusterer(Multinomial(10.0), Exponential(50.0), 1.0, time_key="when")
    model.learn_one({"a": 1, "when": 3.0})
    for x in ({"a": -1, "when": 4.0}, {"a": 1, "when": 2.0}, {3: 1, "when": 4.0}, {"a": 1}):
        with pytest.raises(ValueError, match=r"\w"):
            model.learn_one(x)
    model.learn_one({"b": 2, "when": 4.0})
    assert model.mixture.n_observations_ == 2
    assert model.mixture.engine_.word_totals()[1].tolist() == [1.0, 2.0]
    bag, other = {"b": 2}, Clusterer(Multinomial(10.0))
    other.learn_one(bag)
    bag["b"] = 100  # it was copied
    assert other.mixture.engine_.word_totals()[1].tolist() == [2.0]
    with pytest.raises(ValueError, match="leave out features"):
        Clusterer(Multinomial(10.0), Exponential(50.0), 1.0, features=["a"])


def write(path, n=200):
    rows = "".join(f'{i},"{text}, he said",{i % 3}\n' for i, text in enumerate(headlines(n)))
    path.write_text("t,message,other\n" + rows)
    return path


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def test_a_column_of_texts_is_clustered(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path, output, saved = write(tmp_path / "in.csv"), tmp_path / "out.csv", tmp_path / "model.npz"
    done = run("run", path, "--text", "message", *KNOWN, "--stop-words", "--output", output, "--save", saved)
    assert "features: message" in done.stderr
    model = DynamicalMixture.load(saved)
    assert "he" not in model.vocabulary_
    wanted = without_stop_words().fit([f"{text}, he said" for text in headlines(200)])
    lines = output.read_text().splitlines()
    assert lines[0] == "row,table,probability,novelty,cluster"
    assert [int(line.split(",")[1]) for line in lines[1:]] == wanted.labels_.tolist()
    again = run("run", path, "--text", "message", "--model", saved, "--quiet", "-o", "-").stdout.splitlines()
    assert len(again) == 201
    text = run("summary", saved, "--tables").stdout
    assert "(lift" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "multinomial" in run("info", saved).stdout.lower()
    assert "learned on texts: name their column with --text" in run("run", path, "--model", saved, code=2).stderr


@pytest.mark.parametrize("more", [["--stop-words"], ["--time-column", "t"]])
def test_what_is_not_given_is_learned_and_tune_says_what_it_is(tmp_path, more):
    path = write(tmp_path / "in.csv", 120)
    done = run("run", path, "--text", "message", *more, "-o", "-")
    assert "learning the hyperparameters from the first 120 rows" in done.stderr
    command, in_python = run("tune", path, "--text", "message", *more).stdout.splitlines()
    assert "Multinomial(concentration=" in in_python
    program, *arguments = shlex.split(command)
    assert program == "dyncrp"
    assert run(*arguments, "--quiet", "-o", "-").stdout == done.stdout


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--text", "nothing"], "no column 'nothing'"),
        (["--text", "message", "--columns", "t"], "leave out --columns"),
        (["--text", "t", "--time-column", "t"], "must not be the column of times"),
        (["--text", "message", "--family", "gaussian"], "needs --family multinomial"),
        (["--stop-words"], "--stop-words needs --text"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, options, fault):
    path = write(tmp_path / "in.csv", 5)
    done = CliRunner().invoke(app, ["run", str(path), *options])
    assert done.exit_code in (1, 2)
    assert fault in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_run_over_texts_that_was_stopped_ends_with_the_same_bytes(tmp_path, monkeypatch, forgetful, format):
    path = write(tmp_path / "in.csv")
    if format == "jsonl":
        rows = [{"t": i, "message": text} for i, text in enumerate(headlines(200))]
        path = tmp_path / "in.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def options(name):
        out = ["--output", tmp_path / f"{name}.csv", "--checkpoint", tmp_path / f"{name}.npz", "--every", 7]
        timed = ["--time-column", "t", "--set", "max_tables=3", "--events", tmp_path / f"{name}.jsonl"]
        return [path, "--text", "message", *KNOWN, *timed, *out, "--save", tmp_path / f"{name}.model"]

    run("run", *options("whole"))
    label, done = Run._label, []

    def stopping(job, chunks):
        label(job, chunks)
        done.append(1)
        if len(done) % 4 == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Run, "_label", stopping)
    for _ in range(30):
        if CliRunner().invoke(app, ["run", *map(str, options("cut")), "--resume"]).exit_code == 0:
            break
    else:
        pytest.fail("it never came to an end")
    assert len(done) > 20
    for suffix in ("csv", "jsonl", "model"):
        assert (tmp_path / f"cut.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes(), suffix
    other = path.read_text().replace("storm", "strom")
    path.write_text(other)
    with (tmp_path / f"in.{format}").open("a") as file:
        file.write(other.splitlines()[-1] + "\n")
    assert "begins with other rows" in run("run", *options("cut"), "--resume", code=1).stderr


@pytest.mark.parametrize("reference", [False, True], ids=["engine", "reference"])
def test_documents_are_kept_as_examples_and_go_through_files(forgetful, monkeypatch, reference):
    if reference:
        monkeypatch.setattr("dyncrp.engine.has_extension", lambda: False)
    texts = headlines(100)
    whole, parts = (mixture(n_examples=2, max_tables=3) for _ in range(2))
    labels = whole.fit(texts).labels_
    for begin in range(0, 100, 13):
        parts = DynamicalMixture.from_bytes(state(parts.partial_fit(texts[begin : begin + 13])))
    assert state(parts) == state(whole)
    for table in whole.table_ids_.tolist():
        typical, latest = parts.examples(table)
        numbers = np.flatnonzero(labels == table)
        assert latest.numbers.tolist() == numbers[::-1][:2].tolist()
        assert set(typical.numbers) <= set(numbers)
        for rows in (typical, latest):
            expected = [tokenize(texts[number]) for number in rows.numbers]
            assert [{word: some.count(word) for word in some} for some in expected] == rows.X
    storms = int(whole.predict(["storm flood coast"])[0])
    assert whole.predict(whole.examples(storms).typical.X).tolist() == [storms] * len(whole.examples(storms).typical.X)


def test_examples_of_counts_without_names_are_sparse_rows():
    X = np.array([[3, 1, 0], [0, 0, 4], [2, 1, 0]])
    model = DynamicalMixture(Multinomial(2.0), Stationary(), alpha=0.3, n_examples=5).fit(csr_array(X))
    typical, latest = model.examples(0)
    np.testing.assert_array_equal(latest.X.toarray(), X[[2, 0]])
    assert typical.X.shape == (2, 3)
    one = DynamicalMixture(Multinomial(2.0), Stationary(), alpha=0.3, n_examples=1)
    assert [one.learn_one(row) for row in X] == [0, 1, 0]
    np.testing.assert_array_equal(one.examples(0).latest.X.toarray(), X[[2]])
    model.split(0, X[[2]])
    assert model.examples(0).latest.X.shape == (0, 3)
    model.merge(0, 1)
    np.testing.assert_array_equal(model.examples(0).latest.X.toarray(), X[[1]])


@pytest.mark.parametrize("reference", [False, True], ids=["engine", "reference"])
def test_what_people_tell_of_texts(forgetful, monkeypatch, reference):
    if reference:
        monkeypatch.setattr("dyncrp.engine.has_extension", lambda: False)
    monkeypatch.setattr("dyncrp.engine.native.MOST_DENSE", 10)  # nothing of it needs all words of all tables
    texts = [f"{text} extra" for text in headlines(60)]
    labels: list = [None] * 60
    labels[3], labels[40], labels[41] = "weather", "weather", "other"
    apart = ["one", "one", "one", *[None] * 57]
    model = mixture(n_examples=1).fit(texts, labels=labels, cannot_link=apart)
    given = model.labels_
    assert len(set(given[:3])) == 3
    assert given[3] == given[40] == model.resolve(["weather"])[0]
    assert model.names_[int(given[41])] == "other"
    assert mixture(n_examples=1).fit(texts, labels=labels, cannot_link=apart).to_bytes() == state(model)
    a, b = int(given[40]), int(given[41])
    counts = {table: dict(zip(*model.engine_.word_counts(table), strict=True)) for table in (a, b)}
    kept = model.merge("weather", "other")
    both = dict(zip(*model.engine_.word_counts(kept), strict=True))
    assert both == {word: counts[a].get(word, 0) + counts[b].get(word, 0) for word in {**counts[a], **counts[b]}}
    assert model.names_[kept] == "weather"
    assert [event.what for event in model.events_ if event.kind == "merged"] == [{"merged": max(a, b)}]
    model.rename(kept, "storms")
    again = DynamicalMixture.from_bytes(state(model))
    more = headlines(30, seed=3)
    told = ["storms" if i == 7 else None for i in range(30)]
    for one in (model, again):
        assert one.partial_fit(more, labels=told).labels_[7] == kept
    assert state(again) == state(model)


def test_what_people_tell_of_texts_on_the_command_line(tmp_path):
    rows = [
        f'{i},"{text}",{"weather" if i == 5 else ""},{1 if i < 3 else ""}\n' for i, text in enumerate(headlines(60))
    ]
    path, saved, output = tmp_path / "in.csv", tmp_path / "model.npz", tmp_path / "out.csv"
    path.write_text("t,message,known,photo\n" + "".join(rows))
    told = ["--text", "message", *KNOWN, "--label-column", "known", "--cannot-link-column", "photo", "--names"]
    run("run", path, *told, "--output", output, "--save", saved)
    cells = [line.split(",") for line in output.read_text().splitlines()]
    assert len({row[1] for row in cells[1:4]}) == 3
    assert cells[6][cells[0].index("name")] == "weather"
    model = DynamicalMixture.load(saved)
    first, second = model.table_ids_[:2].tolist()
    run("rename", saved, second, "news")
    run("merge", saved, first, "news")
    model.rename(second, "news")
    model.merge(first, "news")
    assert DynamicalMixture.load(saved).to_bytes() == state(model)
    assert "news" in run("summary", saved).stdout


def test_an_iterator_loses_no_document():
    texts = headlines(20)
    model = mixture().fit(iter(texts))
    assert state(model) == state(mixture().fit(texts))
    np.testing.assert_array_equal(model.predict(text for text in texts), model.predict(texts))
    np.testing.assert_array_equal(model.score_samples(iter(texts)), model.score_samples(texts))


def test_lists_of_tokens_may_be_arrays_and_documents_may_have_no_words():
    pl = pytest.importorskip("polars")
    tokens = [["storm", "coast"], ["vote"], [], ["storm"]]
    model = mixture().fit(tokens)
    assert state(mixture().fit([np.array(some, dtype=object) for some in tokens])) == state(model)
    assert state(mixture().fit(pl.Series(tokens))) == state(model)
    assert mixture().fit([[], []]).vocabulary_.n_columns == 0
    assert model.predict([[]]).shape == (1,)


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([b"storm", "coast"], "got b'storm', at row 0"),
        ([float("nan"), "coast"], "got nan, at row 0"),
        ([None], "got None, at row 0"),
        ([{"storm", "coast"}], "a list of tokens or a dictionary of counts, got {"),
        ({"storm", "coast"}, "got a set, which has no order"),
        ([], r"found 0 sample\(s\), a minimum of 1 document"),
        ([{"storm": 2**31 + 1}], r"from 0 to 2\*\*31, got 2147483649"),
    ],
)
def test_what_is_no_document_is_named(documents, reason):
    fresh, model = mixture(), mixture().fit(["storm coast"])
    before = state(model)
    for ask in (fresh.partial_fit, model.partial_fit, model.predict):
        with pytest.raises(ValueError, match=reason):
            ask(documents)
    assert state(model) == before
    assert not hasattr(fresh, "vocabulary_")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_with_a_column_of_texts_is_no_frame_of_counts(library):
    frame = pytest.importorskip(library).DataFrame({"message": ["storm coast", "vote"]})
    with pytest.raises(ValueError, match=r"give the column of texts by itself, such as X\['message'\]"):
        mixture().fit(frame)
    model = mixture().fit(frame["message"])
    with pytest.raises(ValueError, match="learned on words: give texts"):
        model.predict(frame)


def test_questions_are_held_to_words_or_counts_as_the_model_has_them():
    by_words, by_counts, counts = mixture().fit(["a b"]), mixture().fit(csr_array([[1.0, 2.0]])), csr_array([[1, 0]])
    for ask in (by_words.predict, by_words.predict_proba, by_words.score_samples, by_words.explain):
        with pytest.raises(ValueError, match="learned on words: give texts"):
            ask(counts)
    with pytest.raises(ValueError, match="learned on words: give texts"):
        by_words.split(0, counts, times=[0.0])
    for texts in (["a b"], [["a"]], [{"a": 1}]):
        with pytest.raises(ValueError, match="give it counts, not words"):
            by_counts.predict(texts)


def test_texts_are_taken_out_of_a_table():
    texts = ["storm coast", "storm coast rain", "storm coast"]
    model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.1).fit(texts)
    assert model.labels_.tolist() == [0, 0, 0]
    assert model.split(0, ["coast storm"]) == 1
    assert model.engine_.word_counts(0).counts.tolist() == [2.0, 2.0, 1.0]
    with pytest.raises(ValueError, match="the rest without these 1 is not a table"):
        model.split(0, ["storm thunder"])


@pytest.mark.parametrize("form", ["bom", "utf-16", "gzip", "crlf", "parquet"])
def test_a_column_of_texts_is_read_from_any_file(tmp_path, form):
    path = write(tmp_path / "in.csv", 40)
    text = path.read_text()
    wanted = run("run", path, "--text", "message", *KNOWN, "--quiet", "-o", "-").stdout
    other = tmp_path / {"gzip": "other.csv.gz", "parquet": "other.parquet"}.get(form, "other.csv")
    if form == "parquet":
        pytest.importorskip("pandas").read_csv(path).to_parquet(other)
    elif form == "gzip":
        other.write_bytes(gzip.compress(text.encode()))
    else:
        content = {"bom": text.encode("utf-8-sig"), "utf-16": text.encode("utf-16")}
        other.write_bytes(content.get(form, text.replace("\n", "\r\n").encode()))
    assert run("run", other, "--text", "message", *KNOWN, "--quiet", "-o", "-").stdout == wanted
