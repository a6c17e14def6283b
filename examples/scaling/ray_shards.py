"""
Shards on Ray
=============

Cluster shards of a Parquet file on a Ray cluster:
``python examples/scaling/ray_shards.py``

Without a cluster, Ray starts here (``pip install ray``). On one, set RAY_ADDRESS.
Workers must see the file under the same path, and have dyncrp installed.
"""

# sphinx_gallery_thumbnail_path = "images/program-ray_shards.png"
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ray
import shards


def run(function: Callable[..., Any], calls: list[Any]) -> Iterator[Any]:
    """Yield function(*call) for all calls, which Ray runs as there are processors."""
    remote = ray.remote(function)
    waiting = [remote.remote(*call) for call in calls]
    return (ray.get(each) for each in waiting)


if __name__ == "__main__":
    with ray.init():
        shards.main(__doc__, *shards.by_row_groups(run))
