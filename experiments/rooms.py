"""Rooms: a robot's sightings clustered into places (the paper's experiment on localisation and mapping).

Thirty buildings, each seen without noise, with some and with much. Every method has a small grid: its timescales, and
how strong the prior of the family is; alpha is set so that ten places are expected. The fit with the highest evidence
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.optimize import brentq

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Stationary
from dyncrp.baselines import GibbsMixture
from dyncrp.datasets import Rooms, rooms
from dyncrp.dynamics import Dynamics
from dyncrp.metrics import agreement, returns
from experiments import room_figures, streams, summary, sweep
from experiments.store import Row, Table

NOISE = {"none": (0.0, 0.0), "some": (0.1, 0.005), "much": (0.3, 0.02)}  # missed, false
SIGHT, FIELD_OF_VIEW = 5.0, 180.0  # metres, degrees
TIMESCALES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
DYNAMICS: dict[str, list[Dynamics]] = {
    "D-CRP, sticky": [0.999 * Exponential(timescale) + 0.001 * Stationary() for timescale in TIMESCALES],
    "D-CRP, exponential": [Exponential(timescale) for timescale in TIMESCALES],
    "R-CRP": [Stationary()],
}
OFFLINE = "Gibbs"
METHODS = (*DYNAMICS, OFFLINE)
STRENGTHS = (0.3, 1.0, 3.0)  # what a + b of the Bernoulli family may be; with less, a single sighting decides the table
EXPECTED = 10.0  # places
HALLWAY = 0


@dataclass(frozen=True)
class Walk:
    """A walk through a building; every field is a column of the results."""

    noise: str
    seed: int
    n_rooms: int = 6
    n: int = 3000

    def draw(self) -> Rooms:
        """Return what is seen on it."""
        missed, false = NOISE[self.noise]
        seed = np.random.default_rng(streams.seeds("rooms", self.seed, self.n_rooms))
        view = {"sight": SIGHT, "field_of_view": FIELD_OF_VIEW}
        return rooms(self.n, n_rooms=self.n_rooms, missed=missed, false=false, seed=seed, **view)


FULL = [Walk(noise, seed) for seed in range(30) for noise in NOISE]
QUICK = [Walk(noise, seed, n=1000) for seed in range(2) for noise in NOISE]
KEY = [*Walk.__dataclass_fields__, "system"]
SCHEMA = pa.schema(
    {
        "noise": pa.string(),
        "seed": pa.int16(),
        "n_rooms": pa.int16(),
        "n": pa.int32(),
        "system": pa.string(),
        "told": pa.string(),
        "ami": pa.float64(),
        "nmi": pa.float64(),
        "n_clusters": pa.int16(),
        "n_true": pa.int16(),
        "returns": pa.int16(),
        "recognised": pa.int16(),
        "steps": pa.list_(pa.int32()),  # before each recognition
        "log_evidence": pa.float64(),  # of the offline sampler: the log joint of the partition that it found
        "labels": pa.list_(pa.int16()),
    }
)


class Fit(NamedTuple):
    """What was told, how well it explains what was seen, and the labels."""

    told: str
    log_evidence: float
    labels: Any


def alpha_of(dynamics: Dynamics, n: int) -> float:
    """Return the alpha with which a walk of n steps is expected to have ten places.

    >>> alpha = alpha_of(Stationary(), 1000)
    >>> round(float(np.sum(alpha / (alpha + np.arange(1000)))), 6)
    10.0
    """
    weights = np.append(0.0, np.cumsum(dynamics.kernel(np.arange(1.0, n))))  # of all earlier steps, at each

    def excess(log_alpha: float) -> float:
        return float(np.sum(1.0 / (1.0 + weights * np.exp(-log_alpha)))) - EXPECTED

    return float(np.exp(brentq(excess, -40.0, 20.0)))


def fits(house: Rooms, method: str, seed: int) -> Iterator[Fit]:
    """Yield a fit for every point of a method's grid."""
    n, often = len(house.visibility), max(float(np.mean(house.visibility)), 1.0 / house.visibility.size)
    for strength in STRENGTHS:
        family = Bernoulli(strength * often, strength * (1.0 - often))
        for dynamics in DYNAMICS.get(method, [Stationary()]):
            alpha = alpha_of(dynamics, n)
            if method == OFFLINE:
                model = GibbsMixture(family, alpha, seed=seed).fit(house.visibility)
                yield Fit(f"a + b = {strength}", float(np.max(model.log_joint_)), model.labels_)
            else:
                found = DynamicalMixture(family, dynamics, alpha).fit(house.visibility)
                yield Fit(f"{dynamics}, a + b = {strength}", found.log_evidence_, found.labels_)


