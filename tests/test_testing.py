"""check_family and check_dynamics: each check catches what it is for, by name."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from cases import DYNAMICS, FAMILIES, SIGNED
from dyncrp import Bernoulli, Exponential, Gaussian, LinearODE, VonMisesFisher
from dyncrp.arrays.checks import BadRow
from dyncrp.dynamics import Dynamics, Modes
from dyncrp.dynamics.base import Timed
from dyncrp.testing import check_dynamics, check_family, dynamics_checks, family_checks

# A class below is right but for what it overrides. Its name says what is wrong.


def caught(check, subject, *args):
    """Return the name of the check that the subject fails, and the message."""
    with pytest.raises(AssertionError) as raised:
        check(subject, *args)
    subject_shown, failed = str(raised.value).split(" fails ", 1)
    assert subject_shown == repr(subject)
    return failed.split(": ", 1)


def fails(check, subject, *args):
    """Tell whether the subject fails this one check, which others would keep from being reached."""
    (single,) = (single for single in family_checks() + dynamics_checks() if single.__name__ == check)
    try:
        single(subject, *args)
    except AssertionError:
        return True
    return False


def broken(kind, *args, name="Broken", **methods):
    """Return an instance of a subclass of ``kind`` with these methods."""
    cls = dataclass(frozen=True, eq=False)(type(name, (kind,), {"__annotations__": {}, **methods}))
    return cls(*args)


def of_gaussian(**methods):
    return broken(Gaussian, 1.0, 2.0, 0.5, **methods)


def of_bernoulli(**methods):
    return broken(Bernoulli, 0.5, 0.8, **methods)


# --- families -------------------------------------------------------------------------------------------------------


class Thawed(Bernoulli):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


class ByIdentity(Bernoulli):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class WithoutHash(Bernoulli):
    def __hash__(self):
        return id(self)


def constant(shift):
    """Methods that drop a constant from every density alike, so that all identities hold."""
    return {
        "log_base_measure": lambda self, X: Gaussian.log_base_measure(self, X) + shift,
        "log_predictive": lambda self, X, stats: Gaussian.log_predictive(self, X, stats) + shift,
        "expected_log_likelihood": lambda self, X, stats: Gaussian.expected_log_likelihood(self, X, stats) + shift,
    }


def refuse_without_a_row(self, X):
    if np.any(X < -100):
        raise ValueError("no")
    return X


def refuse_the_last(self, X):
    bad = np.flatnonzero(np.any((X != 0) & (X != 1), axis=1))
    if bad.size:
        raise BadRow("no", bad[-1])
    return X


def write_into(self, X):
    X.flags.writeable = True
    X += 1.0
    return X - 1.0


def in_a_batch(self, X):
    return Gaussian.statistics(self, X) * np.append(1.0, np.full(X.shape[1], 1.0 + 1e-6 * (len(X) - 1)))


def no_resolution(self, resolution):
    raise ValueError("there is no resolution to change")


BROKEN_FAMILIES = {
    "a field that can be set": (Thawed(0.5, 0.8), "is_a_frozen_dataclass"),
    "equal by identity": (ByIdentity(0.5, 0.8), "is_equal_by_value"),
    "a hash by identity": (WithoutHash(0.5, 0.8), "is_equal_by_value"),
    "unknown": (Gaussian(variance=1.0), "is_known"),
    "proposes others": (of_gaussian(proposals=lambda self, X: []), "is_known"),
    "centers of another shape": (of_gaussian(centers=lambda self, stats: stats), "shapes_are_as_documented"),
    "scores transposed": (
        of_gaussian(log_predictive=lambda self, X, stats: Gaussian.log_predictive(self, X, stats).T),
        "shapes_are_as_documented",
    ),
    "empty of another width": (of_gaussian(empty=lambda self, D: np.zeros((0, D))), "shapes_are_as_documented"),
    "writes into its input": (of_gaussian(check=write_into), "input_is_not_modified"),
    "samples that check changes": (of_gaussian(check=lambda self, X: np.round(X)), "check_takes_samples"),
    "a refusal without a row": (of_gaussian(check=refuse_without_a_row), "check_refuses_with_the_row"),
    "a refusal of the last row": (of_bernoulli(check=refuse_the_last), "check_refuses_with_the_row"),
    "takes what overflows": (
        of_gaussian(check=lambda self, X: X, safe_norm=property(lambda self: -1.0)),
        "check_refuses_with_the_row",
    ),
    "an unsafe norm": (of_gaussian(safe_norm=property(lambda self: 1e160)), "safe_norm_is_safe"),
    "a norm of unchecked rows": (of_bernoulli(safe_norm=property(lambda self: 1.0)), "safe_norm_is_safe"),
    "statistics of a batch": (of_gaussian(statistics=in_a_batch), "rows_do_not_depend_on_each_other"),
    "no count": (
        of_gaussian(statistics=lambda self, X: 2.0 * Gaussian.statistics(self, X)),
        "statistics_start_with_one",
    ),
    "a prior that does not integrate to 1": (
        of_gaussian(log_partition=lambda self, stats: Gaussian.log_partition(self, stats) + 1e-3),
        "log_partition_of_an_empty_table_is_zero",
    ),
    "a predictive without a constant": (
        of_gaussian(log_predictive=lambda self, X, stats: Gaussian.log_predictive(self, X, stats) + 1e-6),
        "log_predictive_is_a_difference_of_log_partitions",
    ),
    "a marginal of its own": (
        of_gaussian(log_marginal=lambda self, X: Gaussian.log_marginal(self, X) + 1e-6 * float(X[0, 0])),
        "log_marginal_is_a_chain_of_predictives",
    ),
    "tables joined for another reason": (
        of_gaussian(log_bayes_factor=lambda self, *tables: Gaussian.log_bayes_factor(self, *tables) + 1e-6),
        "log_bayes_factor_is_a_difference_of_log_partitions",
    ),
    "a sum of tables that is none": (
        of_bernoulli(add=lambda self, first, second: first),
        "log_bayes_factor_is_a_difference_of_log_partitions",
    ),
    "an expectation above the predictive": (
        of_gaussian(
            expected_log_likelihood=lambda self, X, stats: Gaussian.expected_log_likelihood(self, X, stats) + 5.0
        ),
        "expected_log_likelihood_is_below_log_predictive",
    ),
    "an expectation that is a little off": (
        of_bernoulli(
            expected_log_likelihood=lambda self, X, stats: Bernoulli.expected_log_likelihood(self, X, stats) - 1e-5
        ),
        "expected_log_likelihood_is_a_gradient",
    ),
    "an expectation that jumps": (
        of_gaussian(
            expected_log_likelihood=lambda self, X, stats: (
                Gaussian.expected_log_likelihood(self, X, stats) - (stats[:, 0] == 0)
            )
        ),
        "expected_log_likelihood_is_a_gradient",
    ),
    "centers that flee": (
        of_gaussian(centers=lambda self, stats: 1.0 - Gaussian.centers(self, stats)),
        "centers_follow_the_data",
    ),
    "draws that repeat": (
        of_gaussian(sample=lambda self, phi, seed=None: Gaussian.sample(self, phi, 1)),
        "seeds_repeat_the_draws",
    ),
    "a constant dropped everywhere": (
        of_gaussian(**constant(np.log(2 * np.pi))),
        "predictive_of_an_empty_table_is_that_of_the_sampler",
    ),
    "a small constant dropped everywhere": (
        of_gaussian(**constant(0.05)),
        "predictive_of_an_empty_table_is_that_of_the_sampler",
    ),
    "a prior of another width than drawn": (
        of_gaussian(
            sample_parameters=lambda self, n, D, seed=None: Gaussian(1.0, 3.0, 0.5).sample_parameters(n, D, seed)
        ),
        "predictive_of_an_empty_table_is_that_of_the_sampler",
    ),
    "draws that ignore their table": (
        of_gaussian(sample=lambda self, phi, seed=None: Gaussian(2.5, 0.5, 0.5).sample(0.5 + (phi - 0.5) / 2, seed)),
        "predictive_of_a_table_is_that_of_the_sampler",
    ),
    "widened with ones": (
        broken(VonMisesFisher, 8.0, widen=lambda self, stats, D: np.pad(stats, ((0, 0), (0, 2)), constant_values=1.0)),
        "widen_is_to_add_zeros",
    ),
    "a method without its base class": (
        of_gaussian(widen=lambda self, stats, D: stats),
        "methods_come_with_their_base_class",
    ),
    "a sharper family that is blunter": (
        broken(VonMisesFisher, 8.0, sharpen=lambda self, r: replace(self, concentration=self.concentration / r)),
        "sharpen_keeps_strangers_apart",
    ),
    "proposals that are unknown": (
        of_gaussian(proposals=lambda self, X, labels=None, scales=(): [self]),
        "proposals_are_known",
    ),
    "terms that do not add up": (
        of_gaussian(
            log_predictive_terms=lambda self, X, stats: Gaussian.log_predictive_terms(self, X, stats) * (1.0 + 1e-6)
        ),
        "terms_add_up_to_log_predictive",
    ),
    "a cell with the width of the prior": (
        of_gaussian(cell=lambda self, stats: Gaussian.cell(self, np.zeros_like(stats))),
        "cells_are_those_of_log_predictive",
    ),
    "proposals with the most willing first": (
        of_bernoulli(
            proposals=lambda self, X, labels=None, scales=(): (
                [self] if self.known else Bernoulli.proposals(self, X, labels)[::-1]
            ),
            sharpen=no_resolution,
        ),
        "proposals_are_known",
    ),
}


@pytest.mark.parametrize("name", BROKEN_FAMILIES)
def test_a_broken_family_is_caught_by_the_check_for_it(name):
    family, check = BROKEN_FAMILIES[name]
    assert caught(check_family, family, 2)[0] == check


def test_rows_of_another_width_must_be_refused():
    family = broken(Bernoulli, [0.5, 0.7], 0.8, check=lambda self, X: X)
    assert fails("check_knows_its_width", family, 2)


def test_what_is_exact_for_whole_rows_and_wrong_in_between():
    bent = of_gaussian(
        log_partition=lambda self, stats: Gaussian.log_partition(self, stats) + 0.3 * np.sin(np.pi * stats[:, 0]) ** 2
    )
    assert caught(check_family, bent, 2)[0] == "expected_log_likelihood_is_a_gradient"
    raised = of_gaussian(
        log_predictive=lambda self, X, stats: Gaussian.log_predictive(self, X, stats) + 0.1 * (stats[:, 0] % 1)
    )
    assert fails("predictive_of_part_of_a_row_is_normalised", raised, 2)


@pytest.mark.parametrize("check", ["engine_learns_a_stream", "mixture_fits"])
def test_a_family_that_counts_its_calls_depends_on_the_cut(check):
    calls = []

    def restless(self, X, stats):
        calls.append(len(X))
        return Gaussian.log_predictive(self, X, stats) + 5.0 * np.sin(len(calls) * np.arange(len(stats)))

    assert fails(check, of_gaussian(log_predictive=restless), 2)


def test_the_message_names_the_property_and_the_numbers():
    _, message = caught(check_family, of_gaussian(**constant(1.0)), 2)
    assert "standard error" in message
    assert "(promised: The density of an empty table" in message


def test_what_a_method_raises_is_told_too():
    def stumble(self, stats):
        raise RuntimeError("stumbled")

    _, message = caught(check_family, of_gaussian(centers=stumble), 2)
    assert "RuntimeError('stumbled')" in message


def test_a_sound_family_passes_at_once():
    check_family(*FAMILIES["bernoulli"])


# --- dynamics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fading(Dynamics):
    """exp(−Δ/2), and right."""

    def modes(self):
        return Modes(np.ones(1, complex), np.full(1, 0.5 + 0j))

    nonnegative = property(lambda self: True)


class Identity(Fading):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Growing(Fading):
    def modes(self):
        return Modes(np.ones(1, complex), np.full(1, -0.1 + 0j))


class RealModes(Fading):
    def modes(self):
        return Modes(np.ones(1), np.ones(1))


class SharedModes(Fading):
    kept = Modes(np.ones(1, complex), np.full(1, 0.5 + 0j))

    def modes(self):
        return self.kept


class Doubled(Fading):
    def modes(self):
        return Modes(np.full(1, 2.0 + 0j), np.full(1, 0.5 + 0j))


class OwnKernel(Fading):
    def kernel(self, delta):
        return np.exp(-np.asarray(delta) / 1.9)


class Negative(Fading):
    def modes(self):
        return Modes(np.ones(1, complex), np.full(1, 0.1 + 1j))


class OwnSum(Fading):
    def __add__(self, other):
        return Exponential(3.0) + other


class OwnMultiple(Fading):
    def __rmul__(self, weight):
        return Exponential(2.0) * (weight + 1)

    __mul__ = __rmul__


@dataclass(frozen=True)
class Unwritten(Timed):
    """Takes no duration in."""

    timescale: float | None = None
    duration_field = "timescale"

    def modes(self):
        return Modes(np.ones(1, complex), np.full(1, 1.0 / (self.timescale or 1.0) + 0j))


@dataclass(frozen=True)
class Miscounted(Fading):
    n_unknown = property(lambda self: 1)


BROKEN_DYNAMICS = {
    "equal by identity": (Identity(), "dynamics_is_a_value"),
    "grows": (Growing(), "modes_never_grow"),
    "modes that are not complex": (RealModes(), "modes_never_grow"),
    "modes that others may change": (SharedModes(), "modes_never_grow"),
    "starts at two": (Doubled(), "kernel_starts_at_one"),
    "a kernel that is not that of the modes": (OwnKernel(), "kernel_is_the_sum_of_its_modes"),
    "negative, and said not to be": (Negative(), "nonnegative_kernels_are"),
    "a sum of another": (OwnSum(), "algebra_is_pointwise"),
    "a multiple of another": (OwnMultiple(), "algebra_is_pointwise"),
    "a kernel without a duration": (Unwritten(), "durations_are_written_in"),
    "an unknown that is not there": (Miscounted(), "durations_are_written_in"),
}


@pytest.mark.parametrize("name", BROKEN_DYNAMICS)
def test_a_broken_dynamics_is_caught_by_the_check_for_it(name):
    dynamics, check = BROKEN_DYNAMICS[name]
    assert caught(check_dynamics, dynamics)[0] == check


@dataclass(frozen=True)
class Restless(Fading):
    """Other modes at each call."""

    calls: list = field(default_factory=list, compare=False)

    def modes(self):
        self.calls.append(1)
        return Modes(np.ones(1, complex), np.full(1, 0.5 + 3.0 * (len(self.calls) % 2) + 0j))


FURTHER = {
    "time_passes_in_steps": OwnKernel(),
    "seatings_are_as_likely_as_defined": Negative(),  # sampled as if it were not
    "mixture_fits_with_the_dynamics": Restless(),
}


@pytest.mark.parametrize("check", FURTHER)
def test_what_another_check_catches_first(check):
    assert fails(check, FURTHER[check])
    assert not fails(check, Fading())


def test_a_scaled_dynamics_is_said_to_be():
    check_dynamics(Doubled(), scaled=True)
    check_dynamics(Fading())


@pytest.mark.parametrize("dynamics", [LinearODE([1.0, 0.0, 1.0]), DYNAMICS["sticky"], DYNAMICS[SIGNED[0]]], ids=repr)
def test_a_sound_dynamics_passes_at_once(dynamics):
    check_dynamics(dynamics)


def test_every_check_of_a_family_can_fail():
    told = {check for _, check in BROKEN_FAMILIES.values()}
    elsewhere = {
        "check_knows_its_width",
        "predictive_of_part_of_a_row_is_normalised",
        "engine_learns_a_stream",
        "mixture_fits",
    }
    assert told | elsewhere == {check.__name__ for check in family_checks()}


def test_every_check_of_a_dynamics_can_fail():
    told = {check for _, check in BROKEN_DYNAMICS.values()}
    assert told | FURTHER.keys() == {check.__name__ for check in dynamics_checks()}
