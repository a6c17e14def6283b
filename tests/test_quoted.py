"""Figures in the README and the docs are in the results that their commands stored."""

import json

import pytest
from benchmarks import quoted

SECTIONS = [section for section in quoted.sections() if section.figures or section.in_sentences]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: " / ".join((section.page, *section.headings[-1:])))
def test_quoted_figures_are_in_the_results(section):
    assert quoted.faults(section) == []


def test_sections_that_are_named_are_there():
    there = {(section.page, heading) for section in quoted.sections() for heading in section.headings}
    assert set(quoted.SOURCES) <= there


PAGE = """# Made up

## Measured

The mean is 0.25, or 25.0 %, of 1.5 clusters by version 1.2.3; the setting was `Exponential(0.7)`.{sentence}

| system, 9.9 | AMI |
|---|---|
| one | {cell} |
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A function that writes a page and returns what the command says of it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Nothing\n")
    (tmp_path / "made.json").write_text(
        json.dumps({"commit": "1.75", "spread 1.5": {"ami": 0.2501, "rate": 1234567.0}})
    )
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    quoted.stored.cache_clear()
    sources = {("docs/made.md", "Measured"): quoted.Source("python -m made", ("made",), given=("0.95",))}
    monkeypatch.setattr(quoted, "SOURCES", sources)

    def check(cell, sentence=""):
        (tmp_path / "docs" / "made.md").write_text(PAGE.format(cell=cell, sentence=sentence))
        return quoted.main(tmp_path)

    yield check
    quoted.stored.cache_clear()


@pytest.mark.parametrize("cell", ["0.25", "0.250", "1.23 million", "0.95"])
def test_a_page_that_quotes_its_results_passes(made_up, cell, capsys):
    assert made_up(cell) == 0
    assert "docs/made.md, Measured: 1 figures, and 3 in sentences, python -m made (in made)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cell", "sentence", "wrong"),
    [("0.251", "", "0.251"), ("1.75", "", "1.75"), ("0.25", " It was 0.26 before.", "0.26")],
)
def test_a_page_that_quotes_another_number_fails(made_up, cell, sentence, wrong, capsys):
    assert made_up(cell, sentence) == 1
    assert f"  not in the results: {wrong}\n" in capsys.readouterr().out


def test_a_table_without_a_command_fails(made_up, monkeypatch, capsys):
    monkeypatch.setattr(quoted, "SOURCES", {})
    assert made_up("0.25") == 1
    assert "  no command: 0.25\n" in capsys.readouterr().out


def test_results_that_are_quoted_exist():
    names = {name for source in quoted.SOURCES.values() for name in source.results}
    assert all(quoted.load(name) for name in names)


def test_only_the_named_entry_is_searched(tmp_path, monkeypatch):
    (tmp_path / "big.json").write_text(json.dumps({"rows": [0.111], "means": [0.222]}))
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    quoted.stored.cache_clear()
    found = [quoted.is_stored(figure, ("big/means",)) for figure in ("0.222", "0.111")]
    quoted.stored.cache_clear()
    assert found == [True, False]


def test_results_without_their_commit_are_listed(tmp_path, monkeypatch):
    files = {
        "a": {"sections": {"x": 1}},
        "b": {"commit": "1", "sets": {}},
        "c": {"commits": {"x": "1"}, "sections": {"x": 1, "y": 2}},
        "d": {"commits": {"x": "1"}, "sections": {"x": 1}},
        "e": [{"commit": "1"}, {}],
        "f": [{"commit": "1"}],
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    assert quoted.without_commit() == ["a.json", "c.json (y)", "e.json"]
