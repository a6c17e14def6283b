"""First lines of CSV that do not name all columns, or name none: what is read, and what is said."""

import csv
import io
import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app
from dyncrp.input.entries import KINDS
from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, open_reader
from dyncrp.io.readers.header import HEADER_HINT, NAMED_ROWS

NUMBERS = np.random.default_rng(0).normal(size=(40, 2)).round(3)
HINT = "if it is a row, use --no-header"


def read(path, content, **changes):
    path.write_text(content, newline="")
    with open_reader(str(path), "csv", Selection(takes=KINDS, **changes), 7) as reader:
        return reader, np.vstack([chunk.X for chunk in reader.chunks()])


def written_by_r(mark, quote):
    """Return rows as write.table of R writes them: the column of the names of rows has no name."""
    lines = [mark.join(f"{quote}{name}{quote}" for name in "xy")]
    lines += [mark.join([f"{quote}row {i}{quote}", str(x), str(y)]) for i, (x, y) in enumerate(NUMBERS.tolist())]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("mark", "quote"), [(" ", '"'), ("\t", '"'), (",", ""), (";", "")])
def test_names_of_rows_may_have_no_name(tmp_path, mark, quote):
    reader, X = read(tmp_path / "r.txt", written_by_r(mark, quote))
    assert np.array_equal(X, NUMBERS)
    assert NAMED_ROWS in reader.notes
    assert reader.features == ("x", "y")
    assert any("left out: '' (every row differs)" in note for note in reader.notes)


def test_a_run_goes_on_as_it_began_though_the_rows_have_changed(tmp_path):
    path = tmp_path / "r.txt"
    content = written_by_r(",", "")
    first, _ = read(path, content)
    again, X = read(path, content + "row 1,7,8\n", findings=first.findings)
    assert again.features == ("x", "y")
    assert np.array_equal(X, [*NUMBERS.tolist(), [7.0, 8.0]])


def test_a_delimiter_may_end_each_row(tmp_path):
    body = "".join(f"{x},{y},\n" for x, y in NUMBERS.tolist())
    reader, X = read(tmp_path / "in.csv", "x,y\n" + body)
    assert np.array_equal(X, NUMBERS)
    assert any("left out: '' (empty)" in note for note in reader.notes)


def test_cells_without_a_name_that_repeat_are_no_names_of_rows(tmp_path):
    body = "".join(f"{i % 3},{x},{y}\n" for i, (x, y) in enumerate(NUMBERS.tolist()))
    with pytest.raises(FileError, match="the rows have 3 cells from here on, but the first line has 2"):
        read(tmp_path / "in.csv", "x,y\n" + body)


@pytest.mark.parametrize(
    ("before", "options"), [("40,2,malignant,benign\n", ["--no-header"]), ("My table\n\nof 2026\n", [])]
)
def test_lines_before_a_table_are_left_out_as_the_message_says(tmp_path, monkeypatch, before, options):
    monkeypatch.chdir(tmp_path)
    names = "" if options else "a,b\n"
    body = names + "".join(f"{x},{y}\n" for x, y in NUMBERS.tolist())
    (tmp_path / "in.csv").write_text(before + body)
    done = CliRunner().invoke(app, ["run", "in.csv"])
    assert done.exit_code == 1
    start = int(re.search(r"tail -n \+(\d+) in.csv > rows.csv", done.stderr).group(1))
    assert ("--no-header" in done.stderr) == bool(options)
    rest = (before + body).splitlines(keepends=True)[start - 1 :]
    assert "".join(rest) == body
    (tmp_path / "rows.csv").write_text("".join(rest))
    assert CliRunner().invoke(app, ["run", "rows.csv", *options]).exit_code == 0


@pytest.mark.parametrize(
    ("header", "hinted"),
    [
        ("Adelie,39.1,", True),
        ("7,0,loop0", True),
        ("9f3c2e1,2026-03-01 12:00,done", True),
        ("country,1952,1957", False),
        ("country,2020", False),
        ("day,2020-01-01,2020-01-02", False),
        ("a,b,c", False),
    ],
)
def test_a_first_line_that_may_be_a_row_is_told(tmp_path, header, hinted):
    names = next(csv.reader([header]))
    cells = NUMBERS[:, : len(names) - 1] if len(names) < 4 else NUMBERS
    rows = "".join(",".join(["ab"[i % 2], *map(str, row)]) + "\n" for i, row in enumerate(cells.tolist()))
    reader, _ = read(tmp_path / "in.csv", f"{header}\n{rows}")
    assert (HEADER_HINT in reader.notes) == hinted


