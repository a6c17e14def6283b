"""
Novelty alarms on sensors
=========================

A pump has six sensors and runs in four ways. What a fault looks like is not known
before, so nothing can be trained on faults. ``DynamicalMixture(alarm_rate=0.001)``
learns what is usual, and raises an alarm for rows that are as unexpected as one in a
thousand: few alarms while nothing happens, and one at once when something does. This
page counts both, beside river's ``HalfSpaceTrees`` and scikit-learn's
``IsolationForest``.
"""

import matplotlib.pyplot as plt
import numpy as np
from river import anomaly, compose, preprocessing
from sklearn.ensemble import IsolationForest

from dyncrp import DynamicalMixture, Exponential, Stationary

# %%
# The pump
# --------
#
# It idles, runs at low or high load, or is being cleaned, for some fifty rows each
# time. Flow, pressure and current rise and fall together with the load. A fault lasts
# for 60 rows at high load, and moves two sensors by 3 to 5 units of their noise.

SENSORS = ("flow", "pressure", "current", "temperature", "vibration", "speed")
STATES = np.array(
    [
        [0.0, 1.0, 0.5, 20.0, 0.2, 0.0],  # idle
        [20.0, 3.0, 6.0, 35.0, 1.0, 900.0],  # low load
        [45.0, 5.0, 14.0, 55.0, 2.0, 1800.0],  # high load
        [30.0, 1.5, 8.0, 60.0, 1.5, 1200.0],  # cleaning
    ]
)
NOISE = np.array([1.0, 0.15, 0.4, 1.5, 0.15, 20.0])
LOAD = np.array([1.0, 0.8, 1.0, 0.2, 0.5, 0.0])
FAULTS = {  # shifts in units of the noise
    "blocked filter": {"flow": -4.0, "pressure": 4.0},
    "worn bearing": {"vibration": 5.0, "temperature": 3.0},
    "cavitation": {"vibration": 4.0, "pressure": -4.0},
    "slipping belt": {"speed": -5.0, "flow": -3.0},
    "failing winding": {"current": 5.0, "temperature": 3.0},
    "leak": {"flow": 4.0, "pressure": -4.0},
}
N, FIRST, EVERY, LASTS = 12_000, 2000, 1500, 60
RATE = 0.001


def pump(seed, faults=()):
    """Return rows (N, 6). A fault begins every 1,500 rows from row 3,000 on."""
    rng = np.random.default_rng(seed)
    row = np.arange(N)
    change = (rng.random(N) < 0.02) | (row == 0)
    state = rng.integers(4, size=N)[np.maximum.accumulate(np.where(change, row, 0))]
    noise = 0.8 * rng.normal(size=(N, 6)) + 0.6 * LOAD * rng.normal(size=(N, 1))
    for begin, fault in zip(range(3000, N, EVERY), faults, strict=False):
        state[begin : begin + LASTS] = 2
        for sensor, shift in FAULTS[fault].items():
            noise[begin : begin + LASTS, SENSORS.index(sensor)] += shift
    return STATES[state] + NOISE * noise


# %%
# The alarms
# ----------
#
# The model is told the rate of alarms, and that states last for a while and come back.
# All else is learned from the first 1,000 rows.


def watch(X):
    """Return the model, the table of each row, its p-value, and whether it is an
    alarm."""
    model = DynamicalMixture(
        dynamics=0.999 * Exponential() + 0.001 * Stationary(), alarm_rate=RATE
    )
    tables, p, alarms = [], [], np.zeros(len(X), dtype=bool)
    for rows in np.split(X, range(1000, len(X), 100)):
        model.partial_fit(rows)
        tables.extend(model.labels_)
        p.extend(model.novelty_p_)
        alarms[[event.row for event in model.events_ if event.kind == "alarm"]] = True
    return model, np.array(tables), np.array(p), alarms


# %%
# ``HalfSpaceTrees`` is set up as in its documentation: after a ``MinMaxScaler``, and
# with a ``QuantileFilter`` that is told the same rate. (The documentation also says
# that it does not work well if anomalies come together.) ``IsolationForest`` is trained
# on the first 2,000 rows, and told the rate as ``contamination``.


