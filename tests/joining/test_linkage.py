"""Ward's tree against SciPy's."""

import numpy as np
import pytest
from scipy.cluster import hierarchy
from sklearn.metrics import adjusted_mutual_info_score

from dyncrp import Gaussian
from dyncrp.joining.linkage import apply, join_by_ward, linkage
from tiles import tables


@pytest.mark.parametrize("seed", range(5))
def test_wards_tree_is_that_of_scipy_with_every_row_at_its_tables_centre(seed):
    family, stats, squares, rows = tables(23, 3, seed)
    centers = family.shapes(stats, squares).centers / np.sqrt(1.0 + 0.2 * 25.0)
    points = np.repeat(centers, [len(X) for X in rows], axis=0)
    heights = hierarchy.ward(points)[-22:, 2]
    merges = join_by_ward(family.shapes(stats, squares))
    np.testing.assert_allclose(linkage(merges, 23)[:, 2], heights, rtol=1e-9)
    for n in (1, 2, 5, 22, 23):
        roots = apply(merges[: 23 - n], 23)
        expected = hierarchy.fcluster(hierarchy.ward(points), n, "maxclust") if n < 23 else None
        assert len(np.unique(roots)) == n
        if expected is not None:
            found = np.repeat(roots, [len(X) for X in rows])
            assert adjusted_mutual_info_score(expected, found) == pytest.approx(1.0)


def test_tables_in_one_place_join_first():
    family = Gaussian(1.0, 25.0)
    stats = np.array([[3.0, 6.0], [5.0, 10.0], [1.0, 2.0], [2.0, 40.0]])
    merges = join_by_ward(family.shapes(stats, family.expected_squares(stats, 1)))
    roots = apply(merges[:2], 4)
    assert roots[0] == roots[1] == roots[2] != roots[3]
    assert [merge.height for merge in merges[:2]] == [0.0, 0.0]