def test_the_first_line_of_a_log_is_told_and_kept_without_header(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = "".join(
        f"Mar 01 00:00:{i:02} host cron: session {'opened' if i % 2 else 'closed'} for root\n" for i in range(50)
    )
    (tmp_path / "log").write_text(log)
    done = CliRunner().invoke(app, ["run", "log"])
    assert HINT in done.stderr
    assert "49 rows" in done.stderr
    done = CliRunner().invoke(app, ["run", "log", "--no-header"])
    assert HINT not in done.stderr
    assert "50 rows" in done.stderr


def test_one_column_that_cannot_be_clustered_comes_with_an_option_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "".join(f"user{i}:x:{i % 7}:{i % 3}:home{i}\n" for i in range(60))
    blanks = "a b c d\n" + "".join(f"n{i} {i % 7} {'' if i % 3 else 5} {i * i % 11}\n" for i in range(60))
    words = "".join(f"2026-03-01 00:{i:02} p{i} {'gone' if i % 2 else 'put in'}\n" for i in range(60))
    for content, option in ((body, "--delimiter :"), (blanks, "--delimiter ' '"), (words, "--no-header --text 0")):
        (tmp_path / "in.txt").write_text(content)
        done = CliRunner().invoke(app, ["run", "in.txt"])
        assert done.exit_code == 1
        assert option in done.stderr
        done = CliRunner().invoke(app, ["run", "in.txt", *shlex.split(option), "--force"])
        assert done.exit_code == 0, done.output


def test_columns_of_fixed_width_are_named(tmp_path):
    body = "".join(f"{i:8}   {'12-15 years' if i % 2 else '< 12 years':>11}  {i * i}\n" for i in range(40))
    with pytest.raises(FileError, match=r"columns of fixed width are not read: .*read_fwf"):
        read(tmp_path / "in.txt", "      id         heduc  div\n" + body)


def test_quotes_may_have_a_backslash_before_them(tmp_path):
    rows = [[f'H. "{"ab"[i % 2]}" E, jr', str(x)] for i, x in enumerate(NUMBERS[:, 0].tolist())]
    for escape, double in (("\\", False), (None, True)):
        text = io.StringIO()
        csv.writer(text, escapechar=escape, doublequote=double, quoting=csv.QUOTE_NONNUMERIC).writerows(
            [["name", "x"], *[[name, float(x)] for name, x in rows]]
        )
        reader, X = read(tmp_path / "in.csv", text.getvalue())
        assert np.array_equal(X[:, 1], NUMBERS[:, 0])
        assert reader.encoding["name"].words == ('H. "a" E, jr', 'H. "b" E, jr')


def test_a_backslash_at_the_end_of_a_cell_is_part_of_it(tmp_path):
    content = "path,x\n" + "".join(f'"C:\\{"ab"[i % 2]}\\",{x}\n' for i, x in enumerate(NUMBERS[:, 0].tolist()))
    reader, X = read(tmp_path / "in.csv", content)
    assert reader.encoding["path"].words == ("C:\\a\\", "C:\\b\\")
    assert np.array_equal(X[:, 1], NUMBERS[:, 0])


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("# made by a program\n#\n\n# units: m, s\n", "x,y\n"),
        ("# one line\n", "x,y\n"),
        ("# made by a program\n", "#x,y\n"),
        ("#" + "very long " * 10 + "\n" * 3, ""),
    ],
)
@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("most_rows", [1, 100])
def test_comments_before_the_names_are_left_out(tmp_path, before, names, mark, most_rows):
    body = (names + "".join(f"{x},{y}\n" for x, y in NUMBERS.tolist())).replace(",", mark)
    (tmp_path / "in.csv").write_text(before + body)
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(), most_rows) as reader:
        assert reader.features == (tuple(names.strip().split(",")) if names else ("0", "1"))
        assert any("begin" in note and "left out" in note for note in reader.notes)
        chunks = list(reader.chunks())
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), NUMBERS)
    assert chunks[-1].where(len(NUMBERS) - 1) == f"line {(before + body).count(chr(10))}"
    if len(chunks) > 1:
        with open_reader(str(tmp_path / "in.csv"), "csv", Selection(), most_rows) as reader:
            np.testing.assert_array_equal(next(reader.chunks(chunks[0].place)).X, chunks[1].X)


@pytest.mark.parametrize("content", ["#id,x\na,1\nb,2\n", "#1\n#2\n#3\n", "#1\n"])
def test_a_name_or_a_cell_with_a_cross_is_no_comment(tmp_path, content):
    (tmp_path / "in.csv").write_text(content)
    reader = open_reader(str(tmp_path / "in.csv"), "csv", Selection(keep=None), 1)
    with reader:
        assert reader.kept[0] == content.split("\n")[0].split(",")[0]


