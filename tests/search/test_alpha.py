import numpy as np
import pytest
from scipy.integrate import quad

from cases import ENGINE_DYNAMICS
from dyncrp import DynamicalCRP, DynamicalMixture, Exponential, Gaussian, LinearODE
from dyncrp.search.alpha import AlphaPosterior


def seats(dynamics, n, alpha, seed):
    times = np.cumsum(np.random.default_rng(seed).exponential(size=n))
    labels = DynamicalCRP(alpha, dynamics).sample(times, seed=seed)[0]
    return times, labels, np.append(True, labels[1:] > np.maximum.accumulate(labels)[:-1])


@pytest.mark.parametrize("name", ["stationary", "exponential", "hyperbolic"])
@pytest.mark.parametrize("prior_mean", [0.5, 8.0])
def test_the_posterior_mean_is_that_of_quadrature(name, prior_mean):
    dynamics = ENGINE_DYNAMICS[name]
    times, _, opened = seats(dynamics, 150, 3.0, seed=1)
    posterior = AlphaPosterior(prior_mean, dynamics.modes())
    for part in np.split(times, [1, 20, 149]):
        posterior.update(part)
    weights = np.array([np.sum(dynamics.kernel(times[n] - times[:n])) for n in range(len(times))])

    def log_density(alpha):  # Gamma(1, 1 / prior_mean) times the likelihood
        seated = np.where(opened, np.log(alpha), np.log(np.maximum(weights, 1e-300))) - np.log(alpha + weights)
        return np.sum(seated[1:]) - alpha / prior_mean

    top = max(log_density(a) for a in np.geomspace(1e-2, 1e3, 400))
    moments = [
        quad(lambda u, k=k: np.exp(k * u + u + log_density(np.exp(u)) - top), -6, 8, limit=500, epsabs=1e-13)[0]
        for k in (0, 1)
    ]
    assert posterior.mean(int(np.sum(opened))) == pytest.approx(moments[1] / moments[0], rel=1e-6)


def test_alpha_is_found():
    """Over many streams, the posterior mean is about the truth: the error's mean is within 3 of its standard errors."""
    found = []
    for seed in range(40):
        times, _, opened = seats(Exponential(50.0), 400, 6.0, seed)
        posterior = AlphaPosterior(3.0, Exponential(50.0).modes())
        posterior.update(times)
        found.append(np.log(posterior.mean(int(np.sum(opened))) / 6.0))
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(len(found)) + 0.02
    assert np.std(found) < 0.3


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(3)
    return rng.normal(20.0 * rng.integers(0, 6, size=(730, 1)), 1.0, size=(730, 2))


@pytest.mark.parametrize("cuts", [(1, 2, 99, 100, 101, 350), (100, 200), (729,)])
def test_a_learning_alpha_does_not_depend_on_cuts(stream, cuts):
    whole = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(80.0), 1.0, learn_alpha=True).fit(stream)
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(80.0), 1.0, learn_alpha=True)
    labels = np.concatenate([model.partial_fit(part).labels_ for part in np.split(stream, cuts)])
    np.testing.assert_array_equal(labels, whole.labels_)
    assert (model.alpha_, model.log_evidence_) == (whole.alpha_, whole.log_evidence_)
    assert whole.alpha_ != 1.0


def test_row_by_row_is_the_same(stream):
    whole = DynamicalMixture(Gaussian(1.0, 100.0), learn_alpha=True).fit(stream[:250])
    model = DynamicalMixture(Gaussian(1.0, 100.0), learn_alpha=True)
    assert [model.learn_one(x) for x in stream[:250]] == whole.labels_.tolist()
    assert model.alpha_ == whole.alpha_


def test_responsibilities_of_a_batch_that_was_cut_inside(stream):
    learning = DynamicalMixture(Gaussian(1.0, 100.0), learn_alpha=True).fit(stream)
    assert learning.responsibilities_.shape == (len(stream), learning.n_tables_)
    np.testing.assert_allclose(learning.responsibilities_.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(learning.responsibilities_.toarray().argmax(axis=1), learning.labels_)


def test_a_learning_alpha_is_saved(stream, tmp_path):
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(80.0), learn_alpha=True).fit(stream[:333])
    model.save(tmp_path / "model.npz")
    again = DynamicalMixture.load(tmp_path / "model.npz")
    model.partial_fit(stream[333:])
    again.partial_fit(stream[333:])
    assert (again.alpha_, again.log_evidence_) == (model.alpha_, model.log_evidence_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learn_alpha": 1}, "learn_alpha must be True or False"),
        ({"learn_alpha": True, "table_count": "posterior"}, "table_count='map'"),
        ({"learn_alpha": True, "dynamics": LinearODE([1.0, 0.0, 1.0])}, "never negative"),
    ],
)
def test_what_cannot_learn_says_so(options, message):
    with pytest.raises(ValueError, match=message):
        DynamicalMixture(Gaussian(1.0, 100.0), **options).fit([[0.0]])


@pytest.mark.parametrize("learned", [30, 100, 101])
def test_an_interrupted_call_leaves_no_row_out(stream, monkeypatch, learned):
    whole = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(80.0), learn_alpha=True).fit(stream)
    model = DynamicalMixture(Gaussian(1.0, 100.0), Exponential(80.0), learn_alpha=True).fit(stream[:250])
    engine = type(model.engine_)
    run = engine.run

    def interrupted(self, X, times):
        left = 250 + learned - self.n_observations
        if left >= len(X):
            return run(self, X, times)
        run(self, X[:left], times[:left]) if left else None
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(stream[250:])
    assert model.n_observations_ == 250 + learned
    model = DynamicalMixture.from_bytes(model.to_bytes()).partial_fit(stream[250 + learned :])
    assert (model.alpha_, model.log_evidence_) == (whole.alpha_, whole.log_evidence_)
