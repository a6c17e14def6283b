"""Files are written whole or not at all, and nothing is left of those that were not."""

import os
import secrets
import subprocess
import sys
import time

import pytest

from dyncrp import DynamicalMixture, Gaussian
from dyncrp.cli.paths import check_distinct
from dyncrp.io import files


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    left, fresh, other = (tmp_path / f".dyncrp-{end}" for end in ("0" * 16, "1" * 16, "mine"))
    for path in (left, fresh, other):
        path.write_bytes(b"half")
    age(left, 1000)
    age(other, 1000)
    written = tmp_path / f".dyncrp-{secrets.token_hex(8)}"
    code = f"""
from dyncrp.io import files
file = open({str(written)!r}, "wb")
files._lock(file.fileno())
print("locked", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        age(written, 1000)
        files.write(tmp_path / "model.npz", b"whole")
        assert {path.name for path in tmp_path.iterdir()} == {fresh.name, other.name, written.name, "model.npz"}
        process.communicate(b"\n")
    files.remove_left_over(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {fresh.name, other.name, "model.npz"}


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_link_to_the_input_is_no_output(tmp_path, link, capsys):
    rows, other = tmp_path / "rows.csv", tmp_path / "other.csv"
    rows.write_text("x\n1\n")
    link(rows, other)
    with pytest.raises((SystemExit, RuntimeError)):
        check_distinct({"the input": rows}, {"--output": other})
    assert "are the same file" in capsys.readouterr().err
    other.unlink()
    check_distinct({"the input": rows}, {"--output": other})


@pytest.mark.parametrize("change", [lambda b: b + b"x", lambda b: b + b[-22:], lambda b: b"PK" + b, lambda b: b + b])
def test_bytes_around_a_model_are_refused(change):
    content = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]]).to_bytes()
    with pytest.raises(ValueError, match="not a readable dyncrp model"):
        DynamicalMixture.from_bytes(change(content))
