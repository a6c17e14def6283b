"""What a release says of itself: one version everywhere, and only Pythons that it is built and tested for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import dyncrp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def first(pattern, name):
    return re.search(pattern, (ROOT / name).read_text(), re.MULTILINE).group(1)


def test_the_version_is_the_same_everywhere():
    told = first(r"^version: (\S+)$", "CITATION.cff"), first(r"^## (\S+) \(", "CHANGELOG.md")
    assert told == (dyncrp.__version__, dyncrp.__version__)
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", dyncrp.__version__)


def test_a_build_takes_the_version_from_the_package():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["scikit-build"]["metadata"]["version"]["input"] == "src/dyncrp/version.py"
    assert first(r'^__version__ = "(.+)"$', "src/dyncrp/version.py") == dyncrp.__version__


def test_a_source_tree_that_is_not_installed_knows_its_version():
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import dyncrp; print(dyncrp.__version__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == dyncrp.__version__


def test_the_same_pythons_are_promised_built_and_tried():
    classified = [
        name.rsplit(" ", 1)[1]
        for name in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    built = re.findall(r"cp3(\d+)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert classified == [f"3.{minor}" for minor in built]
    assert PROJECT["project"]["requires-python"] == f">={classified[0]}"
    tried = re.findall(r"3\.\d+", first(r"python: \[(.+)\]", ".github/workflows/ci.yml"))
    assert (tried[0], tried[-1]) == (classified[0], classified[-1])


def test_the_paper_is_the_one_that_the_readme_cites():
    cited = (ROOT / "CITATION.cff").read_text()
    for pattern in (r"title     = \{(.+)\}", r"volume    = \{(.+)\}", r"year      = \{(.+)\}"):
        assert first(pattern, "README.md") in cited
    authors = re.findall(r"(\w+), [\w -]+?(?:\s+and|\})", first(r"author    = (\{(?:.|\n)+?\}),", "README.md"))
    assert re.findall(r"family-names: (\w+)", cited) == authors == ["Schaeffer", "Liu", "Du", "Linderman", "Fiete"]


def test_the_changelog_speaks_of_what_there_is():
    """Every name in backticks is one in the code: of a class, a parameter, an option, a command, a module."""
    paths = [*(ROOT / "src" / "dyncrp").rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    known = {*re.findall(r"[a-z]+(?:-[a-z]+)+|[A-Za-z0-9]+(?:_+[A-Za-z0-9]*)*", code), *(path.stem for path in paths)}
    known |= {name.replace("_", "-") for name in known}  # options are made of parameters
    quoted = re.findall(r"`([^`]+)`", (ROOT / "CHANGELOG.md").read_text())
    names = {name for text in quoted for name in re.findall(r"[A-Za-z]\w+(?:-[a-z]+)*", text.replace("__", " "))}
    assert names - known == set()
