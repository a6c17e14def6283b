"""The mean of a table's rows, which ``describe`` prints: no prior pulls it."""

import numpy as np
import pytest

from cases import FAMILIES

MEASURED = [
    name
    for name in FAMILIES
    if not name.startswith(("categorical", "sphere", "circle", "multinomial", "columns-of-all"))
]


@pytest.mark.parametrize("name", MEASURED)
def test_means_are_those_of_the_rows(name):
    family, D = FAMILIES[name].family, FAMILIES[name].n_features
    X = family.check(family.sample(np.repeat(family.sample_parameters(1, D, 1), 7, axis=0), 2))
    weights = np.array([1.0, 1.0, 0.5, 0.25, 1.0, 1.0, 1.0])
    stats = weights @ family.statistics(X)
    expected = weights @ X / weights.sum()
    if "few-directions" in name:
        expected = family.centers(family.statistics(expected[None]) * 1e12)[0]
    codes = getattr(family, "code_probabilities", lambda stats, d: None)
    numbers = [d for d in range(D) if codes(stats[None], d) is None]
    np.testing.assert_allclose(family.means(stats[None])[0][numbers], expected[numbers], rtol=1e-9, atol=1e-9)
