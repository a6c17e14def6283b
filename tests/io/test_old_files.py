"""Files that earlier versions wrote: every later one reads them, and makes the same of the rows that follow.

A test that fails here shows a model file that users have and this version cannot go on with. Mend the reader, and leave
the files as they are: see docs/files.md. ``tests/files/record.py`` made them.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dyncrp import DynamicalMixture
from dyncrp.dynamics import DYNAMICS
from dyncrp.families import FAMILIES
from files.record import CASES, learn

FOLDER = Path(__file__).parents[1] / "files"
FILES = sorted(FOLDER.glob("v*/*.npz"))


def header(path):
    with np.load(path) as file:
        return json.loads(file["header"].tobytes())


def kinds(value):
    """Yield the name of every family and dynamics in a header."""
    if isinstance(value, dict):
        yield from [value["kind"]] if "kind" in value else []
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from kinds(entry)


def check(made, recorded):
    """Compare what a model made of rows with what was recorded: numbers to 1e-12, all else exactly."""
    for name in ("novelty", "numbers", "p"):
        assert (name in made) == (name in recorded)
        np.testing.assert_allclose(made.pop(name, []), recorded.pop(name, []), rtol=1e-12, atol=1e-12)
    assert made == recorded


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_of_an_earlier_version_goes_on_as_recorded(path, tmp_path):
    recorded = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    model = DynamicalMixture.load(path)
    model.save(tmp_path / "again.npz")
    check(learn(model, recorded["next"]), dict(recorded["made"]))
    again = DynamicalMixture.load(tmp_path / "again.npz")
    check(learn(again, recorded["next"]), recorded["made"])
    if (
        not model.learned_
    ):  # the search may get better from version to version, but it must take the rows that were kept
        assert model.learn_unknown().learned_


def test_there_is_a_file_of_every_case_family_and_dynamics():
    of_version_1 = [path for path in FILES if path.parent.name == "v1"]
    assert {path.stem for path in of_version_1} == CASES.keys()
    found = {kind for path in of_version_1 for kind in kinds(header(path)["config"]["hyperparameters"])}
    assert found == FAMILIES.keys() | DYNAMICS.keys()


def test_the_files_have_every_array_and_entry_that_is_documented_and_no_other():
    page = (FOLDER.parents[1] / "docs" / "files.md").read_text().split("## Checkpoints")[0]
    documented = set()
    for table in re.findall(r"^\| array \| shape .*\n((?:\|.*\n)+)", page, re.MULTILINE):
        for line in table.splitlines()[1:]:
            names, shape = line.split(" | ")[:2]
            assert shape.startswith("("), f"no shape is said of {names}"
            documented |= set(re.findall(r"`(\w+)`", names))
    entries = {
        name
        for cell in re.findall(r"^\| (`config\..+?) \|", page, re.MULTILINE)
        for name in re.findall(r"`config\.(\w+)`", cell)
    }
    documented |= {"header", "sha256", "mark", "taken"}  # which the text tells of
    arrays, config = set(), set()
    for path in FILES:
        with np.load(path) as file:
            arrays |= {name for name in file.files if "." not in name}  # a hyperparameter is named by its path
        config |= header(path)["config"].keys()
    assert arrays == documented
    assert config == entries
