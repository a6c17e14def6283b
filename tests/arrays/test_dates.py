"""Texts of every usual form are dates, by one piece of code."""

import re

import numpy as np
import pytest

from dyncrp.arrays.dates import AmbiguousDateError, DateError, add_years, find_pattern, fitting, parse_times

SECOND = "2026-03-01T00:00:06"
WRITTEN = [
    "[01/Mar/2026:00:00:06 +0000]",
    "01/Mar/2026:00:00:06 +0000",
    "01/Mar/2026:00:00:06",
    "2026/03/01 00:00:06",
    "2026-03-01T00:00:06",
    "2026-03-01 01:00:06+01:00",
    "2026-02-28T22:00:06-0200",
    "2026-03-01T00:00:06Z",
    "2026-03-01 00:00:06 UTC",
    "2026/03/01 02:00:06+02:00",
    "2026/03/01 00:00:06 UTC",
    "2026/03/01 00:00:06,000",
    "Sun, 01 Mar 2026 00:00:06 GMT",
    "Sun, 01 Mar 2026 01:00:06 +0100",
    "Sun Mar  1 00:00:06 2026",
    "Mar 1, 2026 12:00:06 AM",
    "March 1 2026 00:00:06",
    "01.03.2026 00:00:06",
    "2026-3-1 12:00:06 am",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_second_in_every_form(text):
    found = parse_times([text, text])
    assert found.dtype == "M8[us]"
    assert found.astype("M8[s]").astype(str).tolist() == [SECOND, SECOND]


DAYS = [("2012/01/05", "2012-01-05"), ("1949-01", "1949-01-01"), ("Jan 2000", "2000-01-01")]


@pytest.mark.parametrize(("text", "day"), DAYS)
def test_a_day_in_other_forms(text, day):
    assert parse_times([text])[0] == np.datetime64(day)


@pytest.mark.parametrize("text", ["home", "12", "1.5", "10.0.0.1", "12 %", "Mar 12", "", "a" * 1000 + "1", "1-2"])
def test_other_texts_are_no_dates(text):
    assert not list(fitting(text))


def test_years_are_counted_where_there_are_none():
    written = ["Nov  1 10:00:00", "Dec 31 23:59:59", "Jan  1 00:00:02", "Dec  1 00:00:00", "Jan  1 00:00:00"]
    years = parse_times(written).astype("M8[Y]").astype(str).tolist()
    assert years == ["2000", "2000", "2001", "2001", "2002"]
    whole = parse_times(written)
    for cut in range(1, len(written)):
        plain = np.concatenate([parse_times([text]) for text in written])
        first = add_years(plain[:cut])
        rest = add_years(plain[cut:], int(first[-1].astype(np.int64)))
        assert np.array_equal(np.concatenate([first, rest]), whole)


@pytest.mark.parametrize(
    ("texts", "row", "fault"),
    [
        (["2026-03-01", ""], 1, "the time is missing"),
        ([None, "2026-03-01"], 0, "the time is missing"),
        (["2026-03-01", float("nan")], 1, "the time is missing"),
        (["2026-03-01", "soon"], 1, "'soon' is not an ISO 8601 date"),
        (["2026/03/01", "2026-03-01"], 1, "'2026-03-01' is not a date as %Y/%m/%d"),
        (["2026-03-01T00:00Z", "2026-03-01T00:00"], 1, "has no time zone, unlike the first time"),
        (["2026-03-01T00:00", "2026-03-01T00:00Z"], 1, "has a time zone, unlike the first time"),
    ],
)
def test_what_is_no_date_is_named(texts, row, fault):
    with pytest.raises(DateError, match=re.escape(fault) + "$") as found:
        parse_times(texts)
    assert found.value.row == row


def test_two_readings_are_refused_unless_a_later_date_decides():
    with pytest.raises(AmbiguousDateError) as found:
        find_pattern(["03/04/2025 10:00"])
    assert found.value.patterns == ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")
    assert found.value.readings == ("2025-04-03", "2025-03-04")
    assert find_pattern(["03/04/2025 10:00", "03/31/2025 10:00"]) == "%m/%d/%Y %H:%M"
