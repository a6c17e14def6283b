"""The checks of a family, one property each; a file for each side of it."""

from __future__ import annotations

from dyncrp.families import Family
from dyncrp.testing.asserts import run_check
from dyncrp.testing.families import learning, mathematics, options, rows, sampling, values
from dyncrp.testing.families.material import FamilyCheck

FAMILY_CHECKS = (*values.CHECKS, *rows.CHECKS, *mathematics.CHECKS, *sampling.CHECKS, *options.CHECKS, *learning.CHECKS)


def check_family(family: Family, n_features: int = 2) -> None:
    """Raise ``AssertionError`` unless a family keeps the promises of ``dyncrp.families.Family``.

    If its class can be made without arguments, and is unknown then, what it proposes is checked too. See
    ``family_checks`` for the properties one by one.

    Args:
        family: with every hyperparameter given, and of moderate size.
        n_features: how many columns the rows have.

    >>> from dyncrp import Bernoulli
    >>> check_family(Bernoulli(0.5, 2.0), n_features=3)
    """
    for check in family_checks():
        run_check(check, family, n_features)


def family_checks() -> list[FamilyCheck]:
    """Return the checks of ``check_family``, to call each on its own with a family and a number of features.

    >>> from dyncrp import Gaussian
    >>> for check in family_checks():
    ...     check(Gaussian(1.0, 4.0), 1)
    """
    return list(FAMILY_CHECKS)
