"""Real streams: sets that packages ship, and those of a folder, in their own order, shuffled, or in runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import datasets

from benchmarks.streams.base import Rows

Load = Callable[[int], Rows]
MOST = 2000  # rows of a set
STAY = 0.95  # probability that the next row of a stream in runs is of the same class
TIMED = ("outdoor", "gas")  # files of a folder whose rows are in order of time


def shipped() -> dict[str, Load]:
    """Return the streams that scikit-learn, river and vega_datasets ship: the function takes a seed."""
    return {
        **of_scikit_learn(),
        "image segments, in runs": lambda seed: in_runs(*_river("ImageSegments"), seed),
        "phishing": lambda seed: shuffled(*_river("Phishing"), seed),
        "bananas": lambda seed: shuffled(*_river("Bananas"), seed),
        "waveforms and noise": _waveforms,
        "drifting centroids": _drifting,
        "weather of Seattle, by day": lambda seed: _weather(),
        "cars": lambda seed: shuffled(*_cars(), seed),
    }


def of_scikit_learn() -> dict[str, Load]:
    """Return the streams that scikit-learn ships. Digits stay pixels, 0 to 16; wine and breast cancer are scaled."""
    return {
        "digits, shuffled": lambda seed: shuffled(*_sklearn("digits"), seed),
        "digits, in runs": lambda seed: in_runs(*_sklearn("digits"), seed),
        "wine": lambda seed: shuffled(*_sklearn("wine", scaled=True), seed),
        "breast cancer": lambda seed: shuffled(*_sklearn("breast_cancer", scaled=True), seed),
    }


def in_folder(folder: Path) -> dict[str, Load]:
    """Return the streams of a folder of .npz files with X (n, D) and y (n,)."""
    found: dict[str, Load] = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            if {"X", "y"} <= set(file):
                timed = path.stem in TIMED
                name = f"{path.stem}, {'as recorded' if timed else 'in runs'}"
                found[name] = lambda seed, path=path, timed=timed: _file(path, timed, seed)
    return found


def shuffled(X: Any, y: Any, seed: int) -> Rows:
    """Return a stream in random order."""
    some = np.random.default_rng(seed).permutation(len(y))[:MOST]
    return Rows(np.ascontiguousarray(X[some], dtype=float), np.unique(y, return_inverse=True)[1][some])


def in_runs(X: Any, y: Any, seed: int) -> Rows:
    """Return a stream in which rows of a class come in runs: see ``sticky_order``."""
    codes = np.unique(y, return_inverse=True)[1]
    some = sticky_order(codes, STAY, seed)[:MOST]
    return Rows(np.ascontiguousarray(X[some], dtype=float), codes[some])


def sticky_order(y: ArrayLike, stay: float, seed: int) -> NDArray[np.int64]:
    """Return a permutation of the rows whose classes y (n,) come in runs, as in a stream that changes with time.

    A Markov chain over classes: the next row is of the same class with probability ``stay``, otherwise of another,
    uniformly chosen among those that have rows left. Runs have mean length 1 / (1 - stay) while the classes last; a
    class that runs out ends its run early, and the last class left has no other to jump to. The rows of a class come
    in random order.

    >>> y = [0, 0, 0, 1, 1, 1]
    >>> [y[i] for i in sticky_order(y, stay=1.0, seed=0)]
    [0, 0, 0, 1, 1, 1]
    """
    rng = np.random.default_rng(seed)
    classes, members = np.unique(np.asarray(y), return_inverse=True)
    left = [rng.permutation(np.flatnonzero(members == k)).tolist() for k in range(len(classes))]
    order: list[int] = []
    current = int(rng.integers(len(classes)))
    while len(order) < len(members):
        others = [k for k, rows in enumerate(left) if rows and k != current]
        if others and (not left[current] or (order and rng.random() >= stay)):
            current = others[rng.integers(len(others))]
        order.append(left[current].pop())
    return np.array(order, dtype=np.int64)


def _file(path: Path, timed: bool, seed: int) -> Rows:
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"]
    if not timed:
        return in_runs(X, y, seed)
    some = np.sort(np.random.default_rng(seed).permutation(len(y))[: 2 * MOST])
    return Rows(_scaled(X[some]), np.unique(y[some], return_inverse=True)[1])


def _sklearn(name: str, *, scaled: bool = False) -> tuple[Any, Any]:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (_scaled(X) if scaled else X), y


def _river(name: str) -> tuple[Any, Any]:
    from river import datasets as streams

    rows = list(getattr(streams, name)())
    return _scaled(np.array([list(x.values()) for x, _ in rows], dtype=float)), np.array([y for _, y in rows])


def _waveforms(seed: int) -> Rows:
    """Return river's waveforms: 21 features of three overlapping classes, and 19 of noise."""
    from river.datasets import synth

    return _take(synth.Waveform(seed=seed, has_noise=True))


def _drifting(seed: int) -> Rows:
    """Return river's radial basis functions, which start anew in other directions at the walls of a cube."""
    from river.datasets import synth

    kind = {"n_classes": 10, "n_features": 10, "n_centroids": 10, "n_drift_centroids": 10, "change_speed": 0.001}
    return _take(synth.RandomRBFDrift(seed_model=seed, seed_sample=seed, **kind))


def _take(stream: Any) -> Rows:
    rows = list(stream.take(MOST))
    X = np.array([list(x.values()) for x, _ in rows], dtype=float)
    return Rows(_scaled(X), np.unique([y for _, y in rows], return_inverse=True)[1])


def _weather() -> Rows:
    from vega_datasets import local_data

    frame = local_data.seattle_weather()
    X = frame[["precipitation", "temp_max", "temp_min", "wind"]].to_numpy(dtype=float)
    return Rows(_scaled(X), np.unique(frame["weather"], return_inverse=True)[1])


def _cars() -> tuple[Any, Any]:
    from vega_datasets import local_data

    frame = local_data.cars().dropna()
    columns = ["Miles_per_Gallon", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration"]
    return _scaled(frame[columns].to_numpy(dtype=float)), frame["Cylinders"].to_numpy()


def _scaled(X: Any) -> Any:
    X = X[:, np.std(X, axis=0) > 0.0]
    return (X - X.mean(axis=0)) / X.std(axis=0)
