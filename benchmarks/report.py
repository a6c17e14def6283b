"""What a run prints and writes: tables by rich, and one JSON file with the machine it was measured on."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.table import Table

Row = dict[str, Any]
PACKAGES = ("dyncrp", "numpy", "scipy", "scikit-learn", "river")


def count(value: float) -> str:
    """Three significant digits, with thousands set apart.

    >>> count(1234567.0), count(0.5123), count(12.34)
    ('1,230,000', '0.512', '12.3')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def size(value: float) -> str:
    """Bytes as kB or MB."""
    return f"{value / 1e6:,.1f} MB" if value >= 1e6 else f"{value / 1e3:,.1f} kB"


Columns = dict[str, tuple[str, Callable[[Any], str]]]
COLUMNS: Columns = {
    "rate": ("obs/s", count),
    "ratio": ("dyncrp is faster by", lambda v: f"{count(v)}×"),
    "relative": ("relative", lambda v: f"{v:.2f}"),
    "ns": ("ns/obs", count),
    "ns_per_table": ("ns/obs/table", count),
    "seconds": ("seconds", lambda v: f"{v:.3f}"),
    "net": ("less python's", lambda v: f"{v:.3f}"),
    "share_of_dot": ("of numpy.dot", lambda v: f"{100 * v:.0f} %"),
    "ami": ("AMI", lambda v: f"{v:.3f}"),
    "clusters": ("clusters", str),
    "bytes": ("model", size),
    "rss": ("resident memory", size),
    "fed": ("learned", count),
    "labelled": ("labelled", count),
}


def table(title: str, rows: list[Row], columns: Columns = COLUMNS) -> Table:
    """Return a table of the columns that some row has a value for."""
    shown = [key for key in columns if any(row.get(key) is not None for row in rows)]
    result = Table(title=title, title_justify="left")
    result.add_column("")
    for key in shown:
        result.add_column(columns[key][0], justify="left" if key == "told" else "right")
    for row in rows:
        result.add_row(row["system"], *(_cell(key, row, columns[key][1]) for key in shown))
    return result


def _cell(key: str, row: Row, text: Callable[[Any], str]) -> str:
    value = row.get(key)
    if key == "rate" and value is None and row.get("below"):
        return f"< {count(row['below'])}"
    if key == "ratio" and row.get("below"):
        return f"> {text(value)}"
    if key == "ami" and row.get("ami_error") is not None:
        return f"{text(value)} ± {text(row['ami_error'])}"
    return "-" if value is None else text(value)


def machine() -> dict[str, str]:
    """Return what the figures were measured on."""
    facts = {"python": platform.python_version(), "system": platform.system(), "processor": _processor()}
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "absent"
    return facts


def commit() -> str:
    """Return the commit that is checked out, "" outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # there is no git
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def write(path: Path, results: dict[str, dict[str, list[Row]]], *, quick: bool) -> None:
    """Save the sections that were run, each with the commit; those of an earlier run of the same kind stay."""
    kept: dict[str, Any] = {}
    commits: dict[str, str] = {}
    if path.exists():
        old = json.loads(path.read_text())
        if old["quick"] == quick and old["machine"] == machine():
            kept, commits = old["sections"], old.get("commits", {})
    path.parent.mkdir(parents=True, exist_ok=True)
    commits |= dict.fromkeys(results, commit())
    content = {"quick": quick, "machine": machine(), "commits": commits, "sections": kept | results}
    path.write_text(json.dumps(content, indent=1) + "\n")
