"""``python -m benchmarks.clusters [--quick] [--first SEED] [--connections FILE]``: are clusters what one would see?"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import speed

SIZES = (500, 1500, 5000)
CLOUD_ROWS = 1000
SEEDS, CLOUD_SEEDS, ORDERS = 10, 25, 5
FIRST_SEED = 1000  # the rules of clusters were chosen on seeds below 100
CONNECTION_CLUSTERS = 14
SECTIONS = ("shapes", "clouds", "classes")
Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Parse, run and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, 500 rows")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (may be repeated)")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--connections", type=Path, help="connections.csv.gz, network connections with a column class")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "clusters.json")
    options = parser.parse_args(arguments)
    from benchmarks import report

    every = dict(zip(SECTIONS, (_shapes, _clouds, _classes), strict=True))
    for name, tables in speed.run(every, options.only or list(every), options, COLUMNS):
        report.write(options.results, {name: tables}, quick=options.quick)


COLUMNS = {
    "ami": ("AMI", lambda v: f"{v:.3f}"),
    "right": ("right number", lambda v: f"{100 * v:.0f} %"),
    "clusters": ("clusters", lambda v: f"{v:.1f}"),
    "told": ("given", str),
}
SYSTEMS = {
    "clusters": "nothing",
    "tables": "nothing",
    "HDBSCAN": "min_cluster_size 10",
    "k-means": "K, 10 starts",
}


def _shapes(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for each kind of data and size, and the mean of all."""
    from benchmarks import shapes

    seeds = range(options.first, options.first + (1 if options.quick else SEEDS))
    sizes = SIZES[:1] if options.quick else SIZES
    kinds = {**shapes.six(), **shapes.blobs()}
    cases = [(name, n, seed) for name in kinds for n in sizes for seed in seeds]
    scores = _run_all(cases, kinds, options.jobs)
    for n in sizes:
        for name in shapes.six():
            yield f"{name}, {n:,} rows", _mean(s for c, s in zip(cases, scores, strict=True) if c[:2] == (name, n))
    for name in shapes.blobs():
        yield name, _mean(s for c, s in zip(cases, scores, strict=True) if c[0] == name)
    yield "all of these", _mean(scores)


def _clouds(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table for each cloud: how often it is one cluster."""
    from benchmarks import shapes

    seeds = range(options.first, options.first + (1 if options.quick else CLOUD_SEEDS))
    kinds = shapes.clouds()
    cases = [(name, CLOUD_ROWS, seed) for name in kinds for seed in seeds]
    scores = _run_all(cases, kinds, options.jobs)
    for name in kinds:
        yield name, _mean(s for c, s in zip(cases, scores, strict=True) if c[0] == name)
    yield "all clouds", _mean(scores)


def _classes(options: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield one table for each real data set, joined into as many clusters as there are classes."""
    from benchmarks.streams.shipped import of_scikit_learn

    for name, load in of_scikit_learn().items():
        yield name, _mean(_given_k(*load(seed)) for seed in range(1 if options.quick else ORDERS))
    if options.connections is not None:
        X, y = _connections(options.connections)
        yield "connections, rows 30,000 to 60,000", _mean([_given_k(X[30_000:], y[30_000:], CONNECTION_CLUSTERS)])


def _run_all(cases: list[tuple[str, int, int]], kinds: dict[str, Any], jobs: int) -> list[list[Row]]:
    from joblib import Parallel, delayed

    made = (kinds[name](n, seed) for name, n, seed in cases)
    return list(Parallel(n_jobs=jobs)(delayed(_score)(X, y) for X, y in made))


def _score(X: Any, y: Any) -> list[Row]:
    """Return how every system does on rows X of classes y."""
    import numpy as np
    from sklearn.cluster import HDBSCAN, KMeans

    from dyncrp import DynamicalMixture

    K = len(np.unique(y))
    model = DynamicalMixture().fit(X)
    found = {
        "clusters": model.clusters().labels(model.labels_),
        "tables": model.labels_,
        "HDBSCAN": HDBSCAN(min_cluster_size=10, copy=True).fit_predict(X),
        "k-means": KMeans(K, n_init=10, random_state=0).fit_predict(X),
    }
    return [_row(name, y, labels) for name, labels in found.items()]


def _given_k(X: Any, y: Any, K: int | None = None) -> list[Row]:
    """Return how tables, clusters of them and k-means do; the latter two are given the number of classes."""
    import numpy as np
    from sklearn.cluster import KMeans

    from dyncrp import DynamicalMixture

    K = K or len(np.unique(y))
    model = DynamicalMixture().fit(X)
    found = {
        f"{K} clusters": model.clusters(min(K, model.n_tables_)).labels(model.labels_),
        "clusters": model.clusters().labels(model.labels_),
        "tables": model.labels_,
        "k-means": KMeans(K, n_init=10, random_state=0).fit_predict(X),
    }
    return [_row(name, y, labels) for name, labels in found.items()]


def _row(system: str, y: Any, labels: Any) -> Row:
    """Return the agreement with the classes. Rows that HDBSCAN calls noise are one more cluster; all noise is one."""
    import numpy as np
    from sklearn.metrics import adjusted_mutual_info_score

    n_clusters = max(1, len(np.unique(labels[labels >= 0])))
    K = len(np.unique(y))
    ami = adjusted_mutual_info_score(y, labels) if K > 1 else float(n_clusters == 1)
    return {"system": system, "ami": ami, "right": float(n_clusters == K), "clusters": n_clusters}


def _mean(scores: Any) -> list[Row]:
    """Return the mean of every system over several data sets."""
    import numpy as np

    runs = list(scores)
    return [
        {"system": rows[0]["system"], "told": SYSTEMS.get(rows[0]["system"], "K")}
        | {key: float(np.mean([row[key] for row in rows])) for key in ("ami", "right", "clusters")}
        for rows in zip(*runs, strict=True)
    ]


def _connections(path: Path) -> tuple[Any, Any]:
    """Return the numeric columns, as log(1 + x) and standardised, and the classes."""
    import csv

    import numpy as np

    with gzip.open(path, "rt") as file:
        header, *rows = list(csv.reader(file))
    numeric: Callable[[str], bool] = lambda text: text.replace(".", "", 1).isdigit()  # noqa: E731
    columns = [i for i, name in enumerate(header) if name != "class" and all(numeric(row[i]) for row in rows)]
    X = np.log1p(np.array([[float(row[i]) for i in columns] for row in rows]))
    X = X[:, X.std(axis=0) > 0]
    y = np.unique([row[header.index("class")] for row in rows], return_inverse=True)[1]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.clusters")
    main()
