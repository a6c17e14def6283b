"""``dyncrp merge`` and ``dyncrp rename``: edit the tables of a saved model or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dyncrp.cli.errors import print_result, refuse, report_errors, say
from dyncrp.cli.paths import check_writable, is_pipe
from dyncrp.estimator import DynamicalMixture
from dyncrp.input.constraints import as_table
from dyncrp.io.files import FileError
from dyncrp.jobs.edit import edit
from dyncrp.jobs.model_text import count


def merge_tables(file: Path, tables: Sequence[str], output: Path | None) -> None:
    """Merge tables, and print the result."""
    if len(tables) < 2:
        refuse(f"merge needs at least two tables, got {count(len(tables), 'table')}")
    kept: list[int] = []
    given: list[str] = []
    far_apart: list[bool] = []

    def merge(model: DynamicalMixture) -> None:
        first, *others = map(as_table, tables)
        given.extend(map(str, dict.fromkeys(model.resolve([table]).item() for table in (first, *others))))
        for other in others:
            first = model.merge(first, other)
            far_apart.append("far_apart" in model.events_[-1].what)
        kept.append(int(first))

    model = _edit(file, merge, output)
    name = model.names_.get(kept[0])
    called = "" if name is None else f", {name!r}"
    listed = ", ".join(given[:-1]) + " and " + given[-1]
    rows = int(model.engine_.state.sizes[model.table_ids_.tolist().index(kept[0])])
    print_result(f"tables {listed} are table {kept[0]}{called} from now on, with {count(rows, 'row')}")
    if any(far_apart):
        say("they are too far apart for one table: new rows will open other tables; run --groups joins such tables")


def rename_table(file: Path, table: str, name: str, output: Path | None) -> None:
    """Give a table a name, and print it."""
    told: list[tuple[int, str | None]] = []

    def rename(model: DynamicalMixture) -> None:
        found = model.resolve([as_table(table)]).item()
        told.append((found, model.names_.get(found)))
        model.rename(found, name)

    model = _edit(file, rename, output)
    found, before = told[0]
    now = model.names_.get(found)
    was = "" if before in (None, now) else f"; it was called {before!r}"
    print_result(f"table {found} " + ("has no name" if now is None else f"is called {now!r}") + f" from now on{was}")


def _edit(file: Path, change: Callable[[DynamicalMixture], None], output: Path | None) -> DynamicalMixture:
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