def compare(walk: Walk, methods: Sequence[str]) -> list[Row]:
    """Return a row for each method: what its best fit, by evidence, made of a walk."""
    house = walk.draw()
    rows = []
    for method in methods:
        seed = int(streams.seeds("rooms", *astuple(walk), method).generate_state(1)[0])
        best = max(fits(house, method, seed), key=lambda fit: fit.log_evidence)
        back = returns(house.rooms, best.labels, ignore=[HALLWAY])
        rows.append(
            asdict(walk)
            | {"system": method, "told": best.told, "log_evidence": best.log_evidence, "labels": best.labels}
            | agreement(house.rooms, best.labels)._asdict()
            | {"returns": len(back.steps), "recognised": int(np.sum(back.recognised))}
            | {"steps": back.steps[back.recognised]}
        )
    return rows


def table(folder: Path = sweep.HERE) -> Table:
    """Return the results kept in a folder; by default, of the full run."""
    return Table(folder / "results" / "rooms.parquet", SCHEMA, KEY)


def tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what every method reached as text: a row for each, a column for each level of noise."""
    ours = frame[frame["system"] == METHODS[0]].set_index(["noise", "seed"])["ami"]
    same = pd.MultiIndex.from_frame(frame[["noise", "seed"]])
    frame = frame.assign(
        behind=frame["ami"] - ours.reindex(same).to_numpy(),
        within=(np.abs(frame["n_clusters"] - frame["n_true"]) <= 1).astype(float),
    )
    groups = frame.groupby(["system", "noise"])
    streaming = frame[frame["system"] != OFFLINE]
    best = streaming.loc[streaming.groupby(["noise", "seed"])["log_evidence"].idxmax()]
    won = (best.groupby(["system", "noise"]).size() / best.groupby("noise").size()).reindex(groups.size().index)
    won = won.fillna(0.0).where(won.index.get_level_values("system") != OFFLINE)
    counts = groups[["recognised", "returns"]].sum()
    steps = groups["steps"].apply(lambda lists: np.concatenate(lists.to_list()))
    texts = {
        "AMI": summary.mean_and_error(frame, ["system", "noise"], "ami").apply(summary.plus_minus, axis=1),
        "AMI less that of the sticky D-CRP on the same walks": summary.mean_and_error(
            frame, ["system", "noise"], "behind"
        ).apply(summary.plus_minus, axis=1),
        "tables (places), mean": groups["n_clusters"].mean().map("{:.1f}".format)
        + groups["n_true"].mean().map(" ({:.1f})".format),
        "walks with at most one table more or less than places": groups["within"].mean().map("{:.0%}".format),
        "returns to a room that are recognised": (counts["recognised"] / counts["returns"]).map(_percent),
        "steps until then: median, 90 %": steps.map(
            lambda s: "{:.0f}, {:.0f}".format(*np.quantile(s, [0.5, 0.9])) if len(s) else "–"
        ),
        "walks on which its evidence is the highest of the streaming methods": won.map(_percent),
    }
    present = [name for name in METHODS if name in set(frame["system"])]
    return {title: text.unstack().loc[present, list(NOISE)] for title, text in texts.items()}


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.0%}"


def draw(frame: pd.DataFrame, folder: Path) -> None:
    """Draw the first four buildings, what every method reached, and how the first was discovered."""
    found = frame[(frame["system"] == METHODS[0]) & (frame["noise"] == "none")].sort_values("seed")
    rows = [row for _, row in found.head(4).iterrows()]
    houses = [Walk("none", row["seed"], row["n_rooms"], row["n"]).draw() for row in rows]
    room_figures.buildings(houses, rows, folder)
    room_figures.scores(frame, list(NOISE), folder)
    room_figures.discovery(houses[0], np.asarray(rows[0]["labels"]), SIGHT, FIELD_OF_VIEW, folder / "rooms.gif")


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, draw, print."""
    options = sweep.parser("rooms", __doc__, METHODS).parse_args(arguments)
    folder = sweep.output(options)
    results = table(folder)
    tasks = sweep.pending(QUICK if options.quick else FULL, options.only or METHODS, results)
    frame = sweep.run(compare, tasks, results, options)
    for title, values in tables(frame).items():
        summary.show(title, values)
    if set(METHODS) <= set(frame["system"]):
        draw(frame, folder / "figures")


if __name__ == "__main__":
    main()
