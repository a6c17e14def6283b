"""``dyncrp summary``: the clusters of a saved model or a checkpoint, or its tables, the largest first."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock
from dyncrp.cli.errors import print_result, report_errors
from dyncrp.cli.info import read_stream
from dyncrp.io.files import FileError
from dyncrp.jobs.model_text import count
from dyncrp.jobs.run import JOIN
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters, clusters_of
from dyncrp.views.describe import COLUMNS, describe_stream, what_tells_apart
from dyncrp.views.layout import GAP, LONGEST_NAME, aligned, dates, first_parts, percent, short_name, total_width
from dyncrp.views.profile import profile
from dyncrp.views.profile_text import format_profiles

MOST_NAMED = 6  # features in the line about what tells tables apart
LEAST_SHOWN = 1e-6  # relative to the largest number of a column; less is shown as 0
WIDEST = 10_000  # characters per line if there is no terminal


def show(file: Path, n_clusters: int | None, most: int | None, *, tables: bool) -> None:
    """Print a line for each cluster, or for each table with its cluster if clusters were asked for.

    n_clusters: how many clusters, or None for as many as the run was asked for. most: how many lines, or None for all.
    """
    with report_errors():
        checkpoint, stream = read_stream(file)
        if stream is None:
            raise FileError(f"{file} is a checkpoint from before the first row: there are no clusters yet")
        asked = None if checkpoint is None else checkpoint.options.get(JOIN)
        wanted = (None if asked == "auto" else asked) if n_clusters is None else n_clusters
        width = shutil.get_terminal_size(fallback=(WIDEST, 24)).columns
        if tables:
            clusters = None if wanted is None else clusters_of(stream, wanted)
            print_result("\n".join(_lines(stream, clusters, most, width)))
            return
        try:
            clusters = clusters_of(stream, wanted)
        except ValueError as error:
            if n_clusters is not None:
                raise
            raise FileError(f"{file}: {error}; --tables shows the tables") from None
        print_result("\n".join(_cluster_lines(stream, clusters, most, width)))


def _cluster_lines(stream: Stream, clusters: Clusters, most: int | None, width: int) -> list[str]:
    """Return the lines to print: how many clusters there are, and a table of them that fits."""
    found = profile(stream, clusters)
    rows, tables = sum(cluster.rows for cluster in found), count(len(clusters.table_ids), "table")
    head = f"{count(len(found), 'cluster')} of {count(rows, 'row')}, in {tables}"
    return [head, format_profiles(found, width, most)]


def _lines(stream: Stream, clusters: Clusters | None, n_tables: int | None, width: int) -> list[str]:
    """Return the lines to print: the number of tables, a line per table in columns that fit, and what is left out."""
    engine, clock, words = stream.engine, stream.clock, stream.family.sparse
    told = describe_stream(stream, clusters)
    order = np.argsort(-told["rows"], kind="stable")[:n_tables]
    head = f"{count(engine.n_tables, 'table')} of {count(int(np.sum(told['rows'])), 'row')}"
    if len(order) < engine.n_tables:
        head += f"; the {len(order):,} largest" if len(order) > 1 else "; the largest"

    told |= {"share": [percent(share) for share in told["share"].tolist()], **_times(told, clock)}
    own, features = ([name for name in told if (name in COLUMNS) == wanted] for wanted in (True, False))
    parts = {} if words else what_tells_apart(engine, features)
    clear = {name: _clear(values) for name, values in told.items()}
    cells = {name: _column_of(name, [values[i] for i in order], clock) for name, values in clear.items()}
    columns = [aligned("table", engine.ids[order].tolist()), *cells.values()]
    if words:  # as many words as fit
        room = max(LONGEST_NAME, width - total_width(columns[:-1]) - len(GAP))
        columns[-1] = aligned("words", [first_parts(told["words"][i], room) for i in order])
    if total_width(columns) > width:  # then those that tell the most
        columns = [columns[0], *(cells[name] for name in (*own, *(parts or features)))]
    n_shown = len(columns)
    while n_shown > 1 + len(own) and total_width(columns[:n_shown]) > width:
        n_shown -= 1

    lines = [head, *(GAP.join(cells).rstrip() for cells in zip(*columns[:n_shown], strict=True))]
    if len(order) < engine.n_tables:
        lines.append(f"{count(engine.n_tables - len(order), 'more table')}: --all shows every table")
    if n_shown < len(columns):
        lines.append(f"{count(len(columns) - n_shown, 'more feature')}: model.describe() in Python has all of them")
    if len(parts) > 1 < engine.n_tables:
        listed = ", ".join(f"{short_name(name)} {percent(part)}" for name, part in list(parts.items())[:MOST_NAMED])
        lines.append(f"what tells tables apart: {listed}" + ", …" * (len(parts) > MOST_NAMED))
    return lines


def _column_of(name: str, values: Sequence[Any], clock: Clock) -> list[str]:
    """Return the cells of the named column, its title first."""
    zone = " (UTC)" if clock == Clock.DATES and name in ("first_seen", "last_seen") else ""
    title = name.replace("_", " ") + zone if name in COLUMNS else short_name(name)
    if name == "called":
        return aligned(title, [short_name(value) for value in values], right=False)
    return aligned(title, values, right=name in COLUMNS)


def _clear(values: Sequence[Any]) -> Sequence[Any]:
    """Return numbers with 0 for those that are negligible beside the largest, such as traces of a prior in a centre."""
    if any(isinstance(value, (str, np.datetime64)) for value in values):
        return values
    least = LEAST_SHOWN * max(map(abs, values), default=0.0)
    return [value if abs(value) >= least else 0 for value in values]


def _times(told: dict[str, Any], clock: Clock) -> dict[str, list[str]]:
    """Return first and last times as texts: numbers with the digits in which they differ, shortened dates."""
    seen = {name: told[name] for name in ("first_seen", "last_seen")}
    if clock == Clock.DATES:
        return dict(zip(seen, dates(*seen.values()), strict=True))
    form = ",.0f" if clock == Clock.INDEX else ".10g"
    return {name: [format(t, form) for t in times.tolist()] for name, times in seen.items()}
