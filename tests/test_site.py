"""The site has a place for every page of docs/ and every public name; ``make docs`` checks what needs Sphinx."""

import ast
import inspect
import re
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest

import dyncrp

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(dyncrp.__file__).parent
BLOCK = re.compile(r"^```\{(toctree|eval-rst)\}\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Modules whose public names are all in the reference.
PUBLIC = (
    *("dyncrp", "baselines", "datasets", "dynamics", "engine", "engine.reference", "families", "metrics", "plots"),
    *("river", "search", "spark", "stream.events", "testing"),
)
# Modules of which a user meets single names, by what they return, or by names of the package; or none.
OTHERS = {
    *("__main__", "arrays", "cli", "combining", "estimator", "input", "io", "jobs", "joining", "process", "serve"),
    *("stream", "tuning", "version", "views"),
}


def listed(page, directive):
    """Return the lines of the blocks of a page that are neither options nor directives."""
    blocks = [body for kind, body in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if kind == directive]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith((":", ".."))]


def public_names(module):
    """Return the names of ``__all__``, or else the functions and classes that a module defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (value for name, value in vars(module).items() if not name.startswith("_"))
    own = (value for value in own if isclass(value) or isfunction(value))
    own = (value for value in own if f"{value.__module__}.".startswith(f"{module.__name__}."))
    return [value.__name__ for value in own if hasattr(module, "__path__") or value.__module__ == module.__name__]


def test_every_page_has_one_place_in_the_contents():
    entries = [re.sub(r"^.*<(.*)>$", r"\1", line) for line in listed("index.md", "toctree")]
    pages = [entry for entry in entries if not entry.startswith("gallery/")]
    assert sorted(pages) == sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
    assert {entry for entry in entries if entry.startswith("gallery/")} == {"gallery/index"}  # it leads to the recipes


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_the_reference(name):
    if name == "river":
        pytest.importorskip("river")
    elif name == "plots":
        pytest.importorskip("matplotlib")
    reference = listed("api.md", "eval-rst")
    module = import_module("dyncrp" if name == "dyncrp" else f"dyncrp.{name}")
    names = public_names(module)
    assert names
    if module.__name__ in reference:  # a page for the module has all of its names
        return
    top = {f"dyncrp.{each}" for each in dyncrp.__all__}
    for each in (name for name in names if name != "__version__"):
        path = f"{module.__name__}.{each}"
        elsewhere = f"dyncrp.{each}" in top and f"dyncrp.{each}" in reference
        assert path in reference or elsewhere or path == "dyncrp.datasets", path


def test_every_name_of_the_reference_is_there_once():
    reference = listed("api.md", "eval-rst")
    assert len(reference) == len(set(reference))
    for path in reference:
        module, _, name = path.rpartition(".")
        if module in ("dyncrp.spark", "dyncrp.river"):
            continue  # they need packages that may be missing; Sphinx reads them
        if not (PACKAGE / path.replace(".", "/").removeprefix("dyncrp/")).with_suffix(".py").exists():
            assert hasattr(import_module(module), name), path


def test_every_module_is_public_or_known_not_to_be():
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__"} == OTHERS | {name for name in PUBLIC if "." not in name} - {"dyncrp"}


def test_scripts_of_the_gallery_begin_with_a_title_and_a_text():
    """As sphinx-gallery wants it: a title with a line below that is as long, then a paragraph."""
    for path in (ROOT / "examples").rglob("*.py"):
        title, line, empty, text, *_ = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).split("\n")
        assert title, path
        assert line == "=" * len(title), path
        assert not empty, path
        assert text, path


def test_the_page_of_the_estimator_has_all_of_it_once():
    from sklearn.base import BaseEstimator

    page = (DOCS / "_templates" / "autosummary" / "class.rst").read_text(encoding="utf-8")
    named = re.findall(r":: DynamicalMixture\.(\w+)", page)
    public = {name for name in dir(dyncrp.DynamicalMixture) if not name.startswith("_")}
    routing = {name for name in public if re.fullmatch(r"set_\w+_request", name)}
    assert sorted(named) == sorted(public - routing - set(dir(BaseEstimator)))


def test_examples_in_the_reference_of_the_estimator_are_not_cut_off():
    """The page of a class has room for 84 columns in a window of 1,440 pixels."""
    public = [name for name in dir(dyncrp.DynamicalMixture) if not name.startswith("_")]
    for each in (dyncrp.DynamicalMixture, *(getattr(dyncrp.DynamicalMixture, name) for name in public)):
        lines = (inspect.getdoc(each) or "").splitlines()
        assert [line for line in lines if line.startswith((">>>", "...")) and len(line) > 84] == []


@pytest.mark.slow
def test_the_readings_and_the_pictures_of_the_tutorial(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from benchmarks import pump

    pump.main(tmp_path)
    assert (tmp_path / "pump.csv").read_bytes() == (DOCS / "pump.csv").read_bytes()
    assert capsys.readouterr().out.splitlines() == [
        "2026-03-03T09:00 new",
        "2026-03-03T12:20 back after 3 h",
        "2026-03-03T15:07 alarm",
    ]
    drawn = {path.name for path in (tmp_path / "images").iterdir()}
    assert drawn == {"pump.png", "pump-clusters.png", "pump-file.png"}
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert all(f"images/{name}" in page for name in drawn)


@pytest.mark.slow
def test_the_page_on_choosing_shows_what_its_script_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from benchmarks import choose

    choose.main(tmp_path)
    scaling = ROOT / "examples" / "scaling"
    programs = sorted(path for path in scaling.glob("*_*.py") if not path.name.startswith("plot_"))
    for path in programs:  # each has a picture of its own in the gallery
        assert f'thumbnail_path = "images/program-{path.stem}.png"' in path.read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"choose-{name}.png" for name in ("clusters", "dynamics", "family", "memory")),
        *(f"program-{path.stem}.png" for path in programs),
    ]
    assert capsys.readouterr().out.splitlines() == [
        "tables by family: [3, 4, 3, 3]",
        "tables and clusters of two moons: (29, 2)",
        "tables of drifting clusters, memory infinite and learned: [10, 3]",
    ]
    page = (DOCS / "choose.md").read_text(encoding="utf-8")
    for caption in (
        "three tables where all clusters have one shape, and four",
        "29 tables, which are two",
        "ten tables",
    ):
        assert caption in page
