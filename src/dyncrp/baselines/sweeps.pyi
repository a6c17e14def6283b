"""The extension in ``sweeps.cpp``: what the baselines do row by row."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

class Partition:
    def __call__(self, n: int, s: Float) -> float: ...
    def most_gained(self, s: Float, joined: Float) -> float: ...

class GaussianPartition(Partition):
    def __init__(self, offset: Float, first: Float) -> None: ...

class BernoulliPartition(Partition):
    def __init__(self, offset: Float, first: Float, second: Float) -> None: ...

class VonMisesFisherPartition(Partition):
    def __init__(self, kappa: float, order: float, steps: int, stirling: float, u: Float, v: Float) -> None: ...

def gibbs_sweep(rows: Float, labels: Int, log_alpha: float, uniforms: Float, partition: Partition) -> float: ...
def link_sweep(rows: Float, weights: Float, links: Int, roots: Int, uniforms: Float, partition: Partition) -> float: ...
def assign_to_nearest(rows: Float, centers: Float, penalty: float, labels: Int) -> None: ...
def stream_means(
    rows: Float,
    sums: Float,
    centers: Float,
    counts: Int,
    K: int,
    penalty: float,
    radius: float,
    labels: Int,
) -> int: ...
