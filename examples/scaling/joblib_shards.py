"""
Shards on all processors
========================

Cluster shards of a Parquet file on all processors, by joblib: ``python
examples/scaling/joblib_shards.py``

``--backend dask`` starts dask.distributed here (``pip install distributed``). On a
cluster, give the address of its scheduler to ``Client``; any backend of joblib will do.
Workers must see the file under the same path.
"""

# sphinx_gallery_thumbnail_path = "images/program-joblib_shards.png"
from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import joblib
import shards


def main(arguments: list[str] | None = None) -> None:
    """Choose a backend and go."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--backend",
        default="loky",
        choices=["loky", "dask"],
        help="processes here, or Dask",
    )
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=-1,
        help="how many workers; -1: one for each processor",
    )
    options, _ = parser.parse_known_args(arguments)

    def run(function: Callable[..., Any], calls: list[Any]) -> Iterator[Any]:
        return joblib.Parallel(return_as="generator")(
            joblib.delayed(function)(*call) for call in calls
        )

    with (
        cluster(options),
        joblib.parallel_config(options.backend, n_jobs=options.n_jobs),
    ):
        shards.main(__doc__, *shards.by_row_groups(run), arguments, [parser])


def cluster(options: argparse.Namespace) -> Any:
    """Return what must be there while the backend is used."""
    if options.backend != "dask":
        return nullcontext()
    from distributed import Client

    return Client(
        n_workers=None if options.n_jobs < 0 else options.n_jobs, threads_per_worker=1
    )


if __name__ == "__main__":
    main()
