"""Clusters that print what is typical of each, and that are a data frame: ``DynamicalMixture.clusters``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters, clusters_of
from dyncrp.views.describe import as_frame
from dyncrp.views.layout import dates, percent
from dyncrp.views.profile import ClusterProfile, profile
from dyncrp.views.profile_text import format_profiles

if TYPE_CHECKING:
    import pandas as pd

MOST_TRAITS = 6  # in a cell of the frame
MOST_SHOWN = 30  # clusters that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class DescribedClusters(Clusters):
    """Clusters as they were at the time of the call, with what was typical of each; see ``DynamicalMixture.clusters``.

    They print with a line for each cluster, the largest first, and can be used as a pandas DataFrame in this order:
    ``clusters["rows"]``, ``clusters.to_csv(path)``; ``clusters.frame`` is the DataFrame.

    Attributes
    ----------
    profiles : the clusters, the largest first. The other attributes are those of ``Clusters``.

    Examples
    --------
    >>> from dyncrp import DynamicalMixture, Gaussian
    >>> model = DynamicalMixture(Gaussian(1.0, 400.0)).fit([[0.0, 1.0], [5.0, 1.2], [50.0, 1.1], [0.0, 1.2]])
    >>> clusters = model.clusters(2)
    >>> clusters
    3 tables in 2 clusters
    cluster  rows  share  first seen  last seen  typical
          0     3   75 %           0          3  x0 2 ↓, x1 1.133
          2     1   25 %           2          2  x0 50 ↑, x1 1.100
    >>> clusters["rows"].to_dict(), list(clusters.columns)
    ({0: 3, 2: 1}, ['rows', 'share', 'first_seen', 'last_seen', 'tables', 'typical'])
    """

    profiles: tuple[ClusterProfile, ...]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A DataFrame with the ids of the clusters as its index, the largest cluster first. It needs pandas.

        Its columns are ``called``, the names of its tables, if any has one; ``rows``, ``share``, ``first_seen`` and
        ``last_seen`` as in ``describe``; ``tables``, how many it has; and ``typical``, a text.
        """
        named = any(cluster.names for cluster in self.profiles)
        columns = {
            **({"called": [", ".join(cluster.names) for cluster in self.profiles]} if named else {}),
            "rows": [cluster.rows for cluster in self.profiles],
            "share": [cluster.share for cluster in self.profiles],
            "first_seen": np.array([cluster.first_seen for cluster in self.profiles]),
            "last_seen": np.array([cluster.last_seen for cluster in self.profiles]),
            "tables": [cluster.tables for cluster in self.profiles],
            "typical": [", ".join(map(str, cluster.typical[:MOST_TRAITS])) for cluster in self.profiles],
        }
        return as_frame(columns, np.array([cluster.id for cluster in self.profiles], dtype=np.int64), "cluster")

    def __getattr__(self, name: str) -> Any:
        """Return what only the DataFrame has, such as ``to_csv`` and ``sort_values``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    def __getitem__(self, columns: Any) -> Any:
        return self.frame[columns]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the columns, as a DataFrame does."""
        return iter(self.frame)

    def __str__(self) -> str:
        return f"{self.headline}\n{format_profiles(self.profiles)}".rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook, which needs no pandas."""
        shown = self.profiles[:MOST_SHOWN]
        first, last = _times(shown)
        lines = [
            [
                ", ".join([str(cluster.id), *cluster.names]),
                f"{cluster.rows:,}",
                percent(cluster.share),
                first[at],
                last[at],
                ", ".join(map(str, cluster.typical[:MOST_TRAITS])),
            ]
            for at, cluster in enumerate(shown)
        ]
        titles = ("cluster", "rows", "share", "first seen", "last seen", "typical")
        head = "".join(f"<th>{title}</th>" for title in titles)
        body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
        rest = len(self.profiles) - len(shown)
        more = f"; the {len(shown)} largest are shown" if rest else ""
        return f"<p>{self.headline}{more}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'


def _times(shown: tuple[ClusterProfile, ...]) -> tuple[list[str], list[str]]:
    first, last = (np.array([getattr(c, name) for c in shown]) for name in ("first_seen", "last_seen"))
    if first.dtype.kind == "M":
        return dates(first, last, days=True)
    return [f"{t:,.10g}" for t in first.tolist()], [f"{t:,.10g}" for t in last.tolist()]


def described(stream: Stream, n: int | None = None, shape: str = "auto") -> DescribedClusters:
    """Return the clusters of a stream, as ``clusters_of`` does, with what is typical of each."""
    found = clusters_of(stream, n, shape)
    return DescribedClusters(**vars(found), profiles=tuple(profile(stream, found)))
