"""
Daily rhythms
=============

A café knows of each guest how long they stayed and what they paid. There are guests for
breakfast, for lunch and for dinner, but nobody writes down who is who, and stays and
bills overlap. The time of day helps. With ``Oscillatory`` dynamics a row counts most
whole periods after it came, and not at all half a period after.
"""

from datetime import timedelta

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, Gaussian, Oscillatory, Stationary, plots

# %%
# Four weeks of guests.

rng = np.random.default_rng(3)
a_day = [18, 18, 14]  # for breakfast, lunch and dinner
kind = np.tile(np.repeat([0, 1, 2], a_day), 28)
hour = 24 * (np.arange(len(kind)) // sum(a_day)) + rng.normal(
    np.array([8, 13, 20])[kind], 0.8
)
order = np.argsort(hour)
kind, hour = kind[order], hour[order]
X = rng.normal(
    np.array([[24.0, 9.0], [32.0, 15.0], [50.0, 18.0]])[kind], [6.5, 2.0]
)  # minutes, euros
times = np.datetime64("2026-03-02") + (3.6e6 * hour).astype("timedelta64[ms]")

# %%
# Three dynamics, each with the same family, whose variances are learned. Dynamics can
# be multiplied: the third power of a wave is narrower than the wave.

day = Oscillatory(timedelta(days=1))
dynamics = {
    "Stationary()": Stationary(),
    "day = Oscillatory(1 day)": day,
    "day * day * day": day * day * day,
}
models = {
    name: DynamicalMixture(Gaussian(), each, alpha=None).fit(X, times=times)
    for name, each in dynamics.items()
}
mistaken = {}
for name, model in models.items():
    usual = [
        np.bincount(model.labels_[kind == each]).argmax() for each in range(3)
    ]  # the table of most of a kind
    mistaken[name] = model.labels_ != np.take(usual, kind)
    ami = adjusted_mutual_info_score(kind, model.labels_)
    print(
        f"{name}: {model.n_tables_} tables, AMI {ami:.2f}, {mistaken[name].sum()} "
        f"of {len(X)} guests mistaken"
    )

# %%
# Above, each guest is a mark with the colour and shape of its table. Those with a black
# edge are at another table than most of their kind. Without a clock they are many: one
# table holds long lunches and short dinners. With dynamics of a day they are fewer, the
# narrower the wave; with the narrow one there are three tables, one for each meal.
#
# Below is what each model expects of the day after the last: the share of a table in
# the occupancies, which are sums of the kernel over the ages of the table's rows.
# ``Stationary()`` expects the same at any hour.

figure, axes = plt.subplots(
    2, 3, figsize=(10, 6), sharex=True, sharey="row", layout="constrained"
)
hours = np.linspace(0.0, 24.0, 97)
ages = 3600.0 * (28 * 24 + hours[:, None] - hour)  # in seconds, as always with dates
for (above, below), (name, model) in zip(axes.T, models.items(), strict=True):
    kernel = model.dynamics_.kernel(ages)
    for table in np.unique(model.labels_):
        color, marker = plots.table_style(table)
        for wrong in (False, True):
            at = (model.labels_ == table) & (mistaken[name] == wrong)
            edge = {
                "edgecolors": "black",
                "linewidths": 0.8 * wrong,
                "zorder": 2 + wrong,
            }
            above.scatter(
                hour[at] % 24,
                X[at, 0],
                s=12 + 10 * wrong,
                color=color,
                marker=marker,
                **edge,
            )
        at = model.labels_ == table
        share = kernel[:, at].sum(axis=1) / kernel.sum(axis=1)
        below.plot(
            hours,
            share,
            color=color,
            marker=marker,
            markevery=8,
            markersize=5,
            label=f"table {table}",
        )
    above.set_title(f"{name}: {mistaken[name].sum()} mistaken", fontsize="medium")
    below.set(
        xlabel="hour of the day", xlim=(0, 24), xticks=range(0, 25, 4), ylim=(0, 1)
    )
axes[0, 0].set_ylabel("stay (minutes)")
axes[1, 0].set_ylabel("share expected tomorrow")
figure.legend(
    *axes[1, 0].get_legend_handles_labels(), loc="outside right upper", frameon=False
)
plt.show()
