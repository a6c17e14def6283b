"""``dyncrp demo``: cluster a stream, or a walk through a building, with known clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dyncrp import plots
from dyncrp.jobs import demo as job
from dyncrp.metrics import agreement


def demo_stream(n: int, seed: int, figure: Path) -> None:
    """Cluster a stream of n observations, print the scores, and draw the result."""
    console = Console()
    stream = job.sample_stream(n, seed)
    console.print(f"{n} observations from {len(stream.parameters)} clusters that come, go and come back")
    found = job.cluster(stream)
    scores = track(
        job.other_scores(n),
        "20 other streams",
        total=len(job.OTHER_SEEDS),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    others = np.array(list(scores))
    means, errors = others.mean(axis=0), others.std(axis=0, ddof=1) / np.sqrt(len(others))
    table = Table("", "given", "found", "AMI", "20 other streams")
    for name, mean, error in zip(found, means, errors, strict=True):
        score = agreement(stream.labels, found[name].labels_)
        system = job.SYSTEMS[name]
        table.add_row(name, system.given, str(score.n_clusters), f"{score.ami:.3f}", f"{mean:.3f} ± {error:.3f}")
    console.print(table)
    console.print("AMI: agreement with the truth (1 is perfect, 0 is chance); mean ± standard error")
    model = found[job.GIVEN_NOTHING]
    drawing = plots.stream(
        stream.observations,
        model.labels_,
        model.dynamics_,
        truth=stream.labels,
        responsibilities=model.responsibilities_,
    )
    drawing.savefig(figure, dpi=150)
    console.print(f"Figure: {figure}")


def demo_rooms(n: int, seed: int, figure: Path) -> None:
    """Cluster n steps through a building into places, print the scores, and draw the result."""
    console = Console()
    house = job.sample_rooms(n, seed)
    console.print(
        f"A robot walks {n} steps through a building of {job.N_ROOMS} rooms and hallways, and sees some of "
        f"{len(house.landmarks)} landmarks at each"
    )
    table = Table("", "places", "true", "AMI", "returns to a room recognised", "log evidence")
    found = {name: job.find_rooms(house, *model) for name, model in job.ROOM_MODELS.items()}
    for name, places in found.items():
        score, back = places.agreement, places.returns
        recognised = f"{int(np.sum(back.recognised))} of {len(back.steps)}"
        counts = str(score.n_clusters), str(score.n_true)
        table.add_row(name, *counts, f"{score.ami:.3f}", recognised, f"{places.log_evidence:.1f}")
    console.print(table)
    plots.buildings(house, found["sticky"].labels).savefig(figure, dpi=150)
    console.print(f"Figure: {figure}")
