"""The commands and their options. What a command needs is imported when it runs, so that help is there at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dyncrp
from dyncrp.cli.options import CheckpointOptions, InputOptions, ModelOptions, OutputOptions, Quiet, expand_groups

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
    figure: Annotated[Path, typer.Option(help="Where to draw it: PNG, SVG or PDF.")] = Path("dyncrp-demo.png"),
    rooms: Annotated[
        bool, typer.Option("--rooms", help="Cluster what a robot sees on its way through a building into places.")
    ] = False,
) -> None:
    """Sample a stream, or a walk through a building; cluster it, compare with the truth and draw it."""
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
    plot: Annotated[Path | None, typer.Option(help="Draw a timeline of the tables: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Cluster the rows of a file: write the table, its probability and the novelty of each row, while reading.

    Family, dynamics and alpha are learned from the first rows unless they are given.

    Exit codes: 0 done, 1 bad data or a bad file, 2 wrong usage, 130 or 143 stopped by Ctrl-C or SIGTERM.
    """
    from dyncrp.cli.run import run_file

    run_file(source, target, model_options, checkpointing, model, save, plot, quiet)


@app.command()
@expand_groups
def tune(
    source: InputOptions,
    model_options: ModelOptions,
    plot: Annotated[Path | None, typer.Option(help="Draw what was tried: PNG, SVG or PDF.")] = None,
    quiet: Quiet = False,
) -> None:
    """Learn hyperparameters from the first rows, by evidence; print them as a command and as Python, to paste."""
    from dyncrp.cli.tune import tune_file

    tune_file(source, model_options, plot, quiet)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model or a checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a saved model or a checkpoint holds."""
    from dyncrp.cli.info import show

    show(file, as_json)


@app.command()
def summary(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model or a checkpoint.")],
    groups: Annotated[int | None, typer.Option(min=1, help="Join tables into this many groups and show them.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many tables to show, the largest first.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="Show every table.")] = False,
) -> None:
    """Show the tables of a saved model or a checkpoint: how many rows, when they came, and the centre."""
    from dyncrp.cli.summary import show

    show(file, groups, None if every else n)


@app.command()
def serve(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DATA_FOLDER", help="Where streams are kept; made if there is none.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    token: Annotated[
        str | None, typer.Option(help="What requests must bring; better set as DYNCRP_TOKEN, which others cannot see.")
    ] = None,
    sync: Annotated[
        bool, typer.Option(help="Wait for the disk before answering; without, a power cut may cost the last second.")
    ] = True,
    demo: Annotated[bool, typer.Option("--demo", help="Feed a built-in stream; needs no folder.")] = False,
    max_body: Annotated[int, typer.Option(min=1, help="Megabytes of a request.")] = 32,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request.")] = 100_000,
    max_streams: Annotated[int, typer.Option(min=1, help="Streams.")] = 1_000,
    max_features: Annotated[int, typer.Option(min=1, help="Columns of a stream.")] = 10_000,
    max_tables: Annotated[int, typer.Option(min=1, help="Open tables of a stream.")] = 10_000,
) -> None:
    """Serve named streams over HTTP: rows in, tables and events out, and a page to watch them.

    Rows are on the disk before they are answered.
    """
    from dyncrp.cli.errors import refuse

    try:
        from dyncrp.cli.serve import serve_folder
    except ModuleNotFoundError as error:
        refuse(f"serve needs {error.name}: pip install 'dyncrp[serve]'")
    from dyncrp.serve.limits import Limits

    limits = Limits(max_body * 2**20, max_rows, streams=max_streams, features=max_features, tables=max_tables)
    serve_folder(folder, host, port, token, limits, sync=sync, demo=demo)


Edited = Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model, or a checkpoint.")]
EditedTo = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write it there instead.", show_default="in place")
]


@app.command()
def merge(
    file: Edited,
    tables: Annotated[list[str], typer.Argument(metavar="TABLE TABLE …", help="Ids or names of open tables.")],
    output: EditedTo = None,
) -> None:
    """Let tables of a saved model be one, which has the oldest id; the others stand for it from now on.

    A run that is resumed from a checkpoint goes on with the merged table. Rows that are written already keep their ids.
    """
    from dyncrp.cli.edit import merge_tables

    merge_tables(file, tables, output)


@app.command()
def rename(
    file: Edited,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The id of a table, or the name it has.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help='A name that no other table has; "" for none.')],
    output: EditedTo = None,
) -> None:
    """Give a table of a saved model or a checkpoint a name, for run --names, summary and events."""
    from dyncrp.cli.edit import rename_table

    rename_table(file, table, name, output)
