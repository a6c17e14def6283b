"""Numbers, dates and kinds of columns as people write them are found in files; what may be two things is refused."""

import io
import json
import re
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dyncrp.input.entries import Entry
from dyncrp.input.infer import infer_entries
from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, open_reader
from dyncrp.io.readers.cells import MissingCells
from dyncrp.io.readers.columns import read_cells
from dyncrp.io.readers.csv import DELIMITER_NAMES, CsvReader
from dyncrp.io.readers.formats import NumberFormat, YesNo, find_format
from dyncrp.io.readers.told import Told
from reading import ROWS, read, selection, write_rows


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("keep", [(), ("x",)])
def test_decimal_commas(tmp_path, monkeypatch, arrow, keep):
    if not arrow:
        monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    path = tmp_path / "rows.csv"
    chosen = Selection(columns=("x",), time_column="t", keep=keep, delimiter=";", decimal=",")
    path.write_text("t;x\n0,5;-0,614\n1;2\n1,25;1e-3\n")
    with open_reader(str(path), "csv", chosen, 100) as reader:
        chunk = next(reader.chunks())
    np.testing.assert_array_equal(chunk.X[:, 0], [-0.614, 2.0, 1e-3])
    np.testing.assert_array_equal(chunk.times, [0.5, 1.0, 1.25])
    assert list(chunk.kept["x" if keep else "t"]) == (["-0,614", "2", "1e-3"] if keep else ["0,5", "1", "1,25"])
    for line, column in (("2;1.23", "x"), ("2.5;1", "t")):
        path.write_text(f"t;x\n{line}\n")
        with (
            open_reader(str(path), "csv", chosen, 100) as reader,
            pytest.raises(FileError, match="has a decimal point") as fault,
        ):
            next(reader.chunks())
        assert f"line 2: column '{column}'" in str(fault.value)


@pytest.mark.parametrize(
    ("text", "chosen", "hint"),
    [
        (
            "a;b\n1;2\n",
            {"delimiter": ",", "columns": ("a;b",), "takes": ("number",)},
            "'1;2' is not a number; --delimiter sets the character between cells",
        ),
        (
            "a;b\n1,5;2,5\n",
            {"delimiter": ",", "columns": ("a;b",)},
            "3 cells, but the first line has 1; --delimiter sets the character between cells",
        ),
        (
            "a,b\n1,2\none,2\n",
            {},
            "'one' is not a number; --missing one takes it for a missing cell, --categorical a takes the column for "
            "categories, --skip-bad skips such rows",
        ),
        (
            "a,b\n1,2\n*,2\n",
            {},
            "'*' is not a number; --missing '*' takes it for a missing cell, --skip-bad skips such rows",
        ),
        (
            "a,b\n1,2\n12x,2\n",
            {"takes": ("number",)},
            "'12x' is not a number; --missing 12x takes it for a missing cell, --skip-bad skips such rows",
        ),
        ("a,b\n1,2\n3\n", {}, "the row has 1 cell, but the first line has 2; --skip-bad skips such rows"),
        (
            'a,b\n1,"-0,614"\n',
            {"decimal": ".", "columns": ("a", "b"), "takes": ("number",)},
            "'-0,614' is not a number; use --decimal , for decimal commas",
        ),
    ],
)
def test_a_fault_hints_at_the_option_that_is_missing(tmp_path, text, chosen, hint):
    (tmp_path / "rows.csv").write_text(text)
    with (
        open_reader(str(tmp_path / "rows.csv"), "csv", Selection(**chosen), 100) as reader,
        pytest.raises(FileError, match=re.escape(hint) + "$"),
    ):
        next(reader.chunks())


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("x\n1\n2\n", ","),
        ("x,y\n1,2\n", ","),
        ("x;y\n1;2\n", ";"),
        ("x\ty\n1\t2\n", "\t"),
        ("x|y\n1|2\n", "|"),
        ("x;y\n1,5;2,5\n", ";"),
        ('"x";"y"\n"1";"2"\n', ";"),
        ("x, in m;y\n1,5;2\n", ";"),
        ("name;alias,x\n1;b,1\n", ","),
        ("x;y", ";"),
        ("\n\nx;y\n1;2;3\n", ";"),
        ("x;y\n1\n", ","),
    ],
)
@pytest.mark.parametrize("most_rows", [1, 100])
def test_the_delimiter_is_found(tmp_path, monkeypatch, text, delimiter, most_rows):
    (tmp_path / "rows.csv").write_text(text)
    with open_reader(str(tmp_path / "rows.csv"), "csv", Selection(), most_rows) as reader:
        assert reader.delimiter == delimiter
        said = [note for note in reader.notes if note.startswith("the delimiter")]
        assert said == ([] if delimiter == "," else [f"the delimiter is {DELIMITER_NAMES[delimiter]}"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()), buffer_size=1)))
    with open_reader("-", "csv", Selection(), most_rows) as reader:
        assert reader.delimiter == delimiter


def test_decimals_without_a_header_are_split_by_semicolons(tmp_path):
    (tmp_path / "rows.csv").write_text("1,5;2,5;3,5\n4,5;5,5;6,5\n")
    (chunk,) = read(tmp_path / "rows.csv", header=False)
    assert chunk.X.tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]


