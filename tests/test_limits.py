"""What would take minutes or gigabytes is refused at once; what is saved can be loaded."""

import numpy as np
import pandas as pd
import pytest

from dyncrp import Categorical, Columns, DynamicalMixture, Exponential, Gaussian, LinearODE
from dyncrp.dynamics.base import MOST_PARTS, Sum
from dyncrp.dynamics.text import parse_dynamics
from dyncrp.engine.native import NativeEngine
from dyncrp.input import encoding


def test_n_iter_is_limited():
    for n_iter in (1001, 10**15, 10**400):
        with pytest.raises(ValueError, match="n_iter must be an integer from 1 to 1000, got"):
            DynamicalMixture(Gaussian(1.0, 100.0), assignment="variational", n_iter=n_iter).fit([[0.0], [0.1]])
    DynamicalMixture(Gaussian(1.0, 100.0), assignment="variational", n_iter=1000).fit([[0.0], [0.1]])


@pytest.mark.parametrize("kind", [list, np.array])
def test_the_order_of_an_equation_is_limited(kind):
    with pytest.raises(ValueError, match="p ≤ 50, got 600 of them"):
        LinearODE(kind([1.0] * 600))
    with pytest.raises(ValueError, match="p ≤ 50, got 4000 of them"):
        parse_dynamics(f"linearode([{','.join('1' * 4000)}])")


@pytest.mark.parametrize("timescale", [1.3477097834629757e-07, 1.3635575227379272e18, 0.5, 3e-5])
def test_what_a_dynamics_prints_is_read_again(timescale):
    assert parse_dynamics(f"Exponential(timescale={timescale!r})", units=False).timescale == timescale
    assert parse_dynamics("exponential(2.5e+01 ms)").timescale == 0.025


def test_the_parts_of_a_dynamics_are_limited_however_they_are_nested():
    with pytest.raises(ValueError, match="made of at most 300 others, got 301"):
        Sum((Exponential(5.0),) * (MOST_PARTS + 1))
    nested = Exponential(5.0)
    for _ in range(7):
        nested = Sum((nested, nested))
    with pytest.raises(ValueError, match="made of at most 300 others, got 510"):
        Sum((nested, nested))
    with pytest.raises(ValueError, match="made of at most 300 others, got 301"):
        Sum((nested, *[Exponential(5.0)] * 46))
    Sum((Exponential(5.0),) * MOST_PARTS)


@pytest.mark.parametrize("concentration", [0.01, None])
def test_categories_that_would_fill_the_memory_are_refused(concentration):
    rows = np.zeros((1, 500))
    with pytest.raises(ValueError, match=r"would keep 5,000,500 counts for each table of 500 features.*lower n_codes"):
        DynamicalMixture(Categorical(concentration, n_codes=10_000)).fit(rows)
    DynamicalMixture(Categorical(0.01, n_codes=10_000)).fit(rows[:, :2])


def test_ever_new_categories_are_bounded(monkeypatch):
    monkeypatch.setattr(encoding, "MOST_CATEGORIES", 5)
    words = [f"word {i % 9}" for i in range(40)]
    frame = pd.DataFrame({"kind": words, "x": np.zeros(40)})
    family = Columns([(["kind"], Categorical(1.0)), (["x"], Gaussian(1.0, 9.0))])
    whole, cut = DynamicalMixture(family), DynamicalMixture(family)
    whole.partial_fit(frame)
    for row in range(40):
        cut.partial_fit(frame.iloc[row : row + 1])
    assert whole.encoding_["kind"].words == tuple(f"word {i}" for i in range(5))
    assert whole.to_bytes() == cut.to_bytes()
    assert (
        DynamicalMixture.from_bytes(cut.to_bytes()).partial_fit(frame).to_bytes() == cut.partial_fit(frame).to_bytes()
    )


@pytest.mark.parametrize("alpha", [1e250, 1e-250])
def test_an_alpha_learned_at_the_edge_can_be_saved(alpha):
    rows = np.zeros((200, 2))
    rows[:, 0] = 20.0 * np.arange(200) * (alpha > 1)
    model = DynamicalMixture(Gaussian(1.0, 1e6), alpha=alpha, learn_alpha=True).partial_fit(rows)
    again = DynamicalMixture.from_bytes(model.to_bytes())
    assert again.alpha_ == model.alpha_
    assert 1e-250 <= model.alpha_ <= 1e250
    assert again.partial_fit(rows[:110]).to_bytes() == model.partial_fit(rows[:110]).to_bytes()


def test_tables_that_were_split_and_merged_can_be_saved():
    model = DynamicalMixture(Gaussian(4.0, 100.0)).fit([[0.0], [3.0]])
    for n_opened in range(2, 6):
        model.merge(0, model.split(0, [[3.0]]))
        again = DynamicalMixture.from_bytes(model.to_bytes())
        assert again.n_opened_ == n_opened
        assert again.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("label", ["door {}", "door 0"])
def test_rows_that_are_told_their_tables_are_handed_on_few_at_a_time(monkeypatch, label):
    n, given, run = 3_000, [], NativeEngine.run
    monkeypatch.setattr(NativeEngine, "run", lambda self, X, *more: given.append(len(X)) or run(self, X, *more))
    labels = [label.format(at) for at in range(n)]
    model = DynamicalMixture(Gaussian(1.0, 100.0), alpha=1.0).partial_fit(np.zeros((n, 1)), labels=labels)
    assert model.n_tables_ == len(set(labels))
    assert sum(given) < 100 * n  # the engine makes room for all that it is given
    assert len(given) <= 2 * len(set(labels)) + 10
