"""The command line: parses, prints; no mathematics. Needs typer and rich: ``pip install 'dyncrp[cli]'``."""

from __future__ import annotations

from typing import Annotated

import typer

import dyncrp
from dyncrp.cli import demo, info, run, tune

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


for command in (demo.demo, run.run, tune.tune, info.info):
    app.command()(command)
