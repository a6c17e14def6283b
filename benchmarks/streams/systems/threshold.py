"""A threshold with a running mean: what people write for streams, by cosine for embeddings, by distance else."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.data import Float
from benchmarks.streams.base import Labels, Rows, System, neighbour_distance

COSINES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
DISTANCES = (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)  # times the median distance of neighbours
FIXED = 0.8  # the cosine of the ten that is best for the mean over all streams
TOLD = "classes, to choose of ten thresholds"


class Threshold:
    """A row joins the cluster whose mean is nearest if that is near enough, and opens one otherwise.

    ``cosine``: rows and means are scaled to length 1, so that the nearest has the largest cosine.
    """

    def __init__(self, distance: float, D: int, *, cosine: bool) -> None:
        self.distance, self.cosine = distance, cosine
        self.sums, self.means, self.counts, self.n = np.zeros((64, D)), np.zeros((64, D)), np.zeros(64), 0

    def learn_one(self, x: Float) -> int:
        """Return the cluster of a row (D,), and add the row to it."""
        x = x / max(float(np.linalg.norm(x)), 1e-12) if self.cosine else x
        apart = np.sum((self.means[: self.n] - x) ** 2, axis=1)
        best = int(np.argmin(apart)) if self.n else -1
        if best < 0 or apart[best] > self.distance**2:
            best = self.n
            self.n += 1
            if self.n > len(self.sums):
                self.sums, self.means = (np.vstack([one, np.zeros_like(one)]) for one in (self.sums, self.means))
                self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.sums[best] += x
        self.counts[best] += 1
        size = max(float(np.linalg.norm(self.sums[best])), 1e-12) if self.cosine else self.counts[best]
        self.means[best] = self.sums[best] / size
        return best

    def learn(self, X: Float) -> Labels:
        """Return the clusters of rows (n, D), and add each row to its own."""
        return np.array([self.learn_one(x) for x in X])

    def predict(self, X: Float) -> Labels:
        """Return the nearest clusters of rows (n, D)."""
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12) if self.cosine else X
        means = self.means[: self.n]
        return np.argmin(np.sum(means**2, axis=1) - 2.0 * X @ means.T, axis=1)


def cosine_threshold(stream: Rows, seed: int) -> System:
    """Return the cosine of ten that agrees best with the true clusters: an advantage that nobody has."""
    return _best("cosine threshold", stream, [_apart(cosine) for cosine in COSINES], cosine=True)


def fixed_threshold(stream: Rows, seed: int) -> System:
    """Return one cosine for all streams."""
    model = Threshold(_apart(FIXED), stream.X.shape[1], cosine=True)
    return _system(f"cosine threshold {FIXED}", "nothing, with one threshold for all streams", model)


def distance_threshold(stream: Rows, seed: int) -> System:
    """Return the distance of ten that agrees best with the true clusters: an advantage that nobody has."""
    unit = neighbour_distance(stream.X, 0.5)
    return _best("distance threshold", stream, [unit * times for times in DISTANCES], cosine=False)


def _best(name: str, stream: Rows, distances: list[float], *, cosine: bool) -> System:
    def make(distance: float) -> Threshold:
        return Threshold(distance, stream.X.shape[1], cosine=cosine)

    best = max(distances, key=lambda value: adjusted_mutual_info_score(stream.truth, make(value).learn(stream.X)))
    return _system(name, TOLD, make(best))


def _apart(cosine: float) -> float:
    """Return the distance of unit vectors."""
    return float(np.sqrt(2.0 - 2.0 * cosine))


def _system(name: str, told: str, model: Threshold) -> System:
    return System(name, told, model.learn, model.predict, lambda: (model.sums[: model.n], model.counts[: model.n]), 100)


SYSTEMS = (fixed_threshold, cosine_threshold, distance_threshold)
