"""Why an iris is at its table, as docs/feedback.md has it.

``python -m benchmarks.explained`` explains one and draws docs/images/explain.png.
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_iris

from benchmarks.speed import HERE
from dyncrp import DynamicalMixture, Stationary, plots
from dyncrp.views.explain import Explanation

ODD = 41  # the narrowest of the setosas


def flower() -> Explanation:
    """Return why the odd one is where it is, given a model of all of them."""
    irises = load_iris(as_frame=True).data
    model = DynamicalMixture(dynamics=Stationary()).fit(irises.sample(frac=1.0, random_state=0))
    return model.explain(irises.loc[ODD])


def draw(path: Path) -> Explanation:
    """Draw the explanation and return it."""
    explanation = flower()
    path.parent.mkdir(parents=True, exist_ok=True)
    plots.explain(explanation).savefig(path, dpi=110)
    return explanation


if __name__ == "__main__":
    print(draw(HERE.parent / "docs" / "images" / "explain.png"))
