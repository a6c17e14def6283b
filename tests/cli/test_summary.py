"""``dyncrp summary`` as a user reads it."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from dyncrp import Categorical, DynamicalMixture, Gaussian
from dyncrp.cli.app import app


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(sys.modules, "pandas", None)  # the command does without


def summary(*arguments, code=0):
    done = CliRunner().invoke(app, ["summary", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout.splitlines() if code == 0 else done.stderr


def tables(path, *arguments):
    return summary(path, "--tables", *arguments)


def saved(tmp_path, X, family=None, **options):
    path = tmp_path / "model.npz"
    DynamicalMixture(family or Gaussian(1.0, 1e4)).fit(X, **options).save(path)
    return path


def test_the_largest_table_comes_first(tmp_path):
    path = saved(tmp_path, [[0.0, 0.0], [90.0, -12345.678], [90.0, -12345.678], [400.0, 0.0]], Gaussian(1.0, 1e12))
    assert tables(path) == [
        "3 tables of 4 rows",
        "table  rows  share  first seen  last seen   x0       x1",
        "    1     2   50 %           1          2   90  -12,346",
        "    0     1   25 %           0          0    0        0",
        "    2     1   25 %           3          3  400        0",
        "what tells tables apart: x1 100 %, x0 <1 %",
    ]


def test_dates_clusters_and_a_number_of_tables(tmp_path):
    times = np.datetime64("2024-05-01T10:00:00") + np.array([0, 90, 7200])
    path = saved(tmp_path, [[0.0], [0.5], [90.0]], times=times)
    assert tables(path, "--clusters", 2, "-n", 1) == [
        "2 tables of 3 rows; the largest",
        "table  rows  share  first seen (UTC)   last seen (UTC)  cluster    x0",
        "    0     2   67 %  2024-05-01 10:00  2024-05-01 10:01        0  0.25",
        "1 more table: --all shows every table",
    ]
    times = np.datetime64("2024-05-01T10:00:00") + np.array([0, 90, 100])
    assert "2024-05-01 10:01:30" in tables(saved(tmp_path, [[0.0], [0.5], [90.0]], times=times))[2]


def test_times_that_are_large_numbers_can_be_told_apart(tmp_path):
    file = saved(tmp_path, [[0.0], [0.5]], times=[1700000000.5, 1700000001.5])
    assert tables(file)[2].split()[4:6] == summary(file)[2].split()[4:6] == ["1700000000", "1700000002"]


def test_20_tables_are_shown_unless_told_otherwise(tmp_path):
    path = saved(tmp_path, 1000.0 * np.arange(25.0)[:, None], Gaussian(1.0, 1e8))
    lines = tables(path)
    assert (len(lines), lines[0], lines[-1]) == (
        23,
        "25 tables of 25 rows; the 20 largest",
        "5 more tables: --all shows every table",
    )
    assert len(tables(path, "--all")) == 27
    assert len(tables(path, "-n", 25)) == 27


@pytest.mark.parametrize("width", [10, 40, 60, 80, 200])
def test_features_that_do_not_fit_are_counted(tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    path = saved(tmp_path, np.full((3, 40), -1.23456))
    _, head, line, *rest = tables(path)
    names = head.split()[7:]  # after "first seen" and "last seen"
    assert names == [f"x{d}" for d in range(len(names))]
    assert rest == [f"{40 - len(names)} more features: model.describe() in Python has all of them"]
    assert len(head) == len(line)
    assert len(head) <= width if names else width <= 40
    assert len(head) + len("  -1.235") > width


def test_long_names_and_codes(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    model = DynamicalMixture(Categorical(0.1, 3)).fit([[0.0, 2.0]] * 5)
    model.stream_.input = replace(model.stream_.input, names=("a\tb\x1b", "n" * 40))
    model.save(tmp_path / "model.npz")
    _, head, line = tables(tmp_path / "model.npz")
    assert head.split()[7:] == ["a", "b", "n" * 23 + "…"]
    assert line.endswith("0 99 % (lift 1.0)  2 98 % (lift 1.0)")


def test_what_cannot_be_shown_is_named(tmp_path):
    path = saved(tmp_path, [[0.0], [90.0]])
    assert "at most the number of open tables, 2, got 3" in summary(path, "--clusters", 3, code=2)
    assert "No such file" in summary(tmp_path / "none", code=1)
    (tmp_path / "text").write_text("a,b\n")
    assert "is not a readable dyncrp model" in summary(tmp_path / "text", code=1)


def test_a_checkpoint_before_the_first_row(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n")
    CliRunner().invoke(
        app, ["run", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "o.csv"), "--checkpoint", str(tmp_path / "state")]
    )
    assert "there are no clusters yet" in summary(tmp_path / "state", code=1)


def test_clusters_come_first_and_say_what_is_typical(tmp_path):
    path = saved(tmp_path, [[0.0, 1.0], [40.0, 1.0], [5e3, 1.0], [40.0, 3.0], [5e3, 1.0], [0.0, 1.0]])
    assert summary(path, "--clusters", 2) == [
        "2 clusters of 6 rows, in 3 tables",
        "cluster  rows  share  first seen  last seen  typical",
        "      0     4   67 %           0          5  x0 20 ↓, x1 1.50",
        "      2     2   33 %           2          4  x0 5,000 ↑, x1 1.00",
    ]
    assert summary(path, "--clusters", 3)[0] == "3 clusters of 6 rows, in 3 tables"
    assert summary(path, "--clusters", 2, "-n", 1)[-1] == "and 1 smaller cluster with 2 rows"
    many = saved(tmp_path, 1000.0 * np.arange(25.0)[:, None], Gaussian(1.0, 1e8))
    assert len(summary(many, "--clusters", 24)) == len(summary(many, "--clusters", 24, "--all")) == 26


def test_too_many_tables_for_clusters_are_shown_as_tables(tmp_path, monkeypatch):
    monkeypatch.setattr("dyncrp.joining.clusters.MOST_TABLES", 2)
    path = saved(tmp_path, [[0.0], [90.0], [900.0]])
    told = summary(path, code=1)
    assert "3 are open" in told
    assert "--tables shows the tables" in told
    assert tables(path)[0] == "3 tables of 3 rows"


def test_the_number_of_clusters_of_a_run_is_kept_in_its_checkpoint(tmp_path):
    (tmp_path / "rows.csv").write_text("a\n" + "".join(f"{90 * (i % 3)}\n" for i in range(9)))
    known = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=9000", "--alpha", "1"]
    known += ["--dynamics", "stationary()", "--clusters", "2", "--checkpoint", str(tmp_path / "state")]
    CliRunner().invoke(app, ["run", str(tmp_path / "rows.csv"), *known])
    assert summary(tmp_path / "state")[0] == "2 clusters of 9 rows, in 3 tables"


def test_groups_are_called_clusters(tmp_path):
    path = saved(tmp_path, [[0.0], [90.0]])
    assert "there is no option --groups: use --clusters" in summary(path, "--groups", 2, code=2)
