"""Ten files as people and their programs write them: each works the first time, with one option at the most.

``tests/cli/files/make.py`` writes them.
"""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app

FILES = Path(__file__).parent / "files"
KNOWN = ["--alpha", "1", "--dynamics", "stationary()"]

# The option, the line of kinds, another note, and the columns that are clustered.
ORDINARY = {
    "bank_statement.csv": (
        ["--time-column", "Buchungstag"],
        "numbers: 2; categories: Auftraggeber/Empfänger, Buchungstext; left out: Valuta (times), Währung (constant)",
        "Betrag: '2.587,40 €' is read as 2587.4",
        "Auftraggeber/Empfänger, Buchungstext, Betrag, Saldo",
    ),
    "sensor_log.csv": (
        ["--time-column", "ts"],
        "ts: '1760000000000' is read as 2025-10-09T08:53:20, milliseconds since 1970; "
        "--time-format number keeps numbers",
        "",
        "temp_c, humidity, co2_ppm, battery_v",
    ),
    "web_log.csv": (
        ["--time-column", "time"],
        "numbers: 3 (log1p: bytes, duration_ms); categories: method, path, user_agent; left out: client (nearly all "
        "different), referrer (constant)",
        "",
        "method, path, status, bytes, user_agent, duration_ms",
    ),
    "survey.csv": (
        [],
        "categories: Age group, Q1 Satisfaction, Q2 Price, Q3 Recommend; booleans: 1; left out: Respondent (every row "
        "differs), Comments (sentences)",
        "Member: yes is read as 1, no as 0",
        "Age group, Member, Q1 Satisfaction, Q2 Price, Q3 Recommend",
    ),
    "clinical.csv": (
        ["--missing", "-999"],
        "numbers: 6; categories: sex, diagnosis; booleans: 1; left out: patient_id (every row differs)",
        "smoker: yes is read as 1, no as 0",
        "sex, age, smoker, bmi, sbp, dbp, chol, glucose, diagnosis",
    ),
    "shop.csv": (
        ["--exclude", "Order"],
        "numbers: 3; categories: SKU, Category, Ship to; booleans: 1; left out: Date (times)",
        "Unit price: '508,34' is read as 508.34",
        "SKU, Category, Qty, Unit price, Discount, Paid, Ship to",
    ),
    "fitness.csv": (
        ["--time-column", "Date"],
        "numbers: 5; categories: Activity; left out: Sleep (nearly all different)",
        "Steps: '15,264' is read as 15264",
        "Activity, Steps, Distance (km), Calories, Active minutes, Avg heart rate",
    ),
    "logistics.csv": (
        ["--time-column", "departed"],
        "numbers: 4; categories: lane, carrier; booleans: 1; left out: shipment (every row differs)",
        "weight_kg: '22,993' is read as 22993",
        "lane, carrier, weight_kg, volume, load, on_time, cost",
    ),
    "electricity.csv": (
        ["--encoding", "latin-1"],
        "numbers: 3; categories: Tarif, Status; left out: Zeitstempel (times)",
        "Zählerstand (kWh), Leistung (kW), Spannung (V): '18.432,08' is read as 18432.08",
        "Zählerstand (kWh), Leistung (kW), Spannung (V), Tarif, Status",
    ),
    "telephone.tsv": (
        ["--exclude", "Time,Duration"],
        "numbers: 2 (log1p: Seconds, Charge); categories: Direction, Country; left out: No. (counts the rows), Date "
        "(times), Number (every row differs)",
        "Charge: '£0.03' is read as 0.03",
        "Direction, Country, Seconds, Charge",
    ),
}


def run(path, *options, code=0):
    known = [] if "--model" in options else KNOWN
    if Path(path).name == "sensor_log.csv":  # all of it is numbers, and the family is learned
        known = [*known, "--set", "warmup=30"]
    printed = [] if "-o" in options else ["-o", "-"]
    done = CliRunner().invoke(app, ["run", str(path), *known, *printed, "--clusters", "none", *map(str, options)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_file_works_the_first_time(name):
    options, line, note, features = ORDINARY[name]
    written, said = run(FILES / name, *options)
    assert f"dyncrp: {line}\n" in said
    assert note in said
    assert f"dyncrp: features: {features}\n" in said
    n_rows = len((FILES / name).read_bytes().splitlines()) - 1
    assert len(written.splitlines()) == n_rows + 1
    assert "bad" not in said


@pytest.mark.parametrize("name", ["clinical.csv", "web_log.csv"])
@pytest.mark.parametrize("every", [7, 100])
def test_a_run_on_an_ordinary_file_is_resumed_as_it_began(tmp_path, name, every):
    """New categories come after the first rows, and have the same codes."""
    options, *_ = ORDINARY[name]
    lines = (FILES / name).read_bytes().splitlines(keepends=True)
    path, out = tmp_path / name, tmp_path / "out.csv"
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--every", every, "--resume"]
    path.write_bytes(b"".join(lines[:60]))
    run(path, *options, *resumable)
    early = out.read_text()
    with path.open("ab") as file:
        file.write(b"".join(lines[60:]))
    run(path, *options, *resumable, "--save", tmp_path / "model.npz")
    assert out.read_text().startswith(early)
    assert len(out.read_text().splitlines()) == len(lines)
    # The first rows decided what columns hold, so that is given to a run over all of them.
    path.write_bytes(b"".join(lines[:60]))
    whole = tmp_path / "whole.csv"
    run(path, *options, "-o", whole, "--save", tmp_path / "first.npz")
    path.write_bytes(b"".join(lines[:1] + lines[60:]))
    rest, _ = run(path, *options, "--model", tmp_path / "first.npz")
    tables = [line.split(",")[-3:] for line in out.read_text().splitlines()[60:]]
    assert [line.split(",")[-3:] for line in rest.splitlines()[1:]] == tables


def test_options_that_say_the_kinds(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "status,ms,ok\n" + "".join(f"{200 + i % 3},{i * i},{'yes' if i % 2 else 'no'}\n" for i in range(40))
    )
    _, said = run(path, "--categorical", "status", "--log", "ms")
    assert "dyncrp: numbers: 1 (log1p: ms); categories: status; booleans: 1\n" in said
    _, said = run(path, "--categorical", "#1", "--log", "none", "--numeric", "o*")
    assert "dyncrp: numbers: 2; categories: status\n" in said
