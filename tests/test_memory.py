"""A finite memory, stats += r (T(x) − stats/memory): what it must do, whatever the engine."""

import io
import json
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.metrics import adjusted_mutual_info_score

import dyncrp
from cases import DYNAMICS, FAMILIES, RULES, draw, pairwise
from dyncrp import DynamicalMixture, Exponential, Gaussian, NormalGamma, Stationary
from dyncrp.engine import Model, ReferenceEngine, Rules, make_engine, reference
from dyncrp.jobs.model_text import as_options, as_python, parse_model
from dyncrp.search.spec import ModelSpec

ENGINES = {"reference": ReferenceEngine, "fast": make_engine}
engines = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
families = pytest.mark.parametrize("name", FAMILIES)


def make_model(family, memory, dynamics=None, alpha=0.8, **rules):
    dynamics = dynamics or Exponential(30.0)
    return Model(family, dynamics, alpha, memory, Rules(**rules))


def moving(n=1500, D=2, K=6, speed=0.01, seed=0):
    """Clusters of unit variance that drift steadily, each its own way, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    ways = rng.normal(size=(K, D)) / np.sqrt(D)
    centers = 15.0 * rng.normal(size=(K, D))
    return centers[labels] + speed * np.arange(n)[:, None] * ways[labels] + rng.normal(size=(n, D)), labels


# --- the reference
# ----------------------------------------------------------------------------------------------------------


def test_on_paper():
    # Two members of weight 1 with memory 4: what is left of the first is 1 − 1/4.
    model = make_model(Gaussian(1.0, 100.0), memory=4.0, alpha=1e-6)
    engine = ReferenceEngine(model, 1)
    engine.run(np.array([[2.0], [3.0], [1.0]]), np.arange(3.0))
    kept = 1.0 - 1.0 / 4.0
    counts = [kept**2, kept, 1.0]
    np.testing.assert_allclose(engine.state.stats, [[sum(counts), 2.0 * kept**2 + 3.0 * kept + 1.0]])


def test_update_is_the_reference_in_words():
    rng = np.random.default_rng(0)
    stats, T, r = rng.normal(size=(4, 3)), rng.normal(size=(1, 3)), np.array([0.0, 0.2, 0.7, 0.1])
    np.testing.assert_allclose(reference.update(stats, r, T, 7.0), stats + r[:, None] * (T - stats / 7.0))
    assert np.array_equal(reference.update(stats, r, T, math.inf), stats + r[:, None] * T)
    assert np.array_equal(reference.update(stats, r, T, 7.0)[0], stats[0])


@pytest.mark.parametrize("rules", RULES)
@families
def test_a_memory_too_long_to_matter_is_an_infinite_one_to_the_bit(name, rules):
    case = FAMILIES[name]
    X, times = draw(case, n=60)
    arrays = []
    for memory in (math.inf, 1e300):
        engine = make_engine(make_model(case.family, memory, **RULES[rules]), case.n_features)
        engine.run(X, times)
        arrays.append(engine.arrays())
    assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])


@pytest.mark.parametrize(("name", "rules", "engine"), pairwise(FAMILIES, RULES, ENGINES, apart=(0, 1)))
def test_a_count_never_exceeds_the_memory(name, rules, engine):
    case = FAMILIES[name]
    X, times = draw(case, n=60, n_tables=2)
    engine = ENGINES[engine](make_model(case.family, 5.0, **RULES[rules]), case.n_features)
    largest = []
    for x, t in zip(X, times, strict=True):
        engine.run_one(x, float(t))
        largest.append(np.max(engine.state.stats[:, 0]))
    assert max(largest) <= 5.0 * (1.0 + 1e-12)
    assert max(largest) > 4.0


@engines
@families
def test_a_table_that_gets_nothing_does_not_change(name, make):
    case = FAMILIES[name]
    X, times = draw(case, n=60)
    engine = make(make_model(case.family, 5.0), case.n_features)
    engine.run(X[:30], times[:30])
    for x, t in zip(X[30:], times[30:], strict=True):
        before = engine.state.stats
        trace = engine.run(x[None, :], np.array([t]))
        others = np.setdiff1d(np.arange(len(before)), trace.indices[trace.data > 0])
        assert np.array_equal(engine.state.stats[others], before[others])


@pytest.mark.parametrize("memory", [2.0, 9.0])
@pytest.mark.parametrize("kind", [Gaussian, NormalGamma])
def test_the_predictive_integrates_to_1(kind, memory):
    family = kind(variance=1.0, prior_variance=9.0)
    engine = make_engine(make_model(family, memory, alpha=5.0), 1)
    engine.run(np.random.default_rng(0).normal(0.0, 3.0, (40, 1)), np.arange(40.0))
    x = np.sinh(np.linspace(-12.0, 12.0, 40_001))  # far out as well, for the tails of Student's t
    log_density = engine.log_density(x[:, None], np.full(len(x), 40.0))
    widths = np.gradient(x)
    assert engine.n_tables > 1
    assert math.exp(logsumexp(log_density, b=widths)) == pytest.approx(1.0, abs=1e-6)


@engines
@pytest.mark.parametrize("memory", [2.0, 5.0, 30.0])
def test_the_steady_state_is_the_kalman_filter_of_a_random_walk(memory, make):
    # A walk with steps of variance q = σ²/(M(M − 1)), observed with variance σ²: the filter's gain tends to 1/M.
    variance = 2.0
    q = variance / (memory * (memory - 1.0))
    X = np.cumsum(np.random.default_rng(1).normal(0.0, math.sqrt(q), 1500))[:, None]
    X += np.random.default_rng(2).normal(0.0, math.sqrt(variance), X.shape)
    family = Gaussian(variance, 1e12)  # a flat prior
    engine = make(make_model(family, memory, alpha=1e-60), 1)
    mean, spread = X[0, 0], variance
    for n, x in enumerate(X):
        engine.run_one(x, float(n))
        if n > 0:
            spread += q
            gain = spread / (spread + variance)
            mean, spread = mean + gain * (x[0] - mean), (1.0 - gain) * spread
    assert engine.n_tables == 1
    assert gain == pytest.approx(1.0 / memory, rel=1e-9)
    assert family.centers(engine.state.stats)[0, 0] == pytest.approx(mean, abs=1e-6)
    # what the table says of the next row, and what the filter says of the walk where it is now
    assert variance / engine.state.stats[0, 0] == pytest.approx(spread, rel=1e-6)


def test_scatter_is_as_exact_far_away_as_near():
    # The fast engine sums squares about the running mean; the reference, about the prior mean, cannot see them at 1e8.
    X = np.random.default_rng(3).normal(0.0, 2.0, (300, 3))
    variances = []
    for far in (0.0, 1e8):
        family = NormalGamma(1.0, 1e40, 5.0)  # whose own part in the scatter is nothing
        engine = make_engine(make_model(family, 20.0, alpha=1e-30), 3)
        engine.run(X + far, np.arange(300.0))
        assert engine.n_tables == 1
        variances.append(engine.arrays()["scatter"] / engine.state.stats[:, :1])
    np.testing.assert_allclose(variances[1], variances[0], rtol=1e-6)


def test_variational_has_no_lower_bound_to_report():
    case = FAMILIES["gaussian"]
    X, times = draw(case, n=5)
    for memory, n_bounds in ((math.inf, 6), (10.0, 0)):
        model = make_model(case.family, memory, assignment="variational")
        state = reference.run(reference.initial_state(model, 3), X[:4], times[:4], model)[0]
        assert len(reference.step(state, X[4], times[4], model)[1].lower_bounds) == n_bounds


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [1.9, 0, -math.inf, math.nan, "10", "inf", True, [10.0], np.timedelta64(9)])
def test_what_a_memory_may_be(bad):
    X = np.zeros((3, 2))
    model = DynamicalMixture(Gaussian(1.0, 9.0)).fit(X)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"memory must be a number ≥ 2, math.inf or None \(to be learned\), got "):
        model.set_params(memory=bad).fit(X)
    assert model.to_bytes() == before


@pytest.mark.parametrize("memory", [2, 2.0, np.float64(7.0), 1e300, math.inf])
def test_the_memory_in_use(memory):
    model = DynamicalMixture(Gaussian(1.0, 9.0), memory=memory).fit(np.zeros((3, 2)))
    assert model.memory_ == memory
    assert type(model.memory_) is float
    assert model.evidence_ == []


@pytest.mark.parametrize("memory", [6.0, math.inf])
@families
def test_saved_in_the_middle_it_goes_on_to_the_bit(name, memory):
    case = FAMILIES[name]
    X, times = draw(case, n=80)
    whole = DynamicalMixture(case.family, DYNAMICS["sticky"], memory=memory).fit(X, times=times)
    model = DynamicalMixture(case.family, DYNAMICS["sticky"], memory=memory).fit(X[:33], times=times[:33])
    again = DynamicalMixture.from_bytes(model.to_bytes())
    assert again.memory == memory
    assert again.memory_ == memory
    again.partial_fit(X[33:], times=times[33:])
    assert again.to_bytes() == whole.to_bytes()


def test_the_header_says_it_in_plain_json_and_an_older_file_has_none():
    X = np.random.default_rng(0).normal(size=(20, 2))
    for memory, written in ((8.0, 8.0), (math.inf, {"number": "inf"})):
        content = DynamicalMixture(Gaussian(1.0, 9.0), memory=memory).fit(X).to_bytes()
        with np.load(io.BytesIO(content)) as file:
            header = json.loads(file["header"].tobytes(), parse_constant=pytest.fail)
        assert header["config"]["hyperparameters"]["memory"] == written
        assert header["config"]["params"]["memory"] == written
    config, arrays = dyncrp.io.model_file.loads(content)
    del config["params"]["memory"], config["hyperparameters"]["memory"]
    assert DynamicalMixture.from_bytes(dyncrp.io.model_file.dumps(config, arrays)).memory_ == math.inf


@pytest.mark.parametrize("bad", [1.0, "long", None])
def test_a_file_with_a_bad_memory_is_refused(bad):
    content = DynamicalMixture(Gaussian(1.0, 9.0)).fit(np.zeros((3, 2))).to_bytes()
    config, arrays = dyncrp.io.model_file.loads(content)
    config["hyperparameters"]["memory"] = bad
    with pytest.raises(ValueError, match="memory must be a number"):
        DynamicalMixture.from_bytes(dyncrp.io.model_file.dumps(config, arrays))


def test_however_the_stream_is_cut():
    X, _ = moving()
    whole = DynamicalMixture(memory=None).fit(X)
    assert whole.memory_ < math.inf
    cut = DynamicalMixture(memory=None).fit(X[:1000])
    for part in np.split(X[1000:], [1, 2, 17, 300]):
        cut.partial_fit(part)
    assert cut.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("family", [Gaussian(2.0, 90.0, 1.5), NormalGamma(2.0, 90.0, 12.0, 1.5)], ids=repr)
def test_widening_is_as_if_the_rows_before_had_been_0(family):
    # All rows belong to one table, so that the third feature decides nothing.
    X = np.random.default_rng(4).normal(0.0, 1.0, (60, 3))
    X[:30, 2] = 0.0
    model = DynamicalMixture(family, alpha=1e-30, memory=6.0).fit(X[:30, :2])
    model.stream_.widen(3)
    model.partial_fit(X[30:])
    whole = DynamicalMixture(family, alpha=1e-30, memory=6.0).fit(X)
    assert model.n_tables_ == whole.n_tables_ == 1
    np.testing.assert_allclose(model.engine_.state.stats, whole.engine_.state.stats, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-9)


# --- learning it ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned():
    X, labels = moving()
    return DynamicalMixture(memory=None).fit(X), X, labels


def test_clusters_that_move_are_followed(learned):
    model, X, labels = learned
    assert model.memory_ in (15.0, 30.0, 100.0)
    followed = adjusted_mutual_info_score(labels, model.labels_)
    lost = adjusted_mutual_info_score(labels, DynamicalMixture().fit(X).labels_)
    assert followed > 0.95
    assert followed > lost + 0.03


@pytest.mark.parametrize("seed", range(3))
def test_still_clusters_are_not_forgotten(seed):
    X, _ = moving(speed=0.0, seed=seed)
    model, plain = DynamicalMixture(memory=None).fit(X), DynamicalMixture().fit(X)
    assert model.memory_ == math.inf
    assert np.array_equal(model.labels_, plain.labels_)
    assert {c.memory for c in model.evidence_} == {math.inf, 300.0, 100.0, 30.0, 15.0}
    assert {c.memory for c in plain.evidence_} == {math.inf}


def test_the_candidates_say_their_memory(learned):
    model, X, _ = learned
    (chosen,) = (c for c in model.evidence_ if c.chosen)
    assert (chosen.family, chosen.dynamics, chosen.alpha) == (model.family_, model.dynamics_, model.alpha_)
    assert chosen.memory == model.memory_
    for c in [c for c in model.evidence_ if c.memory < math.inf and np.isfinite(c.log_evidence)][::9]:
        again = DynamicalMixture(c.family, c.dynamics, c.alpha, memory=c.memory).fit(X[:1000])
        assert c.log_evidence == pytest.approx(again.log_evidence_, rel=1e-9)


def test_a_finite_memory_earns_its_keep(learned):
    model, _, _ = learned
    (chosen,) = (c for c in model.evidence_ if c.chosen)
    same = [c for c in model.evidence_ if (c.family, c.dynamics, c.alpha) == chosen[:3]]
    infinite = max(c.log_evidence for c in same if c.memory == math.inf)
    assert chosen.log_evidence > infinite + np.log(1000)
    assert chosen.log_evidence == max(c.log_evidence for c in same)


def test_only_the_memory_may_be_unknown():
    X, _ = moving(n=600)
    model = DynamicalMixture(Gaussian(1.0, 225.0), Stationary(), 1.0, memory=None).fit(X)
    assert (model.family_, model.dynamics_, model.alpha_) == (Gaussian(1.0, 225.0), Stationary(), 1.0)
    assert sorted(c.memory for c in model.evidence_) == [15.0, 30.0, 100.0, 300.0, math.inf]
    assert ModelSpec.resolve(Gaussian(1.0, 9.0), memory=None).given is None


def test_a_given_memory_is_used_while_the_rest_is_learned():
    X, _ = moving(n=600)
    model = DynamicalMixture(memory=25.0).fit(X)
    assert {c.memory for c in model.evidence_} == {model.memory_} == {25.0}


def test_tune_hands_the_memory_on():
    X, _ = moving(n=600)
    model, candidates = dyncrp.tune(X, memory=None)
    (chosen,) = (c for c in candidates if c.chosen)
    assert model.memory == chosen.memory < math.inf
    assert dyncrp.tune(X).model.memory == math.inf


# --- where it can be set ----------------------------------------------------------------------------------------------


def test_the_command_line_reads_what_it_writes():
    told = Gaussian(1.0, 9.0), Stationary(), 0.1, 30.0
    options = as_options(*told)
    assert options[-2:] == ["--memory", "30.0"]
    assert "--memory" not in as_options(*told[:3])
    made = eval(as_python(*told, warmup=500), {name: getattr(dyncrp, name) for name in dyncrp.__all__})
    assert (made.memory, made.warmup) == (30.0, 500)
    for text, memory in ((None, math.inf), ("inf", math.inf), ("auto", None), ("AUTO", None), ("30", 30.0)):
        assert parse_model(None, [], None, [], text).memory == memory
    for text in ("1", "long", "nan", "-inf", ""):
        with pytest.raises(ValueError, match=f"^memory must be a number ≥ 2, inf or auto, got '{text}'"):
            parse_model(None, [], None, [], text)
    with pytest.raises(ValueError, match="unknown setting 'memory'"):
        parse_model(None, [], None, ["memory=9"])


def test_river_has_it_too():
    river = pytest.importorskip("dyncrp.river")
    X, _ = moving(n=700)
    model = river.DynamicalMixture(memory=None, warmup=500)
    for a, b in X.tolist():
        model.learn_one({"a": a, "b": b})
    plain = DynamicalMixture(memory=None, warmup=500).fit(X[:500]).partial_fit(X[500:])
    assert plain.memory_ < math.inf
    assert model.n_tables == plain.n_tables_
    assert [model.predict_one({"a": a, "b": b}) for a, b in X[:50].tolist()] == plain.predict(X[:50]).tolist()
