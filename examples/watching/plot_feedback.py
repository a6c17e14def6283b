"""
Tell it what you know
=====================

A tag reports where somebody is in a flat. The model finds places. It cannot know that
the sofa and the dining table are both in the living room, nor that there is a pantry
beside the kitchen. People know, and can say so: ``merge`` joins two tables, ``rename``
gives a name, and ``labels=`` says which table some rows belong to. ``explain`` answers
why a row is where it is.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dyncrp import DynamicalMixture, NormalGamma, plots

# %%
# Positions in metres. The pantry is small, and seldom visited.

rng = np.random.default_rng(4)
spots = {
    "sofa": [2, 2],
    "dining table": [5.6, 2],
    "kitchen": [10, 2.5],
    "bed": [10, 8],
    "pantry": [11.5, 3.9],
}
spots = pd.DataFrame(spots.values(), index=spots.keys(), columns=["x", "y"])


def positions(n):
    """Return n positions and the spot of each."""
    spot = rng.choice(spots.index, size=n, p=[0.27, 0.24, 0.24, 0.2, 0.05])
    width = np.where(spot == "pantry", 0.35, 0.6)
    return spots.loc[spot] + width[:, None] * rng.normal(size=(n, 2)), spot


# %%
# Told only how wide a place is, about, the model takes the pantry for a part of the
# kitchen, and finds two places in the living room.

family = NormalGamma(variance=0.4, prior_variance=20.0, prior_mean=6.0, degrees=20.0)
first, _ = positions(1000)
model = DynamicalMixture(family, alpha=0.01).fit(first)
before = model.labels_
sofa, dining_table, kitchen, bed, pantry = model.predict(spots)
print(dict(zip(spots.index, model.predict(spots).tolist(), strict=True)))

# %%
# We tell what we know. A merge is exact: the table is what it would be if all rows of
# both had been seated there. Of the next rows, 20 that were in the pantry are labelled;
# ``None`` stands for what nobody knows. The first of them opens a table of that name.

model.rename(model.merge(sofa, dining_table), "living room")
model.rename(kitchen, "kitchen")
model.rename(bed, "bedroom")
second, spot = positions(1000)
in_pantry = np.flatnonzero(spot == "pantry")
labels = [None] * 1000
for row in in_pantry[:20]:
    labels[row] = "pantry"
after = model.partial_fit(second, labels=labels).labels_
print(model.names_)
found = [model.names_[table] == "pantry" for table in after[in_pantry[20:]]]
print(f"{sum(found)} of the {len(found)} other rows in the pantry are at its table")

# %%
# Left, the first 1,000 rows; right, the next 1,000, with the names that we gave. Black
# rings are the rows that were labelled. Most of the others in the pantry follow them.

figure, axes = plt.subplots(
    1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained"
)
for axis, rows, tables, title in (
    (axes[0], first, before, "before"),
    (axes[1], second, after, "after"),
):
    for each in np.unique(tables):
        at = tables == each
        color, marker = plots.table_style(each)
        name = f"table {each}" if title == "before" else model.names_[each]
        axis.scatter(
            *rows[at].to_numpy().T,
            s=12,
            color=color,
            marker=marker,
            linewidths=0,
            label=name,
        )
    axis.set(title=title, xlabel="x (m)", aspect="equal")
axes[1].scatter(
    *second.iloc[in_pantry[:20]].to_numpy().T,
    s=40,
    facecolors="none",
    edgecolors="black",
    linewidths=0.8,
)
axes[0].set_ylabel("y (m)")
for axis in axes:
    axis.legend(loc="upper left", markerscale=1.6)

# %%
# Which table does a row between the kitchen and the pantry belong to, and why? A bar to
# the right speaks for the table that it joins, one to the left for the other. The
# position speaks for the pantry, but the kitchen has more rows, and here that counts
# more.

why = model.explain({"x": 11.3, "y": 3.5})
print(why)
plt.figure(plots.explain(why))
plt.show()
