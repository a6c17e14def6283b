"""The candidates that ``dyncrp.tune`` tried, and their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import COLORS, MARKERS
from dyncrp.search import Candidate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RING: dict[str, Any] = {"s": 160, "facecolors": "none", "edgecolors": COLORS[5], "linewidths": 2}  # of the chosen one


def evidence(candidates: Sequence[Candidate]) -> Figure:
    """Draw the candidates that ``dyncrp.tune`` tried.

    Left: log evidence against the number of tables, for each family. Filled markers are families whose clusters
    reproduce well enough. Right: log evidence against the duration, for each dynamics with its best alpha; dynamics
    without an unknown duration are lines. The chosen candidate is ringed. Only the chosen memory is on the right.

    Parameters
    ----------
    candidates : sequence of Candidate
        Such as ``DynamicalMixture.evidence_``.
    """
    if not len(candidates):
        raise ValueError(
            "there are no candidates to draw: nothing was unknown, or the model comes from a file, which has none"
        )
    chosen = next(c for c in candidates if c.chosen)
    sought = [c for c in candidates if c.reproducibility == c.reproducibility or c.family != chosen.family]
    weighed = [c for c in candidates if c.family == chosen.family and c.memory == chosen.memory]
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2)
    _draw_families(left, sought or weighed, chosen)
    _draw_dynamics(right, weighed, chosen)
    return figure


def _draw_families(axis: Axes, sought: Sequence[Candidate], chosen: Candidate) -> None:
    from matplotlib.ticker import LogLocator

    sought = [c for c in sought if np.isfinite(c.log_evidence)]  # not those that were dropped early
    best = max(c.log_evidence for c in sought)
    for admitted, face, marker, label in (
        (True, COLORS[0], "o", "reproduces well enough"),
        (False, "none", "s", "does not"),
    ):
        shown = [c for c in sought if c.admitted == admitted]
        x, y = [c.n_tables for c in shown], [c.log_evidence - best for c in shown]
        axis.scatter(x, y, facecolors=face, edgecolors="0.3", linewidths=0.7, marker=marker, label=label)
    ring = min(sought, key=lambda c: (c.family != chosen.family, -c.log_evidence))
    axis.scatter(ring.n_tables, ring.log_evidence - best, **RING)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("tables found")
    axis.set_ylabel("log evidence, below the best")
    axis.set_title("families tried; ringed: chosen")
    if any(c.reproducibility == c.reproducibility for c in sought):  # not computed for word counts
        axis.legend()


def _draw_dynamics(axis: Axes, weighed: Sequence[Candidate], chosen: Candidate) -> None:
    weighed = [c for c in weighed if np.isfinite(c.log_evidence)]
    best = max(c.log_evidence for c in weighed)
    lines: dict[str, dict[float | None, float]] = {}
    for c in weighed:
        lengths = c.dynamics.durations()
        name = repr(c.dynamics)
        for length in lengths:
            name = name.replace(f"={length!r}", "=τ")
        key = float(f"{lengths[0]:.2g}") if len(lengths) == 1 and lengths[0] is not None else None
        line = lines.setdefault(name if key is not None else repr(c.dynamics), {})
        line[key] = max(line.get(key, -np.inf), c.log_evidence - best)
    for i, (name, line) in enumerate(lines.items()):
        color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
        if None in line:
            axis.axhline(line[None], color=color, linestyle=("--", ":", "-.")[i % 3], label=name)
        else:
            x = sorted(line)  # type: ignore[type-var]
            axis.plot(x, [line[length] for length in x], color=color, marker=marker, markersize=4, label=name)  # type: ignore[arg-type]
    at = chosen.dynamics.durations()
    if len(at) == 1 and at[0] is not None:
        axis.scatter(at[0], chosen.log_evidence - best, zorder=3, **RING)
        axis.set_xscale("log")
    axis.set_xlabel("duration τ")
    axis.set_ylabel("log evidence, below the best")
    memory = "" if chosen.memory == np.inf else f", memory {chosen.memory:g}"
    axis.set_title(f"dynamics tried; chosen alpha {chosen.alpha:.3g}{memory}")
    axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
