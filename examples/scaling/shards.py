"""
What the examples of shards share
=================================

A Parquet file is read by row groups, and never as a whole.

``fit`` and ``relabel`` do one shard; run them wherever there is a processor. ``main``
does the rest: it makes a file if none is given, learns hyperparameters once from a
sample, has all shards fitted, combines them, and has all shards relabelled.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from sklearn.metrics import adjusted_mutual_info_score

import dyncrp

ROWS_PER_GROUP, SAMPLE, SCORED = 65_536, 1_000, 1_000_000
N_FEATURES, N_CLUSTERS, SPREAD = 16, 100, 3.0
NO_FEATURES = (
    "row",
    "cluster",
)  # columns that are copied to the labels and not clustered


def features(path: str) -> list[str]:
    """Return the names of the columns to cluster."""
    return [name for name in pq.read_schema(path).names if name not in NO_FEATURES]


def fit(path: str, row_groups: list[int], parameters: dict[str, Any]) -> bytes:
    """Learn a shard, some row groups of the file, and return the model as bytes, which
    are small and travel well."""
    model, names = dyncrp.DynamicalMixture(**parameters), features(path)
    for batch in batches(path, row_groups, names):
        model.partial_fit(rows(batch))
    return model.to_bytes()


def relabel(path: str, row_groups: list[int], model: bytes, output: str) -> int:
    """Write the table of each row of a shard under the combined model to a file of its
    own; return how many."""
    combined, names = dyncrp.DynamicalMixture.from_bytes(model), features(path)
    others = [name for name in pq.read_schema(path).names if name not in names]
    schema = pa.schema(
        [*(pq.read_schema(path).field(name) for name in others), ("table", pa.int64())]
    )
    n = 0
    with pq.ParquetWriter(output, schema) as writer:
        for batch in batches(path, row_groups):
            labels = combined.predict(rows(batch.select(names)))
            writer.write(
                pa.table([*(batch[name] for name in others), labels], schema=schema)
            )
            n += len(labels)
    return n


def batches(
    path: str, row_groups: list[int], columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups; pyarrow keeps what it has read until a call
    ends, hence a call for each."""
    for at in row_groups:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ROWS_PER_GROUP, [at], columns)


def rows(batch: pa.RecordBatch) -> np.ndarray:
    """Return a batch as an array (n, D)."""
    return np.column_stack([column.to_numpy() for column in batch.columns])


def by_row_groups(
    run: Callable[..., Iterator[Any]],
) -> tuple[Callable[..., Iterator[bytes]], Callable[..., Any]]:
    """Return how to fit and relabel all shards by ``run(function, calls)``, which
    yields every function(*call)."""

    def split(path: str, n_shards: int) -> list[list[int]]:
        n_groups = pq.ParquetFile(path).num_row_groups
        return [
            part.tolist()
            for part in np.array_split(np.arange(n_groups), min(n_shards, n_groups))
        ]

    def fit_all(
        path: str, n_shards: int, parameters: dict[str, Any]
    ) -> Iterator[bytes]:
        return run(
            fit, [(path, groups, parameters) for groups in split(path, n_shards)]
        )

    def relabel_all(path: str, n_shards: int, model: bytes, output: str) -> None:
        Path(output).mkdir()
        parts = enumerate(split(path, n_shards))
        calls = [
            (path, groups, model, f"{output}/part-{at:05}.parquet")
            for at, groups in parts
        ]
        for done, _ in enumerate(run(relabel, calls), 1):
            print(f"  relabelled {done} of {len(calls)} shards", flush=True)

    return fit_all, relabel_all


