"""Columns of numbers, categories and booleans as rows of numbers; and DataFrames of them in the estimator."""

import json
import re
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dyncrp import Bernoulli, Categorical, Columns, DynamicalMixture, Gaussian, NormalGamma, Stationary
from dyncrp.arrays.checks import BadRow
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import Entry
from dyncrp.input.infer import prefers_log
from dyncrp.input.input import Input
from dyncrp.input.left_out import counts_rows
from dyncrp.search.spec import ModelSpec
from dyncrp.stream import Stream

N = 60
K = np.arange(N) // 5 % 3
CELLS = {
    "x": (5.0 * K + np.sin(np.arange(N))).tolist(),
    "protocol": [["tcp", "udp", "icmp"][k] for k in K],
    "on": [bool(k == 1) for k in K],
    "bit": [int(k == 2) for k in K],
    "price": [Decimal(int(k)) + Decimal("0.5") for k in K],
    "id": list(range(N)),
    "note": [f"note {i}" for i in range(N)],
    "zero": [0] * N,
}
CELLS["x"][3] = CELLS["protocol"][4] = CELLS["on"][7] = CELLS["price"][8] = None
KINDS = ["number", "category", "boolean", "boolean", "number", "left out", "left out", "left out"]
FRAMES = {
    "lists": lambda: CELLS,
    "pandas": lambda: pd.DataFrame(CELLS),
    "pandas nullable": lambda: pd.DataFrame(CELLS).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(CELLS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas category": lambda: pd.DataFrame(CELLS).astype({"protocol": "category"}),
    "polars": lambda: pl.DataFrame(CELLS),
    "polars category": lambda: pl.DataFrame(CELLS).cast({"protocol": pl.Categorical}),
}


def plainly(entries, cells):
    """The same cell by cell."""
    words = {entry.name: list(entry.words) for entry in entries}
    rows = []
    for i in range(len(cells["x"])):
        row = []
        for entry in entries:
            cell = None if entry.kind == "left out" else cells[entry.name][i]
            if entry.kind == "category" and cell is not None and cell not in words[entry.name]:
                words[entry.name].append(cell)
            if entry.kind != "left out":
                code = words[entry.name].index(cell) if entry.kind == "category" and cell is not None else cell
                row.append(np.nan if cell is None else float(np.log1p(code) if entry.kind == "log" else code))
        rows.append(row)
    return np.array(rows), words


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_is_encoded_alike(kind):
    frame = FRAMES[kind]()
    encoding = Encoding.infer(frame)
    assert [entry.kind for entry in encoding.entries] == KINDS
    assert [entry.reason for entry in encoding.entries][5:] == ["counts the rows", "every row differs", "constant"]
    X, longer = encoding.encode(frame)
    wanted, words = plainly(encoding.entries, CELLS)
    np.testing.assert_array_equal(X, wanted)
    assert list(longer["protocol"].words) == words["protocol"] == ["tcp", "udp", "icmp"]
    assert encoding["protocol"].words == ()
    again, same = longer.encode(frame)
    np.testing.assert_array_equal(again, wanted)
    assert same is longer
    # However the rows are divided, the codes are the same.
    first, some = encoding.encode({name: list(CELLS[name])[:7] for name in CELLS})
    rest, all_ = some.encode({name: list(CELLS[name])[7:] for name in CELLS})
    np.testing.assert_array_equal(np.vstack([first, rest]), wanted)
    assert all_ == longer
    assert Encoding.from_plain(json.loads(json.dumps(longer.to_plain()))) == longer


def test_a_family_has_a_part_for_each_kind():
    encoding = Encoding.infer(CELLS)
    assert encoding.families() == tuple(
        Columns({(0, 4): numbers, (2, 3): Bernoulli(), 1: Categorical()})
        for numbers in (Gaussian(), NormalGamma(degrees=1.0))
    )
    assert Encoding((Entry("x", "number"), Entry("y", "log"))).families() == ()
    assert encoding.describe() == (
        "numbers: 2; categories: protocol; booleans: 2; "
        "left out: id (counts the rows), note (every row differs), zero (constant)"
    )


def test_dates_are_left_out_and_mixed_cells_refused():
    dates = pd.date_range("2024", periods=3)
    for column in (dates, dates.to_series(), dates.to_pydatetime(), dates.date, pl.Series(dates.to_list())):
        assert Encoding.infer({"t": column})["t"] == Entry("t", "left out", (), "times")
    rising = {"t": 1.7e9 + np.arange(30.0) ** 2, "x": np.sin(np.arange(30.0))}
    assert Encoding.infer(rising)["t"].reason == "times"
    for cells in ([True, 2], [[1], [2]], [np.zeros(1), np.zeros(2)], [1, dates[0]]):
        with pytest.raises(ValueError, match="column 'c' must hold numbers, text, booleans or dates, and one of these"):
            Encoding.infer({"c": cells})


@pytest.mark.parametrize(
    ("entry", "cells", "message"),
    [
        (Entry("c", "number"), ["1", "two"], "column 'c' must hold numbers, got 'two', at row 1, column 1"),
        (Entry("c", "number"), [1.0, 10**400], "column 'c' must hold finite numbers, got inf, at row 1, column 1"),
        (Entry("c", "log"), np.array([1.0, np.inf]), "column 'c' must hold finite numbers, got inf, at row 1"),
        (
            Entry("c", "boolean", ("true", "false")),
            [True, "!"],
            "column 'c' must hold 'true' or 'false', got '!', at row 1",
        ),
    ],
)
def test_a_bad_cell_is_named(entry, cells, message):
    with pytest.raises(BadRow) as error:
        Encoding((Entry("x", "number"), entry)).encode({"x": [0, 0], "c": cells})
    assert message in str(error.value)
    assert (error.value.row, error.value.column) == (1, 1)


@pytest.mark.parametrize(
    "plain", [None, 3, [["x"]], [["x", "number", [], 3]], [["x", "sort", [], ""]], [["x", "boolean", ["a"], ""]]]
)
def test_what_is_no_encoding_is_refused(plain):
    with pytest.raises(ValueError, match=r"encoding|column"):
        Encoding.from_plain(plain)


def test_numbers_that_were_0_and_1_may_be_more():
    encoding = Encoding((Entry("hits", "boolean", ("1", "0")), Entry("b", "log")))
    X, _ = encoding.encode({"hits": [0, 3, None], "b": [0.0, -3.0, 8.0]})
    np.testing.assert_array_equal(X, [[0, 0], [1, -np.log(4)], [np.nan, np.log(9)]])
    np.testing.assert_allclose(encoding.decode(X)[:, 1], [0, -3, 8])
    assert (encoding.label("hits", 1.0), encoding.label("b", np.log(9))) == ("1", "8")


# Columns, and whether log1p is better. The second half did not choose the constants.
SHAPES = {
    "normal": (lambda rng, n: rng.normal(100, 15, n), False),
    "uniform": (lambda rng, n: rng.uniform(0, 1000, n), False),
    "lognormal": (lambda rng, n: rng.lognormal(3, 2, n), True),
    "exponential": (lambda rng, n: rng.exponential(1, n), False),
    "two clusters": (lambda rng, n: rng.normal(np.where(rng.random(n) < 0.9, 10, 100), 1, n), False),
    "bytes": (lambda rng, n: np.where(rng.random(n) < 0.6, 0, np.round(rng.lognormal(6, 2, n))), True),
    "small counts": (lambda rng, n: rng.poisson(0.5, n).astype(float), False),
    "percentages": (lambda rng, n: np.round(100 * rng.beta(2, 5, n)), False),
    "codes": (lambda rng, n: rng.choice([200.0, 304.0, 404.0, 500.0], n, p=[0.9, 0.05, 0.04, 0.01]), False),
    "outliers": (lambda rng, n: np.where(rng.random(n) < 0.01, 1e6, rng.normal(100, 10, n)), False),
    "money": (lambda rng, n: np.round(rng.lognormal(4, 1.3, n), 2), True),
    "log-uniform": (lambda rng, n: 10 ** rng.uniform(0, 5, n), True),
    "sessions": (lambda rng, n: rng.lognormal(np.where(rng.random(n) < 0.5, 2, 7), 0.7), True),
    "half-normal": (lambda rng, n: np.abs(rng.normal(0, 10, n)), False),
    "hours": (lambda rng, n: rng.integers(0, 24, n).astype(float), False),
    "three clusters": (lambda rng, n: rng.choice([20.0, 50.0, 80.0], n) + rng.normal(0, 2, n), False),
    "many counts": (lambda rng, n: rng.poisson(30, n).astype(float), False),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [100, 1000])
def test_log1p_is_chosen_by_evidence(shape, n):
    draw, wanted = SHAPES[shape]
    chosen = sum(prefers_log(draw(np.random.default_rng(seed), n)) for seed in range(4))
    assert chosen >= (3 if n == 100 else 4) if wanted else chosen == 0  # few rows may leave it as it is
    assert not prefers_log(draw(np.random.default_rng(0), n) - 1e7)  # it may be negative


# --- the estimator ----------------------------------------------------------------------------------------------------

FAMILY = Columns({(0, 4): Gaussian(1.0, 20.0), (2, 3): Bernoulli(0.5, 0.5), 1: Categorical(0.5, 8)})


@pytest.fixture
def known(monkeypatch):
    """The family of the encoding, with hyperparameters that need not be learned."""
    monkeypatch.setattr(Encoding, "families", lambda encoding: (FAMILY,))


def model(**params):
    return DynamicalMixture(dynamics=Stationary(), alpha=1.0, **params)


@pytest.mark.parametrize("kind", ["pandas", "pandas nullable", "polars"])
def test_a_frame_with_categories_is_clustered(known, kind):
    frame = FRAMES[kind]()
    X, encoding = Encoding.infer(frame).encode(frame)
    plain = DynamicalMixture(FAMILY, Stationary(), 1.0).fit(X)
    fitted = model().fit(frame)
    assert fitted.labels_.tolist() == plain.labels_.tolist()
    assert (fitted.encoding_, plain.encoding_) == (encoding, None)
    assert fitted.feature_names_in_.tolist() == list(CELLS)
    assert (fitted.n_features_in_, fitted.engine_.n_features) == (8, 5)
    fitted.learn_unknown()
    turned = frame[list(CELLS)[::-1]]
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(fitted, method)(turned), getattr(plain, method)(X))
        np.testing.assert_array_equal(getattr(fitted, method)(X), getattr(plain, method)(X))  # rows that are encoded
    columns = turned.drop(columns="protocol") if kind != "polars" else turned.drop("protocol")
    with pytest.raises(ValueError, match="there is no column 'protocol', which the model was learned on"):
        fitted.predict(columns)