NUMBERS = [
    (["1.234,56 €", "-12,00 €", "5 €"], [1234.56, -12.0, 5.0], "'1.234,56 €' is read as 1234.56"),
    (["$1,234.50", "-$3.25", "$-0.5"], [1234.5, -3.25, -0.5], "'$1,234.50' is read as 1234.5"),
    (["12 %", "3%", "0"], [12.0, 3.0, 0.0], "'12 %' is read as 12"),
    (["1\u202f234,5", "12 345,25"], [1234.5, 12345.25], "'12 345,25' is read as 12345.25"),
    (["1'234.5", "1’000"], [1234.5, 1000.0], '"1\'234.5" is read as 1234.5'),
    (["0,5", "−2,25"], [0.5, -2.25], "'−2,25' is read as -2.25"),
    (["1,234,567", "5"], [1234567.0, 5.0], "'1,234,567' is read as 1234567"),
    (["12,50", "n/a?", "3,00", "1.000,00"], [12.5, None, 3.0, 1000.0], "'1.000,00' is read as 1000"),
]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize(("written", "numbers", "note"), NUMBERS)
def test_numbers_as_people_write_them(tmp_path, monkeypatch, format, arrow, written, numbers, note):
    if not arrow:
        monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    path = tmp_path / "rows"
    lines = [f"{cell};{i}" for i, cell in enumerate(written)]
    if format == "jsonl":
        lines = [json.dumps({"x": cell, "y": i}) for i, cell in enumerate(written)]
    path.write_text("\n".join(["x;y"] * (format == "csv") + lines), encoding="utf-8")
    for most_rows in (1, 100):
        with open_reader(str(path), format, Selection(skip_bad=True, keep=("x",)), most_rows) as reader:
            assert reader.notes[-1] == f"x: {note}"
            chunks = list(reader.chunks())
        X = np.concatenate([chunk.X for chunk in chunks])
        assert X.tolist() == [[number, i] for i, number in enumerate(numbers) if number is not None]
        kept = [cell for chunk in chunks for cell in chunk.kept["x"]]
        assert kept == [cell for cell, number in zip(written, numbers, strict=True) if number is not None]


NO_DIGIT_BEFORE = [
    ([".25", " .01138", "-.250", "1.5", "5."], None, [0.25, 0.01138, -0.25, 1.5, 5.0]),
    (["$.25", "-$.125", "$1,250.5"], None, [0.25, -0.125, 1250.5]),
    ([",25", "-,01138", ",250"], None, [0.25, -0.01138, 0.25]),
    ([",25", "-,01138", ",250"], ",", [0.25, -0.01138, 0.25]),
    ([".25", "-.01138", ".250"], ".", [0.25, -0.01138, 0.25]),
]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize(("written", "decimal", "numbers"), NO_DIGIT_BEFORE)
def test_numbers_with_no_digit_before_the_mark(tmp_path, monkeypatch, format, arrow, written, decimal, numbers):
    if not arrow:
        monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    lines = [f"{cell}\t{i}" for i, cell in enumerate(written * 10)]
    if format == "jsonl":
        lines = [json.dumps({"x": cell, "y": i}) for i, cell in enumerate(written * 10)]
    (tmp_path / "rows").write_text("\n".join(["x\ty"] * (format == "csv") + lines))
    chosen = Selection(decimal=decimal if format == "csv" else None)  # an option of CSV
    with open_reader(str(tmp_path / "rows"), format, chosen, 7) as reader:
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        assert X[:, reader.features.index("x")].tolist() == numbers * 10


@pytest.mark.parametrize(
    ("cell", "point", "comma"), [("1,234", 1234.0, 1.234), ("1.234 €", 1.234, 1234.0), ("$12,500", 12500.0, 12.5)]
)
def test_a_number_that_may_be_two_is_refused(tmp_path, cell, point, comma):
    path = tmp_path / "rows.csv"
    path.write_text(f"x;y\n{cell};1\n", encoding="utf-8")
    message = f", column 'x': {cell!r} may be {point:.15g} or {comma:.15g}: --decimal . or --decimal , says which"
    with pytest.raises(FileError, match=re.escape(message)):
        read(path)
    for decimal, number in ((".", point), (",", comma)):
        assert read(path, decimal=decimal)[0].X.tolist() == [[number, 1.0]]
    assert read(path, columns=("y",))[0].X.tolist() == [[1.0]]


