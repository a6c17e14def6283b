"""The checks: what passes unchanged in meaning, and what is refused by name."""

from datetime import timedelta

import numpy as np
import pytest

from dyncrp.checks import as_observations, as_times, duration, positive

NOT_POSITIVE = [0, -1, -0.0, np.nan, np.inf, -np.inf, np.float32(np.inf), 10**400]
NO_NUMBERS = ["1", None, True, np.True_, 1j, [1.0], np.ones(1), timedelta(1), np.timedelta64(1), np.timedelta64(1, "s")]


class TestPositive:
    @pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.uint64(2)])
    def test_numbers_become_floats(self, value):
        number = positive("alpha", value)
        assert type(number) is float
        assert number == 2.0

    @pytest.mark.parametrize("value", [*NOT_POSITIVE, *NO_NUMBERS], ids=lambda value: repr(value)[:20])
    def test_anything_else_is_refused_by_name(self, value):
        with pytest.raises(ValueError, match=r"^alpha must be a positive finite number"):
            positive("alpha", value)


class TestDuration:
    @pytest.mark.parametrize("value", [90, 90.0, timedelta(minutes=1.5), np.timedelta64(90_000, "ms")])
    def test_numbers_stay_and_timedeltas_become_seconds(self, value):
        assert duration("period", value) == 90.0

    def test_the_message_shows_what_was_given(self):
        with pytest.raises(ValueError, match=r"got datetime.timedelta\(days=-1\)"):
            duration("period", timedelta(days=-1))

    def test_a_duration_whose_rate_would_overflow_is_refused(self):
        with pytest.raises(ValueError, match="period must be at least 1e-300"):
            duration("period", 5e-324)

    def test_a_year_has_no_length_in_seconds(self):
        with pytest.raises(ValueError, match="period must be"):
            duration("period", np.timedelta64(1, "Y"))


class TestAsTimes:
    def test_returns_new_floats(self):
        times = np.array([0.0, 1.0, 1.0])
        checked = as_times(times)
        np.testing.assert_array_equal(checked, times)
        assert not np.shares_memory(checked, times)
        assert as_times([1, 2]).dtype == np.float64

    @pytest.mark.parametrize("unit", ["D", "h", "ms", "ns"])
    def test_dates_become_seconds(self, unit):
        dates = np.array(["1970-01-02", "1970-01-04"], dtype=f"M8[{unit}]")
        np.testing.assert_array_equal(as_times(dates), [86_400.0, 3 * 86_400.0])

    def test_a_missing_date_is_refused(self):
        with pytest.raises(ValueError, match=r"NaT at times\[1\]"):
            as_times(np.array(["2024-01-01", "NaT"], dtype="M8[D]"))

    @pytest.mark.parametrize("times", [[3.0, 4.0], [], [5.0]])
    def test_a_stream_continues_at_or_after_its_last_time(self, times):
        assert as_times(times, last=3.0).tolist() == times

    def test_unordered_times_may_still_not_lie_before_the_last(self):
        assert as_times([5.0, 3.0], last=3.0, ordered=False).tolist() == [5.0, 3.0]
        with pytest.raises(ValueError, match=r"times\[1\] = 2.0 comes after 3.0"):
            as_times([5.0, 2.0], last=3.0, ordered=False)

    def test_a_stream_never_goes_back_before_its_last_time(self):
        with pytest.raises(ValueError, match=r"times\[0\] = 2.0 comes after 3.0"):
            as_times([2.0, 4.0], last=3.0)

    def test_one_time_for_each_row(self):
        assert as_times([1.0, 2.0], n=2).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="2 times for 3 rows"):
            as_times([1.0, 2.0], n=3)

    @pytest.mark.parametrize("times", [[True, True], ["1"], [None], [1j], np.array([1], "m8[s]"), [timedelta(1)]])
    def test_only_numbers_and_dates_are_times(self, times):
        with pytest.raises(ValueError, match="numbers or datetime64"):
            as_times(times)


class TestAsObservations:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, bool, object])
    def test_numbers_become_float64_rows(self, dtype):
        X = np.array([[0, 1], [1, 1]], dtype=dtype)
        checked = as_observations(X)
        assert checked.dtype == np.float64
        assert checked.flags.c_contiguous
        np.testing.assert_array_equal(checked, [[0.0, 1.0], [1.0, 1.0]])

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_the_first_row_and_column_that_is_not_finite_is_named(self, bad):
        X = np.zeros((4, 3))
        X[2, 1] = X[3, 0] = bad
        with pytest.raises(ValueError, match="at row 2, column 1"):
            as_observations(X)

    @pytest.mark.parametrize("bad", ["a", "1", None, 1j, 10**400, [1]])
    def test_the_first_object_that_is_no_number_is_named(self, bad):
        X = np.zeros((3, 2), dtype=object)
        X[1, 1] = bad
        with pytest.raises(ValueError, match="at row 1, column 1"):
            as_observations(X)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (1.0, "two-dimensional"),
            ([1.0, 2.0], "two-dimensional"),
            (np.zeros((2, 2, 2)), "two-dimensional"),
            (np.zeros((0, 2)), "0 sample"),
            (np.zeros((2, 0)), "0 feature"),
            ([["a", "b"]], "must hold numbers"),
            ([[1j]], "Complex data not supported"),
            (np.array([["2024-01-01"]], dtype="M8[D]"), "must hold numbers"),
        ],
    )
    def test_other_tables_are_refused(self, X, message):
        with pytest.raises(ValueError, match=message):
            as_observations(X)
