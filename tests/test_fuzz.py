"""The program that feeds forged input works, and would notice. ``make fuzz`` runs a million of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dyncrp
from cases import PATIENCE

pytest.importorskip("starlette")
HERE = Path(__file__).parent
LOAD = """
import pathlib, pickle, sys
import fuzz
fuzz.inputs.Canary.folder = sys.argv[1] + "/canary"
content = pickle.dumps(fuzz.inputs.Canary())
fuzz.watch(pathlib.Path(sys.argv[1]) / "inside")
pickle.loads(content)
"""
ELSEWHERE = """
import pathlib, sys
import fuzz
fuzz.watch(pathlib.Path(sys.argv[1]) / "inside")
open(sys.argv[1] + "/outside", "w")
"""


def run(*arguments):
    paths = os.pathsep.join([str(Path(dyncrp.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
def test_a_few_inputs_of_each_kind():
    done = run("fuzz.py", "400", "--seed", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    *kinds, total = done.stdout.splitlines()
    assert len(kinds) == 9
    assert all(" accepted" in line and " refused" in line for line in kinds)
    assert total.endswith("0 failures that differ")


@pytest.mark.slow
@pytest.mark.parametrize(("code", "message"), [(LOAD, "pickle.find_class"), (ELSEWHERE, "outside")])
def test_what_must_not_happen_is_noticed(tmp_path, code, message):
    done = run("-c", code, str(tmp_path))
    assert f"Fault: {'open' if message == 'outside' else message}" in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "canary").exists()