def test_decimal_commas_in_quotes(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('x,y\n"1,234",1\n2,2\n')
    for decimal, number in ((".", 1234.0), (",", 1.234)):
        assert np.concatenate([chunk.X for chunk in read(path, decimal=decimal)]).tolist() == [[number, 1], [2, 2]]
    path.write_text("x,y\n1,2\n")
    assert read(path, decimal=",")[0].X.tolist() == [[1, 2]]


def test_an_address_or_two_currencies_are_no_number(tmp_path):
    for cells in (["192.168.100.101", "192.168.100.102"], ["5 €", "5 $"], ["5 € 5", "€5€"], ["12/5", "1,23,4"]):
        assert find_format(cells, None) is None


@pytest.mark.parametrize(
    ("cells", "format"),
    [
        (["1.234", "5", "abc", "7"], NumberFormat()),  # thousands would explain no more
        (["5", "7", "12%", "3"], NumberFormat()),
        (["950", "80", "1,250.00"], NumberFormat(".", ",")),
        (["950", "1.250", "1.234,5"], NumberFormat(",", ".")),
        (["950", "80", "1,250.00", "abc"], NumberFormat(".", ",")),
        (["950", "80", "1,250.00", "1.2.3"], NumberFormat()),
    ],
)
def test_what_is_mostly_plain_stays_so_unless_all_numbers_are_explained(cells, format):
    assert find_format(cells, None) == format


def test_times_with_a_decimal_comma(tmp_path):
    (tmp_path / "rows.csv").write_text("t;x\n0,5;1\n1,25;2\n")
    assert read(tmp_path / "rows.csv", time_column="t")[0].times.tolist() == [0.5, 1.25]


def test_a_pipe_of_plain_numbers_is_not_kept_waiting(monkeypatch):
    """Only the first row is looked at, so that rows are labelled as they come."""

    class Slow(io.RawIOBase):
        def __init__(self):
            self.lines = [b"x,y\n", b"1,2\n", b"3,4\n"]

        def readable(self):
            return True

        def readinto(self, buffer):
            assert self.lines, "nobody asked for more"
            line = self.lines.pop(0)
            buffer[: len(line)] = line
            return len(line)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Slow())))
    with open_reader("-", "csv", Selection(takes=("number",)), 100) as reader:
        assert next(reader.chunks()).X.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("n_first", [30, 1000])
def test_a_pipe_and_a_file_have_the_same_columns(tmp_path, monkeypatch, n_first):
    """If the family is open, there is a warm-up, and a pipe is waited for as long."""
    text = "id,x,zero\n" + "".join(f"{i},{i % 7},0\n" for i in range(50))
    (tmp_path / "rows.csv").write_text(text)
    with open_reader(str(tmp_path / "rows.csv"), "csv", Selection(n_first=n_first), 100) as reader:
        line = reader.notes[0]
        assert line == "numbers: 1; left out: id (counts the rows), zero (constant)"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()), buffer_size=1)))
    with open_reader("-", "csv", Selection(n_first=n_first), 100) as reader:
        assert (reader.features, reader.notes[0]) == (("x",), line)
        assert sum(len(chunk.X) for chunk in reader.chunks()) == 50


CHOICES = [
    (("a", "x2"), ["a", "x2"]),
    (("x2", "a"), ["x2", "a"]),
    (("x1-x3",), ["x1", "x2", "x3"]),
    (("x*", "a"), ["x1", "x2", "x3", "x-y", "a"]),
    (("x?",), ["x1", "x2", "x3"]),
    (("x[13]",), ["x1", "x3"]),
    (("#2", "#4-#5"), ["x1", "x3", "x-y"]),
    (("x-y",), ["x-y"]),
    (("x3-x-y", "x3"), ["x3", "x-y"]),
    (("*",), ["a", "x1", "x2", "x3", "x-y"]),
]


@pytest.mark.parametrize(("wanted", "found"), CHOICES, ids=lambda value: ",".join(value))
def test_columns_are_chosen_and_excluded(tmp_path, wanted, found):
    (tmp_path / "rows.csv").write_text("a,x1,x2,x3,x-y,t\n1,2,3,4,5,6\n")
    (chunk,) = read(tmp_path / "rows.csv", columns=wanted, time_column="t")
    numbers = dict(zip(("a", "x1", "x2", "x3", "x-y"), range(1, 6), strict=True))
    assert chunk.X.tolist() == [[numbers[name] for name in found]]
    rest = [name for name in numbers if name not in found]
    if rest:
        (chunk,) = read(tmp_path / "rows.csv", exclude=wanted, time_column="t")
        assert chunk.X.tolist() == [[numbers[name] for name in rest]]


@pytest.mark.parametrize("wanted", ["z", "z*", "#0", "#7", "x3-x1", "x1-", "-", "x1-z"])
def test_a_choice_that_fits_nothing_is_named(tmp_path, wanted):
    (tmp_path / "rows.csv").write_text("a,x1,x2,x3,x-y,t\n1,2,3,4,5,6\n")
    for options in ({"columns": (wanted,)}, {"columns": ("a",), "exclude": (wanted,)}):
        with pytest.raises(FileError, match=re.escape(f" has no column {wanted!r}; it has 'a', 'x1', 'x2'")):
            read(tmp_path / "rows.csv", **options)
    with pytest.raises(FileError, match=r"has no columns to cluster$"):
        read(tmp_path / "rows.csv", exclude=("*",))


