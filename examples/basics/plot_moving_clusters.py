"""
Clusters that move
==================

Five clusters lie on a circle, which turns once about its centre. By default the centre
of a table is the mean of all its rows: it stays behind, and new tables open for the
same cluster. With a finite ``memory`` a table forgets its old rows, and follows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, plots

# %%
# In 4,000 rows the circle makes one turn.

rng = np.random.default_rng(0)
n = 4000
cluster = rng.integers(5, size=n)
angle = 2 * np.pi * (cluster / 5 + np.arange(n) / n)
X = 10.0 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(n, 2))

# %%
# With ``memory=None`` the memory is learned, like everything else that is not given.

models = {
    "memory=inf, the default": DynamicalMixture().fit(X),
    "memory=None": DynamicalMixture(memory=None).fit(X),
}
for name, model in models.items():
    ami = adjusted_mutual_info_score(cluster, model.labels_)
    print(
        f"{name}: memory {model.memory_:g}, {model.n_tables_} tables, AMI with "
        f"the true clusters {ami:.2f}"
    )

# %%
# Each row is drawn by its angle as seen from the centre, so that the path of a cluster
# is a straight line that leaves at the top and comes in again at the bottom. Above,
# tables stay where they are, and clusters pass from one to the next. Below, each path
# has one colour and shape of mark: the table has followed its cluster.

figure, axes = plt.subplots(
    2, 1, figsize=(9, 6.4), sharex=True, sharey=True, layout="constrained"
)
direction = np.degrees(np.arctan2(X[:, 1], X[:, 0])) % 360
for axis, (name, model) in zip(axes, models.items(), strict=True):
    for table in np.unique(model.labels_):
        at = np.flatnonzero(model.labels_ == table)
        color, marker = plots.table_style(table)
        axis.scatter(
            at,
            direction[at],
            s=10,
            color=color,
            marker=marker,
            linewidths=0,
            label=f"{table}",
        )
    axis.set(
        title=f"{name}: {model.n_tables_} tables",
        ylabel="angle (degrees)",
        yticks=range(0, 361, 90),
    )
    axis.legend(
        title="table",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        markerscale=2,
    )
axes[1].set(xlabel="row", xlim=(0, n), ylim=(0, 360))
plt.show()
