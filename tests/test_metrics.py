"""Returns to a cluster, on streams short enough to predict by eye."""

import numpy as np
import pytest

from dyncrp.metrics import returns

#            room 1     hall  room 2  hall  room 1      hall  room 2
TRUTH = np.array([1, 1, 1, 0, 0, 2, 2, 2, 0, 1, 1, 1, 1, 0, 2, 2, 2])


def predict(labels, **options):
    found = returns(TRUTH, labels, **options)
    return found.recognised.tolist(), found.steps.tolist()


def test_perfect_labels_are_recognised_at_once():
    assert predict(TRUTH, ignore=[0]) == ([True, True], [0, 0])
    assert predict(TRUTH + 7) == ([True] * 4, [0] * 4)  # the hallway was come back to twice


def test_steps_are_counted_from_the_door():
    late = [1, 1, 1, 0, 0, 2, 2, 2, 0, 0, 1, 1, 1, 0, 0, 2, 2]
    assert predict(late, ignore=[0]) == ([True, True], [1, 1])


def test_a_new_label_for_every_visit_recognises_nothing():
    visits = np.cumsum(np.append(0, np.diff(TRUTH) != 0))
    assert predict(visits) == ([False] * 4, [-1] * 4)


def test_one_label_for_all_recognises_only_whom_it_belongs_to():
    assert predict(np.zeros(17, dtype=int)) == ([False] * 4, [-1] * 4)  # nobody has more than half of it
    assert returns([1, 1, 1, 2, 1], [7] * 5).recognised.tolist() == [True]
    assert returns([1, 1, 2, 2, 1], [7] * 5).recognised.tolist() == [False]


@pytest.mark.parametrize("swap", [{}, {3: 4, 4: 3}, {3: 9, 4: 1}])
def test_names_do_not_matter(swap):
    """Two ties: the home is the label that was given last, and it may share a visit with another."""
    labels = [swap.get(label, label) for label in [4, 3, 5, 4, 3]]
    assert returns([1, 1, 0, 1, 1], labels).steps.tolist() == [1]


def test_none_of_the_tables_is_no_home():
    assert returns([1, 0, 1], [-1, 0, -1]).recognised.tolist() == [False]


def test_most_of_the_visit_must_be_at_home():
    glance = [1, 1, 1, 0, 0, 2, 2, 2, 0, 1, 5, 5, 5, 0, 2, 2, 5]
    assert predict(glance, ignore=[0]) == ([False, True], [-1, 0])


def test_nothing_to_return_to():
    for truth in ([], [3], [1, 1, 2, 2]):
        assert returns(truth, truth).recognised.shape == (0,)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"\(2,\) and \(1,\)"):
        returns([0, 1], [0])