def test_columns_of_one_name_are_called_by_position(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y,x\n1,2,3\n")
    with open_reader(str(path), "csv", Selection(), 10) as reader:
        assert reader.features == ("#1", "y", "#3")
    assert read(path, columns=("#3", "#2"))[0].X.tolist() == [[3.0, 2.0]]
    with pytest.raises(FileError, match="has 2 columns called 'x': choose them by position, such as #1 and #3"):
        read(path, columns=("x",))


KINDS = """id,when,protocol,flag,bytes,up,outbound,share,note,host
"""
KINDS += "".join(
    f"{i},2024-01-01T00:00:{i:02},{'tcp' if i % 3 else 'udp'},{i % 2},{i * i},"
    f"{'yes' if i % 4 else 'No'},0,{3 * i % 40}%,n{i},\n"
    for i in range(30)
)
LINE_OF_KINDS = "numbers: 2; categories: protocol; booleans: 2; left out: id (counts the rows), when (times), "
LINE_OF_KINDS += "outbound (constant), note (every row differs), host (empty)"


@pytest.mark.parametrize("most_rows", [1, 7, 1000])
def test_what_columns_hold_is_found_and_said(tmp_path, monkeypatch, most_rows):
    path = tmp_path / "rows.csv"
    path.write_text(KINDS)
    with open_reader(str(path), "csv", Selection(keep=None), most_rows) as reader:
        assert reader.features == ("protocol", "flag", "bytes", "up", "share")
        assert reader.notes == [
            LINE_OF_KINDS,
            "when holds times: --time-column when uses them",
            "to cluster id all the same: --numeric id",
            "up: yes is read as 1, no as 0",
            "share: '12%' is read as 12",
        ]
        chunks = list(reader.chunks())
        assert reader.encoding["protocol"].words == ("udp", "tcp")
    X = np.concatenate([chunk.X for chunk in chunks])
    assert X.tolist() == [[i % 3 > 0, i % 2, i * i, i % 4 > 0, 3 * i % 40] for i in range(30)]
    assert [cell for chunk in chunks for cell in chunk.kept["protocol"]][:2] == ["udp", "tcp"]
    for features in (("id",), ("outbound", "id")):  # what is chosen is never left out
        with open_reader(str(path), "csv", Selection(features), most_rows) as reader:
            assert reader.features == features
            assert reader.notes == []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(KINDS.encode()), buffer_size=1)))
    with open_reader("-", "csv", Selection(), most_rows) as reader:
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in reader.chunks()]), X)
    # A family for numbers takes no categories and booleans are numbers to it.
    with open_reader(str(path), "csv", Selection(takes=("number",)), most_rows) as reader:
        assert reader.features == ("flag", "bytes", "up", "share")
        assert "left out: id (counts the rows), when (times), protocol (category)" in reader.notes[0]
        assert "categories are left out: the family takes numbers only" in reader.notes
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in reader.chunks()]), X[:, 1:])


def test_what_options_say_of_columns_counts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(KINDS)
    chosen = {"categorical": ("flag", "note"), "numeric": ("up", "outbound"), "log": ("bytes",)}
    with open_reader(str(path), "csv", Selection(**chosen), 7) as reader:
        kinds = {entry.name: entry.kind for entry in reader.encoding.entries}
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        place = list(reader.chunks())[1].place
    wanted = {"id": "left out", "when": "left out", "protocol": "category", "flag": "category", "bytes": "log"}
    wanted |= {"up": "number", "outbound": "number", "share": "number", "note": "category", "host": "left out"}
    assert kinds == wanted
    rows = [[i % 3 > 0, i % 2, np.log1p(i * i), i % 4 > 0, 0, 3 * i % 40, i] for i in range(30)]
    np.testing.assert_allclose(X, rows)
    # Reading that continues has the categories that came before.
    with open_reader(str(path), "csv", Selection(**chosen, findings=place["findings"]), 7) as reader:
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in reader.chunks(place)]), X[place["row"] :])
    for name in ("categorical", "numeric", "log"):
        with pytest.raises(FileError, match="has no column 'z'"):
            read(path, **{name: ("z",)})
    plain = tmp_path / "plain.csv"
    plain.write_text("x,y\n1,2\n200,3\n")
    assert read(plain, categorical=("x",))[0].X.tolist() == [[0, 2], [1, 3]]
    assert read(plain, log=("x",))[0].X.tolist() == [[np.log1p(1), 2], [np.log1p(200), 3]]
    np.save(tmp_path / "rows.npy", np.array([[7.0, 1.0], [8.0, 1.0], [7.0, np.nan]]))
    (chunk,) = read(tmp_path / "rows.npy", "npy", categorical=("0",))
    np.testing.assert_array_equal(chunk.X, [[0, 1], [1, 1], [0, np.nan]])


