"""
Latent causes: conditioning, extinction, recovery
=================================================

A tone is followed by a shock, and an animal learns to fear the tone. Then the tone
comes alone, and the fear goes. A month later the tone is feared again: what was learned
first had not been unlearned. Gershman and Niv (2010) explain this by latent causes [1,
2]. The animal assigns each trial to a cause, and predicts the outcome from the causes
that the cues make likely. Extinction is a new cause, and the old one is still there.

Causes are the tables of this model, and what the animal predicts is
:meth:`~dyncrp.DynamicalMixture.predict_cells`: the outcome of a row, given its other
cells. The dynamics say how causes are forgotten.

1. S. J. Gershman and Y. Niv (2010). Learning latent structure: carving nature at its
   joints. *Current Opinion in Neurobiology* 20.
2. S. J. Gershman, D. M. Blei and Y. Niv (2010). Context, learning, and extinction.
   *Psychological Review* 117.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyncrp import Bernoulli, DynamicalMixture, Exponential, Hyperbolic, plots

# %%
# A trial is a row: is there a tone, is this the usual cage, is there a shock? All are
# yes or no. A new cause may go with any cues, and rarely with a shock: in one trial of
# ten.

family = Bernoulli(a=[0.1, 0.1, 0.05], b=[0.1, 0.1, 0.45])
dynamics = {"Exponential(10)": Exponential(10.0), "Hyperbolic(1)": Hyperbolic(1.0)}
SHOCK, UNKNOWN, TRIALS = 2, np.nan, 40
delays = np.geomspace(1.0, 1000.0, 40)


def expect_shock(model, times, cage=1.0):
    """Return the probability of a shock at each time, given the tone and the cage."""
    trials = np.tile([1.0, cage, UNKNOWN], (len(times), 1))
    return model.predict_cells(trials, SHOCK, times).probabilities[:, 1]


def experiment(kernel, cage_of_extinction):
    """Return the model after both phases, and the shock expected in each trial."""
    model, expected = DynamicalMixture(family, kernel, alpha=1.0), [0.1]
    for time in range(2 * TRIALS):
        cage, shock = (1.0, 1.0) if time < TRIALS else (cage_of_extinction, 0.0)
        if time:
            expected += [*expect_shock(model, [time], cage)]
        model.partial_fit([[1.0, cage, shock]], times=[time])
    return model, expected


# %%
# Left, forty trials of conditioning and forty of extinction, all in the usual cage. The
# model finds two causes. Fear is learned and goes, with both dynamics.
#
# In the middle, the tone is tried again later: *spontaneous recovery*. With
# ``Hyperbolic`` the first trials lose less in the same time than the last ones, since
# they are old already. So the first cause regains its share, and with it the fear. In
# the very long run both causes are forgotten. With ``Exponential`` all trials lose the
# same share in the same time. The odds of two causes never change: there is no
# recovery, and what is expected in the end is no memory but the prior, 0.1.
#
# Right, *renewal*: extinction takes place in another cage, which makes the second cause
# clearly another one. Back in the usual cage the tone is feared at once, if the first
# cause is still remembered.
#
# The prior, ``alpha`` and the timescales were chosen so that this shows. With others
# extinction opens no second cause, and then nothing recovers.

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(11, 3.8), layout="constrained", sharey=True, width_ratios=[2, 1.6, 1]
)
for i, (name, kernel) in enumerate(dynamics.items()):
    same, expected = experiment(kernel, cage_of_extinction=1.0)
    other, _ = experiment(kernel, cage_of_extinction=0.0)
    print(f"{name}: {same.n_tables_} causes, {other.n_tables_} in two cages")
    style = {"color": plots.COLORS[i], "label": name}
    left.plot(np.arange(2 * TRIALS) + 1, expected, **style)
    last = 2.0 * TRIALS - 1.0
    middle.semilogx(delays, expect_shock(same, last + delays), **style)
    renewed = [expect_shock(other, [last + 1.0], cage)[0] for cage in (0.0, 1.0)]
    bars = right.bar(np.arange(2) + 0.4 * i - 0.2, renewed, width=0.38, **style)
    right.bar_label(bars, fmt="%.2f", fontsize="small")
left.axvline(TRIALS + 0.5, color="0.6", linewidth=0.8)
left.text(TRIALS / 2, 1.02, "tone and shock", ha="center", fontsize="small")
left.text(1.5 * TRIALS, 1.02, "tone alone", ha="center", fontsize="small")
left.set(xlabel="trial", ylabel="probability of a shock", ylim=(0, 1.1))
left.set_title("conditioning and extinction", fontsize="medium")
left.legend(loc="center right", bbox_to_anchor=(1.0, 0.62))
middle.set(xlabel="trials that would have passed since")
middle.set_title("spontaneous recovery", fontsize="medium")
right.set_xticks([0, 1], ["cage of\nextinction", "usual\ncage"])
right.set_title("renewal", fontsize="medium")
for axis in (left, middle, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
