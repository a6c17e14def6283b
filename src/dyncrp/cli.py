"""The command line: parses, prints; no mathematics. Needs typer and rich: ``pip install 'dyncrp[cli]'``."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

import dyncrp
from dyncrp import demo as job
from dyncrp import plots, runs, tables
from dyncrp.expressions import as_options, as_python, brief, other_settings, parse_model

BAD_DATA, USAGE = 1, 2  # exit codes; a signal's is 128 and its number
PLAIN_EVERY = 10.0  # seconds between two lines of progress, if there is no terminal
COMPILING_AFTER = 2.0  # seconds after which a start must be compiling
STDOUT = "standard output"
LONGEST_OPTION = 100_000  # characters that a shell takes in one

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streaming, infinite, non-stationary clustering.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"dyncrp {dyncrp.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    n: Annotated[
        int | None, typer.Option("--n", min=10, help="Observations to sample.", show_default="1500; rooms: 3000")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the stream.", show_default="26; rooms: 5")] = None,
    figure: Annotated[Path, typer.Option(help="Where to draw it: PNG, SVG or PDF.")] = Path("dyncrp-demo.png"),
    rooms: Annotated[
        bool, typer.Option("--rooms", help="Cluster what a robot sees on its way through a building into places.")
    ] = False,
) -> None:
    """Sample a stream, or a walk through a building; cluster it, compare with the truth, draw it."""
    _check_writable(figure, "--figure", figure=True)
    if rooms:
        _demo_rooms(3000 if n is None else n, 5 if seed is None else seed, figure)
    else:
        _demo_stream(1500 if n is None else n, 26 if seed is None else seed, figure)


def _demo_rooms(n: int, seed: int, figure: Path) -> None:
    console = Console()
    house = job.sample_rooms(n, seed)
    console.print(
        f"A robot walks {n} steps through a building of {job.N_ROOMS} rooms and hallways, and sees some of "
        f"{len(house.landmarks)} landmarks at each"
    )
    with console.status("compiling the engine (the first time only, then it is kept on disk)"):
        job.find_rooms(job.sample_rooms(10, 0), *job.ROOM_MODELS["sticky"])
    table = Table("", "places", "true", "AMI", "returns to a room recognised", "log evidence")
    found = {name: job.find_rooms(house, *told) for name, told in job.ROOM_MODELS.items()}
    for name, places in found.items():
        score, back = places.agreement, places.returns
        recognised = f"{int(np.sum(back.recognised))} of {len(back.steps)}"
        counts = str(score.n_clusters), str(score.n_true)
        table.add_row(name, *counts, f"{score.ami:.3f}", recognised, f"{places.log_evidence:.1f}")
    console.print(table)
    plots.buildings(house, found["sticky"].labels).savefig(figure, dpi=150)
    console.print(f"Figure: {figure}")


def _demo_stream(n: int, seed: int, figure: Path) -> None:
    console = Console()
    stream = job.sample_stream(n, seed)
    console.print(f"{n} observations from {len(stream.parameters)} clusters that come, go and come back")
    console.print(f"alpha = {job.ALPHA}, dynamics = {job.DYNAMICS}", highlight=False)
    with console.status("compiling the engine (the first time only, then it is kept on disk)"):
        job.cluster(job.sample_stream(10, 0), job.DYNAMICS, lambda _: None)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes, usual = {}, {}
    with Progress(*columns, console=console) as progress:
        for name, dynamics in job.MODELS.items():
            task = progress.add_task(f"clustering, {name}", total=n)
            outcomes[name] = job.cluster(stream, dynamics, partial(progress.advance, task))
        for name, dynamics in job.MODELS.items():
            task = progress.add_task(f"20 other streams, {name}", total=20 * n)
            usual[name] = job.mean_ami(n, range(20), dynamics, partial(progress.advance, task))
    table = Table("", "clusters", "true", "AMI", "NMI", "log evidence", "obs/s")
    for name, found in outcomes.items():
        score = found.agreement
        counts = str(score.n_clusters), str(score.n_true)
        table.add_row(
            name, *counts, f"{score.ami:.3f}", f"{score.nmi:.3f}", f"{found.log_evidence:.1f}", f"{found.rate:,.0f}"
        )
    console.print(table)
    means = ", ".join(f"{name} {mean:.3f} ± {error:.3f}" for name, (mean, error) in usual.items())
    console.print(f"Mean AMI over 20 streams (seeds 0 to 19) ± standard error: {means}", highlight=False)
    found = outcomes["right dynamics"]
    drawing = plots.stream(
        stream.observations,
        found.labels,
        job.DYNAMICS,
        truth=stream.labels,
        responsibilities=found.responsibilities,
    )
    drawing.savefig(figure, dpi=150)
    console.print(f"Figure: {figure}")


def _check_writable(path: Path, option: str, *, figure: bool = False) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}", param_hint=option)
    if figure and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"{path} must end in .png, .svg or .pdf", param_hint=option)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written", param_hint=option)


Input = Annotated[
    str, typer.Argument(metavar="INPUT", help="A .csv, .tsv, .jsonl, .parquet or .npy file, or - for standard input.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="csv, jsonl, parquet or npy; by default, the suffix says.")
]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Features, by name: x,y,z. By default, all but the time column.")
]
TimeColumn = Annotated[
    str | None,
    typer.Option("--time-column", help="Numbers or ISO 8601 dates. By default, time is the index of the row."),
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Of CSV; by default, a comma, or a tab in .tsv.")]
Decimal = Annotated[str, typer.Option("--decimal", help="Of numbers in CSV: a point, or a comma, as in 0,5.")]
Header = Annotated[bool, typer.Option("--header/--no-header", help="Whether CSV begins with names; else 0, 1, 2, …")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out rows with bad cells instead of stopping there.")]
Family = Annotated[
    str | None,
    typer.Option("--family", help="gaussian (by default), gaussian_unknown_variance, bernoulli or von_mises_fisher."),
]
Dynamics = Annotated[
    list[str] | None,
    typer.Option("--dynamics", help='Such as "0.999*exponential(2h) + 0.001*stationary()"; several are a choice.'),
]
Alpha = Annotated[float | None, typer.Option("--alpha", help="How readily new tables open.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the family or the model: variance=1, warmup=500."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on standard error but errors.")]


@app.command()
def run(
    input: Input,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A .csv, .jsonl or .parquet file, or - for standard output.")
    ] = "-",
    format: Format = None,
    columns: Columns = None,
    time_column: TimeColumn = None,
    keep: Annotated[str | None, typer.Option("--keep", help="Columns to copy to the output, by name, or all.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    header: Header = True,
    skip_bad: SkipBad = False,
    family: Family = None,
    dynamics: Dynamics = None,
    alpha: Alpha = None,
    settings: Settings = None,
    model: Annotated[Path | None, typer.Option("--model", help="Go on with a model that was saved.")] = None,
    output_format: Annotated[
        str | None, typer.Option("--output-format", help="csv, jsonl or parquet; by default, the suffix says, or csv.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an output or checkpoint that is there.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Where to keep the state, to go on after any stop.")
    ] = None,
    every: Annotated[int, typer.Option("--every", min=1, help="Rows from one checkpoint to the next.")] = 100_000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Where to save the model in the end.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the timeline of tables: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Cluster the rows of a table: write each row's table, its probability and its novelty, while reading.

    What is not given of family, dynamics and alpha is learnt from the first rows. Exit codes: 0 done, 1 bad data or a
    file that cannot be read or written, 2 wrong usage, 130 or 143 stopped by Ctrl-C or SIGTERM.
    """
    given_format = _format(input, format)
    result_format = _output_format(output, output_format)
    selection = _selection(input, columns, time_column, keep, delimiter, decimal, header, skip_bad)
    files = tables.OUTPUTS[result_format].files(output)
    _check_files(input, files, checkpoint, save, plot, model)
    if plot is not None:
        _check_writable(plot, "--plot", figure=True)
    if resume and checkpoint is None:
        _usage("--resume needs --checkpoint FILE, to go on from")
    if checkpoint is not None and _is_pipe(output):
        _usage("--checkpoint needs --output FILE: what went to a pipe cannot be taken back")
    if model is not None and (family or dynamics or alpha is not None or settings):
        _usage("--model brings its own family, dynamics, alpha and settings: give none of them")
    options = {
        "--format": given_format,
        "--columns": None if selection.columns is None else list(selection.columns),
        "--time-column": time_column,
        "--keep": None if selection.keep is None else list(selection.keep),
        "--delimiter": selection.delimiter,
        "--decimal": None if decimal == "." else decimal,
        "--header": header,
        "--skip-bad": skip_bad,
        "--family": family,
        "--dynamics": dynamics or [],
        "--alpha": alpha,
        "--set": sorted(settings or []),
        "--output-format": result_format,
    }
    with _errors():  # before signals wait for the present chunk
        parsed = parse_model(family, dynamics or [], alpha, settings or [], units=time_column is not None)
    with _errors(), runs.Stop() as stop:
        if model is not None:
            start = dyncrp.DynamicalMixture.load(model)
            options["--model"] = hashlib.sha256(model.read_bytes()).hexdigest()
        else:
            start = parsed
        before = _before(files, checkpoint, resume, force, quiet)
        stop.waiting = input == "-"
        with tables.open_table(input, given_format, selection, min(every, runs.MOST_ROWS)) as table:
            stop.waiting = False
            _tell_features(table, quiet)
            result = tables.OUTPUTS[result_format](output, table)
            work = runs.Run(
                table,
                result,
                start,
                checkpoint=None if checkpoint is None else str(checkpoint),
                every=every,
                options=options,
            )
            if before is not None:
                work.resume(before)
            _go(work, stop, quiet)
        if save is not None:
            if not work.rows and model is None:
                raise tables.TableError(f"{table.name} has no rows, so there is no model to save")
            work.model.save(save)
        if plot is not None and work.rows:
            figure = plots.timeline(
                work.timeline.times,
                work.timeline.tables,
                work.timeline.novelty,
                step=work.timeline.step,
                dated=table.clock not in (None, tables.NUMBERS),
                name=time_column or "row",
            )
            figure.savefig(plot, dpi=200)


