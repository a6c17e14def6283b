"""The rules of the code that a program can check: no private names across modules, and no word for two things."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "experiments", "benchmarks", "examples")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
# What named tuples offer under underscore names is public.
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_getvalue"}


def private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def defined(tree):
    """Every name that a module gives to something of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def private_doors(source):
    """Return the underscore names of others that a module reads, or imports: (line, name)."""
    tree = ast.parse(source)
    own = set(defined(tree))
    doors = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            doors += [] if mine else [(node.lineno, node.attr)]
        elif isinstance(node, ast.ImportFrom):
            doors += [(node.lineno, alias.name) for alias in node.names if private(alias.name)]
    return doors


def test_no_module_reads_anothers_private_names():
    assert len(FILES) > 100
    doors = [
        f"{path.relative_to(ROOT)}:{line}: {name}" for path in FILES for line, name in private_doors(path.read_text())
    ]
    assert doors == []


@pytest.mark.parametrize(
    "source",
    ["import a\na._b()", "from a import _b", "def f(model):\n    return model._engine.time", "x = a.b._c"],
)
def test_a_private_door_is_found(source):
    assert len(private_doors(source)) == 1


@pytest.mark.parametrize(
    "source",
    ["class A:\n    def _b(self): return self._b()", "def _f(): pass\n_f()", "x._replace(a=1)", "x.__len__()"],
)
def test_what_is_ones_own_is_no_private_door(source):
    assert private_doors(source) == []


def test_no_module_is_longer_than_500_lines():
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in FILES if "src" in path.parts}
    assert [name for name, length in lengths.items() if length > 500] == []
