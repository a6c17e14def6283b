"""
Filling in a stream
===================

Measurements of 178 wines arrive ten at a time, and three cells in ten are missing. Each
ten are filled in when they come, and then learned.
:meth:`~dyncrp.DynamicalMixture.fill` replaces a missing cell by its mean given the
cells that are there, and :meth:`~dyncrp.DynamicalMixture.predict_cells` says how sure
that is. scikit-learn's imputers learn from all rows at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from dyncrp import DynamicalMixture, NormalGamma, NormalWishart, plots

# %%
# Columns are in units of their standard deviation, so that errors can be averaged.

rng = np.random.default_rng(0)
wines = load_wine(as_frame=True).data
truth = ((wines - wines.mean()) / wines.std(ddof=0)).sample(frac=1.0, random_state=0)
truth = truth.reset_index(drop=True)
missing = rng.random(truth.shape) < 0.3
holes = truth.mask(missing)
print(holes.iloc[:4, :6].round(2).to_string())

# %%
# One pass over the stream. With ``NormalWishart`` every cluster has a covariance of its
# own, so that the other cells of a row say more than which cluster it is in. This
# family learns whole rows only. So it learns them as they were filled in; the first ten
# with the means of their columns. Of each ten we also ask for an interval with a
# probability of 0.9, before they are learned.

column = "proline"
model = DynamicalMixture(NormalWishart())
filled = [holes[:10].fillna(holes[:10].mean()).fillna(0.0)]
intervals = [np.full((2, 10), np.nan)]
model.partial_fit(filled[0])
for start in range(10, len(holes), 10):
    some = holes[start : start + 10]
    intervals.append(np.array(model.predict_cells(some, column).interval(0.9)))
    filled.append(model.fill(some))
    model.partial_fit(filled[-1])
low, high = np.hstack(intervals)
inside = ((low < truth[column]) & (truth[column] < high))[10:].mean()
print(f"{inside:.0%} of the true values are in their intervals")

# %%
# A family of independent columns needs no filled rows to learn: it integrates missing
# cells out. What it knows of a missing cell is the cluster of the row. Given no family,
# the model chooses one of these, since the first rows have holes.


def stream(family):
    """Return rows that were filled in ten at a time, and learned with their holes."""
    model, found = DynamicalMixture(family), [holes[:10].fillna(0.0)]
    model.partial_fit(holes[:10])
    for start in range(10, len(holes), 10):
        found.append(model.fill(holes[start : start + 10]))
        model.partial_fit(holes[start : start + 10])
    return np.vstack(found)


results = {
    "mean of the column": SimpleImputer().fit_transform(holes),
    "KNNImputer": KNNImputer().fit_transform(holes),
    "IterativeImputer": IterativeImputer(max_iter=100, random_state=0).fit_transform(
        holes
    ),
    "given nothing,\none pass": stream(None),
    "NormalGamma,\none pass": stream(NormalGamma()),
    "NormalWishart,\none pass": np.vstack(filled),
}
scored = missing & (np.arange(len(truth)) >= len(truth) // 2)[:, None]
errors = {
    name: np.sqrt(np.mean((found - truth.to_numpy())[scored] ** 2))
    for name, found in results.items()
}

# %%
# Left, the cells of one column that were missing: what was filled in, with its
# interval, and the truth. Right, the root mean square error of all missing cells in the
# second half of the rows. One split of one file says little: :doc:`/missing` has more
# files, and where this loses.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4), layout="constrained", width_ratios=[1.5, 1]
)
at = np.flatnonzero(holes[column].isna() & (np.arange(len(holes)) >= 10))
left.vlines(at, low[at], high[at], color="0.75", linewidth=3, label="90 % interval")
means = np.vstack(filled)[at, truth.columns.get_loc(column)]
left.plot(at, means, "o", color=plots.COLORS[0], markersize=4, label="filled in")
left.plot(at, truth[column][at], "x", color="black", markersize=5, label="truth")
left.set(xlabel="row", ylabel=f"{column}, in standard deviations", ylim=(-4, 6))
left.legend(ncols=3, loc="upper center", fontsize="small")
colors = ["0.6"] * 3 + [plots.COLORS[0]] * 3
bars = right.barh([*errors], [*errors.values()], color=colors)
right.bar_label(bars, fmt="%.2f", padding=3)
right.set(xlabel="root mean square error", xlim=(0, 1.2))
right.invert_yaxis()
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
