"""Clusters as a table of text, the same in Python and on the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dyncrp.views.layout import GAP, aligned, dates, percent, short_name, total_width
from dyncrp.views.profile import ClusterProfile, Trait

LEAST_ROOM = 20  # characters for what is typical, however narrow the terminal is
MOST_ROOM = 110  # a longer line is hard to read
MOST_LINES = 2  # for what is typical of a cluster
LEAST_STRENGTH = 0.01  # nats, of categories that are shown
LONGEST_TRAIT = 48
LONGEST_CALLED = 32
SEPARATOR = ", "


def format_profiles(profiles: Sequence[ClusterProfile], width: int = 100, most: int | None = 20) -> str:
    """Return the clusters as a table, at most as wide as the terminal; None for ``most`` shows all of them.

    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> from dyncrp.views.profile import profile
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0], [5.0, 1.2], [50.0, 1.1], [0.0, 1.2]])
    >>> print(format_profiles(profile(model.stream_, model.clusters(2)), most=1))
    cluster  rows  share  first seen  last seen  typical
          0     3   75 %           0          3  x0 2 ↓, x1 1.133
    and 1 smaller cluster with 1 row
    """
    shown = profiles if most is None else profiles[:most]
    rest = profiles[len(shown) :]
    lines = _table(shown, width) if shown else []
    if rest:
        rows = sum(cluster.rows for cluster in rest)
        lines.append(f"and {_count(len(rest), 'smaller cluster')} with {_count(rows, 'row')}")
    return "\n".join(lines)


def _table(shown: Sequence[ClusterProfile], width: int) -> list[str]:
    columns = [aligned("cluster", [cluster.id for cluster in shown])]
    if any(cluster.names for cluster in shown):
        called = [short_name(SEPARATOR.join(cluster.names), LONGEST_CALLED) for cluster in shown]
        columns.append(aligned("called", called, right=False))
    columns.append(aligned("rows", [cluster.rows for cluster in shown]))
    columns.append(aligned("share", [percent(cluster.share) for cluster in shown]))
    choices = [_times(shown), _times(shown, days=True), []]  # what does not fit is shortened, then left out
    columns += next((c for c in choices if total_width(columns + c) + len(GAP) + LEAST_ROOM <= width), [])
    room = min(max(LEAST_ROOM, width - total_width(columns) - len(GAP)), MOST_ROOM)
    typical = [_wrapped([short_name(str(trait), LONGEST_TRAIT) for trait in _told(cluster)], room) for cluster in shown]
    if not any(map(any, typical)):
        return [GAP.join(cells) for cells in zip(*columns, strict=True)]
    indent = " " * (total_width(columns) + len(GAP))
    lines = []
    for cells, (first, *others) in zip(zip(*columns, strict=True), [["typical"], *typical], strict=True):
        lines += [GAP.join([*cells, first]).rstrip(), *(indent + other for other in others)]
    return lines


def _told(cluster: ClusterProfile) -> Sequence[Trait]:
    """Return the traits without categories that are as frequent as in all rows, unless there are no others."""
    told = [trait for trait in cluster.typical if trait.strength >= LEAST_STRENGTH or not math.isnan(trait.deviation)]
    return told or cluster.typical


def _wrapped(traits: Sequence[str], room: int) -> list[str]:
    """Return traits as lines that fit, as many as there is room for.

    >>> _wrapped(["height 5.1 ↑", "width 2.0", "colour red 90 %"], 24)
    ['height 5.1 ↑, width 2.0,', 'colour red 90 %']
    """
    lines, full = [""], ""
    for trait in traits:
        longer = f"{lines[-1]}{SEPARATOR}{trait}" if lines[-1] else trait
        if not lines[-1] or len(longer) + 1 <= room:  # a comma may follow
            lines[-1] = longer
        elif len(lines) < MOST_LINES:
            lines[-1] += ","
            lines.append(trait)
        else:
            full = " …"
            break
    return [*lines[:-1], lines[-1] + full]


def _times(shown: Sequence[ClusterProfile], *, days: bool = False) -> list[list[str]]:
    """Return the columns of first and last times. days: whether dates have no time of day."""
    first, last = (np.array(times) for times in zip(*((c.first_seen, c.last_seen) for c in shown), strict=True))
    if first.dtype.kind == "M":
        start, end = dates(*(times.astype("M8[D]") if days else times for times in (first, last)), days=True)
        if days:
            start, end = ([date[: date.index(" ")] if " " in date else date for date in some] for some in (start, end))
        zone = " (UTC)" if ":" in start[0] else ""
        return [aligned(f"first seen{zone}", start), aligned(f"last seen{zone}", end)]
    whole = all(float(t).is_integer() and abs(t) < 1e15 for t in (*first, *last))
    form = ",.0f" if whole else ".10g"
    return [
        aligned(title, [format(t, form) for t in times.tolist()])
        for title, times in (("first seen", first), ("last seen", last))
    ]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
