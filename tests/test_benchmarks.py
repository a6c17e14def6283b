"""The benchmarks run at toy size. Nothing here looks at a clock."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score as ami

pytest.importorskip("rich")

from benchmarks import (
    alarms,
    answers,
    chart,
    compare,
    data,
    dictionaries,
    figures,
    fill,
    growth,
    history,
    many,
    options,
    report,
    speed,
    surges,
    systems,
    threads,
    variants,
)
from benchmarks.peers import measure_size
from benchmarks.settings import TOY
from benchmarks.streams import shipped
from benchmarks.streams.base import FIRST, neighbour_distance
from benchmarks.streams.shipped import sticky_order


def test_every_section_has_a_name():
    assert list(speed.sections()) == list(speed.SECTIONS)


def test_centres_lie_apart():
    stream = data.gaussian(10, 2, 5000, 100)
    assert stream.pool.shape == (5000, 2)
    assert set(stream.truth) == set(range(10))
    means = data.centers(10, 2, data.np.random.default_rng(0))
    gaps = ((means[:, None] - means) ** 2).sum(axis=2) ** 0.5 + 100 * data.np.eye(10)
    assert gaps.min() >= data.APART


def test_peers_at_toy_size(tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "has_river", lambda: False)
    monkeypatch.setattr("benchmarks.peers.SQUARE", 20)
    rows = measure_size(4, 2, TOY)
    assert [row["system"] for row in rows[:2]] == ["dyncrp, batch 1024", "dyncrp, one call"]
    assert all(row["rate"] > 0 for row in rows)
    assert rows[0]["clusters"] == 4
    assert rows[0]["ami"] == pytest.approx(1.0, abs=0.05)
    assert report.table("toy", rows).row_count == len(rows)
    report.write(tmp_path / "speed.json", {"peers": {"K = 4, D = 2": rows}}, quick=True)
    saved = json.loads((tmp_path / "speed.json").read_text())
    pytest.importorskip("matplotlib")
    chart.draw(saved["sections"]["peers"], tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_results_of_other_sections_are_kept(tmp_path):
    tables = {"three orders": [{"system": "dyncrp", "ami": 0.5, "ami_error": 0.25}]}
    for name in ("wine", "digits"):
        report.write(tmp_path / "some.json", {name: tables}, quick=True)
    assert json.loads((tmp_path / "some.json").read_text())["sections"] == {"wine": tables, "digits": tables}
    shown = report.table("three orders", tables["three orders"])
    assert list(shown.columns[1].cells) == ["0.500 ± 0.250"]


@pytest.mark.slow
def test_river_learns_and_labels():
    pytest.importorskip("river")
    rows = systems.as_dicts(data.gaussian(4, 2, 1200, 0).pool)
    for system in systems.rivers(4, 2):
        system.learn(rows)
        assert len(system.label(rows[:2])) == 2
        assert system.count() > 0, system.name  # DenStream counts only once it was asked to label


def test_rivers_adapter_beside_river_at_toy_size():
    pytest.importorskip("river")
    for _, rows in dictionaries.run(TOY):
        assert [row["system"] for row in rows][:2] == ["dyncrp.river", "river DBSTREAM"]
        assert (rows[0]["ratio"], rows[0]["clusters"]) == (1.0, 10)
        assert rows[0]["ami"] > 0.99


def test_growth_and_variants_at_toy_size():
    (_, rows), *_ = growth.with_observations(TOY)
    assert rows[-1]["relative"] == 1.0
    (_, rows), *_ = growth.with_tables(TOY)
    assert [row["clusters"] for row in rows] == list(TOY.table_counts)
    (_, rows), *_ = variants.dynamics(TOY)
    assert [row["system"] for row in rows] == ["Exponential", "Hyperbolic"]


def test_options_at_toy_size():
    ((_, rows),) = options.run(TOY, ((4, 2),))
    assert rows[0]["system"] == "nothing"
    assert rows[0]["times"] == 1.0
    assert {"system", "ns", "times"} == rows[0].keys()
    assert {row["system"] for row in rows} > {"alarm_rate=0.001", "novelty_p_ read", "a DataFrame", "times given"}


def test_a_new_cluster_begins_where_it_should():
    for kind in alarms.KINDS:
        X, new = alarms.stream(alarms.Case(kind, 2, 4000, seed=0, begin=3000, distance=10.0))
        assert np.flatnonzero(new)[0] == 3000
        assert 30 < np.sum(new) < 400  # one row in 13 of 1,000, or runs of 50 of them
        assert X.shape == (4000, 2)
        assert not np.any(alarms.stream(alarms.Case(kind, 2, 4000, seed=0))[1])


def test_surges_at_toy_size(monkeypatch):
    monkeypatch.setattr(surges, "CLUSTERS", (12,))
    monkeypatch.setattr(surges, "CHANGES", {"none": 0.0})
    monkeypatch.setattr(surges, "AFTER", 8000)
    for kind in surges.KINDS:
        title, rows = surges.rates(surges.TOY, kind)
        assert title == f"surges, {kind}"
        assert len(rows) == 4
        assert all(0.0 <= row["least"] <= row["ratio"] <= row["most"] < 10.0 for row in rows)
    assert next(row["system"] for row in surges.through_the_model(surges.TOY)[1]) == "stationary, 12 tables"
    assert surges.delays(surges.TOY, "stationary")[1][0]["found"] == 1.0


@pytest.mark.slow
def test_alarms_at_toy_size(monkeypatch):
    pytest.importorskip("river")
    monkeypatch.setattr(alarms, "DISTANCES", (20.0,))
    ((title, rows),) = alarms.rates(alarms.TOY, list(alarms.systems()), 4000, range(1), [("stationary", 2)])
    assert title == "stationary, D = 2: 1 of 4,000 rows"
    assert [row["system"] for row in rows] == list(alarms.systems())
    assert all(0.0 <= row["ratio"] < 10.0 for row in rows)
    _, rows = alarms.delays(alarms.TOY, "stationary", 2)
    assert rows[1]["at 20"] == 1.0
    assert all(row["bytes"] < 16_000 for row in alarms.costs(20_000))


def test_sticky_order_is_a_permutation_in_runs_and_follows_its_seed():
    y = np.random.default_rng(0).integers(10, size=20_000)
    order = sticky_order(y, 0.95, seed=1)
    assert sorted(order) == list(range(len(y)))
    lasting = y[order][:10_000]  # half of the rows, while no class has run out
    assert len(np.unique(y[order][10_000:])) == 10
    runs = 1 + np.count_nonzero(np.diff(lasting))
    # Jumps are Binomial(10000, 0.05), so 500 ± 22; four standard errors either way.
    assert 412 < runs < 588
    np.testing.assert_array_equal(order, sticky_order(y, 0.95, seed=1))
    assert np.any(order != sticky_order(y, 0.95, seed=2))
    steps = np.diff(order[y[order] == 3])
    assert np.mean(steps > 0) == pytest.approx(0.5, abs=0.05)  # the rows of a class are shuffled too


def test_sticky_order_jumps_to_every_other_class_alike():
    y = np.repeat([0, 1, 2], 3000)
    classes = y[sticky_order(y, 0.0, seed=0)][:3000]
    assert np.all(np.diff(classes) != 0)
    after_zero = classes[1:][classes[:-1] == 0]
    # Binomial(n, 1/2), n about 1000: the share of either is 0.5 ± 0.016; four standard errors.
    assert np.mean(after_zero == 1) == pytest.approx(0.5, abs=0.064)


@pytest.mark.parametrize("stay", [0.0, 0.95, 1.0])
def test_sticky_order_ends_when_a_class_is_all_that_is_left(stay):
    y = [7] * 50 + [3]
    assert sorted(sticky_order(y, stay, seed=0)) == list(range(51))


def test_a_stream_in_runs_is_cut_after_ordering(monkeypatch):
    monkeypatch.setattr(shipped, "MOST", 25)
    y = np.repeat(np.arange(4), 10)
    X, truth = shipped.in_runs(np.eye(4)[y], y, seed=0)
    np.testing.assert_array_equal(X.argmax(axis=1), truth)
    np.testing.assert_array_equal(truth, y[sticky_order(y, shipped.STAY, 0)][:25])


def test_only_wine_and_breast_cancer_are_standardised():
    streams = shipped.of_scikit_learn()
    for name in ("wine", "breast cancer"):
        X = streams[name](0).X
        np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(X.std(axis=0), 1.0)
    assert streams["digits, in runs"](0).X.max() == 16.0


def test_radius_is_a_quantile_of_neighbour_distances_in_the_first_rows():
    X = 2.0 * np.arange(FIRST)[:, None]
    later = np.concatenate([X, X + 1.0])
    assert neighbour_distance(later, 0.95) == 2.0
    copies = np.repeat(np.array([[0.0], [3.0], [4.0]]), 5, axis=0)
    assert neighbour_distance(copies, 0.0) == 1.0
    assert neighbour_distance(copies, 1.0) == 3.0


def test_nearest_center_says_what_rivers_predict_one_says():
    from benchmarks.streams.systems.river_clusterers import nearest_center

    cluster = pytest.importorskip("river.cluster")
    X = data.gaussian(4, 3, 400, 0).pool
    rows = systems.dicts(X)
    for model in (
        cluster.KMeans(4, sigma=5.0, seed=0),
        cluster.STREAMKMeans(chunk_size=40, n_clusters=4, sigma=5.0, seed=0),
        cluster.DBSTREAM(clustering_threshold=3.0, fading_factor=1 / 400),
        cluster.DenStream(epsilon=3.0, decaying_factor=1 / 400, n_samples_init=50, stream_speed=1),
    ):
        for row in rows:
            model.learn_one(row)
        expected = [model.predict_one(row) for row in rows]
        assert len(set(expected)) > 1
        assert nearest_center(model, X).tolist() == expected, type(model).__name__


def test_first_answers_are_compared_on_further_sets(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    np.savez(tmp_path / "far.npz", X=20.0 * y[:, None] + rng.normal(size=(200, 2)), y=y)
    options = ["--quick", "--only", "far", "--data", str(tmp_path), "--results", str(tmp_path / "answers.json")]
    answers.main(options)
    found = json.loads((tmp_path / "answers.json").read_text())
    assert found["commit"] == report.commit()
    assert found["sets"]["far"]["dyncrp, clusters"] == [1.0, 1.0] == found["mean"]["KMeans"]
    assert "| far | " in capsys.readouterr().out
    monkeypatch.setattr(answers, "RESULTS", tmp_path / "whole.json")
    answers.main(options[:-2])
    assert not answers.RESULTS.exists()  # a part of the sets does not replace the results of all


@pytest.mark.slow
def test_the_gallery_has_a_panel_for_each_data_set_and_system(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from benchmarks import gallery

    found = gallery.clouds()
    assert [(cloud.X.shape, len(np.unique(cloud.truth)), cloud.K) for cloud in found.values()] == [
        ((500, 2), 2, 2),
        ((500, 2), 2, 2),
        *[((500, 2), 3, 3)] * 3,
        ((500, 2), 1, 3),
    ]
    for cloud in found.values():
        np.testing.assert_allclose(cloud.X.std(axis=0), 1.0)
    few = {name: gallery.Cloud(cloud.X[:100], cloud.truth[:100], cloud.K) for name, cloud in found.items()}
    monkeypatch.setattr(gallery, "clouds", lambda: few)
    scores = gallery.draw(tmp_path / "images" / "gallery.png")
    assert list(scores) == list(found)
    for name, of_systems in scores.items():
        wanted = [ami(few[name].truth, cluster(few[name])) for _, _, cluster in gallery.SYSTEMS]
        assert of_systems == wanted
    assert (tmp_path / "images" / "gallery.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_soak_compares_the_engine_with_the_reference(monkeypatch):
    from benchmarks import soak

    monkeypatch.setattr(soak, "LAW_FROM_STATE", 1000)
    monkeypatch.setattr(soak, "LAW_FROM_NOTHING", 2000)
    done = []
    rows, drift = soak.run(20_000, 0, done.append)
    assert sum(done) == 20_000
    assert len(rows) == soak.TENTHS
    assert rows[-1]["opened"] > soak.LIMITS["max_tables"] >= rows[-1]["clusters"]
    reloaded, differ, evidence, centre, ami = drift.values()
    assert (reloaded, differ) == (0, 0)
    assert evidence < 1e-9
    assert centre < 1e-9
    assert ami > 0.9  # the reference began too late to have forgotten the same
    for row in rows:
        row["ami"] = 1.0  # so few rows may hold a cluster that has just come
    fine = dict(zip(drift, (0.0, 0.0, 0.0, 0.0, 1.0), strict=True))
    assert soak.faults(rows, fine) == []
    assert soak.faults(rows, fine | {next(iter(drift)): 1.0}) == ["a model that was loaded went its own way"]
    rows[-1] |= {"rss": 1e12, "ami": 0.5}
    assert len(soak.faults(rows, fine)) == 2


@pytest.mark.slow
def test_a_soak_that_is_stopped_is_checked_to_its_end(monkeypatch, tmp_path):
    from benchmarks import soak

    monkeypatch.setattr(soak, "LAW_FROM_STATE", 1000)
    monkeypatch.setattr(soak, "LAW_FROM_NOTHING", 2000)
    monkeypatch.setattr(soak.signal, "signal", lambda *_: None)
    log = soak.Log(tmp_path / "log", 400_000, minutes=1e-9)
    rows, _ = soak.run(400_000, 0, log.advance, log.stop)
    assert log.done == 3000  # stopped after the first batch, and then what the reference needs
    assert [row["system"] for row in rows] == ["observations to 3,000"]
    log.done = 399_000
    log.advance(1000)
    assert json.loads((tmp_path / "log").read_text())["rows"] == 400_000


def test_the_figures_that_are_compared_are_measured():
    every = figures.figures(1024)
    asked = [json.dumps({"figure": name, "seconds": 0.001}) for name in [*every, "nothing"]]
    *answers, absent = map(json.loads, figures.answer(iter(asked), every))
    assert all(told["ns"] > 0 for told in answers), answers
    assert absent == {"error": "KeyError: 'nothing'"}


def test_sides_are_measured_in_turns():
    order = []
    old, new = (lambda seconds, name=name: order.append(name) or 1.0 for name in "on")
    assert compare.rounds_of(old, new, 3, 0.1) == ([1.0] * 3, [1.0] * 3)
    assert "".join(order) == "onnoon"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([2.0, 2.1, 2.2, 2.0, 2.3], [1.0, 1.1, 1.2, 1.0, 1.1], "faster"),
        ([1.0, 1.1, 1.2, 1.0, 1.1], [2.0, 2.1, 2.2, 2.0, 2.3], "slower"),
        ([1.00, 1.01, 1.00, 1.01, 1.00], [1.02, 1.02, 1.03, 1.02, 1.03], "the same"),  # by 2 %, for certain
        ([1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.9, 0.6, 1.4, 1.0], "the same"),  # noise
    ],
)
def test_a_verdict_heeds_the_noise(old, new, verdict):
    assert compare.predict(old, new)["verdict"] == verdict


@pytest.mark.parametrize(("ratio", "code"), [(2.0, 0), (1.0, 0), (0.5, 1)])
def test_a_comparison_ends_with_1_if_something_is_slower(monkeypatch, tmp_path, capsys, ratio, code):
    speed_of = {tmp_path / "old": 100.0 * ratio, tmp_path / "new": 100.0}

    class Fake:
        def __init__(self, site):
            self.site = site

        def measure(self, figure, seconds):
            if figure.startswith("text") and self.site.name == "old":
                raise LookupError("ImportError: no such family")
            return speed_of[self.site]

        def close(self):
            pass

    monkeypatch.setattr(compare, "find_commit", lambda name: name or "new")
    monkeypatch.setattr(compare, "install", lambda commit: tmp_path / commit)
    monkeypatch.setattr(compare, "Worker", Fake)
    monkeypatch.setattr(compare, "starting", lambda code, site: lambda seconds: 1e8)
    results = tmp_path / "compare.json"
    assert compare.main(["old", "--rounds", "3", "--results", str(results)]) == code
    ((_, rows),) = json.loads(results.read_text())["sections"]["compare"].items()
    found = {row["system"]: row["verdict"] for row in rows}
    wanted = {2.0: "faster", 1.0: "the same", 0.5: "slower"}[ratio]
    assert found["partial_fit, K = 10, D = 2"] == wanted
    assert (found["text, 20 topics"], found["import dyncrp"]) == ("-", "the same")
    printed = capsys.readouterr().out
    assert f"{ratio:.2f}" in printed
    assert "100 ns/row" in printed


def test_a_version_is_found_in_its_folder_and_not_where_it_is_installed(tmp_path):
    (tmp_path / "dyncrp.py").write_text("print('another version')")
    code = "import numpy, dyncrp"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=compare.environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "another version\n"


def test_moving_clusters_are_measured():
    from benchmarks import moving

    for kind, D in moving.SPEED:
        X, truth = moving.stream(kind, D, seed=0, n=300)
        assert X.shape == (300, D)
        assert set(truth) == set(range(moving.K))
    apart = [moving.stream(kind, 2, 0, 50)[0] for kind in ("drift", "still")]
    assert not np.allclose(*apart)
    rows = moving.measure([moving.stream("still", 2, seed, 200) for seed in (0, 1)], moving.systems())
    assert [row["finite"] for row in rows] == ["0 of 2", "0 of 2", None]
    assert all(0.0 < row["ami"] <= 1.0 for row in rows)


@pytest.mark.slow
def test_the_picture_of_moving_clusters(tmp_path, monkeypatch):
    from benchmarks import moving

    monkeypatch.setattr(moving, "FRAMES", 8)
    moving.draw(tmp_path / "moving.gif", n=400)
    assert (tmp_path / "moving.gif").stat().st_size > 1000


def test_draws_of_mixed_columns_are_the_same_rows_in_every_form():
    from benchmarks import mixed

    draw = mixed.Draw((25.0, 1.0, 0.5), seed=3, n=400, holes=0.3)
    missing = np.isnan(draw.X)
    # Binomial(4800, 0.3): a share of 0.3 ± 0.0066; four standard errors.
    assert missing.mean() == pytest.approx(0.3, abs=0.0265)
    frame = draw.frame()
    np.testing.assert_array_equal(frame.isna(), missing)
    assert frame["category5"].nunique() == len(np.unique(draw.X[~missing[:, 5], 5]))
    np.testing.assert_array_equal(frame["flag8"].dropna().astype(float), draw.X[~missing[:, 8], 8])
    filled = draw.imputed()
    np.testing.assert_array_equal(filled[~missing], draw.X[~missing])
    assert filled[missing[:, 0], 0] == pytest.approx(draw.X[~missing[:, 0], 0].mean())
    for at in (*mixed.CATEGORIES, *mixed.BOOLEAN):
        often = np.bincount(draw.X[~missing[:, at], at].astype(int)).argmax()
        assert set(filled[missing[:, at], at]) == {often}
    assert mixed.Draw((25.0, 1.0, 0.5), seed=3, n=400).frame()["flag8"].dtype == bool


@pytest.mark.slow
def test_mixed_columns_are_measured():
    from benchmarks import mixed

    names = tuple(mixed.every_system())
    amis = mixed.compare([mixed.Draw((100.0, 5.0, 1.0), seed=0, n=200, holes=0.1)], names)
    assert list(amis) == list(names)
    assert all(0.0 <= ami <= 1.0 for (ami,) in amis.values())
    for name in ("given the truth", "Gaussian", "DataFrame"):
        assert amis[name][0] > 0.9, name


def test_the_speed_of_mixed_columns_is_measured(monkeypatch):
    from benchmarks import mixed

    monkeypatch.setattr(mixed, "SPEED_TABLES", 5)
    rows = mixed.compare_rates(TOY)
    assert [row["system"] for row in rows] == ["Gaussian", "mixed", "mixed, 30 % missing"]
    assert [row["clusters"] for row in rows[:2]] == [5, 5]


@pytest.mark.slow
def test_a_file_of_mixed_columns_is_clustered_by_the_command_line(tmp_path, monkeypatch, capsys):
    from types import SimpleNamespace

    from benchmarks import mixed

    assert not list(mixed.connections(SimpleNamespace(data=tmp_path, quick=True)))
    assert "no folder with connections.csv.gz" in capsys.readouterr().out
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=300)
    lines = [f"{9.0 * k + rng.normal():.3f},{'abc'[k]},kind{k}" for k in classes]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["bytes,flag,class", *lines]) + "\n")
    monkeypatch.setattr(mixed, "CLASSES", 3)
    row = mixed.run_file(path, rounds=1, first=100)
    assert row["ami"] > 0.95
    assert row["rate"] > 0


def test_the_explained_flower_is_where_its_petals_put_it(tmp_path):
    from benchmarks import explained

    found = explained.draw(tmp_path / "images" / "explain.png")
    assert (tmp_path / "images" / "explain.png").read_bytes().startswith(b"\x89PNG")
    terms = dict(zip(found.names, found.against_runner_up.features.tolist(), strict=True))
    assert terms["sepal width (cm)"] < 0.0 < terms["petal length (cm)"]


def test_the_headlines_of_the_page_are_made_by_a_command(tmp_path):
    from benchmarks import headlines

    headlines.write(tmp_path / "headlines.csv")
    assert (tmp_path / "headlines.csv").read_bytes() == (headlines.DOCS / "headlines.csv").read_bytes()
    figure = headlines.draw(tmp_path / "headlines.csv")
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert any(label.startswith("storm, ") for label in labels)
    assert len(labels) >= len(headlines.TOPICS)


def test_streams_of_text_at_toy_size(tmp_path, monkeypatch, capsys):
    from benchmarks import text

    rng = np.random.default_rng(0)
    y = rng.integers(4, size=200)
    indices = (10 * y[:, None] + rng.permuted(np.tile(np.arange(10), (200, 1)), axis=1)[:, :6]).ravel()
    arrays = {"indptr": np.arange(0, 1201, 6), "indices": indices, "counts": np.ones(1200, dtype=np.int64), "y": y}
    np.savez(tmp_path / "news.npz", **arrays)
    monkeypatch.setattr(text, "CONCENTRATION", 10.0)
    monkeypatch.setattr(text, "ALPHA", 0.1)
    stream = text.Stream.load(tmp_path / "news.npz")
    assert stream.bags()[3] == {str(word): 1 for word in indices[18:24]}
    rows = text.compare(stream, seconds=0.5, rounds=1)
    by_name = {row["system"]: row for row in rows}
    assert by_name["dyncrp"]["ami"] == pytest.approx(1.0, abs=0.05)
    assert by_name["dyncrp"]["fed"] == 200
    assert by_name["MiniBatchKMeans"]["ratio"] == by_name["dyncrp"]["rate"] / by_name["MiniBatchKMeans"]["rate"]
    assert all(0 < row["nmi"] <= 1 and row["rate"] > 0 for row in rows)
    results = tmp_path / "text.json"
    text.main(["--quick", "--given-only", "--data", str(tmp_path), "--results", str(results)])
    assert "tweets: left out" in capsys.readouterr().out
    (found,) = json.loads(results.read_text())["sections"]["news"].values()
    assert [row["system"] for row in found if row["told"] == "published"] == [
        "MStream (KDD 2018, table 2)",
        "MStreamF (the same)",
        "DTM, told 300, 170 and 170 topics (the same)",
    ]


def test_many_tables_at_toy_size(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "words.npz", X=rng.normal(size=(1200, 4)), y=np.arange(1200) % 7)
    tables = dict(many.run({3: (10, 5000)}, 0.01, 1, tmp_path / "words.npz"))
    assert len(tables) == 3
    assert all(row["clusters"] >= 10 for rows in tables.values() for row in rows)
    assert all(row["rate"] > 0 for rows in tables.values() for row in rows)


def test_tables_that_are_put_in_place_are_as_if_they_were_learned():
    centers = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 70.0]])
    engine = many.engine_with(centers, 10.0)
    assert engine.n_tables == 3
    assert engine.predict(centers + 0.5, np.full(3, engine.time)).tolist() == [0, 1, 2]
    assert engine.state.stats[:, 0].tolist() == [many.VISITS] * 3


def test_a_history_has_one_entry_for_a_commit(tmp_path):
    path = tmp_path / "history.json"
    ratios = history.measure(((3, 2),), rounds=1, seconds=0.01)
    assert list(ratios) == ["K = 3, D = 2"]
    history.remember(path, {"commit": "a", "date": "2026-01-01", "ratios": {"K = 3, D = 2": 1.0}})
    history.remember(path, {"commit": "b", "date": "2026-01-02", "ratios": {"K = 3, D = 2": 1.5}})
    entries = history.remember(path, {"commit": "a", "date": "2026-01-03", "ratios": ratios})
    assert [entry["commit"] for entry in entries] == ["b", "a"]
    history.draw(entries, tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 1000


def test_threads_at_toy_size():
    tables = dict(threads.run(((3, 2),), 2048, 1))
    assert len(tables["K = 3, D = 2"]) == 3
    assert all(row["rate"] > 0 for row in tables["K = 3, D = 2"])


def test_stream_clusterers_at_toy_size(tmp_path, capsys):
    from benchmarks.streams import __main__ as streams
    from benchmarks.streams.systems import all_systems

    results, chart = tmp_path / "streams.json", tmp_path / "streams.png"
    streams.main(["--quick", "--only", "visits", "--most", "150", "--results", str(results), "--chart", str(chart)])
    (rows,) = json.loads(results.read_text())["streams"].values()
    assert len(rows) == len(all_systems())
    assert [row["stopped"] for row in rows] == [None] * len(rows)
    assert [row["system"] for row in rows[:2]] == ["dyncrp, row by row", "dyncrp"]
    assert rows[1]["arrival"]["ami"] > 0.9
    assert json.loads(results.read_text())["commit"] == report.commit()
    printed = capsys.readouterr().out
    assert "Means over the streams that every system finished, 1 of 1" in printed
    assert chart.stat().st_size > 1000
    streams.main(["--saved", "--results", str(results), "--chart", str(tmp_path / "again.png")])
    assert capsys.readouterr().out in printed
    assert (tmp_path / "again.png").read_bytes() == chart.read_bytes()
    only = ["--only", "visits", "--system", "dyncrp_itself.dyncrp", "--most", "120"]
    streams.main(["--quick", "--keep", *only, "--results", str(results), "--chart", str(chart)])
    (again,) = json.loads(results.read_text())["streams"].values()
    assert [*again[:1], *again[2:]] == [*rows[:1], *rows[2:]]
    assert again[1]["commit"] == report.commit()
    assert again[1]["kilobytes"] != rows[1]["kilobytes"]


def test_a_part_of_the_stream_clusterers_is_not_saved_over_the_whole(tmp_path, monkeypatch, capsys):
    from benchmarks.streams import __main__ as streams

    results, chart = tmp_path / "streams.json", tmp_path / "streams.png"
    monkeypatch.setattr(streams, "RESULTS", results)
    monkeypatch.setattr(streams, "CHART", chart)
    part = ["--only", "visits", "--system", "scikit_learn.birch", "--most", "120"]
    streams.main(part)
    assert "| Birch |" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    streams.main([*part, "--results", str(results)])
    assert list(tmp_path.iterdir()) == [results]
    streams.main([*part, "--keep"])
    assert sorted(tmp_path.iterdir()) == [results, chart]
    for unknown in (["--only", "visit"], ["--system", "birch"]):
        with pytest.raises(SystemExit):
            streams.main(unknown)
        assert f"{' '.join(unknown)}: choose from" in capsys.readouterr().err


def test_means_are_over_the_streams_that_every_system_finished():
    from benchmarks.streams.__main__ import summary

    def row(system, ami, stopped=None):
        scores = dict.fromkeys(("ami", "ari", "purity", "b3", "clusters"), ami)
        found = {"system": system, "told": "", "stopped": stopped, "arrival": scores, "later": None, "end": None}
        return {**found, "rate": 8.0, "kilobytes": 5.0}

    results = {
        "a": [row("x", 0.4), row("y", 0.6)],
        "b": [row("x", 0.8), {**row("y", 0.0, "over 60 s"), "arrival": None}],
        "c": [{**row(name, 0.2), "later": {"ami": 0.5}} for name in "xy"],  # long enough for later rows of their own
    }
    x, y = summary(results)
    assert x[2] == pytest.approx([0.3] * 4 + [0.5, None, 8.0, 5.0, 1.4 / 3, None])
    assert y[2] == pytest.approx([0.4] * 4 + [0.5, None, 8.0, 5.0, None, None])


def test_clusters_keep_their_names_when_they_are_numbered_anew():
    from benchmarks.streams.base import Names

    names, rng = Names(), np.random.default_rng(0)
    centers = 10.0 * rng.normal(size=(8, 3))
    names.update(list(range(8)), centers)
    for _ in range(20):
        order = rng.permutation(8)
        names.update(list(range(8)), centers[order] + 0.1 * rng.normal(size=(8, 3)))
        assert names.of(range(8)).tolist() == order.tolist()
    names.update([], np.zeros((0,)))
    assert names.of(range(8)).tolist() == order.tolist()
    names.update([3, 1], centers[[0, 7]] + 90.0, renamed=False)
    assert names.of([3, 1, 0]).tolist() == [order[3], order[1], -1]
    names.add([1, 0])
    assert names.of([3, 1, 0]).tolist() == [order[3], order[1], 8]


def test_no_label_on_arrival_depends_on_later_rows():
    from benchmarks.streams.base import Rows, follow
    from benchmarks.streams.systems import all_systems
    from benchmarks.streams.systems.river_clusterers import EVERY

    X, truth = data.gaussian(4, 2, 0, 260).rows, data.gaussian(4, 2, 0, 260).truth
    other = X.copy()
    other[200:] += 50.0
    makers = all_systems()
    for name in ("dyncrp_itself.row_by_row", "scikit_learn.mini_batch_k_means", "threshold.distance_threshold"):
        one, another = (follow(makers[name](Rows(X, truth), 0), given)[:200] for given in (X, other))
        np.testing.assert_array_equal(one, another, err_msg=name)
    assert 200 % EVERY == 0


def test_files_of_a_folder_that_are_no_rows_and_classes_are_left_out(tmp_path):
    from benchmarks.streams.shipped import in_folder

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(60, 3)).astype(np.float16), y=rng.integers(3, size=60))
    np.savez(tmp_path / "words.npz", indptr=np.arange(3), indices=np.arange(2), counts=np.ones(2), y=np.arange(2))
    np.savez(tmp_path / "gas.npz", X=rng.normal(size=(60, 3)), y=np.repeat([4, 7, 9], 20))
    (tmp_path / "connections.csv.gz").write_bytes(b"no npz")
    found = in_folder(tmp_path)
    assert list(found) == ["gas, as recorded", "rows, in runs"]
    assert found["rows, in runs"](0).X.dtype == np.float64
    assert np.all(np.diff(found["gas, as recorded"](1).truth) >= 0)


def test_the_system_of_the_page_on_streams_can_be_measured():
    from benchmarks.streams.base import measure
    from benchmarks.streams.made import visits

    page = (speed.HERE.parent / "docs" / "streams.md").read_text()
    (block,) = [
        code for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "SYSTEMS" in code
    ]
    names: dict = {}
    exec(block, names)
    (make,) = names["SYSTEMS"]
    stream = visits(0)
    row = measure(make, type(stream)(stream.X[:200], stream.truth[:200]), 0, 60.0)
    assert row["stopped"] is None, row
    assert row["arrival"]["ami"] > 0.0


def test_b_cubed_is_the_mean_over_rows():
    from benchmarks.streams.base import scores

    rng = np.random.default_rng(0)
    truth, labels = rng.integers(4, size=60), rng.integers(6, size=60)
    same_class, same_cluster = truth[:, None] == truth, labels[:, None] == labels
    both = np.sum(same_class & same_cluster, axis=1)
    precision, recall = np.mean(both / same_cluster.sum(axis=1)), np.mean(both / same_class.sum(axis=1))
    assert scores(truth, labels)["b3"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_system_that_fails_or_takes_too_long_costs_the_others_nothing():
    from benchmarks.streams.base import Rows, System, measure

    stream = Rows(np.zeros((20, 2)), np.arange(20) % 2)

    def spin(X):
        while True:
            pass

    slow = measure(lambda stream, seed: System("slow", "", spin, None, list), stream, 0, 0.05)
    broken = measure(lambda stream, seed: System("broken", "", lambda X: 1 / 0, None, list), stream, 0, 5.0)
    assert slow["stopped"] == "over 0.05 s"
    assert (broken["stopped"], broken["problem"]) == ("failed", "ZeroDivisionError: division by zero")


def test_cells_are_filled_at_toy_size(monkeypatch):
    monkeypatch.setattr(fill, "ROWS", 60)
    for name in ("iris", fill.MADE):
        X = fill.rows_of(name, 3)
        hidden = fill.hide(X, 0.5, 3)
        assert not hidden.all(axis=1).any()
        assert X.std(axis=0) == pytest.approx(np.ones(X.shape[1]))
    rows = fill.measure(fill.MADE, 0.2, range(1))
    assert [row["system"] for row in rows] == list(fill.systems())
    errors = {row["system"]: row["error"] for row in rows}
    assert errors["dyncrp, one pass"] < errors["mean of the column"]


def test_questions_beside_a_threshold(tmp_path, capsys):
    from benchmarks import threshold

    rng = np.random.default_rng(0)
    for name in threshold.SETS:
        y = rng.integers(4, size=80)
        X = np.eye(6)[y] + 0.05 * rng.normal(size=(80, 6))
        np.savez(tmp_path / f"{name}.npz", X=X / np.linalg.norm(X, axis=1, keepdims=True), y=y)
    results = tmp_path / "threshold.json"
    threshold.main(["--quick", "--data", str(tmp_path), "--results", str(results)])
    sections = json.loads(results.read_text())["sections"]
    assert list(sections) == ["clinc150", "banking77"]
    for tables in sections.values():
        for rows in tables.values():
            assert [row["system"] for row in rows][::2] == ["dyncrp, tables", "cosine threshold"]
            assert (rows[2]["ami"], rows[2]["clusters"], rows[2]["wrong"]) == (1.0, 4.0, 0.0)
    with pytest.raises(SystemExit):
        threshold.main(["--data", str(tmp_path / "nowhere")])
    assert "there is no clinc150.npz" in capsys.readouterr().err
