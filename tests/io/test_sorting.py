"""Rows are sorted by time on request, from every format, and a run among sorted rows is continued."""

import io
import sys

import numpy as np
import pytest
from pyarrow import parquet

from dyncrp.io.files import FileError
from dyncrp.io.readers import Selection, open_reader
from reading import ROWS, read, selection, write_rows

CSV = "when,x,k\n2026-03-03,3,c\n2026-03-01,1,a\n2026-03-03,4,b\n2026-03-02,2,a\n"


def chunks_of(path, format, chosen, most_rows, place=None):
    with open_reader(str(path), format, chosen, most_rows) as reader:
        return list(reader.chunks(place)), reader


@pytest.mark.parametrize("most_rows", [1, 3, 100])
def test_rows_are_sorted_and_keep_their_indices(tmp_path, most_rows):
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    chosen = Selection(time_column="when", sort_by_time=True, keep=None)
    chunks, reader = chunks_of(path, "csv", chosen, most_rows)
    assert [len(chunk.rows) for chunk in chunks] == [min(most_rows, 4 - at) for at in range(0, 4, most_rows)]
    assert np.concatenate([chunk.rows for chunk in chunks]).tolist() == [1, 3, 0, 2]  # equal times keep their order
    assert np.concatenate([chunk.X for chunk in chunks])[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert [cell for chunk in chunks for cell in chunk.kept["k"]] == ["a", "a", "c", "b"]
    assert reader.encoding["k"].words == ("a", "c", "b")  # as of a file that was sorted before
    assert chunks[-1].where(2) == "line 4"
    assert reader.progress(chunks[-1].place) == 1.0


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("most_rows", [4, 100])
def test_sorted_rows_of_every_format(tmp_path, format, most_rows):
    path = write_rows(tmp_path, format)
    if format == "npy":
        np.save(path, np.load(path)[::-1])
    elif format == "parquet":
        table = parquet.read_table(path)
        parquet.write_table(table.take(np.arange(len(ROWS))[::-1]), path, row_group_size=10)
    elif format == "jsonl":
        path.write_text("\n".join(reversed(path.read_text().split("\n\n"))))
    else:
        head, *lines = path.read_text().replace("x\ny", "xy").splitlines()
        path.write_text("\n".join([head, *reversed(lines)]))
    with pytest.raises(FileError, match=r"backwards: .* is earlier than .*; --sort-by-time sorts the rows$"):
        chunks_of(path, format, selection(format), most_rows)
    found, _ = chunks_of(path, format, selection(format, sort_by_time=True), most_rows)
    assert np.concatenate([chunk.rows for chunk in found]).tolist() == list(range(len(ROWS)))[::-1]
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in found]), [row[2:] for row in ROWS])
    times = np.concatenate([chunk.times for chunk in found])
    assert np.all(times[1:] >= times[:-1])


def test_a_pipe_is_sorted(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(CSV.encode()), buffer_size=1)))
    (chunk,), reader = chunks_of("-", "csv", Selection(time_column="when", sort_by_time=True), 10)
    assert chunk.rows.tolist() == [1, 3, 0, 2]
    assert reader.seekable


@pytest.mark.parametrize("most_rows", [1, 3])
def test_reading_continues_among_sorted_rows(tmp_path, most_rows):
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    chosen = Selection(time_column="when", sort_by_time=True)
    chunks, _ = chunks_of(path, "csv", chosen, most_rows)
    place = chunks[0].place
    rest, _ = chunks_of(path, "csv", chosen, 100, place)
    assert np.concatenate([chunk.rows for chunk in rest]).tolist() == [1, 3, 0, 2][most_rows:]
    path.write_text(CSV + "2026-03-04,9,a\n")  # a later row is taken
    rest, _ = chunks_of(path, "csv", chosen, 100, place)
    assert rest[0].rows.tolist() == [1, 3, 0, 2, 4][most_rows:]
    path.write_text(CSV + "2026-01-01,9,a\n")  # one that is earlier than what is done is refused
    with pytest.raises(FileError, match="not the same as before: --sort-by-time would put other rows before"):
        chunks_of(path, "csv", chosen, 100, place)


