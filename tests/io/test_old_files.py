"""Files that earlier versions wrote: every later one reads them, and makes the same of the rows that follow.

A test that fails here shows a model file that users have and this version cannot go on with. Mend the reader, and leave
the files as they are: see docs/files.md. ``tests/files/record.py`` made them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from dyncrp import DynamicalMixture
from dyncrp.dynamics import DYNAMICS
from dyncrp.engine import schema
from dyncrp.families import FAMILIES
from files.record import CASES, learn

FOLDER = Path(__file__).parents[1] / "files"
FILES = sorted(FOLDER.glob("v*/*.npz"))


def header(path):
    with np.load(path) as file:
        return json.loads(file["header"].tobytes())


def as_said(name):
    entry = schema.ARRAYS[name]
    return np.dtype(entry.dtype), len(entry.shape)


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


def test_the_files_have_every_array_and_entry_of_the_schema_and_no_other():
    arrays, config = set(), set()
    for path in FILES:
        with np.load(path) as file:
            found = {
                name: file[name] for name in file.files if "." not in name
            }  # a hyperparameter is named by its path
        assert all((array.dtype, array.ndim) == as_said(name) for name, array in found.items())
        arrays |= found.keys()
        config |= header(path)["config"].keys()
    assert arrays == schema.ARRAYS.keys()
    assert {"format", "version", "dyncrp", *(f"config.{name}" for name in config)} == {e.name for e in schema.HEADER}
