"""
One model from many shards
==========================

A stream that is too long for one process can be divided into shards, each learned by a
model of its own, wherever there is a processor. ``dyncrp.combine`` makes one model of
them.
"""

import joblib
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

import dyncrp
from dyncrp import plots

# %%
# 200,000 rows of nine clusters in four shards.

rng = np.random.default_rng(0)
centers = 15.0 * np.indices((3, 3)).reshape(2, 9).T + rng.uniform(
    -4.0, 4.0, size=(9, 2)
)
truth = rng.integers(9, size=200_000)
X = centers[truth] + rng.normal(scale=1.5, size=(len(truth), 2))
shards = np.array_split(X, 4)

# %%
# The models must have the same hyperparameters, so these are learned once, from a
# sample of all rows. Only alpha is given: if it is small, a rare outlier opens no
# table. The shards are then learned in parallel, here in two threads. Models can be
# pickled, so that processes or machines do as well: see
# ``joblib_shards.py``, ``ray_shards.py`` and ``spark_shards.py`` in the same folder.

learned = dyncrp.tune(X[::200], dynamics=dyncrp.Stationary(), alpha=1e-4).model
parallel = joblib.Parallel(n_jobs=2, prefer="threads")
models = parallel(
    joblib.delayed(dyncrp.DynamicalMixture(**learned.get_params(deep=False)).fit)(each)
    for each in shards
)
print([model.n_tables_ for model in models], "tables in the shards")

# %%
# Tables of different shards are joined if the rows of both are more probable as one
# cluster.

combined = dyncrp.combine(models)
labels = combined.model.predict(X)
print(
    f"{combined.model.n_tables_} tables and {combined.model.n_observations_:,} "
    "rows in the combined model"
)
print(
    "AMI of its labels with the true clusters "
    f"{adjusted_mutual_info_score(truth, labels):.3f}"
)

# %%
# Small panels show the last rows of each shard with the ids that its own model gave.
# They are in the order in which clusters first came, and so the same cluster has
# another colour and shape in each. In the combined model it has one.
# ``combined.id_maps`` leads from one to the other.

figure, axes = plt.subplot_mosaic(
    "01AA;23AA", figsize=(10, 5.2), sharex=True, sharey=True, layout="constrained"
)
panels = {str(at): (f"shard {at}", shards[at], models[at].labels_) for at in range(4)}
panels["A"] = ("combined", X, labels)
for name, (title, rows, tables) in panels.items():
    for table in np.unique(tables):
        some = rows[tables == table][-80:]
        color, marker = plots.table_style(table)
        axes[name].scatter(*some.T, s=10, color=color, marker=marker, linewidths=0)
        place = {"xytext": (2, -4), "textcoords": "offset points"}
        place["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        place["zorder"] = 2  # above the rows, below the frame
        axes[name].annotate(str(table), some.max(axis=0), **place)
    axes[name].set_title(f"{title}: {len(np.unique(tables))} tables", fontsize="medium")
    axes[name].set(xticks=[], yticks=[])
plt.show()
