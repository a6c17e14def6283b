"""The reference and the mixture learn a stream with a family."""

from __future__ import annotations

import numpy as np

from dyncrp.dynamics import Exponential
from dyncrp.engine import reference
from dyncrp.engine.types import ASSIGNMENTS, TABLE_COUNTS, Model, Rules
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Family
from dyncrp.testing.asserts import require, require_close, require_finite
from dyncrp.testing.families.material import FamilyCheck, sample_stream


def engine_learns_a_stream(family: Family, n_features: int) -> None:
    """The reference learns a stream by every rule, the same however it is cut, and never makes the lower bound fall."""
    X, times = sample_stream(family, n_features)
    for assignment in ASSIGNMENTS[:1] if family.sparse else ASSIGNMENTS:  # of words, by the first only
        for table_count in TABLE_COUNTS:
            rules = Rules(assignment, table_count, new_table_threshold=0.5 if table_count == "map" else 0.05)
            model = Model(family, Exponential(15.0), 0.8, rules=rules)
            state, places = reference.initial_state(model, n_features), []
            for x, t in zip(X, times, strict=True):
                state, done = reference.step(state, x, float(t), model)
                places.append(done.label)  # nothing closes, so that places are ids
                require_finite(done.log_evidence, f"the evidence for {rules}")
                falls = np.diff(done.lower_bounds)
                slack = 1e-9 * (1.0 + np.max(np.abs(done.lower_bounds), initial=0.0))
                require(bool(np.all(falls >= -slack)), f"the lower bound falls by {-np.min(falls, initial=0.0):.3g}")
            engine = reference.ReferenceEngine(model, n_features)
            cut = [engine.run(X[a:b], times[a:b]).labels for a, b in ((0, 1), (1, 8), (8, len(X)))]
            require(np.array_equal(places, np.concatenate(cut)), f"labels depend on the cut, for {rules}")


def mixture_fits(family: Family, n_features: int) -> None:
    """``DynamicalMixture`` learns the stream as the reference does, continues, and predicts."""
    X, times = sample_stream(family, n_features)
    model = DynamicalMixture(family, Exponential(15.0), alpha=0.8).fit(X, times=times)
    engine = reference.ReferenceEngine(Model(family, Exponential(15.0), 0.8), n_features)
    require(
        np.array_equal(model.labels_, engine.run(family.check(X), times).labels), "its labels are not the reference's"
    )
    require_close(model.log_evidence_, engine.log_evidence, "its evidence, and the reference's,", rtol=1e-8, atol=1e-8)
    again = DynamicalMixture(family, Exponential(15.0), alpha=0.8)
    labels = [again.partial_fit(X[a:b], times=times[a:b]).labels_ for a, b in ((0, 3), (3, len(X)))]
    require(np.array_equal(np.concatenate(labels), model.labels_), "partial_fit gives other labels than fit")
    require(model.centers_.shape == (model.n_tables_, n_features), f"centers_ have shape {model.centers_.shape}")
    shares = model.predict_proba(X)
    require(shares.shape == (len(X), model.n_tables_ + 1), f"predict_proba has shape {shares.shape}")
    require_close(np.sum(shares, axis=1), 1.0, "the sum of predict_proba, and 1,", atol=1e-9)
    require_finite(model.score_samples(X), "score_samples")


CHECKS: tuple[FamilyCheck, ...] = (
    engine_learns_a_stream,
    mixture_fits,
)
