"""The tables of docs/paper.md and docs/rooms.md, from the results that are kept: written between the pages' marks.

``python -m experiments.report`` after a full run; a test sees to it that the pages are what this writes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from experiments import gaussians, prior, rooms, sphere, summary, wrong_dynamics

PAGES = [Path(__file__).parents[1] / "docs" / name for name in ("paper.md", "rooms.md")]
MARK = re.compile(r"(<!-- table: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, pd.DataFrame]:
    """Return every table by its name: the experiment, a colon, what is measured."""
    mixtures = gaussians.table().read()
    asked = mixtures[
        (mixtures["system"] == "D-CRP")
        & mixtures["alpha"].isin([5.0, 15.0, 25.0])
        & mixtures["n_features"].isin([3, 9, 15])
        & mixtures["prior_variance"].isin([25.0, 100.0, 500.0])
    ]
    parts = {
        "prior": prior.convergence(prior.slopes(prior.table().read())),
        "gaussians": summary.comparison(mixtures),
        "gaussians, part of the grid": summary.comparison(asked),
        "sphere": summary.comparison(sphere.table().read()),
        "wrong dynamics": summary.told(wrong_dynamics.table().read()),
        "rooms": rooms.tables(rooms.table().read()),
    }
    return {f"{part}: {title}": values for part, titles in parts.items() for title, values in titles.items()}


def markdown(values: pd.DataFrame) -> str:
    """Return a table of text as Markdown.

    >>> print(markdown(pd.DataFrame({"a": ["1"]}, index=["row"])), end="")
    | | a |
    |---|---|
    | row | 1 |
    """
    lines = [["", *map(str, values.columns)], *([str(name), *row] for name, row in values.T.to_dict("list").items())]
    rows = ["| " + " | ".join(line).lstrip() + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:], ""])


def fill(page: str, known: dict[str, pd.DataFrame]) -> str:
    """Return a page with every marked table as the results have it."""
    return MARK.sub(lambda mark: mark[1] + markdown(known[mark[2]]) + mark[4], page)


if __name__ == "__main__":
    known = tables()
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), known), encoding="utf-8")
