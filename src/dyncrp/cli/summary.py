"""``dyncrp summary``: the tables of a saved model or a checkpoint, the largest first."""

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
from dyncrp.views.describe import COLUMNS, describe_stream, what_tells_apart
from dyncrp.views.groups import Groups, groups_of

MOST_NAMED = 6  # features in the line about what tells tables apart
LEAST_SHOWN = 1e-6  # relative to the largest number of a column; less is shown as 0
LONGEST_NAME = 24  # characters of a feature's name
HOUR = np.timedelta64(1, "h")
GAP = "  "
WIDEST = 10_000  # characters per line if there is no terminal


def show(file: Path, n_groups: int | None, n_tables: int | None) -> None:
    """Print a line for each of the n_tables largest tables, or for all. With n_groups, add the group of each table."""
    with report_errors():
        checkpoint, stream = read_stream(file)
        if stream is None:
            raise FileError(f"{file} is a checkpoint from before the first row: there are no tables yet")
        asked = None if checkpoint is None else checkpoint.options.get(JOIN)  # as requested for the run
        wanted = asked if n_groups is None else n_groups
        groups = None if wanted is None else groups_of(stream, None if wanted == "auto" else wanted)
        width = shutil.get_terminal_size(fallback=(WIDEST, 24)).columns
        print_result("\n".join(_lines(stream, groups, n_tables, width)))


def _lines(stream: Stream, groups: Groups | None, n_tables: int | None, width: int) -> list[str]:
    """Return the lines to print: the number of tables, a line per table in columns that fit, and what is left out."""
    engine, clock, words = stream.engine, stream.clock, stream.family.sparse
    told = describe_stream(stream, groups)
    order = np.argsort(-told["rows"], kind="stable")[:n_tables]
    head = f"{count(engine.n_tables, 'table')} of {count(int(np.sum(told['rows'])), 'row')}"
    if len(order) < engine.n_tables:
        head += f"; the {len(order):,} largest" if len(order) > 1 else "; the largest"

    told |= {"share": [_percent(share) for share in told["share"].tolist()], **_times(told, clock)}
    own, features = ([name for name in told if (name in COLUMNS) == wanted] for wanted in (True, False))
    parts = {} if words else what_tells_apart(engine, features)
    clear = {name: _clear(values) for name, values in told.items()}
    cells = {name: _column_of(name, [values[i] for i in order], clock) for name, values in clear.items()}
    columns = [_column("table", engine.ids[order].tolist()), *cells.values()]
    if words:  # as many words as fit
        room = max(LONGEST_NAME, width - _total_width(columns[:-1]) - len(GAP))
        columns[-1] = _column("words", [_first_words(told["words"][i], room) for i in order])
    if _total_width(columns) > width:  # then those that tell the most
        columns = [columns[0], *(cells[name] for name in (*own, *(parts or features)))]
    n_shown = len(columns)
    while n_shown > 1 + len(own) and _total_width(columns[:n_shown]) > width:
        n_shown -= 1

    lines = [head, *(GAP.join(cells).rstrip() for cells in zip(*columns[:n_shown], strict=True))]
    if len(order) < engine.n_tables:
        lines.append(f"{count(engine.n_tables - len(order), 'more table')}: --all shows every table")
    if n_shown < len(columns):
        lines.append(f"{count(len(columns) - n_shown, 'more feature')}: model.describe() in Python has all of them")
    if len(parts) > 1 < engine.n_tables:
        listed = ", ".join(f"{_short(name)} {_percent(part)}" for name, part in list(parts.items())[:MOST_NAMED])
        lines.append(f"what tells tables apart: {listed}" + ", …" * (len(parts) > MOST_NAMED))
    return lines


def _column_of(name: str, values: Sequence[Any], clock: Clock) -> list[str]:
    """Return the cells of the named column, its title first."""
    zone = " (UTC)" if clock == Clock.DATES and name in ("first_seen", "last_seen") else ""
    title = name.replace("_", " ") + zone if name in COLUMNS else _short(name)
    if name == "called":
        return _column(title, [_short(value) for value in values], right=False)
    return _column(title, values, right=name in COLUMNS)


def _clear(values: Sequence[Any]) -> Sequence[Any]:
    """Return numbers with 0 for those that are negligible beside the largest, such as traces of a prior in a centre."""
    if any(isinstance(value, (str, np.datetime64)) for value in values):
        return values
    least = LEAST_SHOWN * max(map(abs, values), default=0.0)
    return [value if abs(value) >= least else 0 for value in values]


def _total_width(columns: Sequence[list[str]]) -> int:
    return sum(len(cells[0]) + len(GAP) for cells in columns) - len(GAP)


def _column(title: str, values: Sequence[Any], *, right: bool = True) -> list[str]:
    """Return a title and values as texts of equal length. Numbers are right-aligned, and texts too if ``right``."""
    right = right or not any(isinstance(value, str) for value in values)
    cells = [title, *map(_cell, values)]
    length = max(map(len, cells))
    return [cell.rjust(length) if right else cell.ljust(length) for cell in cells]


def _cell(value: Any) -> str:
    """Return a text as it is, an integer in full, and any other number with four digits.

    >>> [_cell(value) for value in (12345, 12345.6, 0.123456, -0.0, 1.5e-7, 4.1e22, "3 93 %")]
    ['12,345', '12,346', '0.1235', '0', '1.5e-07', '4.1e+22', '3 93 %']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value + 0.0:.4g}"


def _percent(share: float) -> str:
    """Return a share as a percentage; a small one is shown as <1 %.

    >>> _percent(0.5), _percent(0.001), _percent(0.0)
    ('50 %', '<1 %', '0 %')
    """
    return "<1 %" if 0.0 < share < 0.005 else f"{100.0 * share:.0f} %"


def _times(told: dict[str, Any], clock: Clock) -> dict[str, list[str]]:
    """Return first and last times as texts: numbers with the digits in which they differ, shortened dates."""
    seen = {name: told[name] for name in ("first_seen", "last_seen")}
    if clock == Clock.DATES:
        unit = "M8[m]" if np.max(seen["last_seen"]) - np.min(seen["first_seen"]) >= HOUR else "M8[s]"
        return {name: [str(t).replace("T", " ") for t in times.astype(unit)] for name, times in seen.items()}
    form = ",.0f" if clock == Clock.INDEX else ".10g"
    return {name: [format(t, form) for t in times.tolist()] for name, times in seen.items()}


def _first_words(text: str, room: int) -> str:
    """Return as much of a list of words as fits, and at least the first word.

    >>> _first_words("storm (lift 3.1), coast (3), the (1)", 30)
    'storm (lift 3.1), coast (3), …'
    """
    if len(text) <= room:
        return text
    first, *others = text.split(", ")
    while others and len(", ".join([first, *others, "…"])) > room:
        others.pop()
    return ", ".join([first, *others, "…"])


def _short(name: str) -> str:
    """Return the name of a feature, shortened to one line."""
    plain = "".join(letter if letter.isprintable() else " " for letter in name)
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"
