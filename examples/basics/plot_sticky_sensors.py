"""
The states of a machine
=======================

A machine runs in four states, and stays in each for a while. Two sensors report its
temperature and its vibration every second, with noise, so that the states overlap.
Nobody says how many states there are. We cluster the readings as they arrive, told
nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import DynamicalMixture, Stationary, plots

# %%
# At each second the machine goes to a state at random with a chance of 1 in 40, and
# otherwise stays where it is.

rng = np.random.default_rng(3)
centers = np.array([[40.0, 2.0], [55.0, 5.0], [65.0, 2.0], [46.0, 8.0]])  # °C, mm/s
states = np.zeros(1500, dtype=int)
for n in range(1, len(states)):
    states[n] = rng.integers(4) if rng.random() < 1 / 40 else states[n - 1]
X = centers[states] + rng.normal(scale=[3.5, 1.1], size=(len(states), 2))

# %%
# ``DynamicalMixture()`` learns everything from the first 1,000 rows: the covariance of
# the clusters, and the dynamics, which say how much a row still counts when it is old.
# For comparison, a model that may learn all but the dynamics: with ``Stationary()`` all
# rows count the same, however old they are.

model = DynamicalMixture().fit(X)
plain = DynamicalMixture(dynamics=Stationary()).fit(X)
print(f"dynamics learned: {model.dynamics_}")
for name, fitted in (("learned", model), ("Stationary()", plain)):
    ami = adjusted_mutual_info_score(states, fitted.labels_)
    print(f"{name}: {fitted.n_tables_} tables, AMI with the true states {ami:.2f}")

# %%
# The strips compare the states found with the true ones: a reading in the overlap of
# two clusters goes to the state in which the machine is. Below is the occupancy of each
# table, which is how much of its past still counts. It is high while the machine is in
# that state, and falls when it leaves it. But it never falls to nothing, so a state
# that returns is recognised.

figure = plots.stream(
    X, model.labels_, model.dynamics_, truth=states, title="readings, coloured by table"
)
figure.axes[0].set_ylabel("temperature (°C)")
figure.axes[1].set_ylabel("vibration (mm/s)")
figure.axes[-1].set_xlabel("time (s)")
plt.figure(figure)
plt.show()
