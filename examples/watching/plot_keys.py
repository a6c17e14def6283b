"""
A model for every key
=====================

Many sensors report to one place, and each has its own states. Each needs a model of its
own, though they share the hyperparameters. ``to_state`` gives what a model has learned
as bytes, and ``set_state`` goes on from it, so one model serves any number of keys, and
the states can lie in a dictionary or a database.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dyncrp import DynamicalMixture, Exponential, Gaussian, Stationary, plots

# %%
# 30 sensors with two to six states each. A sensor draws another state after 25 readings
# on average. Readings of all sensors come mixed, in order of time.

rng = np.random.default_rng(2)
parts = []
for sensor in range(30):
    centers = rng.normal(scale=10.0, size=(rng.integers(2, 7), 2))
    state = np.repeat(
        rng.integers(len(centers), size=60), rng.geometric(1 / 25, size=60)
    )[:300]
    X = centers[state] + rng.normal(size=(300, 2))
    time = np.sort(rng.uniform(0, 300, 300))
    parts.append(
        pd.DataFrame({"sensor": sensor, "time": time, "a": X[:, 0], "b": X[:, 1]})
    )
readings = pd.concat(parts).sort_values("time")

# %%
# Batches of 500 readings arrive. In each, the readings of a sensor are given to its
# model.

model = DynamicalMixture(
    Gaussian(1.0, 100.0), 0.99 * Exponential(5.0) + 0.01 * Stationary(), alpha=0.02
)
states, tables = {}, []
for begin in range(0, len(readings), 500):
    for sensor, rows in readings[begin : begin + 500].groupby("sensor"):
        if sensor in states:
            model.set_state(states[sensor]).partial_fit(
                rows[["a", "b"]], times=rows.time
            )
        else:
            model.fit(rows[["a", "b"]], times=rows.time)
        states[sensor] = model.to_state()
        tables.append(rows.assign(table=model.labels_))
labelled = pd.concat(tables)
print(
    f"{len(states)} states of "
    f"{np.mean([len(state) for state in states.values()]):.0f} bytes on average"
)

# %%
# On Spark this loop is one call, exactly once for each row, also if the job is killed
# and started again:
#
# .. code-block:: python
#
#     from dyncrp.spark import cluster, session
#
#     schema = "sensor int, row long, time double, a double, b double"
#     readings = session().readStream.schema(schema).parquet("readings")
#     labels = cluster(
#         readings, model, key="sensor", features=["a", "b"], time="time", row="row"
#     )
#     output = labels.writeStream.format("parquet").option("path", "labels")
#     output.option("checkpointLocation", "checkpoint").start()
#
# Each line is a sensor, and its colour the table of its reading. Ids count up in each
# model by itself: a line begins with table 0, and another colour in it means that its
# sensor has gone to another state. Where a colour comes back, the model has recognised
# the state.

figure, axis = plt.subplots(figsize=(10, 5.6), layout="constrained")
for table, rows in labelled.groupby("table"):
    color, marker = plots.table_style(table)
    axis.scatter(
        rows.time,
        rows.sensor,
        s=14,
        color=color,
        marker=marker,
        linewidths=0,
        label=f"{table}",
    )
axis.set(xlabel="time", ylabel="sensor", xlim=(0, 300), ylim=(-0.8, 29.8))
figure.legend(title="table", loc="outside right upper", frameon=False, markerscale=1.8)
plt.show()
