"""Groups of options are dataclasses, whose fields typer sees as options of the command."""

import re
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from dyncrp.cli.app import app as program
from dyncrp.cli.options import InputOptions, expand_groups
from dyncrp.io.readers import Selection


@dataclass(frozen=True)
class Place:
    town: Annotated[str, typer.Argument(metavar="TOWN")]
    street: Annotated[str | None, typer.Option(help="Where it is.")] = None
    floors: Annotated[list[int] | None, typer.Option("--floor")] = None


calls = []
app = typer.Typer()


@app.command()
@expand_groups
def visit(place: Place, times: int = 1, *, quietly: bool = False) -> None:
    """Go there."""
    calls.append((place, times, quietly))


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (["Ulm"], (Place("Ulm", None, None), 1, False)),
        (["--floor", "1", "Ulm", "--floor", "2"], (Place("Ulm", None, [1, 2]), 1, False)),
        (["Ulm", "--street", "Au", "--times", "3", "--quietly"], (Place("Ulm", "Au", None), 3, True)),
    ],
)
def test_a_group_is_filled_from_its_options(arguments, call):
    calls.clear()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    ((place, *rest),) = calls
    assert (replace(place, floors=place.floors or None), *rest) == call  # typer may give an empty list


def test_a_group_is_part_of_the_help():
    shown = CliRunner().invoke(app, ["--help"]).output
    for word in ("Go there.", "TOWN", "--street", "Where it is.", "--floor", "--quietly"):
        assert word in shown
    assert CliRunner().invoke(app, []).exit_code == 2


def test_arguments_read_the_same_again():
    options = InputOptions("in.csv", columns="x,y", time_column="t", delimiter=";", decimal=",", header=False)
    assert options.as_arguments() == (
        ["in.csv", "--columns", "x,y", "--time-column", "t", "--delimiter", ";", "--decimal", ",", "--no-header"]
    )
    options = InputOptions("in.csv", exclude="id,x*", missing="?", encoding="latin-1")
    assert options.as_arguments() == ["in.csv", "--exclude", "id,x*", "--missing", "?", "--encoding", "latin-1"]
    assert InputOptions("in.tsv", skip_bad=True).as_arguments() == ["in.tsv", "--skip-bad"]


def test_the_selection_that_options_describe():
    assert InputOptions("in.tsv").select(None) == Selection(delimiter="\t")
    options = InputOptions("-", columns='"a,b", c', time_column="t", skip_bad=True)
    assert options.select("c") == Selection(("a,b", "c"), "t", ("c",), skip_bad=True)
    assert options.select("all").keep is None


def test_help_has_examples_first_then_the_options_of_a_first_day(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown = CliRunner().invoke(program, ["run", "--help"]).output
    panels = re.findall(r"╭─ (\w+) ─", shown)
    assert panels == ["Arguments", "Options", "Input", "Times", "Output", "Model", "Checkpoint"]
    head, _, rest = shown.partition("╭─ Options")
    first_day = re.findall(r"│ (--[\w-]+)", rest.partition("╭─ Input")[0])
    assert len(first_day) == 12 + len(["--help"])
    examples = [line.strip() for line in head.splitlines() if line.startswith((" dyncrp run ", " cat "))]
    assert len(examples) == 4
    for example in examples:  # their options exist
        assert set(re.findall(r"--[\w-]+", example)) <= set(re.findall(r"--[\w-]+", rest))
    assert "--groups" not in shown
