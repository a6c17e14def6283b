"""``python -m benchmarks.answers [--data FOLDER] [--quick]``: agreement with classes, given nothing and told K.

Every set comes in a shuffled and in a sticky order. dyncrp's labels are those on arrival; the other systems see all
rows at once. ``--data`` is a folder with further sets as .npz files, each with X (n, D) and y (n,). With ``--quick`` or
``--only`` results are saved only to the file that ``--results`` names.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.cluster import HDBSCAN, Birch, KMeans
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks import report, speed
from benchmarks.streams.shipped import STAY, sticky_order
from dyncrp import DynamicalMixture

Rows = np.ndarray
MOST_ROWS = 2000
MOST_COMPONENTS = 30  # of BayesianGaussianMixture, which leaves those empty that it does not need
MOST_FULL = 64  # features of a mixture with full covariances
RESULTS = speed.HERE / "results" / "answers.json"
NOTHING = ("dyncrp, tables", "dyncrp, clusters", "BayesianGaussianMixture", "HDBSCAN")
TOLD = ("dyncrp, clusters(K)", "KMeans", "GaussianMixture", "Birch")


def standard(X: Rows) -> Rows:
    """Return features that vary, each in its own unit."""
    return StandardScaler().fit_transform(X[:, np.std(X, axis=0) > 0.0])


def sets(folder: Path | None) -> dict[str, Callable[[], tuple[Rows, Rows]]]:
    """Return functions that load X (n, D) and y (n,), by name."""

    def loaded(load: Callable[..., tuple[Rows, Rows]], scaled: bool = False) -> Callable[[], tuple[Rows, Rows]]:
        def read() -> tuple[Rows, Rows]:
            X, y = load(return_X_y=True)
            return (standard(X) if scaled else X), y

        return read

    def stream(kind: str) -> Callable[[], tuple[Rows, Rows]]:
        def read() -> tuple[Rows, Rows]:
            from river import datasets as streams

            rows = list(getattr(streams, kind)())
            return standard(np.array([list(x.values()) for x, _ in rows], dtype=float)), np.array([y for _, y in rows])

        return read

    def cars() -> tuple[Rows, Rows]:
        from vega_datasets import local_data

        frame = local_data.cars().dropna()
        columns = ["Miles_per_Gallon", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration"]
        return standard(frame[columns].to_numpy(dtype=float)), frame["Cylinders"].to_numpy()

    def made(name: str) -> Callable[[], tuple[Rows, Rows]]:
        def read() -> tuple[Rows, Rows]:
            if name == "moons":
                return datasets.make_moons(1500, noise=0.05, random_state=0)
            if name == "circles":
                return datasets.make_circles(1500, noise=0.05, factor=0.5, random_state=0)
            X, y = datasets.make_blobs(1500, centers=5, cluster_std=1.5, random_state=8)
            return (X @ [[0.6, -0.6], [-0.4, 0.8]] if name == "long blobs" else X), y

        return read

    found = {
        "iris": loaded(datasets.load_iris),
        "wine": loaded(datasets.load_wine, scaled=True),
        "breast cancer": loaded(datasets.load_breast_cancer, scaled=True),
        "digits": loaded(datasets.load_digits),
        "image segments": stream("ImageSegments"),
        "phishing": stream("Phishing"),
        "bananas": stream("Bananas"),
        "cars": cars,
        **{name: made(name) for name in ("blobs", "long blobs", "moons", "circles")},
    }
    for path in sorted(folder.glob("*.npz")) if folder else ():
        with np.load(path) as file:
            if {"X", "y"} <= set(file):
                found[path.stem] = lambda path=path: (np.load(path)["X"].astype(float), np.load(path)["y"])
    return found


def scores(X: Rows, y: Rows) -> dict[str, float]:
    """Return the AMI of every system with the classes of one stream."""
    K = len(np.unique(y))
    model = DynamicalMixture().fit(X)
    covariance = "full" if X.shape[1] <= MOST_FULL else "diag"
    most = min(MOST_COMPONENTS, len(X) // 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mixtures that have not converged
        found = {
            "dyncrp, tables": model.labels_,
            "dyncrp, clusters": model.clusters().labels(model.labels_),
            "BayesianGaussianMixture": BayesianGaussianMixture(
                n_components=most, covariance_type=covariance, max_iter=300, random_state=0
            ).fit_predict(X),
            "HDBSCAN": HDBSCAN(min_cluster_size=10, copy=True).fit_predict(X),
            "dyncrp, clusters(K)": model.clusters(min(K, model.n_tables_)).labels(model.labels_),
            "KMeans": KMeans(K, n_init=10, random_state=0).fit_predict(X),
            "GaussianMixture": GaussianMixture(K, covariance_type=covariance, random_state=0).fit_predict(X),
            "Birch": Birch(n_clusters=K, threshold=_threshold(X)).fit_predict(X),
        }
    return {name: float(adjusted_mutual_info_score(y, labels)) for name, labels in found.items()}


def _threshold(X: Rows) -> float:
    """Return half the median distance to the nearest neighbour in the first 1,000 rows."""
    from sklearn.neighbors import NearestNeighbors

    some = X[:1000]
    return max(1e-6, 0.5 * float(np.median(NearestNeighbors(n_neighbors=2).fit(some).kneighbors(some)[0][:, 1])))


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, print a table in Markdown, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder of .npz files with X (n, D) and y (n,)")
    parser.add_argument("--quick", action="store_true", help="300 rows of each set in one order of each kind")
    parser.add_argument("--only", action="append", help="run this set (may be repeated)")
    parser.add_argument("--results", type=Path, help=f"a JSON file to save to; {RESULTS.name} for a whole run")
    options = parser.parse_args(arguments)
    path = options.results or (None if options.quick or options.only else RESULTS)
    most, seeds = (300, 1) if options.quick else (MOST_ROWS, 3)
    systems = (*NOTHING, *TOLD)
    print(f"| AMI, shuffled / sticky | {' | '.join(systems)} |\n|---{'|---' * len(systems)}|")
    results: dict[str, dict[str, list[float]]] = {}
    for name, load in sets(options.data).items():
        if options.only and name not in options.only:
            continue
        X, y = load()
        _, y = np.unique(y, return_inverse=True)
        runs: dict[str, list[dict[str, float]]] = {"shuffled": [], "sticky": []}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            for kind, order in (("shuffled", rng.permutation(len(y))), ("sticky", sticky_order(y, STAY, seed))):
                some = order[:most]
                runs[kind].append(scores(X[some], y[some]))
        results[name] = {s: [float(np.mean([r[s] for r in runs[k]])) for k in runs] for s in systems}
        _print(name, results[name])
    mean = {s: np.mean([one[s] for one in results.values()], axis=0).tolist() for s in systems}
    _print("**mean**", mean)
    if path is not None:
        path.write_text(json.dumps({"commit": report.commit(), "sets": results, "mean": mean}, indent=1) + "\n")


def _print(name: str, row: dict[str, list[float]]) -> None:
    cells = (f"{shuffled:.3f} / {sticky:.3f}" for shuffled, sticky in row.values())
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.answers")
    main()
