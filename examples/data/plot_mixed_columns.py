"""
Mixed columns with missing cells
================================

Trips with rented bicycles have a duration, a distance, a place where they start, and
two answers of yes or no. Many cells are missing. A DataFrame can be clustered as it is:
nothing has to be scaled, encoded or filled in. A missing cell is integrated out, which
is exact.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dyncrp import DynamicalMixture, plots

# %%
# Four kinds of trips: to the station, errands, walks in the park, tours. One cell in
# four is missing.

rng = np.random.default_rng(0)
kind = rng.integers(4, size=1000)
places = np.array(["station", "home", "park"])
likely = np.array(
    [[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.1, 0.1, 0.8], [0.05, 0.55, 0.4]]
)
trips = pd.DataFrame(
    {
        "minutes": rng.normal(np.array([12.0, 25.0, 55.0, 70.0])[kind], 5.0),
        "kilometres": rng.normal(np.array([3.0, 5.0, 6.0, 14.0])[kind], 1.0),
        "start": [rng.choice(places, p=likely[each]) for each in kind],
        "electric": rng.random(1000) < np.array([0.1, 0.3, 0.1, 0.9])[kind],
        "subscriber": rng.random(1000) < np.array([0.95, 0.8, 0.1, 0.4])[kind],
    }
)
holes = rng.random(trips.shape) < 0.25
seen = trips.mask(holes)
print(seen[:4].to_string())

# %%
# The model finds out what the columns hold. ``describe()`` tells what a table is.

model = DynamicalMixture().fit(seen)
print(model.encoding_.describe())
print(
    model.describe()
    .drop(columns=["share", "first_seen", "last_seen"])
    .round(2)
    .to_string()
)

# %%
# The usual way around missing cells is to fill them in: with the mean of a column of
# numbers, and with the most frequent entry elsewhere. For comparison we give such rows
# to the same model, and to k-means after scaling and encoding.

filled = seen.copy()
for column in seen:
    cells = seen[column].dropna()
    typical = cells.mean() if cells.dtype.kind == "f" else cells.mode()[0]
    filled[column] = seen[column].fillna(typical).astype(trips[column].dtype)
encoder = make_column_transformer(
    (StandardScaler(), ["minutes", "kilometres"]),
    (OneHotEncoder(drop="if_binary"), ["start", "electric", "subscriber"]),
)
k_means = KMeans(4, n_init=10, random_state=0)
labels = {
    "nothing missing": DynamicalMixture().fit(trips).labels_,
    "cells missing": model.labels_,
    "cells filled in": DynamicalMixture().fit(filled).labels_,
    "cells filled in,\nKMeans(4)": k_means.fit_predict(encoder.fit_transform(filled)),
}
scores = {name: adjusted_mutual_info_score(kind, each) for name, each in labels.items()}

# %%
# Left, the trips by their numbers, coloured by table. Where one of the two numbers is
# missing, the mark is in the margin; the model goes by the other number, the start, and
# yes and no. Right, the agreement with the four kinds. Missing cells cost something,
# since some rows have little left. To fill them in costs more.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.4), layout="constrained", width_ratios=[1.5, 1]
)
x, y = seen.minutes.fillna(-14.0), seen.kilometres.fillna(-2.0)
nudge = rng.uniform(-1.0, 1.0, size=(2, len(x)))
x, y = (
    x + 2.0 * nudge[0] * seen.minutes.isna(),
    y + 0.5 * nudge[1] * seen.kilometres.isna(),
)
for table in model.table_ids_:
    at = model.labels_ == table
    color, marker = plots.table_style(table)
    left.scatter(
        x[at], y[at], s=14, color=color, marker=marker, linewidths=0, label=f"{table}"
    )
left.axvline(-7.0, color="0.6", linewidth=0.8)
left.axhline(-1.0, color="0.6", linewidth=0.8)
left.set_xticks([-14, 0, 20, 40, 60, 80], ["missing", "0", "20", "40", "60", "80"])
left.set_yticks([-2, 0, 5, 10, 15], ["missing", "0", "5", "10", "15"])
left.set(xlabel="minutes", ylabel="kilometres")
left.legend(title="table", loc="center right", markerscale=1.6)
bars = right.barh(
    [*scores], [*scores.values()], color=["0.6", plots.COLORS[0], "0.6", "0.6"]
)
right.bar_label(bars, fmt="%.2f", padding=3)
right.set(xlabel="AMI with the true kinds", xlim=(0, 1.1))
right.invert_yaxis()
right.spines[["top", "right"]].set_visible(False)
plt.show()
