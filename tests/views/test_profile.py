"""What is typical of clusters, against their rows."""

import math

import numpy as np
import pandas as pd
import pytest

from cases import THREE_FEATURES
from dyncrp import Columns, DynamicalMixture, Exponential, Gaussian, Multinomial, NormalGamma, Stationary
from dyncrp.views.profile import MOST_TRAITS, ClusterProfile, Trait, profile
from dyncrp.views.profile_text import format_profiles


def sample(family, n=300, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = family.sample(family.sample_parameters(4, D, rng)[rng.integers(4, size=n)], rng)
    return X, np.cumsum(rng.exponential(1.0, n))


def profiles_of(model, n=None):
    clusters = model.clusters(n)
    return profile(model.stream_, clusters), clusters


@pytest.mark.parametrize("name", THREE_FEATURES)
def test_every_family_has_profiles_that_add_up(name):
    family = THREE_FEATURES[name]
    X, times = sample(family)
    model = DynamicalMixture(family, Exponential(40.0)).fit(X, times=times)
    found, clusters = profiles_of(model)
    labels = clusters.labels(model.labels_)
    assert sorted(one.id for one in found) == clusters.ids.tolist()
    assert [one.rows for one in found] == sorted((one.rows for one in found), reverse=True)
    for one in found:
        own = labels == one.id
        assert (one.rows, one.share) == (np.sum(own), np.mean(own))
        assert (one.first_seen, one.last_seen) == (times[own][0], times[own][-1])
        assert one.tables == np.sum(clusters.cluster_of == one.id)
        strengths = [trait.strength for trait in one.typical]
        assert strengths == sorted(strengths, reverse=True)
        assert sorted(trait.column for trait in one.typical) == ["x0", "x1", "x2"]
        assert all(map(math.isfinite, strengths))
    assert format_profiles(found).count("\n") >= len(found)


def test_means_are_those_of_the_own_rows_in_the_units_of_the_data():
    rng = np.random.default_rng(1)
    kind = rng.integers(3, size=600)
    X = pd.DataFrame(
        {
            "noise": rng.normal(0.0, 1.0, 600),
            "pressure": rng.normal(1012.0, 0.3, 600) + 4.0 * kind,
            "bytes": np.exp(rng.normal(4.0, 0.1, 600) + 3.0 * (kind == 2)).round(),
            "colour": np.where(rng.random(600) < 0.9, np.array(["red", "green", "blue"])[kind], "grey"),
            "on": np.where(kind == 0, rng.random(600) < 0.95, rng.random(600) < 0.05),
        }
    )
    model = DynamicalMixture().fit(X)
    found, clusters = profiles_of(model, 3)
    labels = clusters.labels(model.labels_)
    for one in found:
        own = X[labels == one.id]
        by = {trait.column: trait for trait in one.typical}
        assert abs(float(by["pressure"].text.replace(",", "")) - own["pressure"].mean()) < 0.06
        assert by["pressure"].deviation == pytest.approx(
            (own["pressure"].mean() - X["pressure"].mean()) / X["pressure"].std(), abs=0.1
        )
        word, share = own["colour"].mode()[0], own["colour"].value_counts(normalize=True).iloc[0]
        lift = share / np.mean(X["colour"] == word)
        told, percent, *_, told_lift = by["colour"].text.split()
        assert told == word
        assert abs(int(percent) - 100 * share) < 2.0
        assert abs(float(told_lift.removesuffix(")")) - lift) < 0.1
        on = own["on"].mean()
        assert by["on"].text == (f"true {100 * on:.0f} %" if on >= 0.5 else f"false {100 * (1 - on):.0f} %")
        assert by["noise"].strength < 0.05 < one.typical[0].strength
        assert abs(by["noise"].deviation) < 0.3
        assert "↑" not in str(by["noise"])
        usual = np.expm1(np.log1p(own["bytes"]).mean())
        assert abs(float(by["bytes"].text.replace(",", "")) / usual - 1.0) < 0.02


def test_a_cluster_of_zeros_in_a_logarithmic_column_is_shown_as_0():
    rng = np.random.default_rng(0)
    rain = np.where(np.arange(400) % 2, rng.lognormal(3.0, 1.5, 400), 0.0)
    X = pd.DataFrame({"rain": rain, "sky": np.where(rain > 0, "grey", "blue")})
    model = DynamicalMixture().fit(X)
    assert model.stream_.input.encoding["rain"].kind == "log"
    texts = {trait.text for one in profiles_of(model)[0] for trait in one.typical if trait.column == "rain"}
    assert "0" in texts
    assert not any("e-" in text for text in texts)


def test_the_telling_category_is_named_beside_the_likeliest():
    X = pd.DataFrame({"kind": ["a"] * 70 + ["b"] * 3 + ["a"] * 30 + ["b"] * 28, "x": [0.0] * 73 + [100.0] * 58})
    family = Columns({"x": Gaussian(1.0, 1e4), "kind": DynamicalMixture().fit(X).family_.parts[-1][1]})
    found, _ = profiles_of(DynamicalMixture(family, Stationary()).fit(X), 2)
    text = next(trait.text for trait in found[1].typical if trait.column == "kind")
    assert text.startswith("a 5")
    assert ", b 4" in text
    assert text.endswith("(lift 2.0)")


def test_a_column_that_a_cluster_has_not_seen_says_nothing_of_it():
    X = np.array([[0.0, 1.0]] * 5 + [[90.0, np.nan]] * 4)
    found, _ = profiles_of(DynamicalMixture(Gaussian(1.0, 1e4)).fit(X), 2)
    assert [[trait.column for trait in one.typical] for one in found] == [["x0", "x1"], ["x0"]]


def test_tables_with_memory_count_by_their_rows():
    X = np.repeat([[0.0], [6.0], [500.0]], [60, 20, 20], axis=0)
    model = DynamicalMixture(Gaussian(1.0, 1e5), memory=10).fit(X)
    found, _ = profiles_of(model, 2)
    assert (found[0].rows, found[0].tables) == (80, 2)
    assert abs(float(found[0].typical[0].text) - 1.5) < 0.6  # 3 if both counted the same


def test_texts_have_words_and_names_of_tables_are_kept():
    texts = ["storm hits the coast", "polls open in the city", "storm off the coast", "polls close in the city"] * 3
    model = DynamicalMixture(Multinomial(3.0), Stationary(), alpha=0.3).fit(texts)
    model.rename(0, "weather")
    found, _ = profiles_of(model, 2)
    assert [str(trait) for trait in found[0].typical][:2] == ["storm", "coast"]
    assert [one.names for one in found] == [("weather",), ()]
    first, second = format_profiles(found).split("\n")[1:]
    assert "weather" in first
    assert "storm, coast" in first
    assert "polls" in second


def test_dates_and_many_features():
    X = np.random.default_rng(0).normal(size=(40, 200))
    times = np.datetime64("2026-01-01T12:00:01") + np.arange(40).astype("m8[D]") * 2
    found, _ = profiles_of(DynamicalMixture(NormalGamma(1.0, 9.0)).fit(X, times=times))
    assert found[0].first_seen == times[0]
    assert len(found[0].typical) == MOST_TRAITS
    assert "2026-01-01  2026-03-20" in format_profiles(found)


def made(n, traits=("a 1", "b 2"), **more):
    typical = tuple(Trait("", text, 1.0) for text in traits)
    given = {"names": (), "share": 0.5, "first_seen": 0.0, "last_seen": 9.0, "tables": 1} | more
    return [ClusterProfile(id=i, rows=100 - i, typical=typical, **given) for i in range(n)]


def test_the_smaller_clusters_are_counted():
    text = format_profiles(made(25), most=20)
    assert text.count("\n") == 21
    assert text.endswith("and 5 smaller clusters with 390 rows")
    assert format_profiles(made(25), most=None).count("\n") == 25
    assert format_profiles([]) == ""


@pytest.mark.parametrize(
    ("width", "times"),
    [(40, ""), (60, ""), (70, "2026-01-01  2026-01-02  c"), (80, "2026-01-01 10:00  2026-01-02 19:30  c")],
)
def test_a_table_fits_the_terminal(width, times):
    long = tuple(f"column {i} 12.5 ↑" for i in range(20))
    seen = {"first_seen": np.datetime64("2026-01-01T10:00"), "last_seen": np.datetime64("2026-01-02T19:30")}
    text = format_profiles(made(3, long, **seen), width)
    assert max(map(len, text.split("\n"))) <= width
    assert text.count("…") == 3
    assert times in text
    assert ("seen" in text) == bool(times)


def test_a_wide_terminal_shows_more_traits():
    long = tuple(f"column {i} 12.5 ↑" for i in range(20))
    counts = [format_profiles(made(1, long), width).count("12.5") for width in (60, 100, 160, 300)]
    assert counts == sorted(counts)
    assert counts[0] < counts[2]
