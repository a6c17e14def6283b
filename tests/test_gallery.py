"""Every example of the gallery can be read, and shows what it draws.

``make docs`` runs them all, where warnings are errors and every figure must have data.
"""

import ast
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# Recipes have tests of their own.
EXAMPLES = sorted(path for path in FOLDER.rglob("plot_*.py") if path.parent.name != "recipes")


def test_there_are_a_dozen():
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_shows_a_figure_and_imports_what_there_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "plt.show()" in map(ast.unparse, tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "dyncrp":
            module = import_module(node.module)
            assert all(hasattr(module, one.name) or import_module(f"{node.module}.{one.name}") for one in node.names)
