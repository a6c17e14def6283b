"""The commands and their options. A command imports what it needs when it runs, so that help is fast."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

import dyncrp
from dyncrp.cli.options import (
    RENAMED,
    CheckpointOptions,
    InputOptions,
    ModelOptions,
    OutputOptions,
    Quiet,
    expand_groups,
)

MOST_TABLES_SHOWN = 20
SHOWN = f"all; with --tables, {MOST_TABLES_SHOWN}"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streaming, infinite, non-stationary clustering.",
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"dyncrp {dyncrp.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    n: Annotated[
        int | None, typer.Option("--n", min=10, help="Number of observations.", show_default="1500; rooms: 3000")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the stream.", show_default="20; rooms: 5")] = None,
    figure: Annotated[Path, typer.Option(help="File of the figure: PNG, SVG or PDF.")] = Path("dyncrp-demo.png"),
    rooms: Annotated[
        bool, typer.Option("--rooms", help="Cluster what a robot sees on a walk through a building into places.")
    ] = False,
) -> None:
    """Sample a stream, or a walk through a building. Cluster it, compare it with the truth, and draw it."""
    from dyncrp.cli.demo import demo_rooms, demo_stream
    from dyncrp.cli.paths import check_writable

    check_writable(figure, "--figure", figure=True)
    if rooms:
        demo_rooms(3000 if n is None else n, 5 if seed is None else seed, figure)
    else:
        demo_stream(1500 if n is None else n, 20 if seed is None else seed, figure)


@app.command()
@expand_groups
def run(
    source: InputOptions,
    target: OutputOptions,
    model_options: ModelOptions,
    checkpointing: CheckpointOptions,
    model: Annotated[Path | None, typer.Option(help="Continue with a saved model.")] = None,
    save: Annotated[Path | None, typer.Option(help="Where to save the model at the end.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a timeline of the clusters: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Find clusters in the rows of a file, tell what is typical of each, and label every row.

    \b
    dyncrp run data.csv
    dyncrp run data.csv --time-column when --exclude id --plot timeline.png
    dyncrp run messages.jsonl --text message --clusters 8 -o labels.parquet
    cat data.csv | dyncrp run - --format csv --columns x,y --alarm-rate 0.001

    Only the file is needed. Which columns to use and how they are read is found from the first rows, and printed.

    Exit codes: 0 done, 1 bad data or a bad file, 2 wrong usage, 130 or 143 stopped by Ctrl-C or SIGTERM.
    """
    from dyncrp.cli.run import run_file

    run_file(source, target, model_options, checkpointing, model, save, plot, quiet)


@app.command()
@expand_groups
def tune(
    source: InputOptions,
    model_options: ModelOptions,
    plot: Annotated[Path | None, typer.Option(help="Draw the candidates: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Learn hyperparameters from the first rows by evidence. Print them as a command and as Python code."""
    from dyncrp.cli.tune import tune_file

    tune_file(source, model_options, plot, quiet)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model or a checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the contents of a saved model or a checkpoint."""
    from dyncrp.cli.info import show

    show(file, as_json)


@app.command()
def summary(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model or a checkpoint.")],
    clusters: Annotated[
        int | None, typer.Option(min=1, help="How many clusters.", show_default="as many as stand out")
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Show the tables, of which clusters are made.")] = False,
    n: Annotated[
        int | None, typer.Option("-n", min=1, help="How many to show, the largest first.", show_default=SHOWN)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show all of them.")] = False,
    groups: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Show the clusters of a saved model or a checkpoint: rows, first and last time, and what is typical of each."""
    from dyncrp.cli.errors import refuse
    from dyncrp.cli.summary import show

    if groups is not None:
        refuse(RENAMED)
    show(file, clusters, None if every else MOST_TABLES_SHOWN if tables and n is None else n, tables=tables)


@app.command()
def serve(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DATA_FOLDER", help="The folder of the streams; created if needed.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; if other machines can reach it, it needs a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="The token that requests must bring; safer in DYNCRP_TOKEN, which other users cannot see."),
    ] = None,
    sync: Annotated[
        bool, typer.Option(help="Wait for the disk before answering; if not, a power cut may lose the last second.")
    ] = True,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a built-in stream; needs no folder.")] = False,
    warmup_seconds: Annotated[
        float,
        typer.Option(min=0.0, help="End a warm-up so long after its first row if it has 100 rows; inf for never."),
    ] = 30.0,
    max_body: Annotated[int, typer.Option(min=1, help="Largest size of a request, in megabytes.")] = 32,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows in a request.")] = 100_000,
    max_streams: Annotated[int, typer.Option(min=1, help="Most streams.")] = 1_000,
    max_features: Annotated[int, typer.Option(min=1, help="Most columns of a stream.")] = 10_000,
    max_tables: Annotated[int, typer.Option(min=1, help="Most open tables of a stream.")] = 10_000,
) -> None:
    """Serve named streams over HTTP: rows in, tables and events out, and a page to watch them.

    Rows are saved to disk before they are answered.
    """
    from dyncrp.cli.errors import refuse

    try:
        from dyncrp.cli.serve import serve_folder
    except ModuleNotFoundError as error:
        refuse(f"serve needs {error.name}: pip install 'dyncrp[serve]'")
    from dyncrp.serve.limits import Limits

    most = {"streams": max_streams, "features": max_features, "tables": max_tables}
    seconds = None if math.isinf(warmup_seconds) else warmup_seconds
    limits = Limits(max_body * 2**20, max_rows, **most, warmup_seconds=seconds)
    serve_folder(folder, host, port, token, limits, sync=sync, demo=demo)


Edited = Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model or a checkpoint.")]
EditedTo = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the result to another file.", show_default="in place")
]


@app.command()
def merge(
    file: Edited,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE TABLE …", help="Ids or names of open tables.")],
    output: EditedTo = None,
) -> None:
    """Merge tables of a saved model or a checkpoint. The result has the oldest id; the other ids stand for it.

    A run resumed from a checkpoint continues with the merged table. Rows that are already written keep their ids.
    """
    from dyncrp.cli.edit import merge_tables

    merge_tables(file, tables, output)


@app.command()
def rename(
    file: Edited,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The id or the current name of a table.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help='The new name, which no other table has; "" for none.')],
    output: EditedTo = None,
) -> None:
    """Name a table of a saved model or a checkpoint, for run --names, summary and events."""
    from dyncrp.cli.edit import rename_table

    rename_table(file, table, name, output)
