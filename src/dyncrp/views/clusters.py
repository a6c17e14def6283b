"""Clusters: what people look at. The open tables of a stream, joined; see ``joining/clusters.py``."""

from __future__ import annotations

from dyncrp.joining.clusters import SHAPES, Clusters, join
from dyncrp.stream.stream import Stream

__all__ = ["SHAPES", "Clusters", "clusters_of", "join"]


def clusters_of(stream: Stream, n: int | None = None, shape: str = "auto") -> Clusters:
    """Return the open tables of a stream joined into n clusters, or as many as there are; events name them from now on.

    shape: one of ``SHAPES``.
    """
    found = join(stream.engine.model, stream.engine.state, n, shape)
    stream.cluster_of = dict(zip(found.table_ids.tolist(), found.cluster_of.tolist(), strict=True))
    return found
