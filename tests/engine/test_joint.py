"""The joint of rows and a partition, against full joint densities and the sum over every partition."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from cases import FAMILIES
from dyncrp import Bernoulli, Columns, DynamicalMixture, Exponential, Gaussian, Multinomial, NormalGamma, Stationary
from dyncrp.arrays.counts import as_counts
from dyncrp.engine.joint import log_joint, log_likelihood
from dyncrp.engine.reference import update
from engines import make_model, make_stream, memories
from test_process import seatings

TIMES = (0.0, 0.3, 0.3, 1.7, 2.0)
X = np.array([[0.0, 0.3], [2.0, -1.0], [0.4, 0.1], [1.7, -0.8], [9.0, 1.0]])
GAUSSIAN = Gaussian(0.7, 3.0, 0.5)


def row_by_row(family, X, tables, memory):
    """Σ log p(x | the earlier rows of its table), one row at a time."""
    stats = [np.zeros((1, family.empty(X.shape[1]).shape[1])) for _ in range(max(tables) + 1)]
    found = 0.0
    for n, table in enumerate(tables):
        x, now = X[n : n + 1], family.given(np.vstack(stats))
        found += now.log_predictive(x, stats[table])[0, 0]
        stats[table] = update(stats[table], np.ones(1), now.statistics(x), memory, now.observed(x)[0])
    return found


def test_each_partition_has_its_full_joint_density():
    model = make_model(GAUSSIAN, Exponential(1.3), alpha=0.8)
    for tables, probability in seatings(TIMES, 0.8, Exponential(1.3))[0].items():
        together = np.equal.outer(tables, tables)
        covariance = 0.7 * np.eye(len(X)) + 3.0 * together
        density = sum(multivariate_normal(np.full(len(X), 0.5), covariance).logpdf(x) for x in X.T)
        found = log_joint(model, X, np.array(TIMES), np.array(tables))
        assert found == pytest.approx(np.log(probability) + density, rel=1e-12)


def test_the_sum_over_partitions_is_the_evidence_of_coins():
    """Of coins with two sides, by another way: the joint of all rows is a sum over the heads of each of them."""
    family, times = Bernoulli(0.6, 1.7), np.array(TIMES)
    model, total = make_model(family, Exponential(1.3), alpha=0.8), 0.0
    partitions = seatings(TIMES, 0.8, Exponential(1.3))[0]
    for code in range(2 ** len(times)):
        coins = np.array([[float(code >> n & 1)] for n in range(len(times))])
        total += sum(math.exp(log_joint(model, coins, times, np.array(tables))) for tables in partitions)
    assert total == pytest.approx(1.0, abs=1e-12)


def test_the_sum_over_partitions_is_what_a_filter_over_all_seatings_predicts():
    model, times = make_model(GAUSSIAN, Exponential(1.3), alpha=0.8), np.array(TIMES)
    kept, log_evidence = {(): 1.0}, 0.0  # the posterior of all seatings so far
    for n, x in enumerate(X):
        longer = {}
        for tables, weight in kept.items():
            occupancy = np.zeros(max(tables, default=-1) + 1)
            np.add.at(occupancy, list(tables), Exponential(1.3).kernel(times[n] - times[:n]))
            weights = np.append(occupancy, 0.8) / (0.8 + np.sum(occupancy))
            for table, prior in enumerate(weights):
                own = X[:n][np.equal(tables, table)] if n else X[:0]
                stats = np.sum(GAUSSIAN.statistics(own), axis=0, keepdims=True)
                longer[(*tables, table)] = weight * prior * np.exp(GAUSSIAN.log_predictive(x[None], stats)[0, 0])
        evidence = sum(longer.values())
        log_evidence += np.log(evidence)
        kept = {tables: weight / evidence for tables, weight in longer.items()}
    joints = [log_joint(model, X, times, np.array(tables)) for tables in kept]
    assert np.logaddexp.reduce(joints) == pytest.approx(log_evidence, rel=1e-12)
    np.testing.assert_allclose(np.exp(joints - np.logaddexp.reduce(joints)), list(kept.values()), rtol=1e-9)


@memories
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_row_by_row(name, memory):
    family, D = FAMILIES[name]
    rows, _ = make_stream(family, D, 50, seed=1)
    tables = np.array([0, 1, 0, 2, *np.random.default_rng(2).integers(3, size=46)])
    expected = row_by_row(family, rows, tables, memory)
    assert log_likelihood(family, rows, tables, memory) == pytest.approx(expected, rel=1e-10)


@memories
def test_missing_cells(memory):
    family, rng = NormalGamma(2.0, 3.0, 12.0, 1.5), np.random.default_rng(5)
    rows = np.where(rng.random((40, 3)) < 0.2, np.nan, rng.normal(size=(40, 3)))
    tables = np.array([0, 1, *rng.integers(2, size=38)])
    expected = row_by_row(Columns.of(family, 3), rows, tables, memory)
    assert log_likelihood(family, rows, tables, memory) == pytest.approx(expected, rel=1e-10)
    assert DynamicalMixture(family, memory=memory).log_joint(rows, tables) < 0.0


@pytest.mark.parametrize("background", [None, 5.0])
def test_documents(background):
    family, rng = Multinomial(4.0, background), np.random.default_rng(6)
    rows = rng.poisson(0.6, size=(30, 8)).astype(float)
    rows[3] = 0.0  # a document without words
    tables = np.array([0, 1, *rng.integers(2, size=28)])
    expected = row_by_row(family, rows, tables, math.inf)
    assert log_likelihood(family, as_counts(rows), tables) == pytest.approx(expected, rel=1e-12)


@dataclass(frozen=True, eq=False)
class Adapts(Gaussian):
    """A family whose prior moves to the mean of all tables."""

    def given(self, stats, columns=None):
        total = np.sum(stats, axis=0)
        return Gaussian(
            self.variance, self.prior_variance, float(total[1] / total[0]) if len(stats) and total[0] else 0.0
        )


@memories
def test_a_prior_that_adapts(memory):
    tables = np.array([0, 1, 0, 1, 2])
    family, rows = Adapts(0.7, 3.0), X[:, :1]
    assert log_likelihood(family, rows, tables, memory) == pytest.approx(row_by_row(family, rows, tables, memory))


class TestEstimator:
    def test_of_the_parameters_given(self):
        model = DynamicalMixture(GAUSSIAN, Exponential(1.3), alpha=0.8)
        expected = log_joint(make_model(GAUSSIAN, Exponential(1.3), 0.8), X, np.array(TIMES), np.array([0, 1, 0, 1, 2]))
        assert model.log_joint(X, list("abab9"), TIMES) == expected
        assert not model.__sklearn_is_fitted__()
        frame = pd.DataFrame(X, columns=["a", "b"])
        assert model.log_joint(frame, pd.Series(list("abab9")), pd.Series(TIMES)) == expected

    def test_of_those_learned_and_nothing_is_learned(self):
        rng = np.random.default_rng(7)
        rows = rng.normal(size=(60, 2)) + 9.0 * rng.integers(2, size=(60, 1))
        model = DynamicalMixture().fit(rows)
        before = model.to_bytes()
        given = DynamicalMixture(model.family_, model.dynamics_, model.alpha_, memory=model.memory_)
        assert model.log_joint(rows, model.labels_) == given.log_joint(rows, model.labels_)
        assert model.log_joint(rows, model.labels_) > model.log_joint(rows, rng.permutation(model.labels_))
        assert model.to_bytes() == before

    def test_texts_and_columns(self):
        texts = ["red green", "red red", "blue", "blue green new"]
        model = DynamicalMixture(Multinomial(4.0))
        expected = model.log_joint(as_counts([[1, 1, 0, 0], [2, 0, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1]]), [0, 0, 1, 1])
        assert model.log_joint(texts, [0, 0, 1, 1]) == pytest.approx(expected)
        assert model.fit(texts[:3]).log_joint(texts, [0, 0, 1, 1]) == pytest.approx(expected)
        frame = pd.DataFrame({"ms": [1.0, 1.2, 7.0], "ok": [True, True, False]})
        model = DynamicalMixture(Columns({"ms": Gaussian(1.0, 9.0), "ok": Bernoulli(1.0, 1.0)}))
        expected = model.log_joint(frame, [0, 0, 1])
        assert model.fit(frame).log_joint(frame, [0, 0, 1]) == expected
        numbers = log_likelihood(Gaussian(1.0, 9.0), frame[["ms"]].to_numpy(), np.array([0, 0, 1]))
        coins = np.log(1 / 2 * 2 / 3 * 1 / 2)  # heads, again heads; tails
        assert expected == pytest.approx(np.log(1 / 2 * 1 / 3) + numbers + coins)

    def test_resolution_counts_and_rules_do_not(self):
        labels, wide = [0, 1, 0, 1, 2], DynamicalMixture(GAUSSIAN)
        assert DynamicalMixture(GAUSSIAN, max_tables=1, assignment="variational").log_joint(
            X, labels
        ) == wide.log_joint(X, labels)
        narrow = DynamicalMixture(Gaussian(0.35, 3.0, 0.5)).log_joint(X, labels)
        assert DynamicalMixture(GAUSSIAN, resolution=2.0).log_joint(X, labels) == narrow

    def test_bad_input(self):
        with pytest.raises(ValueError, match="log_joint needs known hyperparameters"):
            DynamicalMixture().log_joint(X, [0] * 5)
        model = DynamicalMixture(GAUSSIAN, Stationary())
        with pytest.raises(ValueError, match=r"labels must have one entry for each of 5 rows"):
            model.log_joint(X, [0] * 4)
        with pytest.raises(ValueError, match="labels must name a block for each row, got -1, at row 2"):
            model.log_joint(X, [0, 0, -1, 0, 0])
        with pytest.raises(ValueError, match="run backwards"):
            model.log_joint(X, [0] * 5, [0, 1, 0, 1, 2])
        with pytest.raises(ValueError, match="3 features"):
            model.fit(X).log_joint(np.zeros((2, 3)), [0, 0])
        with pytest.raises(ValueError, match="one clock"):
            model.fit(X, times=TIMES).log_joint(X, [0] * 5)
