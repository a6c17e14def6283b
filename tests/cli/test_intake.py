"""Files as people have them: compressed, in any encoding, with text among the numbers."""

import gzip

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app

KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1"]
KNOWN += ["--dynamics", "stationary()"]


def run(path, *options, code=0):
    """Run on a file with known hyperparameters; return what was written, and what was said."""
    done = CliRunner().invoke(app, ["run", str(path), *KNOWN, *map(str, options)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_a_compressed_file_that_grows_is_resumed(tmp_path, every):
    lines = [b"%d,%d\n" % (i % 3 * 9, i % 2) for i in range(40)]
    plain, packed, out = tmp_path / "rows.csv", tmp_path / "rows.csv.gz", tmp_path / "out.csv"
    plain.write_bytes(b"x,y\n" + b"".join(lines))
    wanted, _ = run(plain)
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--every", every, "--resume"]
    packed.write_bytes(gzip.compress(b"x,y\n" + b"".join(lines[:25])))
    run(packed, *resumable)
    assert out.read_text() == "".join(wanted.splitlines(keepends=True)[:26])
    with packed.open("ab") as file:
        file.write(gzip.compress(b"".join(lines[25:])))
    assert "looking for new rows after row 25" in run(packed, *resumable)[1]
    assert out.read_text() == wanted
    assert "15 rows" not in run(plain, *resumable)[1]  # the same rows, not compressed: there is nothing new
    assert out.read_text() == wanted
    packed.write_bytes(gzip.compress(b"x,y\n" + b"".join(lines[:30])))
    assert "not the same as before: it ended after 30 rows" in run(packed, *resumable, code=1)[1]


def test_a_statement_in_latin_1(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("größe,ort\n1,Köln\n2,Ulm\n".encode("latin-1"))
    written, _ = run(path, "--columns", "größe", "--keep", "ort", "--encoding", "latin-1")
    assert [line.split(",")[1] for line in written.splitlines()] == ["ort", "Köln", "Ulm"]
    for name in ("klingon", "hex", ""):
        assert "--encoding must name an encoding of text" in run(path, "--encoding", name, code=2)[1]


def test_a_file_that_grows_is_read_as_it_was(tmp_path):
    """Its first rows say less when there are few of them."""
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--resume"]
    path.write_text("x;y\n12,5;1\n3,5;2\n")
    assert "x: '12,5' is read as 12.5" in run(path, *resumable)[1]
    with path.open("a") as file:
        file.write("".join("12 500,0;1\n" for _ in range(9)))
    assert "column 'x': '12 500,0' is not a number" in run(path, *resumable, code=1)[1]
    path.write_text("x;y\n12,5;1\n3,5;2\n1.250,5;3\n")
    run(path, *resumable)
    assert len(out.read_text().splitlines()) == 4