def make_file(path: str, gigabytes: float) -> None:
    """Write rows of many clusters, one row group at a time."""
    rng = np.random.default_rng(0)
    centers = rng.normal(0.0, SPREAD, (N_CLUSTERS, N_FEATURES))
    names = [f"x{at}" for at in range(N_FEATURES)]
    n_groups = max(
        4,
        round(1e9 * gigabytes / (8 * ROWS_PER_GROUP * (N_FEATURES + len(NO_FEATURES)))),
    )
    schema = pa.schema(
        [
            ("row", pa.int64()),
            *((name, pa.float64()) for name in names),
            ("cluster", pa.int64()),
        ]
    )
    with pq.ParquetWriter(
        path, schema, compression="none", use_dictionary=False
    ) as writer:
        for at in range(n_groups):
            clusters = rng.integers(N_CLUSTERS, size=ROWS_PER_GROUP)
            X = centers[clusters] + rng.standard_normal((ROWS_PER_GROUP, N_FEATURES))
            row = np.arange(at * ROWS_PER_GROUP, (at + 1) * ROWS_PER_GROUP)
            writer.write_table(pa.table([row, *X.T, clusters], schema=schema))


def tune(path: str) -> dict[str, Any]:
    """Learn the hyperparameters from rows of all over the file; the order of rows is
    taken to mean nothing."""
    groups = np.unique(
        np.linspace(0, pq.ParquetFile(path).num_row_groups - 1, 8).astype(int)
    ).tolist()
    picked = np.concatenate(
        [rows(next(batches(path, [at], features(path)))) for at in groups]
    )
    sample = np.random.default_rng(0).permutation(picked)[:SAMPLE]
    model = dyncrp.tune(sample, dynamics=dyncrp.Stationary()).model
    return model.get_params(deep=False)


def score(output: str) -> str:
    """Return the agreement with the true clusters, if they are known."""
    labels = pa.dataset.dataset(output)
    if "cluster" not in labels.schema.names:
        return "no column cluster to compare with"
    found = labels.head(SCORED, columns=["cluster", "table"])
    ami = adjusted_mutual_info_score(
        found["cluster"].to_numpy(), found["table"].to_numpy()
    )
    return f"AMI with the true clusters {ami:.3f} ({len(found):,} rows)"


def main(
    description: str | None,
    fit_all: Callable[..., Iterator[bytes]],
    relabel_all: Callable[..., Any],
    arguments: list[str] | None = None,
    parents: list[argparse.ArgumentParser] | None = None,
) -> None:
    """Parse, make a file, tune, fit, combine, relabel; ``parents`` have the options of
    one example."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        description=description, formatter_class=raw, parents=parents or []
    )
    parser.add_argument("--input", help="a Parquet file; without it, one is made")
    parser.add_argument(
        "--gigabytes", type=float, default=0.2, help="size of the file that is made"
    )
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("shards"),
        help="where the file and the labels go",
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(exist_ok=True)
    path = options.input or str(options.folder / "rows.parquet")
    if not options.input:
        make_file(path, options.gigabytes)
    path, output = str(Path(path).resolve()), str((options.folder / "labels").resolve())
    shutil.rmtree(output, ignore_errors=True)
    n = pq.ParquetFile(path).metadata.num_rows
    print(f"{n:,} rows, {Path(path).stat().st_size / 1e9:.2f} GB", flush=True)

    parameters = tune(path)
    print(
        f"learned from a sample: {parameters['family']}, alpha "
        f"{parameters['alpha']:.3g}",
        flush=True,
    )
    begin = time.perf_counter()
    models = []
    for content in fit_all(path, options.shards, parameters):
        models.append(dyncrp.DynamicalMixture.from_bytes(content))
        print(
            f"  fitted {len(models)} shards: {models[-1].n_tables_} tables", flush=True
        )
    fitted = time.perf_counter()
    model = dyncrp.combine(models).model
    combined = time.perf_counter()
    relabel_all(path, options.shards, model.to_bytes(), output)
    end = time.perf_counter()
    model.save(options.folder / "model.npz")
    print(
        f"fitted {n / (fitted - begin):,.0f} rows a second, relabelled "
        f"{n / (end - combined):,.0f}"
    )
    print(
        f"combined {sum(each.n_tables_ for each in models)} tables into "
        f"{model.n_tables_}, {combined - fitted:.2f} s"
    )
    print(f"{score(output)}; labels are in {output}")
