"""The tokenizer, and the columns that a vocabulary gives to words."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyncrp.arrays.checks import BadRow
from dyncrp.input.words import LONG, STOP_WORDS, Vocabulary, holds_documents, read_documents, tokenize

WORDS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=8)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" ?! … 🙂 ", []),
        ("Storm HITS coast", ["storm", "hits", "coast"]),
        ("see http://a.b/c?d=1, or www.x.org!", ["see", "<url>", "or", "<url>"]),
        ("1,000.5 at 10:30, v2, 3rd, covid-19", ["<number>", "at", "<number>", "v2", "3rd", "covid", "<number>"]),
        ("O’Neill's 'quoted' rock'n'roll", ["o'neill's", "quoted", "rock'n'roll"]),
        ("snake_case #tag @me", ["snake", "case", "tag", "me"]),
        ("Überraschung cafe\u0301 café ﬁsh", ["überraschung", "café", "café", "fish"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("北京 カタカナ ひら", ["北", "京", "カタカナ", "ひ", "ら"]),
        ("١٢٣ ２０２４", ["<number>", "<number>"]),
    ],
)
def test_what_the_tokens_of_a_text_are(text, tokens):
    assert tokenize(text) == tokens


@given(st.text(max_size=40))
def test_tokens_are_stable_and_a_text_in_ascii_is_read_as_any_other(text):
    tokens = tokenize(text)
    assert all(token and not token.isspace() for token in tokens)
    masked = {"<url>", "<number>"}
    plain = [token for token in tokens if token not in masked]
    assert [word for token in plain for word in tokenize(token)] == plain
    if text.isascii():
        assert tokenize(text + " é") == [*tokens, "é"]


def test_a_long_text_takes_no_longer_than_its_length():
    assert tokenize("a'" * 100_000 + "!") == ["a'" * 99_999 + "a"]
    assert len(tokenize("é\u0301" * 100_000)) == 1


def test_stop_words_are_left_out_of_texts_only():
    text = "The storm and the coast"
    assert tokenize(text, STOP_WORDS) == ["storm", "coast"]
    vocabulary = Vocabulary(stop_words=True)
    assert vocabulary.read([text, ["the", "storm"]]).words == ["storm", "coast", "the", "storm"]
    assert Vocabulary().read([text]).words == ["the", "storm", "and", "the", "coast"]
    assert all(tokenize(word) == [word] for word in STOP_WORDS)


def encode(vocabulary, documents):
    """Return rows of counts whose words are known from now on."""
    rows, added = vocabulary.encode(documents)
    vocabulary.add(added)
    return rows


@given(WORDS)
def test_the_rows_of_documents_are_their_counts(documents):
    vocabulary = Vocabulary()
    indptr, indices, data = encode(vocabulary, vocabulary.read(documents)).csr
    assert len(indptr) == len(documents) + 1
    for i, document in enumerate(documents):
        part = slice(indptr[i], indptr[i + 1])
        assert np.all(np.diff(indices[part]) > 0)
        found = {vocabulary.words[column]: n for column, n in zip(indices[part], data[part], strict=True)}
        assert found == Counter(document)


@given(WORDS, st.integers(0, 8))
def test_columns_do_not_depend_on_the_form_of_documents_nor_on_how_they_are_cut(documents, cut):
    whole, cut_up = Vocabulary(), Vocabulary()
    rows = encode(whole, whole.read(documents)).csr
    given = [Counter(document) for document in documents]
    parts = [encode(cut_up, cut_up.read(part)).csr for part in (given[:cut], given[cut:])]
    assert whole.words == cut_up.words
    for at in (1, 2):
        np.testing.assert_array_equal(rows[at], np.concatenate([part[at] for part in parts]))
    read = whole.read(documents)
    np.testing.assert_array_equal(
        np.concatenate([encode(whole, read.part(i, i + 1)).indices for i in range(len(documents))] or [rows[1]]),
        rows[1],
    )


def test_dictionaries_may_count_nothing_and_hold_pairs_of_words():
    vocabulary = Vocabulary()
    indptr, indices, data = encode(vocabulary, vocabulary.read([{"a": 0, ("new", "york"): np.int64(2)}, {}])).csr
    assert (indptr.tolist(), indices.tolist(), data.tolist()) == ([0, 1, 1], [1], [2.0])
    assert vocabulary["new york"] == 1


def test_words_that_are_only_asked_about_get_columns_that_nobody_keeps():
    vocabulary = Vocabulary()
    encode(vocabulary, vocabulary.read(["a b"]))
    rows = vocabulary.encode(vocabulary.read(["c a d c"]), grow=False).rows
    _, indices, data = rows.csr
    assert rows.n_columns == 4
    assert (indices.tolist(), data.tolist()) == ([0, 2, 3], [1.0, 2.0, 1.0])
    assert len(vocabulary) == vocabulary.n_columns == 2
    assert "c" not in vocabulary


@given(st.lists(st.tuples(st.text("abcdefghij", min_size=1, max_size=8), st.sets(st.integers(0, 9))), max_size=6))
def test_a_forgotten_words_column_is_taken_again_and_a_file_remembers_which(steps):
    vocabulary = Vocabulary(stop_words=True)
    for letters, known in steps:
        before = {word: vocabulary[word] for word in vocabulary.words if word is not None}
        vocabulary.forget(np.array(sorted(known), dtype=np.int64))
        kept = {word: column for word, column in before.items() if column in known}
        assert {word: vocabulary[word] for word in vocabulary.words if word is not None} == kept
        free = sorted(set(range(vocabulary.n_columns)) - set(kept.values()))
        again = Vocabulary.from_plain(json.loads(json.dumps(vocabulary.to_plain())))
        encode(vocabulary, vocabulary.read([list(letters)]))
        encode(again, again.read([list(letters)]))
        assert again.to_plain() == vocabulary.to_plain()
        new = [word for word in dict.fromkeys(letters) if word not in kept]
        assert [vocabulary[word] for word in new][: len(free)] == free[: len(new)]
        assert vocabulary.n_columns <= 10  # there are only so many letters


@given(st.text("abcdefghij", max_size=8), st.sets(st.integers(0, 9)), st.text("abcdefghij", max_size=8))
def test_rows_that_were_refused_leave_no_trace(before, known, refused):
    vocabulary, other = Vocabulary(), Vocabulary()
    for one in (vocabulary, other):
        encode(one, one.read([list(before)]))
        one.forget(np.array(sorted(known), dtype=np.int64))
    vocabulary.encode(vocabulary.read([list(refused)]))  # and not added
    assert vocabulary.to_plain() == other.to_plain()
    for one in (vocabulary, other):
        encode(one, one.read([list("abcdefghijklm")]))
    assert vocabulary.to_plain() == other.to_plain()


def test_what_is_no_document_is_refused_and_nothing_is_learned():
    vocabulary = Vocabulary()
    for documents, reason in [
        (["a", None], "a document must be a text, a list of tokens or a dictionary of counts, got None"),
        (["a", ["b", 3]], "a word must be a text, got 3"),
        (["a", {"b": -1}], "the count of 'b' must be an integer from 0 to 2\\*\\*31, got -1"),
        (["a", {"b": float("nan")}], "the count of 'b' must be"),
        (["a", {"b": float("inf")}], "the count of 'b' must be"),
        (["a", {"b": 1.5}], "the count of 'b' must be"),
        (["a", {"b": True}], "the count of 'b' must be"),
    ]:
        with pytest.raises(BadRow, match=reason) as raised:
            vocabulary.read(documents)
        assert raised.value.row == 1
    with pytest.raises(ValueError, match="list of documents, such as"):
        read_documents("a text")
    assert len(vocabulary) == 0
    for plain in (None, [], {"words": "ab"}, {"words": ["a", "a"]}, {"words": [1]}):
        with pytest.raises(ValueError, match="a vocabulary"):
            Vocabulary.from_plain(plain)


def test_what_looks_like_documents():
    pd = pytest.importorskip("pandas")
    for documents in (["a b"], [["a"]], [[], ["a"]], [{"a": 1}], ("a",), np.array(["a"]), pd.Series(["a"]), "a"):
        assert holds_documents(documents), documents
    for documents in ([], [[]], [None], [float("nan"), "a"], [pd.NA, "a"], [b"a"], [{"a"}], [np.array(["a"])]):
        assert holds_documents(documents), documents
    frames = pd.DataFrame({"a": ["b"]}), pytest.importorskip("polars").DataFrame({"a": ["b"]})
    for rows in ([[1.0]], [3], [None, [1.0]], np.zeros((1, 2)), np.zeros(2), pd.Series([1.0]), 3, *frames):
        assert not holds_documents(rows), rows


def test_texts_have_no_masks_but_those_of_earlier_files_do():
    texts = ["call 555 or see http://a.b", ["<number>", "kept"], {"<url>": 2}]
    assert Vocabulary().read(texts).words == ["call", "or", "see", "<number>", "kept", "<url>"]
    assert Vocabulary(stop_words=True).read(texts).words == ["call", "see", "<number>", "kept", "<url>"]
    earlier = Vocabulary.from_plain({"stop_words": False, "words": ["a", "<number>"]})
    assert earlier.read(texts).words == ["call", "<number>", "or", "see", "<url>", "<number>", "kept", "<url>"]
    assert earlier.to_plain() == {"stop_words": False, "words": ["a", "<number>"]}
    assert not Vocabulary.from_plain(Vocabulary().to_plain()).masks


def test_the_words_of_long_texts_are_kept_once():
    long = "some words " * LONG
    first, *others = [id(word) for word in read_documents([long, long]).words if word == "words"]
    assert set(others) == {first}