def trees_alarms(X):
    """Return which rows are alarms."""
    judge = anomaly.QuantileFilter(anomaly.HalfSpaceTrees(seed=0), q=1.0 - RATE)
    model = compose.Pipeline(preprocessing.MinMaxScaler(), judge)
    alarms = np.zeros(len(X), dtype=bool)
    for i, values in enumerate(X.tolist()):
        x = dict(zip(SENSORS, values, strict=True))
        alarms[i] = judge.classify(model.score_one(x))
        model.learn_one(x)
    return alarms


def forest_alarms(X):
    """Return which rows are alarms."""
    return (
        IsolationForest(contamination=RATE, random_state=0).fit(X[:FIRST]).predict(X)
        == -1
    )


# %%
# Numbers
# -------
#
# Two streams where nothing happens, and two with six faults each, in another order. Ten
# alarms are expected in a stream without faults, from row 2,000 on. The delay is the
# number of rows of a fault up to its first alarm.

systems = {
    "dyncrp": lambda X: watch(X)[-1],
    "HalfSpaceTrees": trees_alarms,
    "IsolationForest": forest_alarms,
}
begins = range(3000, N, EVERY)
orders = {1002: list(FAULTS), 1003: list(FAULTS)[::-1]}
seen_by = {}
print(f"{'':16s} alarms/expected  faults seen  at their first row  median delay")
for name, system in systems.items():
    quiet = [
        np.sum(system(pump(seed))[FIRST:]) / (RATE * (N - FIRST))
        for seed in (1000, 1001)
    ]
    delays = []
    for seed, order in orders.items():
        alarms = seen_by[name, seed] = system(pump(seed, order))
        rows = [np.flatnonzero(alarms[begin : begin + LASTS]) for begin in begins]
        delays += [each[0] + 1 for each in rows if len(each)]
    at_once = sum(delay == 1 for delay in delays)
    print(
        f"{name:16s}{np.mean(quiet):16.2f}{len(delays):7d} of "
        f"12{at_once:20d}{np.median(delays):14.0f}"
    )

# %%
# What it looks like
# ------------------
#
# ``novelty_p_`` says how rare a row is: the probability that a row of the stream so far
# would have been as unexpected. Below are the alarms of all three, and the faults in
# grey.

model, tables, p, _ = watch(pump(1002, orders[1002]))

figure, axes = plt.subplots(
    2, 1, figsize=(8.0, 5.0), sharex=True, layout="constrained", height_ratios=(3, 1)
)
for begin, fault in zip(begins, orders[1002], strict=True):
    for axis in axes:
        axis.axvspan(begin - 20, begin + LASTS + 20, color="0.8")
    place = {
        "xy": (begin, 1.01),
        "xycoords": ("data", "axes fraction"),
        "ha": "center",
        "va": "bottom",
        "fontsize": 8,
    }
    axes[0].annotate(fault, **place)
axes[0].plot(np.arange(FIRST, N), p[FIRST:], ".", ms=2, color="tab:blue")
axes[0].axhline(RATE, color="black", linewidth=0.8, linestyle="--")
axes[0].annotate(
    "alarm\nrate",
    (1.01, RATE),
    xycoords=("axes fraction", "data"),
    va="center",
    fontsize=8,
)
axes[0].set(yscale="log", ylabel="novelty_p_")
axes[0].invert_yaxis()
for line, name in enumerate(systems):
    (rows,) = np.nonzero(seen_by[name, 1002][FIRST:])
    axes[1].plot(rows + FIRST, np.full(len(rows), line), "|", color="black", ms=10)
axes[1].set(yticks=range(3), yticklabels=list(systems), ylim=(2.6, -0.6), xlabel="row")
plt.show()

# %%
# A fault that comes back
# -----------------------
#
# A fault becomes a table of its own. Give it a name, and the next time the label says
# what it is. Below, the first fault comes once more, after 9,000 rows.

fault = np.bincount(tables[begins[0] : begins[0] + LASTS]).argmax()
model.rename(int(fault), "blocked filter")
model.partial_fit(pump(1004, orders[1002])[begins[0] : begins[0] + LASTS])
print(f"{np.mean(model.labels_ == fault):.0%} of the rows: {model.names_[int(fault)]}")
print(f"{sum(event.kind == 'alarm' for event in model.events_)} alarms")
