"""
Tables and clusters
===================

A table is the model's own unit, with an id that never changes. Several tables may share
a cluster. ``clusters()`` joins them by evidence into ellipses, unless these would cut
through curves, as here: then where no valley parts them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, plots

# %%
# Two moons, two rings, and a cloud without clusters.

clouds = {
    "moons": make_moons(1000, noise=0.06, random_state=0),
    "rings": make_circles(1000, factor=0.45, noise=0.06, random_state=0),
    "no clusters": (
        np.random.default_rng(0).uniform(size=(1000, 2)),
        np.zeros(1000, dtype=int),
    ),
}

# %%
# Rows get their table as they arrive. Clusters are formed when one asks for them, and
# change nothing in the model.
#
# Above, rows are coloured by table; below, by cluster. All moons and rings are put
# together again. In the cloud there is no gap between any tables, so there is one
# cluster: no clusters stand out.

figure, axes = plt.subplots(2, 3, figsize=(10, 6.6), layout="constrained")
for (above, below), (name, (X, truth)) in zip(axes.T, clouds.items(), strict=True):
    model = DynamicalMixture().fit(X)
    clusters = model.clusters()
    of_rows = clusters.labels(model.labels_)
    print(
        f"{name}: AMI of the clusters with the truth "
        f"{adjusted_mutual_info_score(truth, of_rows):.2f}; {clusters.headline}"
    )
    for axis, labels in ((above, model.labels_), (below, of_rows)):
        for rank, label in enumerate(np.unique(labels)):
            color, marker = plots.table_style(rank)
            axis.scatter(
                *X[labels == label].T, s=10, color=color, marker=marker, linewidths=0
            )
        axis.set(xticks=[], yticks=[])
    above.set_title(f"{name}: {model.n_tables_} tables", fontsize="medium")
    below.set_title(
        f"{len(clusters)} cluster{'s' * (len(clusters) > 1)}", fontsize="medium"
    )
plt.show()
