"""Times of requests are read as those of files."""

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dyncrp.arrays.checks import Clock
from dyncrp.cli.app import app
from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON
from dyncrp.serve.limits import RequestError
from dyncrp.serve.times import read_times
from serving import KNOWN, post, serving

WRITTEN = [
    ["[01/Mar/2026:00:00:06 +0100]", "[01/Mar/2026:00:00:07 +0100]"],
    ["2026-02-28 23:00:06", "2026-02-28 23:00:07"],
    ["2026/02/28 23:00:06", "2026/02/28 23:00:07"],
    ["28.02.2026 23:00:06", "28.02.2026 23:00:07"],
    ["Sat, 28 Feb 2026 23:00:06 GMT", "Sat, 28 Feb 2026 23:00:07 GMT"],
    [1772319606, 1772319607],
    ["1772319606", "1772319607"],
    [1772319606000, 1772319607000],
]


@pytest.mark.parametrize("kind", [JSON, NDJSON, CSV, ARROW])
@pytest.mark.parametrize("times", WRITTEN)
def test_dates_of_all_kinds_in_every_format(tmp_path, kind, times):
    rows = [{"x": float(at), "at": time} for at, time in enumerate(times)]
    if kind == ARROW:
        table, sink = pa.Table.from_pylist(rows), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue().to_pybytes()
    else:
        lines = [f'{row["x"]},"{row["at"]}"' for row in rows]
        content = {
            JSON: json.dumps({"rows": rows}),
            NDJSON: "\n".join(map(json.dumps, rows)),
            CSV: "\n".join(["x,at", *lines]),
        }[kind]
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        path = "/streams/s/rows?time_column=at"
        answer = client.post(path, content=content, headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        line = client.get("/streams/s/timeline").json()
    assert [time[:19] for time in line["times"]] == ["2026-02-28T23:00:06", "2026-02-28T23:00:07"]


def test_syslog_goes_on_over_a_new_year_and_a_restart(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        post(client, [[0.0]], times=["2026-12-30T00:00:00"])
        post(client, [[0.0]], times=["Dec 31 23:59:59"])
    with serving(tmp_path) as (client, _):
        post(client, [[0.0], [0.0]], times=["Dec 31 23:59:59", "Jan  1 00:00:02"])
        post(client, [[0.0]], times=["Jan  1 00:00:03"])
        times = client.get("/streams/s/timeline").json()["times"]
    assert [time[:19] for time in times[1:]] == [
        "2026-12-31T23:59:59",
        "2026-12-31T23:59:59",
        "2027-01-01T00:00:02",
        "2027-01-01T00:00:03",
    ]


def test_an_ambiguous_date_is_refused_unless_earlier_ones_were_clear(tmp_path):
    with serving(tmp_path) as (client, _):
        client.put("/streams/s", json=KNOWN)
        refused = client.post("/streams/s/rows", json={"rows": [[0.0]], "times": ["03/04/2026"]})
        assert refused.status_code == 400
        assert "may be 2026-04-03 or 2026-03-04: send dates as ISO 8601" in refused.json()["error"]
        assert refused.json()["row"] == 0
        post(client, [[0.0]], times=["31/12/2025"])
    with serving(tmp_path) as (client, _):  # the journal remembers
        post(client, [[0.0]], times=["03/04/2026"])
        post(client, [[0.0]], times=["2026-05-01"])
        refused = client.post("/streams/s/rows", json={"rows": [[0.0]], "times": ["05/13/2026"]})
        assert "a date as %d/%m/%Y, or ISO 8601, got '05/13/2026'" in refused.json()["error"]
        times = client.get("/streams/s/timeline").json()["times"]
    assert [time[:10] for time in times] == ["2025-12-31", "2026-04-03", "2026-05-01"]


@pytest.mark.parametrize("missing", [None, "", "NA", float("nan")])
def test_a_missing_time_is_named(missing):
    with pytest.raises(RequestError, match="the time is missing, at row 1") as caught:
        read_times(["2026-03-01", missing])
    assert (caught.value.row, caught.value.column) == (1, "times")


def test_numbers_stay_numbers_in_a_stream_of_numbers():
    assert read_times([1772319606], Clock.NUMBERS)[0].dtype == np.float64
    assert read_times([12, 13])[0].tolist() == [12.0, 13.0]


def test_the_command_line_gives_the_same_labels(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["at,x,kind"]
    for at in range(60):
        x = "NA" if at == 7 else f"{rng.normal(30 * (at // 5 % 3)):.3f}"
        lines.append(f"[01/Mar/2026:00:{at:02d}:06 +0100],{x},{'' if at == 9 else 'abc'[at // 5 % 3]}")
    content = "\n".join(lines) + "\n"
    (tmp_path / "rows.csv").write_text(content)
    out = tmp_path / "out.jsonl"
    run = ["run", str(tmp_path / "rows.csv"), "--time-column", "at", "-o", str(out)]
    done = CliRunner().invoke(app, run)
    assert done.exit_code == 0, done.output
    expected = [json.loads(line)["table"] for line in out.read_text().splitlines()]
    with serving(tmp_path / "data") as (client, _):
        client.put("/streams/s", json={"warmup_seconds": None})
        path, kind = "/streams/s/rows?time_column=at", {"content-type": CSV}
        assert client.post(path, content=content, headers=kind).status_code == 200
        client.post("/streams/s/end-warmup")
        labels = client.get("/streams/s/timeline").json()["tables"]
    assert labels == expected
