"""
Choosing the dynamics
=====================

The dynamics say how much a row of age Δ still counts: 1 if Δ is 0, and then as the
kernel says. A row joins a table in proportion to its occupancy, the sum of the kernel
over the ages of its rows. So the dynamics are what the model expects of clusters:
whether they stay, fade, or come back.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyncrp import (
    DynamicalCRP,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    Oscillatory,
    Stationary,
    plots,
)
from dyncrp.datasets import sample_mixture

# %%
# Five kernels, and for each an alpha, the weight of a new table. Dynamics can be added
# and multiplied: the fourth is a wave of period 100, made narrower; the fifth is
# sticky, and never forgets a table.

wave = Oscillatory(100.0) * Oscillatory(100.0)
narrow = wave * wave * wave
processes = {
    "Stationary()": DynamicalCRP(2.0, Stationary()),
    "Exponential(20)": DynamicalCRP(1.0, Exponential(20.0)),
    "Hyperbolic(5)": DynamicalCRP(1.0, Hyperbolic(5.0)),
    "Oscillatory(100),\nto the sixth power": DynamicalCRP(1.0, narrow),
    "0.99 Exponential(5)\n+ 0.01 Stationary()": DynamicalCRP(
        0.3, 0.99 * Exponential(5.0) + 0.01 * Stationary()
    ),
}

# %%
# We draw 400 rows from each process: no data yet, only the table that each row joins.
# The upper panels show the kernels, the lower ones the tables, in the order in which
# they opened.
#
# With ``Stationary()`` all tables stay. With ``Exponential`` they die out and are
# replaced. With ``Hyperbolic`` rows are forgotten quickly at first and then slowly, so
# that large tables stay. With the wave tables come and go with its period. The sum
# stays with one table for a while, and goes back to old ones.

n = 400
figure, axes = plt.subplots(
    2, 5, figsize=(12, 5), layout="constrained", height_ratios=[1, 1.8]
)
ages = np.linspace(0.0, 200.0, 401)
for (above, below), (name, process) in zip(axes.T, processes.items(), strict=True):
    above.plot(ages, process.dynamics.kernel(ages), color=plots.COLORS[0])
    above.set(xlabel="age Δ", ylim=(0, 1.05), xlim=(0, 200))
    above.set_title(name, fontsize="medium")
    tables = process.sample(range(n), seed=4)[0]
    for table in range(tables.max() + 1):
        at = np.flatnonzero(tables == table)
        color, marker = plots.table_style(table)
        below.scatter(at, tables[at], s=9, color=color, marker=marker, linewidths=0)
    below.set(xlabel="row", xlim=(0, n))
    below.yaxis.get_major_locator().set_params(integer=True)
axes[0, 0].set_ylabel("kernel")
axes[1, 0].set_ylabel("table")

# %%
# Which of them fits a stream? The log evidence, how well each row was predicted from
# those before it, compares dynamics on the same stream. Here, each process makes a
# stream of 1,000 rows in two dimensions, and each model learns it. A number says by how
# much the evidence is below the best of its row, in nats, and the best is 0: it is that
# of the dynamics by which the stream was made. To let the model choose, pass a list:
# ``dynamics=[Stationary(), Exponential()]``, where what is not given is learned as
# well.

family = Gaussian(variance=1.0, prior_variance=100.0)
evidence = np.empty((5, 5))
for i, made in enumerate(processes.values()):
    X = sample_mixture(made, family, range(1000), seed=0).observations
    for j, process in enumerate(processes.values()):
        evidence[i, j] = (
            DynamicalMixture(family, process.dynamics, process.alpha)
            .fit(X)
            .log_evidence_
        )
below_best = evidence.max(axis=1, keepdims=True) - evidence

figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
axis.imshow(np.log1p(below_best), cmap="Blues", aspect="auto")
for (i, j), value in np.ndenumerate(below_best):
    axis.text(
        j,
        i,
        f"{value:.0f}",
        ha="center",
        va="center",
        color="white" if value > 60 else "black",
    )
axis.set_xticks(range(5), processes, fontsize="small")
axis.set_yticks(range(5), processes, fontsize="small")
axis.set(xlabel="dynamics of the model", ylabel="dynamics of the stream")
axis.set_title("log evidence below the best of the row (nats)", fontsize="medium")
plt.show()