def _tell_features(table: tables.Table, quiet: bool) -> None:
    """Say what is clustered, if nobody has chosen it: an index or an id may be among it."""
    if table.selection.columns is None:
        _say(quiet, f"features: {runs.shown(table.features)}")


def _go(work: runs.Run, stop: runs.Stop, quiet: bool) -> None:
    """Run to the end or to a signal, and say how it went."""
    begin, rows = monotonic(), work.rows
    try:
        with _Display(quiet) as display:
            work.go(stop, display.report, display.starting)
    except runs.Stopped as stopped:
        _say(quiet, f"stopped after {work.rows:,} rows")
        if work.checkpoint is None:
            _say(quiet, "there is no --checkpoint to go on from")
        else:
            again = sys.argv[1:] + ([] if "--resume" in sys.argv else ["--resume"])
            _say(quiet, f"go on with: {shlex.join(['dyncrp', *again])}")
        raise typer.Exit(128 + stopped.args[0]) from None
    finally:
        work.output.close()
    seconds = monotonic() - begin
    rate = f" ({(work.rows - rows) / seconds:,.0f} a second)" if work.rows > rows else ""
    _say(quiet, f"{work.rows - rows:,} rows in {seconds:.1f} s{rate}" + (f", {work.rows:,} in all" if rows else ""))
    if work.rows:
        model = work.model
        opened = model._engine.n_opened
        open_ones = f" open, {opened:,} were opened" if opened > model.n_tables_ else ""
        _say(quiet, f"{model.n_tables_:,} tables{open_ones}, log evidence {model.log_evidence_:.1f}")
        _say(quiet, f"{brief(model.family_)}, {model.dynamics_!r}, alpha {model.alpha_:.6g}")
    if work.n_bad:
        if not work.rows:
            raise work.table.error(f": all {work.n_bad:,} rows are bad: {work.faults[0]}")
        more = f"; and {work.n_bad - len(work.faults):,} more" if work.n_bad > len(work.faults) else ""
        _say(quiet, f"{work.n_bad:,} bad rows were left out: {'; '.join(work.faults)}{more}")


