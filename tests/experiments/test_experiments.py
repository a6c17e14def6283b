"""Every experiment runs at toy size, and draws what it says; the numbers behind the figures are right."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import pandas as pd

from dyncrp import DynamicalCRP, baselines
from dyncrp.metrics import agreement
from experiments import (
    check,
    figures,
    gaussians,
    prior,
    report,
    room_figures,
    rooms,
    sphere,
    summary,
    sweep,
    wrong_dynamics,
)


def small(quick):
    """Two values of alpha, one of all else, forty observations."""
    first = quick[0]
    kept = [stream for stream in quick if stream.n_features == first.n_features and stream.alpha in (2.5, 5.0, 15.0)]
    return [replace(stream, n=50) for stream in kept]


ALONE = ["--quick", "--backend", "threading", "--n-jobs", "1"]
FIGURES = ["by_alpha", "by_signal", "clusters", "creation"]


@pytest.mark.slow
@pytest.mark.parametrize("module", [gaussians, sphere])
def test_a_comparison_runs_draws_and_does_nothing_twice(module, tmp_path, monkeypatch, capsys):
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, folder, name: drawn.update({folder / name: figure}))
    monkeypatch.setattr(module, "QUICK", small(module.QUICK))
    name = module.__name__.split(".")[1]
    arguments = [*ALONE, "--output", str(tmp_path), "--only", "D-CRP", "--only", "R-CRP"]
    module.main(arguments)
    assert list(drawn) == [tmp_path / "figures" / f"{name}_{figure}" for figure in FIGURES]
    results = tmp_path / "results" / f"{name}.parquet"
    before = results.read_bytes()
    monkeypatch.setattr(figures, "comparison", lambda *_: None)
    module.main(arguments)
    assert "\n0 tasks" in capsys.readouterr().err
    assert results.read_bytes() == before


@pytest.mark.slow
def test_the_wrong_dynamics_run_and_draw_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(gaussians, "QUICK", small(gaussians.QUICK))
    wrong_dynamics.main([*ALONE, "--output", str(tmp_path)])
    folder = tmp_path / "figures"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"wrong_dynamics.png", "wrong_dynamics.svg"}
    wrong_dynamics.main([*ALONE, "--output", str(tmp_path)])
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_the_prior_runs_and_draws(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, folder, name: drawn.update({name: figure}))
    monkeypatch.setattr(prior, "QUICK", [replace(draws, n_samples=50) for draws in prior.QUICK if draws.repetition < 2])
    prior.main([*ALONE, "--output", str(tmp_path)])
    assert list(drawn) == ["prior_marginals", "prior_errors"]
    (first, *_), images = drawn["prior_marginals"].axes, drawn["prior_marginals"].axes[:32]
    assert first.get_title().startswith("Monte Carlo")
    assert len({image.get_images()[0].get_array().shape for image in images}) == 1


@pytest.mark.slow
def test_rooms_run_and_draw(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rooms, "QUICK", [replace(walk, n=150) for walk in rooms.QUICK])
    monkeypatch.setattr(rooms, "STRENGTHS", (0.3,))
    monkeypatch.setattr(room_figures, "FRAMES", 3)
    monkeypatch.setattr(sweep, "HERE", tmp_path)
    rooms.main([*ALONE, "--output", str(tmp_path)])
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"rooms.png", "rooms.svg", "rooms_scores.png", "rooms_scores.svg", "rooms.gif"}
    frame = rooms.table(tmp_path).read()
    assert len(frame) == 2 * 3 * 4
    for row in frame.itertuples():
        house = rooms.Walk(row.noise, row.seed, row.n_rooms, row.n).draw()
        assert row.ami == agreement(house.rooms, row.labels).ami
        assert row.recognised <= row.returns
    assert "AMI less that of the sticky D-CRP" in capsys.readouterr().out


def test_the_fit_with_the_highest_evidence_counts(monkeypatch):
    walk = rooms.Walk("none", 0, n=300)
    made = list(rooms.fits(walk.draw(), "D-CRP, sticky", 0))
    assert len(made) == 6 * len(rooms.STRENGTHS)
    (row,) = rooms.compare(walk, ["D-CRP, sticky"])
    assert row["log_evidence"] == max(fit.log_evidence for fit in made)


@pytest.mark.parametrize("dynamics", [d for some in rooms.DYNAMICS.values() for d in some], ids=str)
def test_alpha_expects_ten_places(dynamics):
    marginals = DynamicalCRP(rooms.alpha_of(dynamics, 300), dynamics).marginals(range(300))
    assert float(marginals.n_tables[-1] @ np.arange(1, 301)) == pytest.approx(10.0, rel=1e-6)


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


def test_pages_have_the_tables_of_the_results_that_are_kept():
    known = report.tables()
    for page in (path.read_text(encoding="utf-8") for path in report.PAGES):
        assert report.MARK.findall(page)
        assert report.fill(page, known) == page


def test_a_stored_result_that_is_not_computed_again_is_told(capsys, monkeypatch):
    small = ["--streams", "1", "--only", "wrong_dynamics"]
    check.main(small)
    assert capsys.readouterr().out == "wrong_dynamics: 4 of 4 rows are as stored\n"
    experiment = check.EXPERIMENTS["wrong_dynamics"]

    def others(stream, names):
        first, *rest = experiment.compute(stream, names)
        return [first | {"ami": first["ami"] + 1e-12}, *rest]

    monkeypatch.setitem(check.EXPERIMENTS, "wrong_dynamics", experiment._replace(compute=others))
    with pytest.raises(SystemExit):
        check.main(small)
    assert "3 of 4 rows" in (out := capsys.readouterr().out)
    assert out.endswith(": ami\n")
