"""``dyncrp merge`` and ``dyncrp rename``: edit the tables of a saved model or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dyncrp.cli.errors import print_result, refuse, report_errors, say
from dyncrp.cli.paths import check_writable, is_pipe
from dyncrp.input.constraints import as_table
from dyncrp.io.files import FileError
from dyncrp.jobs.edit import edit
from dyncrp.jobs.model_text import count
from dyncrp.stream.stream import Stream


def merge_tables(file: Path, tables: Sequence[str], output: Path | None) -> None:
    """Merge tables, and print the result."""
    if len(tables) < 2:
        refuse(f"merge needs at least two tables, got {count(len(tables), 'table')}")
    given: list[int] = []
    far_apart: list[bool] = []

    def merge(stream: Stream) -> None:
        first, *others = map(as_table, tables)
        given.extend(stream.resolve([first, *others]).tolist())
        for other in others:
            first = stream.merge(first, other)
            far_apart.append("far_apart" in stream.events()[-1].what)

    stream = _edit(file, merge, output)
    kept = min(given)
    name = stream.names.get(kept)
    called = "" if name is None else f", {name!r}"
    *some, last = map(str, dict.fromkeys(given))
    rows = int(stream.engine.seating.sizes[stream.engine.ids.tolist().index(kept)])
    listed = f"{', '.join(some)} and {last}"
    print_result(f"tables {listed} are table {kept}{called} from now on, with {count(rows, 'row')}")
    if any(far_apart):
        say("they are too far apart for one table: new rows will open other tables; run --groups joins such tables")


def rename_table(file: Path, table: str, name: str, output: Path | None) -> None:
    """Give a table a name, and print it."""
    told: list[tuple[int, str | None]] = []

    def rename(stream: Stream) -> None:
        found = stream.find(as_table(table))
        told.append((found, stream.names.get(found)))
        stream.rename(found, name)

    stream = _edit(file, rename, output)
    [(found, before)] = told
    now = stream.names.get(found)
    was = "" if before in (None, now) else f"; it was called {before!r}"
    print_result(f"table {found} " + ("has no name" if now is None else f"is called {now!r}") + f" from now on{was}")


def _edit(file: Path, change: Callable[[Stream], None], output: Path | None) -> Stream:
    if output is not None:
        check_writable(output, "--output")
        if is_pipe(output):
            refuse(f"--output needs a regular file, and {output} is not one")
    with report_errors():
        try:
            return edit(str(file), change, None if output is None else str(output))
        except FileError:
            raise
        except ValueError as error:
            prefix = "" if str(error).startswith(str(file)) else f"{file}: "
            raise FileError(f"{prefix}{error}") from error
