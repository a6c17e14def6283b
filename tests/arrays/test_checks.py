"""The checks: what passes unchanged in meaning, and what is refused by name."""

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dyncrp.arrays.checks import (
    BadRow,
    BadTime,
    NotANumber,
    are_dates,
    as_observations,
    as_times,
    duration,
    integer,
    is_missing,
    positive,
)

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

    @pytest.mark.parametrize("value", [1e-300, 5e-324, 1e300, np.longdouble("1e-260")])
    def test_a_number_whose_square_may_overflow_is_refused(self, value):
        with pytest.raises(ValueError, match="alpha must be a number from 1e-250 to 1e"):
            positive("alpha", value)


class TestWhole:
    @pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
    def test_whole_numbers_become_ints(self, value):
        assert type(integer("n", value, 1, 3)) is int
        assert integer("n", value, 3) == 3

    @pytest.mark.parametrize("value", [0, 4, 10**400, 2.0, np.float64(2), "2", None, True, 2j, np.timedelta64(2, "s")])
    def test_anything_else_is_refused_by_name(self, value):
        with pytest.raises(ValueError, match=r"^n must be an integer from 1 to 3, got"):
            integer("n", value, 1, 3)


class TestDuration:
    @pytest.mark.parametrize("value", [90, 90.0, timedelta(minutes=1.5), np.timedelta64(90_000, "ms")])
    def test_numbers_stay_and_timedeltas_become_seconds(self, value):
        assert duration("period", value) == 90.0

    def test_the_message_shows_what_was_given(self):
        with pytest.raises(ValueError, match=r"got datetime.timedelta\(days=-1\)"):
            duration("period", timedelta(days=-1))

    def test_a_duration_whose_rate_would_overflow_is_refused(self):
        with pytest.raises(ValueError, match="period must be at least 1e-150"):
            duration("period", 1e-151)

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

    @pytest.mark.parametrize("unit", ["Y", "M", "25s", "W"])
    def test_dates_of_any_coarse_unit_become_seconds(self, unit):
        dates = np.array(["1970-01-01", "2024-02-01"], dtype="M8[D]").astype(f"M8[{unit}]")
        np.testing.assert_array_equal(as_times(dates), dates.astype("M8[s]").astype(float))

    @pytest.mark.parametrize("dtype", [">M8[s]", "M8[s]"])
    def test_the_order_of_bytes_does_not_matter(self, dtype):
        assert as_times(np.array([1, 2], dtype="M8[s]").astype(dtype)).tolist() == [1.0, 2.0]

    @pytest.mark.parametrize(
        "dates",
        [
            [datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 12, 0, 0, 250_000)],
            [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)],
            pd.to_datetime(["2024-01-01 14:00:00.00", "2024-01-01 14:00:00.25"]).tz_localize("Europe/Athens"),
            pd.Series(
                pd.to_datetime(["2024-01-01 14:00:00.00", "2024-01-01 14:00:00.25"]).tz_localize("Europe/Athens")
            ),
            pd.Series(pd.to_datetime(["2024-01-01 12:00:00.00", "2024-01-01 12:00:00.25"])),
        ],
        ids=["naive", "utc", "pandas index with zone", "pandas series with zone", "pandas"],
    )
    def test_datetimes_become_seconds_in_utc(self, dates):
        assert as_times(dates).tolist() == [1_704_110_400.0, 1_704_110_400.25]

    def test_a_date_that_utc_cannot_say_is_refused(self):
        first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
        with pytest.raises(ValueError, match="times must lie in the years 1 to 9999 of UTC, got 0001-01-01"):
            as_times([first])

    def test_time_zones_are_respected(self):
        east = timezone(timedelta(hours=5))
        assert np.ptp(as_times([datetime(2024, 1, 1, 12, tzinfo=east), datetime(2024, 1, 1, 7, tzinfo=UTC)])) == 0.0

    def test_days_are_dates(self):
        assert as_times([date(1970, 1, 1), date(1970, 1, 2)]).tolist() == [0.0, 86_400.0]

    @pytest.mark.parametrize("missing", [pd.NaT, np.datetime64("NaT")])
    def test_a_missing_datetime_is_refused(self, missing):
        with pytest.raises(ValueError, match="NaT, at row 1"):
            as_times(np.array([datetime(2024, 1, 1), missing], dtype=object if missing is pd.NaT else "M8[s]"))

    @pytest.mark.parametrize(
        "dates",
        [
            np.array([2**60], dtype="M8[D]"),
            np.array([10**12], dtype="M8[Y]"),
            np.array([-(10**12)], dtype="M8[M]"),
            np.array([10**17], dtype="M8[s]"),
            np.array([0, 1], dtype="M8[as]"),
            np.array([0, 1], dtype="M8[ps]"),
        ],
        ids=lambda dates: str(dates.dtype),
    )
    def test_dates_that_would_wrap_around_are_refused(self, dates):
        with pytest.raises(ValueError, match=r"times must (lie within 30 million years|be dates in years to nano)"):
            as_times(dates)

    @pytest.mark.parametrize(
        "times",
        [
            np.array([2**62 + 1, 2**62]),
            np.array([2**63 + 1, 2**63], dtype=np.uint64),
            np.datetime64("2024-01-01T00:00:00", "ns") + np.array([1, 0]),
            np.array([1.0, np.longdouble(1) - np.finfo(np.longdouble).eps], dtype=np.longdouble),
        ],
        ids=lambda times: str(times.dtype),
    )
    def test_order_is_checked_before_rounding(self, times):
        assert times.astype(np.float64)[0] == times.astype(np.float64)[1]
        with pytest.raises(ValueError, match=r"is earlier than .*, the time before it, at row 1"):
            as_times(times)

    def test_rounding_keeps_the_order(self):
        ticks = np.datetime64("2024-01-01T00:00:00", "ns") + np.arange(2000)
        assert np.all(np.diff(as_times(ticks)) >= 0)

    def test_the_message_shows_dates_as_dates(self):
        dates = np.array(["2024-01-02", "2024-01-01"], dtype="M8[D]")
        with pytest.raises(ValueError, match=r"2024-01-01 is earlier than 2024-01-02, .* it, at row 1; to sort"):
            as_times(dates)
        with pytest.raises(ValueError, match=r": 2024-01-01 is earlier than 2024-01-02T00:00:00.0+, the latest time"):
            as_times(dates[1:], last=as_times(dates[:1])[0])

    def test_masked_times_are_refused(self):
        times = np.ma.array([0.0, 1.0, 2.0], mask=[False, True, False])
        with pytest.raises(ValueError, match="masked, at row 1"):
            as_times(times)
        assert as_times(np.ma.array([0.0, 1.0], mask=False)).tolist() == [0.0, 1.0]

    def test_times_beyond_1e150_are_refused(self):
        with pytest.raises(ValueError, match=r"within ±1e\+150, got 1e\+151, at row 1"):
            as_times([0.0, 1e151])

    def test_a_missing_date_is_refused(self):
        with pytest.raises(ValueError, match="NaT, at row 1"):
            as_times(np.array(["2024-01-01", "NaT"], dtype="M8[D]"))

    @pytest.mark.parametrize("times", [[3.0, 4.0], [], [5.0]])
    def test_a_stream_continues_at_or_after_its_last_time(self, times):
        assert as_times(times, last=3.0).tolist() == times

    def test_unordered_times_may_still_not_lie_before_the_last(self):
        assert as_times([5.0, 3.0], last=3.0, ordered=False).tolist() == [5.0, 3.0]
        with pytest.raises(ValueError, match=r"2.0 is earlier than 3.0, the latest .*, at row 1"):
            as_times([5.0, 2.0], last=3.0, ordered=False)

    def test_a_stream_never_goes_back_before_its_last_time(self):
        with pytest.raises(BadTime, match=r"2.0 is earlier than 3.0, the latest .*, at row 0"):
            as_times([2.0, 4.0], last=3.0)

    def test_one_time_for_each_row(self):
        assert as_times([1.0, 2.0], n=2).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="2 times for 3 rows"):
            as_times([1.0, 2.0], n=3)

    @pytest.mark.parametrize("times", [[True, True], ["1"], [None], [1j], np.array([1], "m8[s]"), [timedelta(1)]])
    def test_only_numbers_and_dates_are_times(self, times):
        with pytest.raises(ValueError, match="numbers or dates"):
            as_times(times)

    @pytest.mark.parametrize("kind", [list, pd.Series, np.array, lambda texts: np.array(texts, dtype=object)])
    def test_texts_are_read_as_dates(self, kind):
        times = kind(["01/Mar/2026:00:00:06 +0000", "01/Mar/2026:01:00:07 +0100"])
        assert are_dates(times)
        assert as_times(times).tolist() == [1772323206.0, 1772323207.0]

    def test_a_text_that_is_no_date_is_named(self):
        with pytest.raises(BadTime, match=r"numbers or dates: 'soon' is not an ISO 8601 date, at row 1$"):
            as_times(["2026-03-01", "soon"])
        with pytest.raises(BadTime, match=r"the time is missing, at row 1$"):
            as_times(pd.Series(["2026-03-01", None]))
        with pytest.raises(ValueError, match=r"may be 2025-04-03 or 2025-03-04; pass pandas.to_datetime"):
            as_times(["03/04/2025"])

    def test_the_hint_to_sort_is_in_pickles_and_sorts(self):
        times = np.array([0.0, 2.0, 1.0])
        with pytest.raises(BadTime) as fault:
            as_times(times)
        assert str(pickle.loads(pickle.dumps(fault.value))) == str(fault.value)
        assert fault.value.reason.endswith("the time before it")
        order = eval(fault.value.hint.split("order = ")[1].split(", then")[0])
        as_times(times[order])


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
            (["a text", "another"], r"got texts such as 'a text'.*Multinomial\(\)"),
            (np.zeros((2, 2, 2)), "two-dimensional"),
            (np.zeros((0, 2)), "0 sample"),
            (np.zeros((2, 0)), "0 feature"),
            ([["a", "b"]], "must hold numbers"),
            ([[1j]], "Complex data not supported"),
            (np.array([["2024-01-01"]], dtype="M8[D]"), "must hold numbers"),
        ],
    )
    def test_other_arrays_are_refused(self, X, message):
        with pytest.raises(ValueError, match=message):
            as_observations(X)

    @pytest.mark.parametrize("dtype", ["U", "S"])
    def test_the_first_text_that_is_no_number_is_named(self, dtype):
        X = np.array([["1.0", "-2e3"], ["nan", "red"]]).astype(dtype)
        with pytest.raises(NotANumber, match=r"must hold numbers .*got .*red.*, at row 1, column 1") as refused:
            as_observations(X)
        assert (refused.value.row, refused.value.column) == (1, 1)
        with pytest.raises(ValueError, match=r"got text of dtype .*: pass X.astype\(float\)"):
            as_observations(X[:1])

    def test_masked_entries_are_refused_by_row_and_column(self):
        X = np.ma.array(np.zeros((3, 2)), mask=False)
        assert as_observations(X).shape == (3, 2)
        X[1, 1] = np.ma.masked
        with pytest.raises(ValueError, match="masked, at row 1, column 1"):
            as_observations(X)

    def test_a_longdouble_too_large_is_refused(self):
        with pytest.raises(ValueError, match="inf, at row 0, column 0"):
            as_observations(np.array([[np.longdouble("1e400")]]))

    def test_the_array_has_the_name_it_is_given(self):
        with pytest.raises(
            ValueError, match=r"^weights must be finite, without NaN or inf, got nan, at row 0, column 1"
        ):
            as_observations([[1.0, np.nan]], "weights")


def test_a_missing_cell_is_the_same_everywhere():
    missing = [None, np.nan, np.float32("nan"), np.datetime64("NaT"), pd.NaT, pd.NA, np.ma.masked, Decimal("NaN")]
    assert all(map(is_missing, missing))
    assert not any(map(is_missing, ["", "NA", 0.0, False, [], np.array([np.nan]), Decimal("sNaN")]))
    assert is_missing(" Na ", {"na"})
    row = np.array([[1.0, *missing]], dtype=object)
    assert np.isnan(as_observations(row, missing=True)[0, 1:]).all()


@pytest.mark.parametrize("value", [Decimal("sNaN"), complex("nan")])
def test_what_is_no_number_is_no_missing_cell(value):
    with pytest.raises(BadRow, match="must hold"):
        as_observations(np.array([[1.0, value]], dtype=object), missing=True)
