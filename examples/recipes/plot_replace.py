"""
Replacing DBSTREAM and MiniBatchKMeans
======================================

The same stream, the same loop, another model. This page puts ``DynamicalMixture`` in
the place of river's ``DBSTREAM``, which takes one dictionary at a time and is told a
radius, and of scikit-learn's ``MiniBatchKMeans``, which takes batches and is told the
number of clusters.
"""

from itertools import product
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from river import cluster
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_mutual_info_score

import dyncrp.river
from dyncrp import DynamicalMixture, Exponential, Stationary, plots

# %%
# A stream with clusters that come back
# -------------------------------------
#
# There are ten clusters in the plane, four at a time. Every 400 rows one of the four
# goes, and another comes, which may have been there before.

N, K, WARMUP = 8000, 10, 1000


def make_stream(seed, n=N):
    """Return rows (n, 2) and their clusters."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-14.0, 14.0, (1, 2))
    while len(centers) < K:
        center = rng.uniform(-14.0, 14.0, 2)
        if np.min(np.linalg.norm(centers - center, axis=1)) > 5.0:
            centers = np.vstack([centers, center])
    present, truth = [0, 1, 2, 3], []
    for _ in range(n // 400):
        truth.extend(rng.choice(present, 400))
        present[rng.integers(4)] = rng.choice([k for k in range(K) if k not in present])
    return centers[truth] + rng.normal(size=(n, 2)), np.array(truth)


def as_dicts(X):
    """Return rows as river takes them."""
    return [dict(zip("xy", row, strict=True)) for row in X.tolist()]


# %%
# DBSTREAM
# --------
#
# Its radius and how fast it fades decide what it finds. They are chosen from six pairs
# on another stream, by its true clusters. The loop learns a row and asks for its
# cluster.


def one_at_a_time(model, rows):
    """Return the label of each row on arrival, and the rows in a second after the
    first 2,000."""
    labels = []
    for i, x in enumerate(rows):
        if i == 2 * WARMUP:
            start = process_time()
        model.learn_one(x)
        labels.append(model.predict_one(x))
    return np.array(labels), (len(rows) - 2 * WARMUP) / (process_time() - start)


def dbstream(radius, fading):
    """Return a new DBSTREAM."""
    return cluster.DBSTREAM(clustering_threshold=radius, fading_factor=fading)


other, other_truth = make_stream(seed=100, n=4000)
pairs = list(product((2.5, 3.5, 4.5), (0.01, 0.001)))
found = [one_at_a_time(dbstream(*pair), as_dicts(other))[0] for pair in pairs]
best = pairs[
    np.argmax([adjusted_mutual_info_score(other_truth, labels) for labels in found])
]
print(f"radius and fading: {best}")

# %%
# ``dyncrp.river.DynamicalMixture`` goes into the same loop. It needs no radius: widths
# and centres are learned from the first 1,000 rows. Told nothing at all, it also
# chooses the dynamics. For comparison we say that clusters last for a while and may
# come back much later.

X, truth = make_stream(seed=1000)
lasting = 0.999 * Exponential() + 0.001 * Stationary()

results = {}
results["DBSTREAM"] = one_at_a_time(dbstream(*best), as_dicts(X))
results["dyncrp.river"] = one_at_a_time(
    dyncrp.river.DynamicalMixture(dynamics=lasting), as_dicts(X)
)
results["dyncrp.river, given nothing"] = one_at_a_time(
    dyncrp.river.DynamicalMixture(), as_dicts(X)
)

# %%
# MiniBatchKMeans
# ---------------
#
# It is told that there are ten clusters, and takes a thousand rows at a time. Again the
# loop stays as it is.


def batch_by_batch(model, X):
    """Return the label of each row on arrival, and the rows in a second after the
    first batch."""
    labels, seconds = [], 0.0
    for begin in range(0, len(X), 1000):
        start = process_time()
        labels.append(model.partial_fit(X[begin : begin + 1000]).labels_)
        seconds += process_time() - start if begin else 0.0
    return np.concatenate(labels), (len(X) - 1000) / seconds


results["MiniBatchKMeans"] = batch_by_batch(MiniBatchKMeans(K, random_state=0), X)
results["dyncrp"] = batch_by_batch(DynamicalMixture(dynamics=lasting), X)
given_nothing = DynamicalMixture()
results["dyncrp, given nothing"] = batch_by_batch(given_nothing, X)

# %%
# Side by side
# ------------
#
# AMI compares labels on arrival with the truth, from row 1,000 on, since the labels of
# dyncrp are provisional before. Speed is that after its warm-up, which takes about a
# second once, on one thread. The last column compares it with the first model of the
# same loop.

loops = {
    "DBSTREAM": ("dyncrp.river", "dyncrp.river, given nothing"),
    "MiniBatchKMeans": ("dyncrp", "dyncrp, given nothing"),
}
for peer, ours in loops.items():
    print(f"{'':28s}  AMI  clusters  rows a second")
    for name in (peer, *ours):
        labels, speed = results[name]
        score = adjusted_mutual_info_score(truth[WARMUP:], labels[WARMUP:])
        ratio = f"{speed / results[peer][1]:5.1f} times" if name in ours else ""
        found = len(np.unique(labels[WARMUP:]))
        print(f"{name:28s} {score:.3f} {found:8d} {speed:14,.0f} {ratio}".rstrip())

# %%
# Told nothing, it chooses the dynamics that we gave the other, which keep a trace of
# every table: a cluster that returns is recognised. Two rows at an edge have opened
# tables of their own, which ``clusters`` joins afterwards:

joined = given_nothing.clusters().labels(results["dyncrp, given nothing"][0])
score = adjusted_mutual_info_score(truth[WARMUP:], joined[WARMUP:])
print(
    f"given nothing, joined at the end: AMI {score:.3f}, {len(np.unique(joined))} "
    "clusters"
)

# %%
# What they found
# ---------------
#
# Each line is one label, in order of its first use, and each mark is a row, in the
# colour of its true cluster. With ``DynamicalMixture`` a line has one colour, and a
# cluster that returns is on its line again. DBSTREAM numbers its clusters anew as it
# joins them, so a line changes its colour. ``MiniBatchKMeans`` places all centres in
# the first batch.

shown = {"truth": truth} | {
    name: results[name][0] for name in ("dyncrp", "DBSTREAM", "MiniBatchKMeans")
}
lines = {
    name: np.unique(labels[WARMUP:], return_index=True, return_inverse=True)[1:]
    for name, labels in shown.items()
}
heights = [len(first) + 1 for first, _ in lines.values()]
colors = np.array(
    [plots.table_style(label)[0] for label in range(8)] + [(0.0,) * 3, (0.6,) * 3]
)
figure, axes = plt.subplots(
    4, 1, figsize=(8.0, 8.0), sharex=True, layout="constrained", height_ratios=heights
)
for axis, (name, (first, inverse)) in zip(axes, lines.items(), strict=True):
    line = np.argsort(np.argsort(first))[inverse]
    marks = {"c": colors[truth[WARMUP:]], "s": 8, "marker": "|", "linewidth": 0.4}
    axis.scatter(np.arange(WARMUP, N), line, **marks)
    axis.set(ylim=(len(first) - 0.4, -0.6), yticks=[], ylabel="label")
    axis.set_title(name, loc="left")
axes[-1].set_xlabel("row")
plt.show()
