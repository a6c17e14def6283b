"""The progress of a run on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dyncrp.cli.errors import say
from dyncrp.io.readers import Reader
from dyncrp.jobs.model_text import count
from dyncrp.jobs.run import Run, join_names

USUAL_WIDTH = 100  # characters per line, if there is no terminal
PLAIN_EVERY = 10.0  # seconds between two lines of progress, if there is no terminal


class Display:
    """Show the progress of a run. ``Run.execute`` calls ``on_start`` and ``report``."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.begin = self.last = monotonic()
        self.first: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            columns = (TextColumn("{task.fields[rows]}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.bar.add_task("", total=1.0, rows="reading", left="")
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def on_start(self, n_to_learn_from: int) -> None:
        """Print that hyperparameters are learned first, if they are."""
        if n_to_learn_from:
            self._line(f"learning the hyperparameters from the first {count(n_to_learn_from, 'row')}")

    def report(self, job: Run) -> None:
        """Show the progress of a run."""
        now, share = monotonic(), job.progress
        if self.first is None:  # the rate is measured from here on
            self.first, self.begin = (job.n_rows, share or 0.0), now
        seconds = now - self.begin
        rate = (job.n_rows - self.first[0]) / seconds if seconds else 0.0
        tables = count(job.stream.engine.n_tables, "table") if job.n_rows else "no tables"
        status = count(job.n_rows, "row") + (f", {rate:,.0f} per second" if rate else "") + f", {tables}"
        left = ""
        if share is not None and share > self.first[1]:
            left = f"{seconds * (1.0 - share) / (share - self.first[1]):.0f} s left"
        if self.bar is not None:
            self.bar.update(TaskID(0), completed=share, rows=status, left=left)
        elif now - self.last >= PLAIN_EVERY:
            self.last = now
            self._line(f"{status}, {left}" if left else status)

    def _line(self, text: str) -> None:
        if not self.quiet:
            self.console.print(f"dyncrp: {text}", highlight=False, markup=False, soft_wrap=True)


def terminal_width(fallback: int = USUAL_WIDTH) -> int:
    """Return the width of the terminal that shows standard error."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (AttributeError, OSError, ValueError):  # it is a file or a pipe, or closed
        return fallback


def show_features(reader: Reader, quiet: bool) -> None:
    """Print what was found in the first rows, and the features if they were not selected: one may be an id."""
    for note in reader.notes:
        say(note, quiet=quiet)
    if reader.selection.columns is None:
        say(f"features: {join_names(reader.features)}", quiet=quiet)