def test_missing_times_are_named_and_may_be_skipped(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("when,x\n2026-03-03,3\n,7\n2026-03-01,1\nNA,8\n")
    for sort in (False, True):
        with pytest.raises(FileError, match=r"line 3, column 'when': the time is missing; --skip-bad skips such rows$"):
            read(path, time_column="when", sort_by_time=sort)
    (chunk,) = read(path, time_column="when", sort_by_time=True, skip_bad=True)
    assert chunk.rows.tolist() == [2, 0]
    assert chunk.bad == ["line 3, column 'when': the time is missing", "line 5, column 'when': the time is missing"]


@pytest.mark.parametrize("most_rows", [1, 2, 100])
def test_syslog_times_run_over_new_year(tmp_path, most_rows):
    path = tmp_path / "rows.csv"
    path.write_text("when,x\nDec 31 23:59:59,1\nDec 31 23:59:59,n\nJan  1 00:00:01,2\nFeb  3 00:00:00,3\n")
    with open_reader(str(path), "csv", Selection(("x",), "when", skip_bad=True), most_rows) as reader:
        found = np.concatenate([chunk.times for chunk in reader.chunks()])
        assert "there is no year: it is taken to be 2000, and the next one from December to January" in reader.notes[-1]
    assert found.astype("M8[D]").astype(str).tolist() == ["2000-12-31", "2001-01-01", "2001-02-03"]
    (chunk,) = read(path, columns=("x",), time_column="when", skip_bad=True, sort_by_time=True)
    assert chunk.times.astype("M8[D]").astype(str).tolist() == ["2000-12-31", "2001-01-01", "2001-02-03"]


HOURS = [f"2026-03-01 {hour:02}:00" for hour in range(24)]
NOTE = "when holds times: --time-column when uses them"
UNSORTED = "when holds times, but not in order: --time-column when --sort-by-time sorts the rows by them"


@pytest.mark.parametrize(
    ("times", "note"),
    [
        (HOURS, NOTE),
        ([f"[01/Mar/2026:{hour:02}:00:06 +0000]" for hour in range(24)], NOTE),
        (HOURS[::-1], UNSORTED),
        ([*HOURS[:-1], ""], None),
        ([*HOURS[:-1], "later"], None),
        ([f"01/0{day}/2026 10:00" for day in range(1, 9)] * 3, None),  # day or month
    ],
)
def test_a_time_column_is_suggested_only_where_it_works(tmp_path, times, note):
    path = tmp_path / "rows.csv"
    path.write_text("when,x\n" + "".join(f"{time},{i % 5}.5\n" for i, time in enumerate(times)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert [said for said in reader.notes if "holds times" in said] == ([] if note is None else [note])
    if note is None:
        with pytest.raises(FileError):
            read(path, time_column="when")
    else:  # what is suggested works
        read(path, time_column="when", sort_by_time=note == UNSORTED)


def test_times_in_order_in_the_first_rows_only_come_with_the_option_to_sort(tmp_path):
    path = tmp_path / "rows.csv"
    days = [f"2026-{1 + i // 28 % 12:02}-{1 + i % 28:02} {i // 336:02}:00" for i in range(336 * 3)]
    days = sorted(days)
    path.write_text("when,x\n" + "".join(f"{day},{i % 5}.5\n" for i, day in enumerate(days + days)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        (note,) = [said for said in reader.notes if "holds times" in said]
    assert note == f"{NOTE}; they are in order in the first 1,000 rows: if not later, add --sort-by-time"
    with pytest.raises(FileError, match="times must not run backwards"):
        read(path, time_column="when")
    read(path, time_column="when", sort_by_time=True)


def test_of_several_columns_the_one_in_order_is_suggested(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("born,when,x\n" + "".join(f"{HOURS[-i]},{time},{i % 5}.5\n" for i, time in enumerate(HOURS)))
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert NOTE in reader.notes


def test_dates_without_a_year_are_not_sorted(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("when,x\n" + "".join(f"Mar {day:2} 10:00:00,{day}\n" for day in (5, 3, 9, 4) * 8))
    with pytest.raises(FileError, match="dates without a year cannot be sorted: write their years, or sort the file"):
        read(path, columns=("x",), time_column="when", sort_by_time=True)
    with pytest.raises(FileError, match=r"times must not run backwards: .*; dates without a year cannot be sorted"):
        read(path, columns=("x",), time_column="when")
    with open_reader(str(path), "csv", Selection(), 100) as reader:
        assert not any("--sort-by-time" in note for note in reader.notes)
