"""Files as people have them: compressed, in any encoding, with text among the numbers."""

import gzip

import pytest
from typer.testing import CliRunner

from dyncrp.cli.app import app

KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=50", "--alpha", "1"]
KNOWN += ["--dynamics", "stationary()"]


def run(path, *options, code=0):
    """Run on a file with known hyperparameters; return what was written, and what was said."""
    printed = [] if "-o" in options else ["-o", "-"]
    done = CliRunner().invoke(app, ["run", str(path), *KNOWN, *printed, "--clusters", "none", *map(str, options)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_a_compressed_file_that_grows_is_resumed(tmp_path, every):
    lines = [b"%d,%d\n" % (i % 3 * 9, i % 2) for i in range(40)]
    plain, packed, out = tmp_path / "rows.csv", tmp_path / "rows.csv.gz", tmp_path / "out.csv"
    plain.write_bytes(b"x,y\n" + b"".join(lines))
    wanted, _ = run(plain)
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--every", every, "--resume"]
    packed.write_bytes(gzip.compress(b"x,y\n" + b"".join(lines[:25])))
    run(packed, *resumable)
    assert out.read_text() == "".join(wanted.splitlines(keepends=True)[:26])
    with packed.open("ab") as file:
        file.write(gzip.compress(b"".join(lines[25:])))
    assert "looking for new rows after row 25" in run(packed, *resumable)[1]
    assert out.read_text() == wanted
    assert "15 rows" not in run(plain, *resumable)[1]  # the same rows, not compressed: there is nothing new
    assert out.read_text() == wanted
    packed.write_bytes(gzip.compress(b"x,y\n" + b"".join(lines[:30])))
    assert "not the same as before: it ended after 30 rows" in run(packed, *resumable, code=1)[1]


def test_a_statement_in_latin_1(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("größe,ort\n1,Köln\n2,Ulm\n".encode("latin-1"))
    written, said = run(path, "--columns", "größe", "--keep", "ort", "--encoding", "latin-1")
    assert "UTF-8" not in said
    assert [line.split(",")[1] for line in written.splitlines()] == ["ort", "Köln", "Ulm"]
    hint = "the input is not in UTF-8: --encoding names the encoding, such as latin-1 or cp1252"
    assert hint in run(path, "--family", "gaussian")[1]
    for name in ("klingon", "hex", ""):
        assert "--encoding must name an encoding of text" in run(path, "--encoding", name, code=2)[1]


def test_a_file_that_grows_is_read_as_it_was(tmp_path):
    """Its first rows say less when there are few of them."""
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--resume"]
    path.write_text("x;y\n12,5;1\n3,5;2\n")
    assert "x: '12,5' is read as 12.5" in run(path, *resumable)[1]
    with path.open("a") as file:
        file.write("".join("12 500,0;1\n" for _ in range(9)))
    assert "column 'x': '12 500,0' is not a number" in run(path, *resumable, code=1)[1]
    path.write_text("x;y\n12,5;1\n3,5;2\n1.250,5;3\n")
    run(path, *resumable)
    assert len(out.read_text().splitlines()) == 4


# Files as people write them, each with what is said about it and the numbers that are clustered.
STATEMENT = """\ufeffBuchungstag;Empfänger;Betrag;Währung;Saldo
02.01.2025;"Müller; Söhne";-1.234,56 €;EUR;10.000,00
03.01.2025;Miete;-850,00 €;EUR;9.150,00
14.01.2025;Gehalt;3.200,00 €;EUR;12.350,00
"""
SENSORS = """timestamp\tsensor_temp\tsensor_hum\tdoor\tstatus
12/30/2025 23:59:58\t21.5\t40%\toff\tok
12/30/2025 23:59:59\t21.7\t41%\ton\tok
12/31/2025 00:00:00\t21.6\t40%\toff\tfault
"""
WEB_LOG = """ip|time|method|status|bytes|ms
192.168.100.101|16/Nov/2026:10:00:00 +0000|GET|200|1043|12.5
192.168.100.102|16/Nov/2026:10:00:01 +0000|POST|404|512|3.25
192.168.100.101|16/Nov/2026:10:00:01 +0000|GET|200|2048|7
"""
SURVEY = """Name,Age,Consent,"Income, yearly",Q1,Q1
Ann,34,Yes,"$41,250.00",5,4
Bob,51,No,"$38,000.50",3,2
Eve,29,Yes,"$1,250.00",1,5
"""
CLINIC = """patient,sex,bp_sys,bp_dia,chol,smoker
P001,f,120,80,-999,n
P002,m,140,95,212,y
P003,f,118,76,N/A,n
P004,m,131,85,190,y
"""
SHOP = """order_id,sku,qty,price,discount,paid
1001,A-1,2,"1,299.99 USD",5%,true
1002,B-7,10,12.50 USD,0%,false
1003,A-1,1,"1,299.99 USD",12.5%,true
"""
FILES = {
    "statement": (
        STATEMENT.encode("utf-16"),
        ["--time-column", "Buchungstag"],
        "numbers: 2; left out: Empfänger (category), Währung (category)",
        "Betrag: '-1.234,56 €' is read as -1234.56",
        "Betrag, Saldo",
    ),
    "sensors": (
        SENSORS,
        ["--columns", "sensor_*,door", "--time-column", "timestamp"],
        "the delimiter is a tab",
        "timestamp: '12/30/2025 23:59:58' is read as 2025-12-30T23:59:58",
        None,
    ),
    "web log": (
        WEB_LOG,
        ["--time-column", "time"],
        "numbers: 3; left out: ip (category), method (category)",
        "time: '16/Nov/2026:10:00:00 +0000' is read as 2026-11-16T10:00:00",
        "status, bytes, ms",
    ),
    "survey": (
        SURVEY,
        [],
        "numbers: 5; left out: Name (category)",
        "Income, yearly: '$41,250.00' is read as 41250",
        "Age, Consent, Income, yearly, #5, #6",
    ),
    "clinic": (
        CLINIC,
        ["--missing", "-999"],
        "numbers: 4; left out: patient (category), sex (category)",
        "smoker: y is read as 1, n as 0",
        "bp_sys, bp_dia, chol, smoker",
    ),
    "shop": (
        SHOP,
        ["--exclude", "order_id"],
        "numbers: 4; left out: sku (category)",
        "price: '1,299.99 USD' is read as 1299.99",
        "qty, price, discount, paid",
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [True, False])
def test_an_ordinary_file_works_the_first_time(tmp_path, name, packed):
    text, options, line, note, features = FILES[name]
    content = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    written, said = run(path, *options)
    assert f"dyncrp: {line}" in said
    assert note in said
    assert features is None or f"dyncrp: features: {features}\n" in said
    n_rows = len(content.splitlines()) - 1 if name != "statement" else 3
    assert len(written.splitlines()) - 1 == n_rows
    assert run(path, *options, "--quiet")[1] == ""


def test_a_run_of_mixed_columns_is_resumed_as_it_began(tmp_path):
    lines = [f"{i % 3 * 9},{'yes' if i % 2 else 'no'},{'ab'[i % 2]},0\n" for i in range(60)]
    path, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    resumable = ["-o", out, "--checkpoint", tmp_path / "state", "--resume"]
    path.write_text("x,open,kind,zero\n" + "".join(lines[:15]))  # too few to tell that a column is constant
    run(path, *resumable)
    path.write_text("x,open,kind,zero\n" + "".join(lines))
    run(path, *resumable)
    assert out.read_text() == run(path, "--columns", "x,open,zero")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time-format", "%Y"], "--time-format needs --time-column, got '%Y'"),
        (
            ["--time-column", "t", "--time-format", "%Q"],
            "--time-format must be a strptime format, or s, ms, us, ns or number",
        ),
        (["--time-column", "t", "--time-format", "min"], "--time-format must be a strptime format"),
        (["--categorical", "x,t", "--numeric", "t"], "--categorical and --numeric both name t"),
        (["--decimal", "x"], "--decimal must be . or , but is 'x'"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, message):
    (tmp_path / "rows.csv").write_text("t,x\n1,2\n")
    assert message in run(tmp_path / "rows.csv", *options, code=2)[1]
