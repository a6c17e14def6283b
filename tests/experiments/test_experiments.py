"""Every experiment runs at toy size, and draws what it says; the numbers behind the figures are right."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import pandas as pd

from dyncrp import baselines
from experiments import directions, figures, gaussians, prior, summary, wrong_dynamics


def small(quick):
    """Two values of alpha, one of all else, forty observations."""
    first = quick[0]
    kept = [stream for stream in quick if stream.n_features == first.n_features and stream.alpha in (2.5, 5.0, 15.0)]
    return [replace(stream, n=50) for stream in kept]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (gaussians, ["gaussians_by_alpha", "gaussians_by_signal", "gaussians_clusters", "gaussians_creation"]),
        (directions, ["directions_by_alpha", "directions_by_signal", "directions_clusters", "directions_creation"]),
        (wrong_dynamics, ["wrong_dynamics"]),
    ],
)
def test_an_experiment_runs_draws_and_does_nothing_twice(module, names, tmp_path, monkeypatch, capsys):
    for grid in (gaussians, directions):
        monkeypatch.setattr(grid, "QUICK", small(grid.QUICK))
    arguments = ["--quick", "--backend", "threading", "--n-jobs", "1", "--output", str(tmp_path)]
    arguments += [] if module is wrong_dynamics else ["--only", "D-CRP", "--only", "R-CRP"]
    module.main(arguments)
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    results = tmp_path / "results" / f"{module.__name__.split('.')[1]}.parquet"
    before, figure = results.read_bytes(), (tmp_path / "figures" / f"{names[0]}.svg").read_bytes()
    capsys.readouterr()
    module.main(arguments)
    assert "0 tasks" in capsys.readouterr().err
    assert results.read_bytes() == before
    assert (tmp_path / "figures" / f"{names[0]}.svg").read_bytes() == figure


def test_the_prior_runs_and_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(
        prior,
        "QUICK",
        [prior.Draws(*each, n_samples=50) for each in prior.product(prior.DYNAMICS, prior.ALPHAS, (0, 1))],
    )
    prior.main(["--quick", "--backend", "threading", "--n-jobs", "1", "--output", str(tmp_path)])
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {f"prior_{name}.{kind}" for name in ("marginals", "errors") for kind in ("png", "svg")}


def test_the_error_is_what_monte_carlo_makes_if_the_recursion_is_exact():
    """Mean of 20 runs of 500 seatings: the standard error of the ratio is about 0.01."""
    draws = [prior.Draws("oscillatory", 10.78, repetition, 500) for repetition in range(20)]
    frame = prior.slopes(pd.DataFrame([row for each in draws for row in prior.compare(each)]))
    assert abs(frame["ratio"].mean() - 1.0) < 0.04
    assert abs(frame["slope"].mean() + 1.0) < 0.04
    assert prior.square(frame["counts"][0]).sum() == 500 * prior.N


def test_every_system_looks_like_no_other_even_without_colours():
    looks = {(style["marker"], style.get("markerfacecolor")) for style in map(figures.style, baselines.SYSTEMS)}
    assert len(looks) == len(baselines.SYSTEMS)


def test_gains_are_taken_on_the_same_stream():
    frame = pd.DataFrame(
        {"seed": [0, 0, 1, 2], "system": ["D-CRP", "Gibbs", "D-CRP", "Gibbs"], "ami": [0.5, 0.75, 0.25, 1.0]}
    )
    np.testing.assert_array_equal(summary.ahead(frame), [0.0, 0.25, 0.0, np.nan])
