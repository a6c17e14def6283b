"""
A pipeline that learns batch by batch
=====================================

scikit-learn's ``Pipeline`` has no ``partial_fit``. This page shows what to do instead:
steps that have nothing to learn, steps that are fitted once and frozen, and steps that
keep learning. The second is nearly always best for clusters, because a step that keeps
learning moves the clusters that were found.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dyncrp import DynamicalMixture, Exponential, Stationary

# %%
# A plant with thirty sensors
# ---------------------------
#
# A machine has 12 states, each of which lasts for some 20 minutes; in the first hours
# it has four of them, later more. Thirty sensors see four hidden numbers, each in its
# own unit, from thousandths to thousands, and on a logarithmic scale. Rows come at
# irregular times, in batches of 1,000.

BATCH = 1000


def plant(seed, n=15_000, n_states=12, n_sensors=30):
    """Return rows (n, 30), their times and their states."""
    rng = np.random.default_rng(seed)
    row = np.arange(n)
    known = np.minimum(4 + row // 1000, n_states)
    change = (rng.random(n) < 1 / 40) | (row == 0)
    states = rng.integers(known)[np.maximum.accumulate(np.where(change, row, 0))]
    hidden = rng.normal(0.0, 4.0, (n_states, 4))[states] + rng.normal(size=(n, 4))
    units = 10.0 ** rng.uniform(-3.0, 3.0, n_sensors)
    signal = 0.15 * hidden @ rng.normal(size=(4, n_sensors)) + 0.2 * rng.normal(
        size=(n, n_sensors)
    )
    times = np.datetime64("2024-03-01", "s") + np.cumsum(
        rng.exponential(30.0, n)
    ).astype("m8[s]")
    return units * np.exp(signal), times, states


def batches(*arrays):
    """Yield a thousand rows at a time."""
    for begin in range(0, len(arrays[0]), BATCH):
        yield tuple(array[begin : begin + BATCH] for array in arrays)


X, times, states = plant(seed=2000)

# %%
# Steps that have nothing to learn
# --------------------------------
#
# A ``FunctionTransformer``, a ``Normalizer`` or a ``HashingVectorizer`` has no state,
# so its ``transform`` can be called at any time. ``DynamicalMixture`` needs no scaler:
# it learns the covariance of its clusters in their own units. States last for a while
# and come back, which the dynamics say; the timescale is learned.

logarithm = FunctionTransformer(np.log)
sticky = 0.999 * Exponential() + 0.001 * Stationary()
model = DynamicalMixture(dynamics=sticky)
for rows, when in batches(X, times):
    model.partial_fit(logarithm.transform(rows), times=when)
print(f"{model.n_tables_} tables of {model.n_observations_:,} rows")

# %%
# Steps that are fitted once
# --------------------------
#
# ``StandardScaler`` and ``PCA`` are fitted on the first batch. ``FrozenEstimator``
# keeps them as they are: neither ``fit`` nor ``clone`` changes them. With metadata
# routing the pipeline passes ``times`` on to the steps that ask for them.

with sklearn.config_context(enable_metadata_routing=True):
    prepare = make_pipeline(logarithm, StandardScaler(), PCA(4)).fit(X[:BATCH])
    clusters = (
        DynamicalMixture(dynamics=sticky)
        .set_fit_request(times=True)
        .set_predict_request(times=True)
    )
    pipeline = make_pipeline(FrozenEstimator(prepare), clusters)
    pipeline.fit(X[:BATCH], times=times[:BATCH])

# %%
# From then on, the last step takes what the others make. The whole pipeline still
# predicts, and can be pickled.

for rows, when in list(batches(X, times))[1:]:
    pipeline[-1].partial_fit(pipeline[:-1].transform(rows), times=when)
with sklearn.config_context(enable_metadata_routing=True):
    later = np.full(3, times[-1] + np.timedelta64(1, "m"))
    print(pipeline.predict(X[-3:], times=later), pipeline[-1].labels_[-3:])

# %%
# Steps that keep learning
# ------------------------
#
# ``StandardScaler`` and ``IncrementalPCA`` have a ``partial_fit``. Each batch then
# changes the mean, the scale and the axes, and what a table has learned about the old
# axes is wrong for the new ones.


def learn(steps, rows):
    """Let those steps learn that can, and return what all of them make of the rows."""
    for step in steps:
        if hasattr(step, "partial_fit"):
            step.partial_fit(rows)
        rows = step.transform(rows)
    return rows


moving = [logarithm, StandardScaler(), IncrementalPCA(4)]
moved = np.concatenate([learn(moving, rows) for (rows,) in batches(X)])
frozen = prepare.transform(X)

# %%
# Below is one coordinate of all rows, and of the state that moved most. Frozen, it
# stays where it is. With steps that keep learning it drifts, and then an axis changes
# its sign: in the new coordinates that is a new cluster.


def shift(rows):
    """Return how far each coordinate of each state went, from its first to its last
    hundred rows."""
    return [
        np.abs(
            rows[states == k][:100].mean(axis=0) - rows[states == k][-100:].mean(axis=0)
        )
        for k in range(12)
    ]


state, coordinate = np.unravel_index(np.argmax(shift(moved)), (12, 4))
figure, axes = plt.subplots(2, 1, figsize=(8.0, 5.0), sharex=True, layout="constrained")
titles = (
    "fitted on the first 1,000 rows, then frozen",
    "StandardScaler and IncrementalPCA that keep learning",
)
for axis, title, rows in zip(axes, titles, (frozen, moved), strict=True):
    (of_state,) = np.nonzero(states == state)
    axis.plot(rows[:, coordinate], ".", ms=1, color="0.75", label="all rows")
    axis.plot(
        of_state,
        rows[of_state, coordinate],
        ".",
        ms=2,
        color="black",
        label=f"rows of state {state}",
    )
    axis.set_title(title, loc="left")
    axis.set_ylabel(f"coordinate {coordinate + 1}")
axes[0].legend(
    loc="lower right", ncols=2, bbox_to_anchor=(1.0, 1.0), markerscale=6, frameon=False
)
axes[1].set_xlabel("row")
plt.show()

# %%
# Numbers
# -------
#
# ``DynamicalMixture`` is told the form of the dynamics above and nothing else.
# ``MiniBatchKMeans`` is told that there are 12 states. AMI is that of the labels on
# arrival, 1 being perfect. Speed counts all steps, from the second batch on, on one
# thread. The table has the means of two streams.


def run(steps, learner, X, times=None, *, keep_learning=False):
    """Learn batch by batch; return the labels on arrival, and the rows in a second."""
    steps = (
        [clone(step) for step in steps]
        if keep_learning
        else make_pipeline(*map(clone, steps)).fit(X[:BATCH])
    )
    labels, seconds = [], 0.0
    for rows, index in batches(X, np.arange(len(X))):
        start = process_time()
        rows = learn(steps, rows) if keep_learning else steps.transform(rows)
        timed = {} if times is None else {"times": times[index]}
        labels.append(learner.partial_fit(rows, **timed).labels_)
        seconds += process_time() - start if len(labels) > 1 else 0.0
    return np.concatenate(labels), (len(X) - BATCH) / seconds


scaled = [logarithm, StandardScaler()]
prepared, moving = [*scaled, PCA(4)], [*scaled, IncrementalPCA(4)]


def ours():
    """Return a new model."""
    return DynamicalMixture(dynamics=sticky)


systems = {
    "logarithm only": lambda X, t: run([logarithm], ours(), X, t),
    "with a scaler and PCA, frozen": lambda X, t: run(prepared, ours(), X, t),
    "a scaler that keeps learning": lambda X, t: run(
        scaled, ours(), X, t, keep_learning=True
    ),
    "with IncrementalPCA": lambda X, t: run(moving, ours(), X, t, keep_learning=True),
    "MiniBatchKMeans(12), PCA frozen": lambda X, t: run(
        prepared, MiniBatchKMeans(12, random_state=0), X
    ),
}
streams = [(X, times, states), plant(seed=2001)]
print(f"{'':32s}  AMI  clusters  rows a second")
for name, system in systems.items():
    results = []
    for rows, when, truth in streams:
        labels, speed = system(rows, when)
        results.append(
            (adjusted_mutual_info_score(truth, labels), len(np.unique(labels)), speed)
        )
    score, found, speed = np.mean(results, axis=0)
    print(f"{name:32s} {score:.3f} {found:8.1f} {speed:14,.0f}")