class _Display:
    """What is said on standard error while a run is under way: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.begin = self.last = monotonic()
        self.first: tuple[int, float] | None = None
        self.alarm: threading.Timer | None = None

    def __enter__(self) -> _Display:
        if not self.quiet and self.console.is_terminal:
            columns = (TextColumn("{task.fields[rows]}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.bar.add_task("", total=1.0, rows="reading", left="")
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._started()
        if self.bar is not None:
            self.bar.stop()

    def starting(self, learning: int) -> None:
        """Say what takes long before the first chunk: learning, or compiling if it takes more than a moment."""
        if learning:
            self._line(f"learning the unknown from the first {learning:,} rows (the first time takes a minute)")
        else:
            message = "compiling the engine (the first time only, then it is kept on disk)"
            self.alarm = threading.Timer(COMPILING_AFTER, self._line, [message])
            self.alarm.daemon = True
            self.alarm.start()

    def _started(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def report(self, work: runs.Run) -> None:
        """Show how far a run is."""
        self._started()
        now, share = monotonic(), work.progress
        if self.first is None:  # what came before, and the start, tell nothing of the rate
            self.first, self.begin = (work.rows, share or 0.0), now
        seconds = now - self.begin
        rate = (work.rows - self.first[0]) / seconds if seconds else 0.0
        tables = f"{work.model.n_tables_:,} tables" if work.rows else "no tables"
        status = f"{work.rows:,} rows" + (f", {rate:,.0f} a second" if rate else "") + f", {tables}"
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


@app.command()
def tune(
    input: Input,
    format: Format = None,
    columns: Columns = None,
    time_column: TimeColumn = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    header: Header = True,
    skip_bad: SkipBad = False,
    family: Family = None,
    dynamics: Dynamics = None,
    alpha: Alpha = None,
    settings: Settings = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw what was tried: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Print the hyperparameters that the evidence of the first rows chooses, as a command and as Python, to paste."""
    given_format = _format(input, format)
    selection = _selection(input, columns, time_column, None, delimiter, decimal, header, skip_bad)
    if plot is not None:
        _check_writable(plot, "--plot", figure=True)
    with _errors():
        wanted = parse_model(family, dynamics or [], alpha, settings or [], units=time_column is not None)
        X, times = [], []
        with tables.open_table(input, given_format, selection, runs.MOST_ROWS) as table:
            _tell_features(table, quiet)
            for chunk in table.chunks():
                X.append(chunk.X)
                times += [chunk.times] if chunk.times is not None else []
                if sum(map(len, X)) >= wanted.warmup:
                    break
        rows = np.concatenate(X)[: wanted.warmup] if X else np.empty((0, 1))
        if len(rows) < 2:
            raise tables.TableError(f"{table.name} has {len(rows)} rows, and two at least are needed to learn from")
        with _Display(quiet) as display:
            display.starting(len(rows))
            try:
                model, candidates = dyncrp.tune(
                    rows,
                    np.concatenate(times)[: wanted.warmup] if times else None,
                    family=wanted.family,
                    dynamics=wanted.dynamics,  # type: ignore[arg-type]
                    alpha=wanted.alpha,  # type: ignore[arg-type]
                    warmup=wanted.warmup,
                    resolution=wanted.resolution,
                    n_jobs=wanted.n_jobs,
                )
            except ValueError as error:
                raise tables.TableError(f"{table.name}: {error}") from error
        found: Any = model.family, model.dynamics, model.alpha
        more = other_settings(wanted)
        given: list[tuple[str, str | None]] = [("--format", format), ("--columns", columns)]
        given += [("--time-column", time_column), ("--delimiter", delimiter)]
        given += [("--decimal", None if decimal == "." else decimal)]
        reading = [part for name, value in given if value is not None for part in (name, value)]
        reading += ([] if header else ["--no-header"]) + (["--skip-bad"] if skip_bad else [])
        command = ["dyncrp", "run", input, *reading, *as_options(*found, **more)]
        if max(map(len, command)) > LONGEST_OPTION:
            _say(quiet, "the options are too long for a shell; run without them, which learns the same from these rows")
        _print(shlex.join(command))
        _print(as_python(*found, **more))
        chosen = next((c for c in candidates if c.chosen), None)
        if chosen is not None:
            _say(quiet, f"the best of {len(candidates)} candidates: {chosen.n_tables} tables in {len(rows):,} rows")
        if plot is not None:
            plots.evidence(candidates).savefig(plot, dpi=150)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model or a checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell what a saved model or a checkpoint holds."""
    with _errors():
        try:
            checkpoint = runs.read_checkpoint(str(file))
            model = dyncrp.DynamicalMixture.load(file) if checkpoint is None else checkpoint.model
        except ValueError as error:
            raise tables.TableError(str(error)) from error
    facts: dict[str, Any] = {"holds": "a model" if checkpoint is None else "a checkpoint"}
    if model is None:
        facts["holds"] = "a checkpoint without a model, from before the first row"
    else:
        facts |= {
            "family": repr(model.family_),
            "dynamics": repr(model.dynamics_),
            "alpha": model.alpha_,
            "features": model.n_features_in_,
            "observations": model.n_observations_,
            "times": model._clock,
            "tables": model.n_tables_,
            "log evidence": model.log_evidence_,
        }
    if checkpoint is not None:
        state = checkpoint.run
        facts |= {
            "input": state["input"],
            "output": state["output"],
            "rows read": state["place"]["row"],
            "rows labelled": state["rows"],
            "bad rows": state["n_bad"],
            "finished": state["finished"],
            "options": {name: value for name, value in state["options"].items() if value not in (None, [], False)},
        }
    if model is not None:
        order = np.argsort(-model.occupancies_, kind="stable")[:10]
        largest = [{"table": int(model.table_ids_[i]), "occupancy": float(model.occupancies_[i])} for i in order]
        facts["largest tables"] = largest
        facts["options to paste"] = as_options(model.family_, model.dynamics_, model.alpha_, **other_settings(model))
    if as_json:
        with _errors():
            _print(json.dumps(facts))
        return
    if model is not None:
        facts["family"] = brief(model.family_)
        facts["largest tables"] = ", ".join("{table} ({occupancy:.4g})".format(**table) for table in largest)
        options = shlex.join(facts.pop("options to paste"))
        if len(options) <= 1000:
            facts["to paste"] = options
    lines = []
    for name, value in facts.items():
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        lines.append(f"{name + ':':<15} {text}")
    with _errors():
        _print("\n".join(lines))


def _format(input: str, format: str | None) -> str:
    """Return the format of the input, as given or as its suffix says."""
    if format is not None:
        if format not in tables.TABLES:
            _usage(f"--format must be one of {', '.join(tables.TABLES)}, got {format}")
        return format
    if input == "-":
        _usage(f"standard input needs --format: one of {', '.join(tables.TABLES)}")
    found = tables.SUFFIXES.get(Path(input).suffix.lower())
    if found is None:
        _usage(f"{input} has none of the suffixes {', '.join(tables.SUFFIXES)}: give --format")
    return found


def _output_format(output: str, format: str | None) -> str:
    """Return the format of the output, as given or as its suffix says; CSV to standard output."""
    found = format or ("csv" if output == "-" else tables.SUFFIXES.get(Path(output).suffix.lower()))
    if found not in tables.OUTPUTS or (format is None and Path(output).suffix.lower() == ".tsv"):
        kinds = ", ".join(tables.OUTPUTS)
        _usage(f"the output is one of {kinds}, by its suffix or --output-format; got {format or output}")
    if found == "parquet" and _is_pipe(output):
        _usage("Parquet needs --output FILE: it cannot be written to a pipe")
    return found


def _is_pipe(output: str) -> bool:
    """Tell whether an output is standard output, or a device such as /dev/null."""
    return output == "-" or (os.path.exists(output) and not os.path.isfile(output))


def _selection(
    input: str,
    columns: str | None,
    time_column: str | None,
    keep: str | None,
    delimiter: str | None,
    decimal: str,
    header: bool,
    skip_bad: bool,
) -> tables.Selection:
    if delimiter is None:
        delimiter = "\t" if input.lower().endswith(".tsv") else ","
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        _usage(f"--delimiter must be one character, and no quote or line end, got {delimiter!r}")
    if decimal not in (".", ","):
        _usage(f"--decimal must be . or , and is {decimal!r}")
    if decimal == delimiter:
        _usage(f"--decimal and --delimiter are both {decimal!r}: give another --delimiter, such as ';'")
    names = None if columns is None else _names(columns)
    kept = () if keep is None else None if keep == "all" else _names(keep)
    if names is not None and (not names or len(set(names)) < len(names) or time_column in names):
        _usage(f"--columns must name each feature once, and not the time column, got {columns}")
    if kept is not None and len(set(kept)) < len(kept):
        _usage(f"--keep must name each column once, got {keep}")
    return tables.Selection(names, time_column, kept, skip_bad, delimiter, header, decimal)


def _names(text: str) -> tuple[str, ...]:
    """Return names between commas; one with a comma in it stands in double quotes."""
    try:
        return tuple(name.strip() for name in next(csv.reader([text]), []))
    except csv.Error:
        _usage(f"names of columns stand on one line, with commas between them, got {text!r}")


def _check_files(
    input: str,
    files: tuple[str, ...],
    checkpoint: Path | None,
    save: Path | None,
    plot: Path | None,
    model: Path | None,
) -> None:
    """Refuse files that cannot be, before any work is done. files: the output, and what it needs beside it."""
    named = {"INPUT": input, "--output": files[0], "--model": model}
    named |= {f"the {Path(file).suffix} of --output": file for file in files[1:]}
    named |= {"--checkpoint": checkpoint, "--save": save, "--plot": plot}
    paths: dict[str, str] = {}
    for option, path in named.items():
        if path is None or str(path) == "-":
            continue
        real = os.path.realpath(path)
        if real in paths and {option, paths[real]} != {"--save", "--model"}:
            _usage(f"{option} and {paths[real]} are the same file, {path}")
        paths[real] = option
        if option not in ("INPUT", "--model", "--plot"):
            _check_writable(Path(path), option)
        if option in ("--checkpoint", "--save") and _is_pipe(str(path)):  # a new file would take its place
            _usage(f"{option} needs a file, and {path} is none")


def _before(
    files: tuple[str, ...], checkpoint: Path | None, resume: bool, force: bool, quiet: bool
) -> runs.Checkpoint | None:
    """Return the checkpoint to go on from, if there is one; make sure that nothing is lost that should not be."""
    if resume and checkpoint is not None and checkpoint.exists():
        found = runs.read_checkpoint(str(checkpoint))
        if found is None:
            _usage(f"{checkpoint} is a saved model, not a checkpoint")
        if not found.run["rows"]:
            _say(quiet, f"{checkpoint} has no rows yet: beginning at the beginning")
        elif found.run["finished"]:
            _say(quiet, f"{checkpoint} is finished: looking for new rows after row {found.run['place']['row']:,}")
        else:
            _say(quiet, f"going on from {checkpoint}, after row {found.run['place']['row']:,}")
        return found
    if resume:
        for grown in map(Path, files):
            if grown.is_file() and grown.stat().st_size and not force:
                _usage(f"there is no checkpoint {checkpoint}, but {grown} exists: give --force to replace it")
        _say(quiet, f"there is no {checkpoint} yet: beginning at the beginning")
        return None
    for path in (*map(Path, files), checkpoint):
        if path is not None and path.is_file() and not force and str(path) != "-":
            hint = "--resume to go on from it, or --force" if path == checkpoint else "--force"
            _usage(f"{path} exists: give {hint} to replace it")
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return None


@contextmanager
def _errors() -> Iterator[None]:
    """Turn what may go wrong into a line on standard error and an exit code."""
    try:
        yield
    except BrokenPipeError:  # whoever read our output has seen enough
        _give_up_output()
    except runs.Stopped as stopped:
        _fail("stopped", 128 + stopped.args[0])
    except tables.TableError as error:
        _fail(str(error), BAD_DATA)
    except ValueError as error:
        _fail(str(error), USAGE)
    except OSError as error:
        if error.filename == STDOUT:
            _give_up_output()
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", BAD_DATA)
    except MemoryError:
        _fail("there is not enough memory", BAD_DATA)


def _give_up_output() -> None:
    """Let what is left for standard output go nowhere, or Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str) -> None:
    """Print a result, and make sure that it arrives."""
    if sys.stdout is None:
        raise tables.TableError(f"{STDOUT} is closed")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, STDOUT) from None


def _usage(message: str) -> NoReturn:
    _fail(message, USAGE)


def _fail(message: str, code: int) -> NoReturn:
    _say(False, message)
    raise typer.Exit(code)


def _say(quiet: bool, message: str) -> None:
    if not quiet and sys.stderr is not None:  # closed; None would mean standard output to print
        print(f"dyncrp: {message}", file=sys.stderr, flush=True)
