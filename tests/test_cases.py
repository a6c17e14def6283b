"""That few combinations of values have every pair of them."""

from itertools import combinations, product

import pytest

from cases import DYNAMICS, FAMILIES, RULES, pairwise

AXES = {
    "two": ("abc", range(4)),
    "of-one-value": ("a", "bc", "d"),
    "three-of-two": ("ab", "cd", "ef"),
    "five": ("ab", range(7), "cde", (1.5, float("inf")), range(4)),
    "cases": (FAMILIES, DYNAMICS, RULES, (False, True)),
}


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
def test_every_two_values_of_two_axes_meet(axes):
    rows = pairwise(*axes)
    for i, j in combinations(range(len(axes)), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(axes[i], axes[j]))


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
def test_no_combination_comes_twice_and_again_they_are_the_same(axes):
    rows = pairwise(*axes)
    assert len(set(rows)) == len(rows)
    assert pairwise(*axes) == rows


def test_they_are_hardly_more_than_the_two_longest_axes_need():
    families, dynamics, two = range(16), range(10), range(2)
    assert len(pairwise(families, dynamics, two, two, two)) == 160
    assert len(pairwise(families, two, two, two)) == 32
    assert len(pairwise(two, two, two)) <= 5


def test_values_of_axes_that_are_apart_need_not_meet():
    families, dynamics, rules, two = range(16), range(10), range(5), range(2)
    rows = pairwise(families, dynamics, rules, two, apart=(0, 1))
    for i, j in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        assert len({(row[i], row[j]) for row in rows}) == len({row[i] for row in rows}) * len({row[j] for row in rows})
    assert len(set(rows)) == len(rows) == 80
    assert {len({row[i] for row in rows}) for i in (0, 1)} == {16, 10}


def test_one_axis_has_no_pairs():
    with pytest.raises(ValueError, match="two axes or more, got 1"):
        pairwise("abc")
