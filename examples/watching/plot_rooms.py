"""
A robot recognises rooms
========================

A robot walks through a building that it has never seen. At every step it sees which
landmarks are near, ahead of it and not behind a wall. It has no map, and does not know
how many rooms there are. Can it tell them apart, and recognise a room when it comes
back?
"""

import matplotlib.pyplot as plt

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Stationary, plots
from dyncrp.datasets import rooms
from dyncrp.metrics import agreement, returns

# %%
# The data are zeros and ones: a row for each step, and a column for each landmark.

house = rooms(3000, n_rooms=6, seed=2)
print(f"{house.visibility.shape[0]} steps, {house.visibility.shape[1]} landmarks")

# %%
# A place is a table of a Bernoulli mixture: each landmark has a probability of being
# seen from it. A robot is probably where it was a moment ago, which is what
# ``Exponential`` dynamics say. Added to it is a little of ``Stationary``, which never
# forgets, so that a room is recognised after a long absence.

sticky = 0.999 * Exponential(5.0) + 0.001 * Stationary()
for dynamics in (sticky, Exponential(5.0)):
    model = DynamicalMixture(Bernoulli(a=0.01, b=0.3), dynamics, alpha=0.02).fit(
        house.visibility
    )
    found = agreement(house.rooms, model.labels_)
    back = returns(house.rooms, model.labels_, ignore=[0]).recognised
    print(
        f"{dynamics}: {found.n_clusters} tables, AMI {found.ami:.2f}, {sum(back)} "
        f"of {len(back)} returns recognised"
    )

# %%
# Left, the walk coloured by its true rooms; right, by the tables that were found with
# the sum of dynamics. Dots are landmarks. There are none in the hallways, which look
# alike, and are one place to the robot. The colour changes at the doors, also where the
# robot enters a room for a second time.

model = DynamicalMixture(Bernoulli(a=0.01, b=0.3), sticky, alpha=0.02).fit(
    house.visibility
)
plt.figure(plots.buildings(house, model.labels_))
plt.show()