def test_new_categories_are_appended_and_saved(known):
    frame = pd.DataFrame(CELLS)
    whole = model().fit(frame).learn_unknown()
    spec = ModelSpec.resolve(**model().get_params(deep=False))
    parts = DynamicalMixture.from_stream(Stream(spec, Input(encoding=Encoding.infer(frame))))  # told before the rows
    for begin in range(0, N, 7):
        parts.partial_fit(frame[begin : begin + 7])
        parts = DynamicalMixture.from_bytes(parts.to_bytes())
    assert parts.encoding_ == whole.encoding_
    assert parts.learn_unknown().log_evidence_ == whole.log_evidence_
    new = frame[:3].assign(protocol=["gre", "tcp", "gre"])
    before = whole.to_bytes()
    whole.predict(new)
    with pytest.raises(BadRow):
        whole.partial_fit(new.assign(x=["a", "b", "c"]))
    assert whole.to_bytes() == before
    assert whole.partial_fit(new).encoding_["protocol"].words == ("tcp", "udp", "icmp", "gre")


def test_a_family_that_is_given_takes_columns_by_type():
    frame = pd.DataFrame({"x": CELLS["x"], "p": CELLS["protocol"], "zero": CELLS["zero"]})
    family = Columns({("x", "zero"): Gaussian(1.0, 20.0), "p": Categorical(0.5, 8)})
    fitted = DynamicalMixture(family, Stationary(), 1.0).fit(frame)
    assert [entry.kind for entry in fitted.encoding_.entries] == ["number", "category", "number"]
    assert DynamicalMixture.from_bytes(fitted.to_bytes()).predict(frame).tolist() == fitted.predict(frame).tolist()
    with pytest.raises(ValueError, match="column 'p' holds categories, and Gaussian takes numbers"):
        DynamicalMixture(Gaussian(1.0, 20.0)).fit(frame)


