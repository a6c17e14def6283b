"""The console blocks of the page on the command line, and those of the README that cluster, are what a shell shows;
and links between pages lead somewhere."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dyncrp
from dyncrp.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page):
    """Return the commands of a page and what they should print."""
    found = []
    for block in BLOCK.findall(page):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append([line[2:], ""])
            elif line.startswith(">"):
                found[-1][0] += line[2:]
            else:
                found[-1][1] += line
    return found


class Shell:
    """Runs ``dyncrp`` without a pipe in this process, which is faster, and everything else in a shell."""

    def __init__(self, folder):
        program = folder / "bin" / "dyncrp"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dyncrp "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": str(Path(dyncrp.__file__).parents[1])}
        self.code = 0

    def run(self, command):
        command = command.replace("\\\n", "")
        if command.startswith("dyncrp ") and "|" not in command:
            done = CliRunner().invoke(app, shlex.split(command)[1:])
            self.code = done.exit_code
            return done.output
        done = subprocess.run(
            ["bash", "-c", command.replace("$?", str(self.code))],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code = done.returncode
        return done.stdout


@pytest.mark.slow
def test_the_page_on_the_command_line(tmp_path, monkeypatch):
    check((ROOT / "docs" / "command-line.md").read_text(), 10, tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    page = (ROOT / "README.md").read_text()
    section = page[page.index("## Command line") :].split("\n## ")[0]
    (tmp_path / "work" / "docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "pump.csv", tmp_path / "work" / "docs")
    check(section, 2, tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_commands_of_the_short_tour(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    section = page[page.index("## Command line") :].split("\n## ")[0]
    (tmp_path / "work" / "docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "badges.csv", tmp_path / "work" / "docs")
    check(section, 2, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_what_is_imported_is_installed_as_the_page_says(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    (install,) = re.findall(r"pip install '\.\[cli\]'(.*)", page)
    imported = set(re.findall(r"^>>> (?:import|from) (\w+)", page, re.MULTILINE)) - {"dyncrp", "tempfile"}
    assert imported == {"pandas"}
    assert "pandas" in re.split(r"[#`]", install)[0]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.slow
def test_the_commands_of_the_page_on_text(tmp_path, monkeypatch):
    (tmp_path / "work" / "docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "headlines.csv", tmp_path / "work" / "docs")
    check((ROOT / "docs" / "text.md").read_text(encoding="utf-8"), 3, tmp_path, monkeypatch)


def anchors(page):
    """Return what the headings of a page are linked by: lower case, dashes for spaces, no other punctuation."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        assert file.exists(), link
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), link


WIDTH = 88  # of a block of code on the site, in a window of 1,440 pixels


def code(path):
    """Yield the number, the language and the text of each line of code on a page; a script is one block."""
    language = "python" if path.suffix == ".py" else None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r" *```(.*)", line) if path.suffix == ".md" else None
        if fence:
            language = fence[1] if language is None else None
        elif language is not None:
            yield number, language, line


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=lambda path: path.name)
def test_code_is_not_cut_off(path):
    assert [(number, line) for number, _, line in code(path) if len(line) > WIDTH] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_comments_have_lines_of_their_own(path):
    for number, language, line in code(path):
        said = re.match(r"(?:>>>|\.\.\.) [^#\"']*\S +# (?!doctest)", line) if language == "python" else None
        assert not said, (number, line)


def check(page, least, tmp_path, monkeypatch):
    """Run every command of a page in an empty folder."""
    (tmp_path / "work").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr("dyncrp.cli.display.PLAIN_EVERY", float("inf"))  # how long it takes is not what the page shows
    shell, checker = Shell(tmp_path), doctest.OutputChecker()
    found = commands(page)
    assert len(found) >= least
    for command, wanted in found:
        got = shell.run(command)
        if not checker.check_output(wanted, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            pytest.fail(f"$ {command}should print\n{wanted}but prints\n{got}")
