"""What is typical of each cluster, as a panel with a line for each: a cell for each telling column, or words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dyncrp.plots.style import Color, cluster_styles
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters
from dyncrp.views.layout import percent, short_name
from dyncrp.views.profile import ClusterProfile, Trait, profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 16  # clusters
MOST_COLUMNS = 12
MOST_WIDTH = 7.5  # inches for the cells
LONGEST_CELL, LONGEST_TITLE, LONGEST_NAME, LONGEST_WORDS = 13, 22, 16, 56  # characters
CHARACTER = 0.062  # inches, at the size of the cells
FONT = 7.0
FEWEST_LINES = 6  # for which there is room; lines would be too tall
DARKEST = 3.5  # deviations; texts are dark, so that cells must stay light


@dataclass(frozen=True)
class Panel:
    """The largest clusters as lines, from top to bottom.

    Attributes
    ----------
    shown : the clusters that have a line, the largest first.
    n_others, other_rows : how many others there are, which share one line, and their rows.
    columns : the names of the columns that tell most; none for texts.
    styles : the colour and marker of each cluster, by id.
    """

    shown: tuple[ClusterProfile, ...]
    n_others: int
    other_rows: int
    other_share: float
    columns: tuple[str, ...]
    cells: tuple[tuple[Trait | None, ...], ...]
    styles: dict[int, tuple[Color, str]]

    @classmethod
    def of(cls, stream: Stream, clusters: Clusters) -> Panel:
        """Return the panel of the clusters of a stream."""
        words = stream.family.sparse
        found = profile(stream, clusters) if words else profile(stream, clusters, most=stream.engine.n_features)
        shown = found if len(found) <= MOST_LINES else found[: MOST_LINES - 1]
        rest = found[len(shown) :]
        by_column = [{trait.column: trait for trait in cluster.typical} for cluster in shown]
        columns = () if words else _most_telling(shown, by_column)
        cells = tuple(tuple(own.get(column) for column in columns) for own in by_column)
        counts = len(rest), sum(cluster.rows for cluster in rest), sum(cluster.share for cluster in rest)
        return cls(tuple(shown), *counts, columns, cells, cluster_styles(clusters))

    @property
    def n_lines(self) -> int:
        """How many lines there are."""
        return len(self.shown) + (self.n_others > 0)

    @property
    def cell_width(self) -> float:
        """The width of a cell in inches."""
        longest = max((len(_cell(trait)) for line in self.cells for trait in line), default=1)
        return max(0.4, CHARACTER * longest + 0.12)

    @property
    def width(self) -> float:
        """The width of the cells in inches."""
        if self.columns:
            return self.cell_width * (len(self.columns) + 0.6)
        return CHARACTER * max((len(_words(cluster)) for cluster in self.shown), default=10) + 0.5

    @property
    def height(self) -> float:
        """The height in inches, with the titles of the columns and an axis below."""
        title = CHARACTER * max((len(short_name(name, LONGEST_TITLE)) for name in self.columns), default=0)
        return 0.27 * max(self.n_lines, FEWEST_LINES) + 0.8 * title + 0.9

    @property
    def margin(self) -> float:
        """The width of the labels in inches, and of the space between panels."""
        return CHARACTER * max(map(len, self._labels())) + 0.9

    def _labels(self) -> list[str]:
        names = [", ".join([str(c.id), *(short_name(name, LONGEST_NAME) for name in c.names[:1])]) for c in self.shown]
        counts = [(c.rows, c.share) for c in self.shown]
        if self.n_others:
            names.append(f"{self.n_others:,} other{'s' * (self.n_others > 1)}")
            counts.append((self.other_rows, self.other_share))
        return [
            f"{name}: {rows:,} row{'s' * (rows != 1)}, {percent(share)}"
            for name, (rows, share) in zip(names, counts, strict=True)
        ]

    def set_lines(self, axis: Axes) -> None:
        """Give an axis the lines of this panel."""
        axis.set_ylim(max(self.n_lines, FEWEST_LINES) - 0.5, -0.5)

    def draw(self, axis: Axes) -> None:
        """Draw the labels and what is typical of each cluster."""
        from matplotlib import colormaps
        from matplotlib.patches import Rectangle

        colors = colormaps["RdBu_r"]
        for at, cluster in enumerate(self.shown):
            color, marker = self.styles[cluster.id]
            axis.plot(-0.85, at, marker=marker, color=color, markeredgecolor="0.2", markeredgewidth=0.5, markersize=6.5)
            if not self.columns:
                axis.text(-0.45, at, _words(cluster), va="center", fontsize=FONT)
            for place, trait in enumerate(self.cells[at]):
                face: Any = _shade(trait, colors)
                axis.add_patch(Rectangle((place - 0.5, at - 0.5), 1.0, 1.0, facecolor=face, edgecolor="white"))
                axis.text(place, at, _cell(trait), ha="center", va="center", fontsize=FONT)
        if self.n_others:
            axis.plot(-0.85, len(self.shown), marker=".", color="0.62", markersize=8)
        axis.set_xlim(-1.2, len(self.columns) - 0.4 if self.columns else self.width / 0.4)
        self.set_lines(axis)
        axis.set_yticks(range(self.n_lines), self._labels(), fontsize=FONT)
        names = [short_name(name, LONGEST_TITLE) for name in self.columns]
        axis.set_xticks(range(len(names)), names, fontsize=FONT, rotation=50, ha="left", rotation_mode="anchor")
        axis.tick_params(length=0, bottom=False, labelbottom=False, top=False, labeltop=True)
        axis.spines[:].set_visible(False)


def _most_telling(shown: list[ClusterProfile], by_column: list[dict[str, Trait]]) -> tuple[str, ...]:
    """Return the columns that tell most of the clusters that are shown; small clusters count too."""
    told: dict[str, float] = {}
    for cluster, traits in zip(shown, by_column, strict=True):
        for column, trait in traits.items():
            told[column] = told.get(column, 0.0) + np.sqrt(cluster.share) * trait.strength
    ranked = sorted(told, key=lambda column: -told[column])[:MOST_COLUMNS]
    longest = max((len(_cell(own.get(column))) for own in by_column for column in ranked), default=1)
    return tuple(ranked[: max(1, int(MOST_WIDTH / max(0.4, CHARACTER * longest + 0.12)))])


def _cell(trait: Trait | None) -> str:
    """Return the text of a cell: a mean with ↑ or ↓, or the likeliest category, or a share."""
    if trait is None:
        return "–"
    if trait.deviation == trait.deviation:
        return str(trait)[len(trait.column) + 1 :]
    first = re.match(r"(.*?)( \d+ %)(, | \(lift |$)", trait.text)  # a category may have a comma
    if first is None:
        return short_name(trait.text, LONGEST_CELL)
    return short_name(first[1], LONGEST_CELL - len(first[2])) + first[2]


def _words(cluster: ClusterProfile) -> str:
    """Return the words of a cluster, as many as there is room for."""
    text = ""
    for trait in cluster.typical:
        longer = f"{text}, {trait.text}" if text else short_name(trait.text, LONGEST_WORDS)
        if len(longer) > LONGEST_WORDS:
            break
        text = longer
    return text


def _shade(trait: Trait | None, colors: Any) -> Any:
    """Return red for a high mean, blue for a low one, and grey for telling categories."""
    if trait is None:
        return "white"
    if trait.deviation == trait.deviation:
        return colors(float(np.clip(0.5 + 0.5 * trait.deviation / DARKEST, 0.15, 0.85)))
    return str(1.0 - 0.22 * min(1.0, trait.strength / 1.5))
