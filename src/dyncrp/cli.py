"""The command line: parses, prints; no mathematics. Needs typer and rich: ``pip install 'dyncrp[cli]'``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import dyncrp
from dyncrp import demo as job
from dyncrp import plots

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
    n: Annotated[int, typer.Option("--n", min=10, help="Observations to sample.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream.")] = 26,
    figure: Annotated[Path, typer.Option(help="Where to draw the stream: PNG, SVG or PDF.")] = Path("dyncrp-demo.png"),
) -> None:
    """Sample a stream whose clusters come, go and come back; cluster it, compare with the truth, draw it."""
    if not figure.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {figure.parent}", param_hint="--figure")
    if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"{figure} must end in .png, .svg or .pdf", param_hint="--figure")
    if figure.is_dir() or not os.access(figure if figure.exists() else figure.parent, os.W_OK):
        raise typer.BadParameter(f"{figure} cannot be written", param_hint="--figure")
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
