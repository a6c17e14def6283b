"""What a family may offer beside: to widen, to sharpen, terms for each feature, and proposals."""

from __future__ import annotations

import numpy as np

from dyncrp.dynamics import Stationary
from dyncrp.engine.types import Model
from dyncrp.families import Columns, Family, protocols
from dyncrp.families.cells import Codes
from dyncrp.families.conditional import cells_given, log_present
from dyncrp.families.protocols import (
    Compiled,
    Explains,
    HasCodes,
    HasJoint,
    HasShape,
    PredictsCell,
    Proposes,
    Sharpens,
    Widens,
)
from dyncrp.testing.asserts import require, require_close
from dyncrp.testing.families.material import (
    FamilyCheck,
    reason_to_share,
    sample_rows,
    sample_tables,
    without_hyperparameters,
)


def methods_come_with_their_base_class(family: Family, n_features: int) -> None:
    """A family with a method of ``dyncrp.families.protocols`` has its base class: otherwise nobody calls the method."""
    for kind in (Proposes, Sharpens, HasShape, Widens, Explains, HasCodes, PredictsCell, HasJoint, Compiled):
        (name,) = kind.__abstractmethods__
        lacks = hasattr(family, name) and not isinstance(family, kind)
        require(not lacks, f"it has the method {name}, and is not derived from {kind.__name__}")


def widen_is_to_add_zeros(family: Family, n_features: int) -> None:
    """``widen`` gives the stats of rows with zeros at the end, if the family can widen."""
    if not family.can_widen:
        return
    require(family.width is None, f"it can widen, and its width is {family.width}")
    X, wider = sample_rows(family, n_features), n_features + 2
    padded = np.hstack([X, np.zeros((len(X), 2))])
    responsibilities = np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.9, 0.0, 1.0, 0.35]])
    stats = responsibilities @ family.statistics(X)
    expected = responsibilities @ family.statistics(padded)
    require_close(
        protocols.widen(family, stats, wider), expected, "widened stats, and those of rows with zeros,", 1e-12, 1e-12
    )


def sharpen_keeps_strangers_apart(family: Family, n_features: int) -> None:
    """A sharper family has less reason to let rows of five tables share one; or ``sharpen`` is a ``ValueError``."""
    try:
        same = protocols.sharpen(family, 1.0)
    except ValueError:
        return
    require(same == family, f"sharpen(1) returns {same!r}")
    X = family.sample(family.sample_parameters(5, n_features, seed=4), seed=5)
    sharper, blunter = protocols.sharpen(family, 3.0), protocols.sharpen(family, 1.0 / 3.0)
    require(type(sharper) is type(family), f"sharpen returns a {type(sharper).__name__}")
    require(sharper.known, "sharpen returns a family with unknown hyperparameters")
    reasons = [reason_to_share(kind, X) for kind in (blunter, family, sharper)]
    require(reasons[0] > reasons[1] > reasons[2], f"log odds to share a table at 1/3, 1 and 3 are {reasons}")


def proposals_are_known(family: Family, n_features: int) -> None:
    """If the class can be made without arguments and is unknown then, it proposes known families for any legal rows.

    Those least willing to open tables come first; each view lifts them to families of the features, whose evidence
    is that of the coordinates, and the log density that these leave out.
    """
    unknown = without_hyperparameters(family)
    if unknown is None:
        return
    for use in (unknown.require_known, lambda: Model(unknown, Stationary(), 1.0)):
        try:
            use()
        except ValueError:
            continue
        raise AssertionError(f"{unknown!r} can be used as if it were known")
    labels = np.repeat(np.arange(6), 10)
    X = family.sample(family.sample_parameters(6, n_features, seed=6)[labels], seed=7)
    X = unknown.check(X)
    one = X[:1]  # a stream begins with one row
    require(
        len(protocols.proposals(unknown, one)) > 0 < len(protocols.views(unknown, one)),
        "there are no proposals for one row",
    )
    for view in protocols.views(unknown, X):
        there = view.family or unknown
        proposals = protocols.proposals(there, view.rows)
        require(len(proposals) > 0, "there are no proposals without labels")
        for found in (proposals, protocols.proposals(there, view.rows, labels)):
            for proposal in found:
                lifted = view.lift(proposal)
                require(isinstance(lifted, Family) and lifted.known, f"it proposes {lifted!r}, which is not known")
                here = lifted.log_marginal(lifted.check(X))
                require(bool(np.isfinite(here)), f"rows have log marginal {here} for its proposal {lifted!r}")
                evidence = proposal.log_marginal(proposal.check(view.rows)) + view.log_density
                require_close(
                    here, evidence, "the log marginal in the features, and in the view,", rtol=1e-8, atol=1e-6
                )
            if len(found) > 1:
                first, last = (reason_to_share(proposal, view.rows) for proposal in (found[0], found[-1]))
                require(first >= last, f"log odds to share a table: {first:.3g} for the first, {last:.3g} for the last")


def terms_add_up_to_log_predictive(family: Family, n_features: int) -> None:
    """``log_predictive_terms`` has a term for each feature, and their sum is ``log_predictive``.

    A family that says neither what is due to a feature nor that features are independent passes.
    """
    if not isinstance(family, Explains) and not family.independent:
        return
    X, stats = sample_rows(family, n_features), sample_tables(family, n_features)
    terms = protocols.log_predictive_terms(family, X, stats)
    require(terms.shape == (len(X), len(stats), n_features), f"the terms have shape {terms.shape}")
    whole = family.log_predictive(X, stats)
    require_close(np.sum(terms, axis=2), whole, "the sum of the terms, and log_predictive,", rtol=1e-9, atol=1e-9)


def cells_are_those_of_log_predictive(family: Family, n_features: int) -> None:
    """The density of a cell given the others is that of the row, divided by that of the row without the cell.

    A family that does not say how cells are distributed passes.
    """
    says = isinstance(family, PredictsCell if family.independent else HasJoint)
    if not says or isinstance(family, Columns):
        return
    whole = Columns.of(family, n_features)
    X, stats = sample_rows(whole, n_features), sample_tables(whole, n_features)
    for d in range(n_features):
        without = X.copy()
        without[:, d] = np.nan
        cell = cells_given(whole, without, stats, [d])[d]
        if isinstance(cell, Codes):
            codes = X[:, d].astype(np.int64)
            found = np.log(cell.first(int(np.max(codes)) + 1)[:, codes]).T
        else:
            found = cell.log_density(X[:, d])
        expected = whole.log_predictive(X, stats) - log_present(whole, without, stats)
        require_close(found, expected, "the log density of a cell, and its share of that of a row,", 1e-9, 1e-9)


CHECKS: tuple[FamilyCheck, ...] = (
    methods_come_with_their_base_class,
    widen_is_to_add_zeros,
    sharpen_keeps_strangers_apart,
    proposals_are_known,
    terms_add_up_to_log_predictive,
    cells_are_those_of_log_predictive,
)
