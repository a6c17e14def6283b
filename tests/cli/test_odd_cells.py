"""A word in a column of numbers: it stops a run only with remedies, and each of them works as it is printed."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dyncrp import DynamicalMixture
from dyncrp.cli.app import app
from dyncrp.input.encoding import Encoding
from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, open_reader

QUICK = ["--alpha", "1", "--dynamics", "stationary()", "--set", "warmup=30", "-o", "-"]


def run(path, *options, code=0):
    done = CliRunner().invoke(app, ["run", str(path), *QUICK, *map(str, options)])
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def write(path, name, odd, n=100):
    """Rows of two columns, with odd cells in some rows of the second. odd: the cells by row."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=n)
    x, y = 9.0 * kind + rng.normal(size=n), np.round(100.0 * kind + 20.0 * rng.normal(size=n), 1)
    cells = [odd.get(i, value) for i, value in enumerate(y.tolist())]
    frame = pd.DataFrame({"x": x, name: cells})
    frame.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize("name", ["engine", "engine, kind", ""])
@pytest.mark.parametrize(("row", "word"), [(12, "rotary"), (60, "rotary"), (60, "not known"), (70, "a,b"), (80, "*")])
def test_every_remedy_works_as_printed(tmp_path, name, row, word):
    path = tmp_path / "rows.csv"
    write(path, name, {row: word})
    _, said = run(path, code=1)
    assert f"line {row + 2}, column {name!r}: {word!r} is not a number; " in said
    found = re.findall(r"(--\S+.*?)(?= takes it| takes the column| skips such rows)", said.replace("\n", " "))
    options = [shlex.split(text) for text in found]
    assert [option[0] for option in options] == ["--missing", *["--categorical"] * (word != "*"), "--skip-bad"]
    n_rows = [len(run(path, *option)[0].splitlines()) - 1 for option in options]
    assert n_rows == [100] * (len(options) - 1) + [99]


def test_a_word_among_few_numbers_makes_categories(tmp_path):
    path, rng = tmp_path / "rows.csv", np.random.default_rng(0)
    cells = [str(4 + 2 * k) for k in rng.integers(3, size=100)]
    cells[5] = "rotary"
    pd.DataFrame({"x": rng.normal(size=100), "cylinders": cells}).to_csv(path, index=False)
    assert "dyncrp: numbers: 1; categories: cylinders\n" in run(path)[1]
    assert Encoding.infer(pd.read_csv(path)).describe() == "numbers: 1; categories: cylinders"
    with open(path, "a") as file:
        file.write("0.5,wankel\n")  # another word may come at any time
    run(path)
    assert "'wankel' is not a number" in run(path, "--numeric", "cylinders", "--missing", "rotary", code=1)[1]


def test_the_remedies_for_a_frame_work_as_printed(tmp_path):
    write(tmp_path / "rows.csv", "power", {12: "rotary"})
    X = pd.read_csv(tmp_path / "rows.csv")
    model = DynamicalMixture(warmup=30)
    with pytest.raises(ValueError, match="it holds numbers and 'rotary'") as error:
        model.fit(X)
    remedies = re.findall(r"(?:pd\.|X\[).*?\)(?= takes)", str(error.value))
    assert len(remedies) == 2
    kinds = []
    for remedy in remedies:
        better = X.assign(power=eval(remedy, {"pd": pd, "X": X}))
        kinds.append(model.fit(better).encoding_ and model.encoding_["power"].kind)
    assert kinds == [None, "category"]


def test_codes_with_zeros_before_them_are_categories(tmp_path):
    family = [f"{i // 4:03}" for i in range(100)]
    family[60] = "015A"
    frame = pd.DataFrame({"family": family, "height": np.random.default_rng(0).normal(size=100)})
    assert Encoding.infer(frame)["family"].kind == "category"
    frame.to_csv(tmp_path / "in.csv", index=False)
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(), 1000) as reader:
        assert reader.encoding["family"].kind == "category"


def test_a_first_line_of_numbers_is_a_row(tmp_path):
    (tmp_path / "in.csv").write_text("5.1,3.5\n4.9,3.0\n4.7,3.2\n")
    with open_reader(str(tmp_path / "in.csv"), "csv", Selection(), 1000) as reader:
        assert "the first line holds numbers, so there is no header" in reader.notes
        (chunk,) = reader.chunks()
        assert chunk.X.tolist() == [[5.1, 3.5], [4.9, 3.0], [4.7, 3.2]]


def test_one_short_line_among_columns_between_blanks(tmp_path):
    lines = ["a b c", *(f"{i} {i % 3} {i % 5}" for i in range(18)), "7 8"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    reader = open_reader(str(tmp_path / "in.csv"), "csv", Selection(), 1000)
    with reader, pytest.raises(FileError, match="line 20: the row has 2 cells, but the first line has 3"):
        list(reader.chunks())
