"""Results in numbers: means with standard errors, as printed tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Printed

from dyncrp import baselines
from experiments.streams import DYNAMICS


def mean_and_error(frame: pd.DataFrame, by: list[str], column: str) -> pd.DataFrame:
    """Return mean and standard error of a column for each value of others: an index of those, two columns.

    >>> frame = pd.DataFrame({"system": ["a", "a", "b"], "ami": [0.0, 1.0, 1.0]})
    >>> mean_and_error(frame, ["system"], "ami").loc["a"].tolist()
    [0.5, 0.5]
    """
    groups = frame.groupby(by)[column]
    return pd.DataFrame({"mean": groups.mean(), "error": groups.std(ddof=1) / np.sqrt(groups.count())})


def plus_minus(row: pd.Series) -> str:
    """Return a mean and its standard error as text.

    >>> plus_minus(pd.Series({"mean": -0.5, "error": 0.25}))
    '−0.500 ± 0.250'
    """
    return signed(f"{round(row['mean'], 3) + 0.0:.3f} ± {row['error']:.3f}")  # no −0.000


def signed(text: str) -> str:
    """Return text with minus signs for hyphens."""
    return text.replace("-", "−")


def stream_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that say which stream a row is about: those before ``system``."""
    return list(frame.columns[: frame.columns.get_loc("system")])


def ahead(frame: pd.DataFrame) -> pd.Series:
    """Return by how much the AMI of every row is above that of the D-CRP on the same stream; NaN where it has none.

    Differences on the same streams have much smaller standard errors than the means.
    """
    ours = frame[frame["system"] == "D-CRP"].set_index(stream_columns(frame))["ami"]
    keys = pd.MultiIndex.from_frame(frame[stream_columns(frame)])
    return frame["ami"] - ours.reindex(keys).to_numpy()


def agreement(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return mean and standard error of a column as text, a row for each system, a column for each dynamics."""
    values = mean_and_error(frame, ["system", "dynamics"], measure)
    return _ordered(values.apply(plus_minus, axis=1).unstack())


def clusters(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the median ratio of inferred to true clusters as text, likewise."""
    ratios = (frame["n_clusters"] / frame["n_true"]).groupby([frame["system"], frame["dynamics"]]).median()
    return _ordered(ratios.map("{:.2f}".format).unstack())


def cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each system, how many streams it has done, and CPU seconds for a stream and for all."""
    seconds = frame.groupby("system")["cpu_seconds"].agg(["count", "mean", "max", "sum"])
    seconds = seconds.loc[[name for name in baselines.SYSTEMS if name in seconds.index]]
    return pd.DataFrame(
        {
            "streams": seconds["count"].map("{:,}".format),
            "CPU seconds, mean": seconds["mean"].map("{:.4f}".format),
            "most": seconds["max"].map("{:.3f}".format),
            "in all": seconds["sum"].map("{:,.0f}".format),
        }
    )


def _ordered(values: pd.DataFrame) -> pd.DataFrame:
    """Return rows and columns in the order in which systems and dynamics are listed, not of the alphabet."""
    return values.loc[
        [name for name in baselines.SYSTEMS if name in values.index],
        [name for name in DYNAMICS if name in values.columns],
    ]


def comparison(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what every system reached, and what it cost, as text."""
    return {
        "AMI": agreement(frame, "ami"),
        "AMI less that of the D-CRP on the same streams": agreement(frame.assign(ahead=ahead(frame)), "ahead"),
        "NMI": agreement(frame, "nmi"),
        "inferred / true clusters, median": clusters(frame),
        "cost": cost(frame),
    }


def wrong_dynamics(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for the dynamics of the data and those that the inference was told: what that did.

    Columns: mean ``ami``; ``gain`` over the AMI with the true dynamics on the same streams, and its standard ``error``;
    the median ``ratio`` of inferred to true clusters; the share of streams ``won``, those with the highest evidence.
    """
    cells = ["dynamics", "system"]
    told_truth = frame[frame["system"] == frame["dynamics"]].set_index(stream_columns(frame))["ami"]
    streams = pd.MultiIndex.from_frame(frame[stream_columns(frame)])
    gain = mean_and_error(frame.assign(gain=frame["ami"] - told_truth.reindex(streams).to_numpy()), cells, "gain")
    best = frame.loc[frame.groupby(stream_columns(frame))["log_evidence"].idxmax()]
    won = best.groupby(cells).size() / best.groupby("dynamics").size()
    return pd.DataFrame(
        {
            "ami": frame.groupby(cells)["ami"].mean(),
            "gain": gain["mean"],
            "error": gain["error"],
            "ratio": (frame["n_clusters"] / frame["n_true"]).groupby([frame[column] for column in cells]).median(),
            "won": won.reindex(gain.index, fill_value=0.0),
        }
    )


def told(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the same as text: a row for the dynamics of the data, a column for those that the inference was told."""
    values = wrong_dynamics(frame)
    gains = values[["gain", "error"]].rename(columns={"gain": "mean"}).apply(plus_minus, axis=1)
    texts = {
        "AMI": values["ami"].map("{:.3f}".format),
        "AMI less that with the true dynamics on the same streams": gains,
        "inferred / true clusters, median": values["ratio"].map("{:.2f}".format),
        "share of streams on which it has the highest evidence": values["won"].map("{:.3f}".format),
    }
    return {title: text.unstack().loc[list(DYNAMICS), list(DYNAMICS)] for title, text in texts.items()}


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a table of text."""
    printed = Printed("", *map(str, frame.columns), title=title)
    for name, row in frame.iterrows():
        printed.add_row(str(name), *map(str, row))
    Console(width=120).print(printed)
