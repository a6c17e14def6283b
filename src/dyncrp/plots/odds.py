"""Why a row joins its table: bars of log odds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dyncrp.plots.figures import new_figure
from dyncrp.plots.style import COLORS
from dyncrp.views.explain import Explanation, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def explain(explanation: Explanation) -> Figure:
    """Draw why a row joins its table: a bar for the prior weights and for each feature, in nats.

    There is a panel against the runner-up and one against a new table, if the explanation has them. Bars to the right
    are evidence for the table, hatched bars to the left for the other one; the grey bar below is their sum. If there
    are many features, the 15 largest bars are drawn, and the others as one.

    Parameters
    ----------
    explanation : Explanation
        What ``DynamicalMixture.explain`` returned.

    Examples
    --------

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 0.2], [0.2, 0.0]])
    >>> explain(model.explain([6.0, 0.0])).savefig("explain.png")  # doctest: +SKIP
    """
    if not isinstance(explanation, Explanation):
        raise ValueError(f"explanation must be what explain() returns, got {type(explanation).__name__}")
    if not explanation.odds:
        raise ValueError(f"there is nothing to draw: {explanation}")
    first, others = explanation.ranked()
    labels = ["prior weight", *map(explanation.label, first)]
    labels += [explanation.label_rest(len(others))] if others else []
    n_panels, n_bars = len(explanation.odds), len(labels) + 1
    figure = new_figure(1.6 + 3.4 * n_panels + 0.05 * max(map(len, labels)), 0.27 * n_bars + 1.3)
    axes = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
    for axis, odds in zip(axes, explanation.odds, strict=True):
        parts = [odds.prior, *odds.features[first].tolist()]
        parts += [float(np.sum(odds.features[others]))] if others else []
        _draw_terms(axis, np.array([*parts, odds.total]))
        axis.set_title(f"against {explanation.call(odds.rival)}", fontsize="medium")
    axes[0].set_yticks(range(n_bars), [*labels, "total"], fontsize="small")
    axes[0].set_ylim(n_bars - 0.4, -0.6)
    figure.suptitle(f"why {explanation.call(explanation.table)}", x=0.01, ha="left", fontsize=11)
    figure.supxlabel("log odds (nats)", fontsize="medium")
    return figure


def _draw_terms(axis: Axes, values: NDArray[np.float64]) -> None:
    """Draw terms (n,) as bars from top to bottom; the last one, the total, is below a line."""
    places = np.arange(len(values))
    bars = axis.barh(places, values, 0.66, edgecolor="0.2", linewidth=0.6)
    for bar, value in zip(bars, values.tolist(), strict=True):
        bar.set_facecolor(COLORS[0] if value >= 0 else COLORS[1])
        bar.set_hatch("" if value >= 0 else "////")
    bars[-1].set_facecolor("0.6")
    reach = float(np.max(np.abs(values))) or 1.0
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        beyond = 0.02 * reach if value >= 0 else -0.02 * reach
        side = "left" if value >= 0 else "right"
        axis.text(value + beyond, place, signed(value), ha=side, va="center", fontsize="x-small")
    # Room for the numbers at the ends of the bars.
    left, right = min(0.0, float(np.min(values))), max(0.0, float(np.max(values)))
    room = 0.24 * (right - left or 1.0)
    axis.set_xlim(left - (room if left < 0.0 else 0.25 * room), right + (room if right > 0.0 else 0.25 * room))
    axis.axvline(0.0, color="0.2", linewidth=0.8)
    axis.axhline(len(values) - 1.5, color="0.6", linewidth=0.6)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize="small")
    axis.spines[["top", "right", "left"]].set_visible(False)