def test_lines_of_an_old_mac(tmp_path):
    body = "x,y\n" + "".join(f"{x},{y}\n" for x, y in NUMBERS.tolist())
    _, X = read(tmp_path / "in.csv", body)
    (tmp_path / "mac.csv").write_bytes(body.replace("\n", "\r").encode())
    with open_reader(str(tmp_path / "mac.csv"), "csv", Selection(), 7) as reader:
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in reader.chunks()]), X)
        assert not reader.seekable  # its places are those of other bytes


def test_a_first_line_of_whole_numbers_is_a_row_unless_they_rise(tmp_path):
    (tmp_path / "in.csv").write_text("196,242,3\n186,302,1\n22,377,2\n")
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(), 10) as reader:
        assert next(reader.chunks()).X.tolist() == [[196, 242, 3], [186, 302, 1], [22, 377, 2]]
    (tmp_path / "in.csv").write_text("1990,1991,1992\n5,6,7\n")
    with pytest.raises(FileError, match="the header has only numbers"):
        open_reader(str(tmp_path / "in.csv"), "csv", Selection(), 10)


ACCESS = '10.0.0.{0} - - [01/Mar/2026:00:{0:02}:00 +0000] "GET /{1} HTTP/1.1" {2} {3} "-" "Browser/5.0 (A; B)"\n'


def test_the_log_of_a_web_server_has_cells_between_blanks_and_no_names(tmp_path):
    lines = [ACCESS.format(i, "ab"[i % 2], (200, 404)[i % 3 == 0], 100 + i * i % 17) for i in range(50)]
    (tmp_path / "access.log").write_text("".join(lines))
    with open_reader(str(tmp_path / "access.log"), "csv", Selection(), 1000) as reader:
        assert "the first line holds a time, so there is no header" in reader.notes
        assert reader.encoding["3"].reason == "times"
        assert {"4", "5", "6"} <= set(reader.features)
        assert sum(len(chunk.rows) for chunk in reader.chunks()) == 50


def test_a_log_of_other_lines_is_clustered_by_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = ["sshd: accepted key, and opened", 'kernel: link "up"; 100 Mbps', "cron: done"]
    (tmp_path / "sys.log").write_text("".join(f"Mar 01 00:00:{i:02} {said[i % 3]}\n" for i in range(60)))
    done = CliRunner().invoke(app, ["run", "sys.log"])
    assert done.exit_code == 0, done.output
    assert "the lines are not split into cells" in done.stderr
    assert "60 rows in" in done.stderr
    (tmp_path / "rows.log").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in NUMBERS.tolist()))
    with open_reader(str(tmp_path / "rows.log"), "csv", Selection(), 1000) as reader:
        assert reader.features == ("x", "y")


@pytest.mark.parametrize("header", ["Adelie,39.1,18.7", 'AL,"23,288","2,263"'])
def test_a_first_line_of_numbers_above_numbers_is_a_row(tmp_path, header):
    rows = "".join(f"{'ab'[i % 2]},{x},{y}\n" for i, (x, y) in enumerate(NUMBERS.tolist()))
    reader, X = read(tmp_path / "in.csv", f"{header}\n{rows}")
    assert "the first line holds numbers, so there is no header" in reader.notes
    assert reader.features == ("0", "1", "2")
    assert X[0].tolist() == [0.0, *(float(cell.replace(",", "")) for cell in next(csv.reader([header]))[1:])]


def test_a_frame_of_numbered_columns_has_names(tmp_path):
    reader, X = read(tmp_path / "in.csv", "0,1,2\n" + "".join(f"{x},{y},{x}\n" for x, y in NUMBERS.tolist()))
    assert HEADER_HINT in reader.notes
    assert X.tolist() == [[x, y, x] for x, y in NUMBERS.tolist()]


def test_quotes_within_a_line_are_characters_if_they_do_not_end_a_cell(tmp_path):
    lines = ["kind\tsaid\tx", *(f"ab{i % 2}\tthe {i % 5}\t{i * i % 7}.5" for i in range(30))]
    lines[9] = 'ab0\t"so special" he said\t1.5'
    (tmp_path / "in.tsv").write_text("\n".join(lines) + "\n")
    with open_reader(str(tmp_path / "in.tsv"), "csv", Selection(keep=None, delimiter="\t"), 1000) as reader:
        (chunk,) = reader.chunks()
    assert chunk.kept["said"][8] == '"so special" he said'
    assert chunk.X[:, -1].tolist() == [i * i % 7 + 0.5 for i in range(30)]
    (tmp_path / "in.csv").write_text('x,y\n1,"2, 3"4\n5,6\n')
    with pytest.raises(FileError, match="line 2: the row has 3 cells, but the first line has 2; --skip-bad"):
        read(tmp_path / "in.csv", 'x,y\n1,"2, 3"4\n5,6\n')
    assert read(tmp_path / "in.csv", 'x,y\n1,"2, 3"4\n5,6\n', skip_bad=True)[1].tolist() == [[5, 6]]