@pytest.mark.parametrize("of", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_what_columns_hold_does_not_depend_on_how_frames_are_cut(of):
    """The first row alone makes an id a category, and zeros constant."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 120)
    columns = {
        "id": [f"n{i}" for i in range(120)],
        "x": (9.0 * kind + rng.normal(size=120)).tolist(),
        "city": [["Rome", "Oslo", "Bern"][k] for k in kind],
        "late": [0.0] * 60 + rng.exponential(3.0, 60).tolist(),
    }
    frame = of(columns)
    cut = DynamicalMixture(warmup=100)
    ends = [0, 1, 2, 3, 9, 40, 99, 104, 120]
    labels = [cut.partial_fit(frame[a:b]).labels_ for a, b in pairwise(ends)]
    whole = DynamicalMixture(warmup=100).partial_fit(frame[:104]).partial_fit(frame[104:])
    assert cut.encoding_ == whole.encoding_
    assert [entry.kind for entry in cut.encoding_.entries] == ["left out", "number", "category", "number"]
    assert cut.log_evidence_ == whole.log_evidence_
    assert labels[-1].tolist() == whole.labels_.tolist()


def test_columns_without_names_of_their_own():
    numbers = pd.DataFrame(np.arange(12.0).reshape(6, 2), columns=[0, 1])
    assert DynamicalMixture(Gaussian(1.0, 100.0)).fit(numbers).encoding_ is None
    words = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]})
    for names in (["x", "x"], [0, 1], ["x", 1]):
        with pytest.raises(ValueError, match="need distinct names, which are texts"):
            DynamicalMixture().fit(words.set_axis(names, axis=1))


def test_text_that_is_missing_at_first_is_text():
    family = Columns({"x": Gaussian(1.0, 100.0), "d": Categorical(1.0, 4)})
    for type_ in ("str", "category", object):
        model = DynamicalMixture(family, Stationary(), 1.0)
        model.partial_fit(pd.DataFrame({"x": [1.0], "d": pd.Series([None], dtype=type_)}))
        model.partial_fit(pd.DataFrame({"x": [1.0], "d": ["u"]}))
        assert model.encoding_["d"].words == ("u",)


def test_a_state_does_not_hold_words():
    family = Columns({"x": Gaussian(1.0, 100.0), "d": Categorical(1.0, 4)})
    model = DynamicalMixture(family, Stationary(), 1.0).fit(pd.DataFrame({"x": [1.0, 2.0], "d": ["u", "v"]}))
    with pytest.raises(ValueError, match="keep the model with to_bytes"):
        model.to_state()


def test_numbers_whose_differences_are_beyond_all_numbers_count_no_rows():
    assert not counts_rows([1.5e308, -1.5e308] * 20)
    assert counts_rows(np.arange(7.0, 47.0))


@pytest.mark.parametrize(
    "texts", [["2012/01/01 10:00", None], ["[01/Mar/2026:00:00:06 +0000]"], ["2026-03-01 10:00 UTC"]]
)
def test_texts_that_are_dates_are_left_out_as_times(texts):
    frame = pd.DataFrame({"when": texts * 60, "code": ["20120101", "20120102"] * 30 * len(texts)})
    assert Encoding.infer(frame)["when"] == Entry("when", "left out", (), "times")
    assert Encoding.infer(frame)["code"].kind == "category"
    assert Encoding.infer(frame.astype({"when": "category"}))["when"].reason != "times"
    assert Encoding.infer(frame, by_type=True)["when"].reason != "times"


def test_text_of_numbers_with_a_decimal_comma_is_warned_of():
    rng = np.random.default_rng(0)
    cells = [f"{x:.2f}".replace(".", ",") for x in rng.normal(size=100)]
    cells[7], cells[8] = "ca. 3", None
    X = pd.DataFrame({"alcohol": cells, "ash": rng.normal(size=100)})
    with pytest.warns(UserWarning, match="column 'alcohol' is text, such as '0,13'") as warned:
        assert Encoding.infer(X).features == ("ash",)
    remedies = re.findall(r"(?:pd\.|X\[).*?\)(?= takes it| for categories)", str(warned[0].message))
    assert len(remedies) == 2
    found = [Encoding.infer(X.assign(alcohol=eval(remedy))) for remedy in remedies]  # and no warning
    assert [encoding["alcohol"].kind for encoding in found] == ["number", "category"]
    few = [f"{i % 3},{i % 5}" for i in range(100)]  # may well be categories
    assert Encoding.infer({"answers": few})["answers"].kind == "category"
