"""A timeline is bounded, and does not depend on cuts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dyncrp.jobs.timeline import MOST_ROWS_KEPT, Timeline


@given(st.lists(st.integers(0, 9000), max_size=8))
def test_what_is_kept_does_not_depend_on_cuts(sizes):
    n = sum(sizes)
    times, tables, novelty = np.arange(n) * 0.5, np.arange(n) % 7, np.arange(n) * 7919 % 10_007 * 1.0
    cut = Timeline()
    for begin, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        part = slice(begin, begin + size)
        restored = Timeline()
        restored.restore(cut.arrays())
        cut = restored
        cut.add(times[part], tables[part], novelty[part])
    assert len(cut.times) <= MOST_ROWS_KEPT
    assert cut.step == 1 or len(cut.times) > MOST_ROWS_KEPT // 2
    np.testing.assert_array_equal(cut.times, times[:: cut.step])
    np.testing.assert_array_equal(cut.tables, tables[:: cut.step])
    highest = [max(novelty[begin : begin + cut.step]) for begin in range(0, n, cut.step)]
    np.testing.assert_array_equal(cut.novelty, highest)
