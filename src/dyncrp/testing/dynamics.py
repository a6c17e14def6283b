"""The checks of a dynamics, one property each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dyncrp.dynamics import Dynamics, Exponential, Oscillatory, Stationary
from dyncrp.engine import reference
from dyncrp.engine.types import Model, State
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Gaussian
from dyncrp.process import DynamicalCRP
from dyncrp.testing.asserts import (
    SIGMAS,
    Float,
    require,
    require_close,
    require_equal_by_value,
    require_finite,
    run_check,
)

DynamicsCheck = Callable[[Dynamics], None]
N_SEATINGS = 20_000


def check_dynamics(dynamics: Dynamics, *, scaled: bool = False) -> None:
    """Raise ``AssertionError`` unless a dynamics keeps the promises of ``dyncrp.dynamics.Dynamics``.

    If durations are unknown, what can be said without them is checked, and then the rest with some. See
    ``dynamics_checks`` for the properties one by one.

    Args:
        dynamics: any size of timescale will do.
        scaled: whether its kernel may start at another number than 1, as that of ``2.0 * Exponential(3.0)`` does.

    >>> from dyncrp import Exponential, Stationary
    >>> check_dynamics(0.99 * Exponential(2.0) + 0.01 * Stationary())
    >>> check_dynamics(2.0 * Exponential())
    Traceback (most recent call last):
        ...
    AssertionError: 2.0 * Exponential(timescale=None) fails kernel_starts_at_one: kernel(0) is 2.0; ...
    """
    for check in dynamics_checks():
        if not (scaled and check is kernel_starts_at_one):
            run_check(check, dynamics)


def dynamics_checks() -> list[DynamicsCheck]:
    """Return the checks of ``check_dynamics``, to call each on its own with a dynamics."""
    return list(DYNAMICS_CHECKS)


def dynamics_is_a_value(dynamics: Dynamics) -> None:
    """Copies, deep copies and pickles are equal to it and hash alike; it is equal to nothing else."""
    require_equal_by_value(dynamics)
    require(dynamics != dynamics + Stationary(), "it is equal to another dynamics")
    require(type(dynamics).__repr__ is not object.__repr__, "it has no repr: make it a dataclass")


def durations_are_written_in(dynamics: Dynamics) -> None:
    """``durations``, ``n_unknown`` and ``with_durations`` agree; without all durations, there is no kernel."""
    durations, n = dynamics.durations(), dynamics.n_unknown
    require(isinstance(durations, list), f"durations() is {durations!r}, not a list")
    require(all(length is None or 0 < length < np.inf for length in durations), f"durations() are {durations}")
    require(n == durations.count(None), f"n_unknown is {n}, and durations() are {durations}")
    require(n > 0 or not dynamics.seeks_period, "it seeks a period, and no duration is unknown")
    known = _known(dynamics)
    given = iter(_durations(n))
    expected = [next(given) if length is None else length for length in durations]
    require(known.durations() == expected, f"with_durations wrote in {known.durations()}, expected {expected}")
    require(known.n_unknown == 0, f"{known.n_unknown} durations are unknown after with_durations")
    require(known.with_durations([]) == known, "with_durations([]) changes what is known")
    require(dynamics.durations() == durations, "with_durations changed the dynamics itself")
    require(known.nonnegative == dynamics.nonnegative, "nonnegative depends on the durations")
    if n == 0:
        return
    uses: dict[str, Callable[[], object]] = {
        "modes()": dynamics.modes,
        "with_durations of one too few": lambda: dynamics.with_durations(_durations(n - 1)),
    }
    for name, use in uses.items():
        try:
            use()
        except ValueError:
            continue
        raise AssertionError(f"{name} raises no ValueError, though a duration is unknown")


def modes_never_grow(dynamics: Dynamics) -> None:
    """``modes`` are two complex arrays of one length, finite, with Re rate ≥ 0, new ones at each call."""
    dynamics = _known(dynamics)
    amplitudes, rates = dynamics.modes()
    for name, array in (("amplitudes", amplitudes), ("rates", rates)):
        require(isinstance(array, np.ndarray) and array.dtype == np.complex128, f"{name} are not a complex128 array")
        require(array.shape == (len(rates),) and len(rates) > 0, f"{name} have shape {array.shape}")
        require_finite(array, name)
    require(bool(np.all(rates.real >= 0)), f"a rate has a negative real part, so that the kernel grows: {rates}")
    before = dynamics.kernel(1.0)
    amplitudes *= 2.0
    rates += 1.0
    require(dynamics.kernel(1.0) == before, "changing the arrays that modes() returned changes the kernel")


def kernel_starts_at_one(dynamics: Dynamics) -> None:
    """A customer who has just come counts 1, unless the dynamics is scaled."""
    start = float(_known(dynamics).kernel(0.0))
    message = f"kernel(0) is {start}; pass scaled=True if that is meant"
    require(abs(start - 1.0) <= 1e-12, message)


def kernel_is_the_sum_of_its_modes(dynamics: Dynamics) -> None:
    """kernel(Δ) = Re Σ a_m exp(−rate_m Δ), for Δ of any shape."""
    dynamics = _known(dynamics)
    amplitudes, rates = dynamics.modes()
    delays = _delays(dynamics)[:600]
    total = sum(np.real(a * np.exp(-rate * delays)) for a, rate in zip(amplitudes, rates, strict=True))
    require_close(dynamics.kernel(delays), total, "the kernel, and the sum of its modes,", atol=1e-12 * _size(dynamics))
    grid = dynamics.kernel(delays.reshape(2, 3, 100))
    require(np.array_equal(grid, dynamics.kernel(delays).reshape(2, 3, 100)), "the kernel of a grid is another")
    require(np.ndim(dynamics.kernel(1.0)) == 0, "the kernel of a number is not a number")


def time_passes_in_steps(dynamics: Dynamics) -> None:
    """To advance a table by a and then by b is to advance it by a + b, and gives kernel(a + b)."""
    dynamics = _known(dynamics)
    modes = dynamics.modes()
    count = np.ones(1)
    states = np.ones((1, len(modes.rates)), complex)
    none = np.zeros(1, np.int64)
    start = State(np.ones((1, 1)), np.ones((1, 0)), states, 0.0, count, none, 1, none, np.zeros(1), np.zeros(1))
    for a, b in np.random.default_rng(0).permutation(_delays(dynamics)[:200]).reshape(-1, 2):
        twice = reference.advance(reference.advance(start, a, modes), a + b, modes)
        value = (twice.mode_states @ modes.amplitudes).real[0]
        phase = np.max(np.abs(modes.rates)) * (a + b)  # rounding a time of many periods turns the phase
        slack = 1e-12 * _size(dynamics) * max(1.0, phase)
        require_close(value, dynamics.kernel(a + b), f"advancing by {a} and {b}, and kernel({a + b}),", atol=slack)


def nonnegative_kernels_are(dynamics: Dynamics) -> None:
    """A kernel that is said to be ``nonnegative`` is, on a dense grid of delays."""
    if not dynamics.nonnegative:
        return
    dynamics = _known(dynamics)
    delays = _delays(dynamics)
    values = dynamics.kernel(delays)
    worst = int(np.argmin(values))
    claim = f"it is said to be nonnegative, and kernel({delays[worst]}) = {values[worst]:.3g}"
    require(bool(values[worst] >= -1e-12 * _size(dynamics)), claim)


def algebra_is_pointwise(dynamics: Dynamics) -> None:
    """Kernels of sums, products and multiples are those of the parts; so are their signs."""
    dynamics = _known(dynamics)
    delays = _delays(dynamics)[:600]
    kernel, size = dynamics.kernel(delays), 4.0 * _size(dynamics)
    unit = float(np.median(delays)) or 1.0
    for other in (Stationary(), Exponential(unit), Oscillatory(1.3 * unit)):
        values = other.kernel(delays)
        slack = 1e-12 * size * (1.0 + np.max(np.abs(other.modes().rates)) * delays)
        for name, combined, expected in (
            ("the sum", dynamics + other, kernel + values),
            ("the sum", other + dynamics, kernel + values),
            ("the product", dynamics * other, kernel * values),
            ("the product", other * dynamics, kernel * values),
        ):
            gap = np.abs(combined.kernel(delays) - expected) - slack
            require(bool(np.all(gap <= 0)), f"{name} with {other!r} is off by {np.max(gap):.3g}")
            require(combined.nonnegative == dynamics.nonnegative, f"the sign of {name} with {other!r} is another")
    for weight in (0.3, -2.0):
        require_close(
            (weight * dynamics).kernel(delays),
            weight * kernel,
            f"{weight} times it, and that kernel,",
            atol=1e-12 * size,
        )
        require((weight * dynamics).nonnegative == (weight > 0 and dynamics.nonnegative), f"sign of {weight} times it")
    require_close((dynamics / 2).kernel(delays), kernel / 2.0, "half of it, and half its kernel,", atol=1e-12 * size)


def seatings_are_as_likely_as_defined(dynamics: Dynamics) -> None:
    """Seatings that ``DynamicalCRP`` samples, and its marginals where no kernel is negative, agree with enumeration."""
    dynamics = _known(dynamics)
    unit = float(np.median(_delays(dynamics)[:600])) or 1.0
    times = unit * np.array([0.0, 0.3, 0.3, 0.9, 1.4, 2.0])
    process = DynamicalCRP(0.9, dynamics)
    exact = _seatings(dynamics, times, 0.9)
    tables, counts = np.unique(process.sample(times, N_SEATINGS, seed=5), axis=0, return_counts=True)
    found = dict(zip(map(tuple, tables.tolist()), counts / N_SEATINGS, strict=True))
    for seating, probability in exact.items():
        error = np.sqrt(max(probability * (1.0 - probability), 10.0 / N_SEATINGS) / N_SEATINGS)
        gap = abs(found.pop(seating, 0.0) - probability)
        require(gap <= SIGMAS * error, f"seating {seating} is off its probability {probability:.4g} by {gap:.2g}")
    require(not found, f"seatings were drawn that cannot be: {list(found)}")
    if np.min(dynamics.kernel(np.abs(np.subtract.outer(times, times)))) < 0:
        return
    marginals = process.marginals(times)
    assignments, n_tables = np.zeros((6, 6)), np.zeros((6, 6))
    for seating, probability in exact.items():
        for n, table in enumerate(seating):
            assignments[n, table] += probability
            n_tables[n, max(seating[: n + 1])] += probability
    require_close(marginals.assignments, assignments, "marginals, and the sum over seatings,", atol=1e-12)
    require_close(marginals.n_tables, n_tables, "marginal numbers of tables, and the sum over seatings,", atol=1e-12)


def mixture_fits_with_the_dynamics(dynamics: Dynamics) -> None:
    """``DynamicalMixture`` learns a stream with it, the same however it is cut, and as the reference does."""
    dynamics = _known(dynamics)
    rng = np.random.default_rng(0)
    X = 10.0 * rng.standard_normal((4, 2))[rng.integers(4, size=40)] + rng.standard_normal((40, 2))
    times = float(np.median(_delays(dynamics)[:600])) * np.cumsum(rng.exponential(0.1, 40))
    family = Gaussian(1.0, 100.0)
    model = DynamicalMixture(family, dynamics, alpha=0.7).fit(X, times=times)
    told = Model(family, dynamics, 0.7)
    engine = reference.ReferenceEngine(told, 2)
    require(np.array_equal(model.labels_, engine.run(X, times).labels), "its labels are not the reference's")
    require_close(model.log_evidence_, engine.log_evidence, "its evidence, and the reference's,", rtol=1e-8, atol=1e-8)
    again = DynamicalMixture(family, dynamics, alpha=0.7)
    labels = [again.partial_fit(X[a:b], times=times[a:b]).labels_ for a, b in ((0, 7), (7, 40))]
    require(np.array_equal(np.concatenate(labels), model.labels_), "partial_fit gives other labels than fit")


DYNAMICS_CHECKS: tuple[DynamicsCheck, ...] = (
    dynamics_is_a_value,
    durations_are_written_in,
    modes_never_grow,
    kernel_starts_at_one,
    kernel_is_the_sum_of_its_modes,
    time_passes_in_steps,
    nonnegative_kernels_are,
    algebra_is_pointwise,
    seatings_are_as_likely_as_defined,
    mixture_fits_with_the_dynamics,
)


def _known(dynamics: Dynamics) -> Dynamics:
    """Return the dynamics with all its durations."""
    return dynamics.with_durations(_durations(dynamics.n_unknown)) if dynamics.n_unknown else dynamics


def _durations(n: int) -> list[float]:
    return [1.7 * 1.9**i for i in range(n)]


def _size(dynamics: Dynamics) -> float:
    return float(np.sum(np.abs(dynamics.modes().amplitudes)))


def _delays(dynamics: Dynamics) -> Float:
    """Return delays from nothing to far beyond the slowest mode, dense in between; the first 600 are its own size."""
    rates = np.abs(dynamics.modes().rates)
    rates = rates[rates > 0]
    fast, slow = (1.0 / np.max(rates), 1.0 / np.min(rates)) if rates.size else (1.0, 1.0)
    middle = np.exp(np.mean(np.log([fast, slow])))
    own = np.append(0.0, np.random.default_rng(1).exponential(3.0 * middle, 599))
    dense = [np.linspace(0.0, 20.0 * scale, 4001) for scale in (fast, middle, slow)]
    return np.concatenate([own, *dense, np.geomspace(1e-6 * fast, 1e3 * slow, 4001)])


def _seatings(dynamics: Dynamics, times: Float, alpha: float) -> dict[tuple[int, ...], float]:
    """Return every seating of the customers with its probability, straight from the definition."""
    kernel = dynamics.kernel(np.abs(np.subtract.outer(times, times)))
    seated: dict[tuple[int, ...], float] = {(): 1.0}
    for n in range(len(times)):
        longer = {}
        for tables, probability in seated.items():
            occupancy = np.zeros(max(tables, default=-1) + 1)
            np.add.at(occupancy, list(tables), kernel[n, :n])
            weights = np.append(np.maximum(occupancy, 0.0), alpha)
            for table, weight in enumerate(weights / np.sum(weights)):
                longer[(*tables, table)] = probability * float(weight)
        seated = longer
    return seated