@pytest.mark.parametrize("most_rows", [1, 1000])
def test_a_word_that_is_neither_yes_nor_no(tmp_path, most_rows):
    path = tmp_path / "rows.csv"
    path.write_text(
        "x,up\n" + "".join(f"{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(1000)) + "1,NA\n1,perhaps\n"
    )
    message = "line 1003, column 'up': 'perhaps' is neither 'yes' nor 'no'; --categorical up takes it for a category"
    with pytest.raises(FileError, match=re.escape(message)):
        read(path, most_rows=most_rows)
    X = np.concatenate([chunk.X for chunk in read(path, most_rows=most_rows, categorical=("up",))])
    np.testing.assert_array_equal(X[-3:, 1], [1, np.nan, 2])
    X = np.concatenate([chunk.X for chunk in read(path, most_rows=most_rows, skip_bad=True)])
    np.testing.assert_array_equal(X[-2:, 1], [1, np.nan])


def test_what_columns_of_json_and_parquet_hold(tmp_path):
    rows = [{"x": i / 2, "ok": i % 2 == 0, "name": f"{i % 5}a", "e": [1, i]} for i in range(30)]
    rows[7]["name"] = rows[8]["x"] = rows[9]["ok"] = None
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    wanted = np.array([[i / 2, i % 2 == 0, i % 5, 1, i] for i in range(30)])
    wanted[[8, 9, 7], [0, 1, 2]] = np.nan
    for format in ("jsonl", "parquet"):
        with open_reader(str(tmp_path / f"rows.{format}"), format, Selection(), 7) as reader:
            assert reader.features == ("x", "ok", "name", "e[0]", "e[1]")
            assert reader.notes[0] == "numbers: 3; categories: name; booleans: 1"
            X = np.concatenate([chunk.X for chunk in reader.chunks()])
        np.testing.assert_array_equal(X, wanted)


def test_plain_numbers_are_taken_as_they_are_but_for_counters_and_constants(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,x,zero,bit\n" + "".join(f"{i},{i % 7},0,{i % 2}\n" for i in range(50)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert reader.features == ("x", "bit")
        assert reader.notes[0] == "numbers: 2; left out: id (counts the rows), zero (constant)"
        assert reader.notes[1] == "to cluster id all the same: --numeric id"
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        assert X.tolist() == [[i % 7, i % 2] for i in range(50)]
    names = "id", "x", "zero", "bit"
    with open_reader(str(path), "csv", Selection(names), 100) as reader:
        assert (reader.features, reader.encoding) == (names, None)
    with open_reader(str(path), "csv", Selection(numeric=("id",)), 100) as reader:
        assert reader.features == ("id", "x", "bit")
    with open_reader(str(path), "csv", Selection(takes=("number",)), 100) as reader:  # a family takes them all
        assert (reader.features, reader.encoding) == (names, None)
        assert reader.notes == ["id counts the rows: --exclude id leaves it out"]
    path.write_text("id,x\n" + "".join(f"{i},0\n" for i in range(50)))  # there would be nothing left
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert (reader.features, reader.notes) == (("id", "x"), [])
    path.write_text("id,x,y\n" + "".join(f"{i},{'NA' if i % 3 else i},\n" for i in range(50)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert reader.notes[0] == "numbers: 1; left out: id (counts the rows), y (empty)"
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        np.testing.assert_array_equal(X, [[np.nan if i % 3 else i] for i in range(50)])
    path.write_text("at,x\n" + "".join(f"{1763287200000 + 60000 * i},{i % 7}\n" for i in range(50)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert reader.notes == [
            "numbers: 1; left out: at (times)",
            "at holds times: --time-column at uses them",
        ]


def test_an_index_without_a_name_is_left_out(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",x\n" + "".join(f"{7 * i % 97},{i % 7}\n" for i in range(50)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert reader.notes == ["numbers: 1; left out: '' (every row differs)"]
    with open_reader(str(path), "csv", Selection(exclude=("",)), 100) as reader:
        assert (reader.features, reader.notes) == (("x",), [])


@pytest.mark.parametrize(
    ("cell", "missing"),
    [
        ("", ()),
        (" ", ()),
        ("NA", ()),
        ("n/a", ()),
        ("NaN", ()),
        ("null", ()),
        ("NONE", ()),
        ("-", ()),
        (" ? ", ()),
        ("<NA>", ()),
        ("#DIV/0!", ()),
        ("#N/A", ()),
        ("unknown", ("*", "unknown")),
        ("-999", ("-999",)),
        ("-999.0", ("-999",)),
    ],
)
@pytest.mark.parametrize("chosen", [None, ("x", "y")])
def test_a_missing_cell_is_nan(tmp_path, cell, missing, chosen):
    path = tmp_path / "rows.csv"
    path.write_text(f"x,y\n1,2\n3,{cell}\n5,6\n")
    for skip_bad in (False, True):
        (chunk,) = read(path, missing=missing, columns=chosen, skip_bad=skip_bad)
        np.testing.assert_array_equal(chunk.X, [[1, 2], [3, np.nan], [5, 6]])
    path.write_text(f"x,y\n1,a\n3,{cell}\n5,b\n")
    (chunk,) = read(path, missing=missing, columns=chosen)
    np.testing.assert_array_equal(chunk.X, [[1, 0], [3, np.nan], [5, 1]])


def test_one_word_of_two_is_no_yes_or_no():
    assert find_format(["f"] * 30, None) is None  # the sex of 30 people, perhaps
    (entry,) = infer_entries([read_cells("sex", None, ["f"] * 19)])
    assert entry.kind == "category"  # others may come
    (entry,) = infer_entries([read_cells("sex", None, ["f"] * 30)])
    assert entry == Entry("sex", "left out", (), "constant")
    assert find_format([True, True], None) == YesNo("true", "false")


def test_missing_numbers_of_every_format(tmp_path):
    for format in ("npy", "parquet", "jsonl"):
        path = write_rows(tmp_path, format)
        with open_reader(str(path), format, selection(format, missing=("1.5", "0")), 100) as reader:
            X = np.concatenate([chunk.X for chunk in reader.chunks()])
        wanted = np.array([row[2:] for row in ROWS])
        np.testing.assert_array_equal(X, np.where(np.isin(wanted, (1.5, 0.0)), np.nan, wanted))
    np.save(tmp_path / "whole.npy", np.array([[1, 2], [3, -999]]))
    (chunk,) = read(tmp_path / "whole.npy", "npy", missing=("-999",))
    np.testing.assert_array_equal(chunk.X, [[1, 2], [3, np.nan]])


DATES = [
    ("31/12/2025 14:05", "2025-12-31T14:05:00", "%d/%m/%Y %H:%M"),
    ("12/31/2025", "2025-12-31", "%m/%d/%Y"),
    ("31.12.2025", "2025-12-31", "%d.%m.%Y"),
    ("03.04.25 09:30:15", "2025-04-03T09:30:15", "%d.%m.%y %H:%M:%S"),
    ("Nov 16 2026 10:00:00", "2026-11-16T10:00:00", "%b %d %Y %H:%M:%S"),
    ("November 16, 2026", "2026-11-16", "%B %d, %Y"),
    ("12/31/2025 02:05 PM", "2025-12-31T14:05:00", "%m/%d/%Y %I:%M %p"),
    ("31-Dec-2025 14:05", "2025-12-31T14:05:00", "%d-%b-%Y %H:%M"),
    ("2025/12/31 14:05:06.25", "2025-12-31T14:05:06.25", "%Y/%m/%d %H:%M:%S.%f"),
    ("16/Nov/2026:10:00:00 +0200", "2026-11-16T08:00:00", "%d/%b/%Y:%H:%M:%S %z"),
]


@pytest.mark.parametrize(("written", "date", "pattern"), DATES, ids=[date[0] for date in DATES])
def test_dates_as_people_write_them(tmp_path, monkeypatch, written, date, pattern):
    path = tmp_path / "rows.csv"
    content = f't;x\n"{written}";1\n"{written}";2\n'
    path.write_text(content)
    with open_reader(str(path), "csv", Selection(time_column="t"), 1) as reader:
        assert reader.notes[-1] == f"t: {written!r} is read as {np.datetime64(date, 's')}"
        chunks = list(reader.chunks())
        assert [chunk.times[0] for chunk in chunks] == [np.datetime64(date, "us")] * 2
        assert chunks[0].kept["t"] == [written]
        (rest,) = reader.chunks(dict(chunks[0].place))
        assert rest.times[0] == np.datetime64(date, "us")
    (chunk,) = read(path, time_column="t", time_format=pattern)
    assert chunk.times.tolist() == [np.datetime64(date, "us").item()] * 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content.encode()), buffer_size=1)))
    with open_reader("-", "csv", Selection(time_column="t"), 9) as reader:
        assert next(reader.chunks()).times[0] == np.datetime64(date, "us")
    with path.open("a") as file:
        file.write("later;3\n")
    message = f"line 4, column 't': 'later' is not a time; the times are dates as {pattern}"
    with pytest.raises(FileError, match=re.escape(message)):
        read(path, time_column="t")


def test_a_day_that_may_be_a_month_is_refused_unless_another_row_tells(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n03/04/2025 10:00,1\n05/04/2025 11:00,2\n")
    message = (
        ", column 't': '03/04/2025 10:00' may be 2025-04-03 or 2025-03-04: "
        "--time-format '%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M' says which"
    )
    with pytest.raises(FileError, match=re.escape(message)):
        read(path, time_column="t")
    (chunk,) = read(path, time_column="t", time_format="%m/%d/%Y %H:%M")
    assert chunk.times[0] == np.datetime64("2025-03-04T10:00")
    with path.open("a") as file:
        file.write("13/04/2025 09:00,3\n")
    assert read(path, time_column="t")[0].times[0] == np.datetime64("2025-04-03T10:00")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_since_1970_is_recognised_in_a_time_column(tmp_path, unit):
    moment = np.datetime64("2025-11-16T10:00:00.000000", unit)
    path = tmp_path / "rows.csv"
    path.write_text(f"t,x\n{moment.astype(np.int64)},1\n")
    with open_reader(str(path), "csv", Selection(time_column="t"), 9) as reader:
        assert "is read as 2025-11-16T10:00:00, " in reader.notes[0]
        assert reader.notes[0].endswith("seconds since 1970; --time-format number keeps numbers")
        chunk = next(reader.chunks())
        assert chunk.times.tolist() == [moment.astype("M8[us]").item()]
    with open_reader(str(path), "csv", Selection(time_column="t", findings=chunk.place["findings"]), 9) as reader:
        assert next(reader.chunks()).times.dtype == "M8[us]"
    (chunk,) = read(path, time_column="t", time_format="number")
    assert chunk.times.tolist() == [float(moment.astype(np.int64))]
    array = np.array([[moment.astype(np.int64), 1]])
    np.save(tmp_path / "rows.npy", array)
    parquet.write_table(pa.table({"t": array[:, 0], "x": array[:, 1]}), tmp_path / "rows.parquet")
    for format in ("csv", "npy", "parquet"):
        name = "0" if format == "npy" else "t"
        chunk = read(tmp_path / f"rows.{format}", format, time_column=name, time_format=unit)[0]
        assert chunk.times.dtype == "M8[us]"
        assert abs(chunk.times[0] - moment) <= np.timedelta64(1, "ms")  # Parquet and npy pass through float64
    path.write_text("t,x\n9e30,1\n")
    with pytest.raises(FileError, match=r"'9e30' is not a time; the times are .*seconds since 1970"):
        read(path, time_column="t", time_format=unit)


def columns_of(path, text, **chosen):
    path.write_text(text, encoding="utf-8")
    with open_reader(str(path), "csv", Selection(**chosen), 3) as reader:
        X = np.concatenate([chunk.X for chunk in reader.chunks()])
        return dict(zip(reader.features, X.T.tolist(), strict=True)), reader.notes


def test_more_categories_than_are_distinguished_are_said(tmp_path):
    rows = [f"c{i % 33},d{i % 32},{i * i % 7}" for i in range(200)]
    _, notes = columns_of(tmp_path / "rows.csv", "\n".join(["many,few,x", *rows]))
    said = "many holds 33 categories in the first rows: 32 are distinguished, and the rest count together, as 'others'"
    assert [note for note in notes if "distinguished" in note] == [said]
    _, notes = columns_of(tmp_path / "rows.csv", "\n".join(["many,few,x", *rows]), takes=("category",))
    assert said not in notes  # a family that is given may distinguish more


def test_german_thousands_beside_decimal_commas(tmp_path):
    path, text = tmp_path / "rows.csv", "price;sold;id\n0,99;6.424;7\n1,50;688;8\n2,25;12.010;9\n"
    found, notes = columns_of(path, text)
    assert found == {"price": [0.99, 1.5, 2.25], "sold": [6424.0, 688.0, 12010.0], "id": [7.0, 8.0, 9.0]}
    assert "price, sold: '12.010' is read as 12010" in notes  # one line for columns that are read alike
    assert not any(note.startswith("id:") for note in notes)  # nothing to say about it
    later = text.replace("688", "68") + "3,5;1.234.567;1.000\n"  # a column that had no points before
    assert columns_of(path, later, n_first=3)[0]["id"] == [7.0, 8.0, 9.0, 1000.0]
    with pytest.raises(FileError, match=r"line 5, column 'id': '10.5' is not written as the other numbers"):
        columns_of(path, text + "3,5;1;10.5\n", n_first=3)
    points = "price;sold\n0,99;6.42\n1,50;688\n"  # those are decimal for certain
    assert columns_of(path, points)[0]["sold"] == [6.42, 688.0]


@pytest.mark.parametrize(
    ("decimal", "values"), [(None, None), (",", [6424.0, 688.0, 12010.0]), (".", [6.424, 688.0, 12.01])]
)
def test_thousands_without_other_decimals_are_refused_with_the_choice(tmp_path, decimal, values):
    path, text = tmp_path / "rows.csv", "sold;x\n6.424;1\n688;2\n12.010;3\n"
    if values is None:
        message = "column 'sold': '6.424' may be 6.424 or 6424: --decimal . or --decimal , says which"
        with pytest.raises(FileError, match=re.escape(message)):
            columns_of(path, text)
        many = "sold,x\n" + "".join(f"{i}.425,1.5\n{i},2.25\n" for i in range(1, 25))
        with pytest.raises(FileError, match=r"'1\.425' may be 1\.425 or 1425"):
            columns_of(path, many)
        assert columns_of(path, "sold,x\n6.424,1\n688,2\n")[0]["sold"] == [6.424, 688.0]  # one may be by chance
        assert columns_of(path, "sold;x\n6.424;1\n1688;2\n")[0]["sold"] == [6.424, 1688.0]  # no mark in 1688
        assert columns_of(path, "sold;x\n6.424;1\n0.688;2\n")[0]["sold"] == [6.424, 0.688]
        return
    assert columns_of(path, text, decimal=decimal)[0]["sold"] == values


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,00,000", "50,000.5", "12,34,567"], [100000.0, 50000.5, 1234567.0]),
        (["(1,234.50)", "12.00", "(3.25)"], [-1234.5, 12.0, -3.25]),
        (["12,5", "1,250", "3"], [12.5, 1.25, 3.0]),
        (["1.234.567", "6.424", "12"], [1234567.0, 6424.0, 12.0]),
        (["1e5", "2.5E-3", "3"], [1e5, 2.5e-3, 3.0]),
        (["1\u2009234.5", "12\u00a0345", "7"], [1234.5, 12345.0, 7.0]),
        (["1'234", "12’345.5", "7"], [1234.0, 12345.5, 7.0]),
        (["12%", "3.5 %", "7%"], [12.0, 3.5, 7.0]),
    ],
)
def test_no_number_is_read_wrongly(tmp_path, cells, numbers):
    text = "x\ty\n" + "".join(f"{cell}\t{i}\n" for i, cell in enumerate(cells))
    assert columns_of(tmp_path / "rows.csv", text)[0]["x"] == numbers


def test_a_later_cell_with_thousands_names_options_that_work(tmp_path):
    text = "x\ty\n" + "5\t1\n" * 3 + "1,200\t2\n"
    hint = "'1,200' is not a number; --decimal . takes the comma for thousands, --decimal , for decimals"
    with pytest.raises(FileError, match=re.escape(hint)):
        columns_of(tmp_path / "rows.csv", text, n_first=3)
    for decimal, value in ((".", 1200.0), (",", 1.2)):
        assert columns_of(tmp_path / "rows.csv", text, n_first=3, decimal=decimal)[0]["x"][-1] == value


UNCLEAR = [
    ("weight;n\n2.949;1\n105.458;2\n", "weight", "'2.949' may be 2.949 or 2949"),
    ("weight;version\n1,742;1.0\n", "weight", "'1,742' may be 1742 or 1.742"),
    ("weight;version\n2.949;1.0\n", "weight", "'2.949' may be 2.949 or 2949"),
    ("weight;day\n2.949;31.12\n1.500;01.02\n", "weight", "'2.949' may be 2.949 or 2949"),
    ("lat;x\n52.771;2,68\n51.420;3,5\n", "lat", "'52.771' may be 52.771 or 52771"),
    ("lat;x\n52.771;2,68\n1688;3,5\n", "lat", "'52.771' may be 52.771 or 52771"),
]


@pytest.mark.parametrize(("text", "column", "readings"), UNCLEAR)
def test_between_semicolons_weak_evidence_does_not_decide(tmp_path, text, column, readings):
    message = f", column {column!r}: {readings}: --decimal . or --decimal , says which"
    with pytest.raises(FileError, match=re.escape(message)):
        columns_of(tmp_path / "rows.csv", text)


def test_between_semicolons_other_numbers_show_decimal_points(tmp_path):
    path = tmp_path / "rows.csv"
    assert columns_of(path, "x;y\n2.949;0.5\n1.250;12.25\n")[0]["x"] == [2.949, 1.25]
    for other in ("0.123", "12.5", "1234.567", "1.25e3"):
        assert columns_of(path, f"x;y\n2.949;1\n{other};2\n")[0]["x"] == [2.949, float(other)]


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("unit", ["", " €"])
def test_a_later_point_between_semicolons_may_be_between_thousands(tmp_path, monkeypatch, arrow, unit):
    if not arrow:
        monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    path = tmp_path / "rows.csv"
    text = "x;y\n" + f"5{unit};1\n" * 3 + f"1.000{unit};2\n"
    message = f", line 5: column 'x': '1.000{unit}' may be 1 or 1000; --decimal . or --decimal , says which"
    with pytest.raises(FileError, match=re.escape(message) + "$"):
        columns_of(path, text, n_first=3)
    with open_reader(str(path), "csv", Selection(n_first=3), 3) as reader:
        place = next(reader.chunks()).place
    with (
        open_reader(str(path), "csv", Selection(n_first=3, findings=place["findings"]), 3) as reader,
        pytest.raises(FileError, match=re.escape(message)),
    ):
        list(reader.chunks(place))
    for decimal, value in ((".", 1.0), (",", 1000.0)):
        assert columns_of(path, text, n_first=3, decimal=decimal)[0]["x"][-1] == value
    assert columns_of(path, text.replace("1.000", "1.5"), n_first=3)[0]["x"][-1] == 1.5
    assert columns_of(path, text.replace(f"5{unit}", f"1688{unit}"), n_first=3)[0]["x"][-1] == 1.0


@pytest.mark.parametrize(
    "cell",
    [
        *[
            "-nan",
            "+nan",
            "nan",
            "NaN",
            "nan(1)",
            "nAn",
            "inf",
            "1e400",
            "0x10",
            "1_000",
            "+5",
            "5.",
            ".",
            "5e",
            "1d5",
            "NULL",
            "nUlL",
            "n/A",
            "-",
            "---",
            "5e-324",
            "-0",
        ],
        *("", " 5", " NA", "5\x00", "1234567890123456789012", "\u0663"),
    ],
)
def test_arrow_and_python_read_each_cell_in_the_same_way(tmp_path, monkeypatch, cell):
    path = tmp_path / "rows.csv"
    rows = ["x,y", *["1.5,2", "3.25,4"] * 60, f"{cell},7", "1,2"]
    path.write_text("\n".join(rows) + "\n")

    def answer():
        with open_reader(str(path), "csv", Selection(columns=("x", "y")), 50) as reader:
            try:
                return np.concatenate([chunk.X for chunk in reader.chunks()]).tobytes()
            except FileError as error:
                return str(error)

    fast = answer()
    monkeypatch.setattr(CsvReader, "_arrow", lambda self, width: None)
    assert answer() == fast


WEIGHTS = [
    "2",
    "0.5",
    "-1",
    "",
    "nan",
    "NaN",
    "inf",
    "1e9",
    "1e10",
    " 3 ",
    "1_0",
    "N/A",
    "?",
    "-999",
    "5",
    "5.0",
    "1,5",
]
WEIGHTS += ["1e400", True, None, 3, 2.5, float("nan"), "0", "-0.0", "0x1", np.float64(2.0), 10**400]


@pytest.mark.parametrize("words", [(), ("?",), ("-999",), ("5",), ("0", "?")])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("column", [WEIGHTS, np.array([1.0, 2.0, np.nan, -3.0, 5.0])], ids=len)
def test_weights_of_a_column_are_those_of_its_cells(words, decimal, column):
    told = Told(MissingCells(words), decimal)
    bad = np.zeros(len(column), dtype=bool)
    found = told.read("sample_weight", column, bad)
    for cell, weight, wrong in zip(column, found, bad, strict=True):
        assert wrong == (told.fault("sample_weight", cell) is not None)
        assert weight == (1.0 if wrong else float(str(cell).replace(decimal, ".")))
    assert 0 < np.sum(bad) < len(column)


@pytest.mark.parametrize(("third", "told"), [("0", 1), ("1", 1), ("2", 0), ("x", 0)])
def test_zeros_and_ones_are_reported_with_the_option_for_booleans(tmp_path, third, told):
    (tmp_path / "rows.csv").write_text("open,lit,last\n" + "0,1,0\n1,1,0\n1,0,0\n" * 20 + f"1,0,{third}\n")
    with open_reader(str(tmp_path / "rows.csv"), "csv", Selection(), 1000) as reader:
        said = [note for note in reader.notes if "--family bernoulli" in note]
    assert len(said) == told
