"""
Alarms at a rate that you choose
================================

``novelty_`` says how unexpected a row was, but on no scale that can be known
beforehand. ``novelty_p_`` is the probability that a row of the stream so far would have
been as unexpected. With ``alarm_rate=0.001`` a row with at most that probability raises
an alarm: one row in a thousand while nothing happens, and more when something does.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyncrp import DynamicalMixture, plots

# %%
# A pump changes between three states. Then two things happen that never happened
# before: for 20 readings from 6,000 on it runs hot at low pressure, and reading 8,000
# is a single glitch.

rng = np.random.default_rng(1)
n = 10_000
state = np.repeat(rng.integers(3, size=n // 50), 50)
X = np.array([[40.0, 2.0], [55.0, 4.0], [70.0, 6.0]])[state] + rng.normal(
    scale=[2.0, 0.3], size=(n, 2)
)  # °C, bar
X[6000:6020] = rng.normal([70.0, 2.0], [2.0, 0.3], size=(20, 2))
X[8000] = [55.0, 8.0]

# %%
# Everything is learned from the first 1,000 rows. What happens is in ``events_``.

model = DynamicalMixture(alarm_rate=0.001).fit(X)
alarms = np.array([event.row for event in model.events_ if event.kind == "alarm"])
other = set(alarms[alarms >= 2000].tolist()) - {*range(6000, 6020), 8000}
print(f"alarms from row 2,000 on: {[row for row in alarms.tolist() if row >= 2000]}")
print(f"other than what happened: {len(other)}, expected: {0.001 * (n - 2000):.0f}")
print(
    {
        f"table {event.table}": f"opened at {event.row}"
        for event in model.events_
        if event.kind == "opened"
    }
)

# %%
# Above are the two readings, below the probabilities, on a scale on which the more
# unexpected is higher. Rows above the line raise an alarm. Both things that happened
# do. The temperature and the pressure of the hot rows are each usual by themselves; it
# is the pair that is new. The first of them opens a table, and the others are then no
# longer unexpected. The remaining alarms are rows at the far edge of their state, as
# often as the rate says.

figure, axes = plt.subplots(
    3,
    1,
    figsize=(10, 6.4),
    sharex=True,
    layout="constrained",
    height_ratios=[1, 1, 1.3],
)
rows = np.arange(n)
for axis, reading, name in zip(
    axes, X.T, ("temperature (°C)", "pressure (bar)"), strict=False
):
    axis.plot(rows, reading, ".", color="0.7", markersize=2, rasterized=True)
    axis.plot(
        alarms,
        reading[alarms],
        "o",
        markerfacecolor="none",
        color=plots.COLORS[5],
        markersize=7,
    )
    axis.set_ylabel(name)
p = model.novelty_p_
axes[2].semilogy(rows, p, ".", color="0.7", markersize=2, rasterized=True, label="rows")
axes[2].semilogy(
    alarms,
    p[alarms],
    "o",
    markerfacecolor="none",
    color=plots.COLORS[5],
    markersize=7,
    label="alarms",
)
axes[2].axhline(0.001, color=plots.COLORS[0], linestyle="--", label="alarm_rate")
axes[2].set(xlabel="row", ylabel="novelty_p_", xlim=(0, n), ylim=(1.5, 1e-6))
for row, text in ((6000, "hot at low pressure"), (8000, "glitch")):
    axes[2].annotate(
        text, (row, p[row]), (10, 8), textcoords="offset points", fontweight="bold"
    )
axes[2].legend(loc="upper left", ncols=3, fontsize="small")
plt.show()
