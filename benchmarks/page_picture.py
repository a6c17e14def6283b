"""The page of ``dyncrp serve`` at work, as a picture. It measures nothing.

``python -m benchmarks.page_picture`` starts a server, sends it a day in a building, names its tables, and takes
docs/images/serve.png with Debian's chromium. ``--folder`` takes more pictures, in both themes and on a phone.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed import HERE

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
STREAM = "building"
SETTINGS = {
    "family": "gaussian",
    "dynamics": "0.99*exponential(600) + 0.01*stationary()",
    "alpha": 0.01,
    "set": {"variance": 1.0, "prior_variance": 400.0},
    "features": ["x", "y"],
    "alarm_rate": 0.004,
    "n_examples": 5,
}
# The middle of each place, in metres. The corridor is too long for one table: its three make a cluster.
PLACES = {
    "entrance": (-14.0, 0.0),
    "corridor west": (-4.2, 0.0),
    "corridor": (0.0, 0.0),
    "corridor east": (4.2, 0.0),
    "kitchen": (-5.0, 9.0),
    "office": (5.0, 9.0),
    "library": (-5.0, -9.0),
    "workshop": (14.0, -7.0),
}
N, SECONDS = 1600, 20  # rows, and how far apart they are
MEAN_VISIT = 45  # rows


def day(seed: int = 7) -> tuple[NDArray[np.float64], list[str], list[str]]:
    """Return where somebody is, (N, 2), when, as ISO 8601, and in which place: a way through the building."""
    rng = np.random.default_rng(seed)
    names = list(PLACES)
    where: list[str] = []
    while len(where) < N:
        known = names[: 3 + 8 * len(where) // N]  # more and more of the building, so that tables open one after another
        there = str(rng.choice([name for name in known if name not in where[-1:]]))
        where += [there] * int(1 + rng.poisson(MEAN_VISIT))
    where = where[:N]
    rows = np.array([PLACES[name] for name in where]) + rng.normal(size=(N, 2))
    corridor = np.array([name.startswith("corridor") for name in where])
    rows[corridor, 0] += rng.uniform(-2.1, 2.1, int(corridor.sum()))
    for strange in (N // 2, N - 60):
        rows[strange] += (0.5, 6.0)
    times = np.datetime64("2026-03-02T07:30:00") + np.arange(N) * np.timedelta64(SECONDS, "s")
    return rows, [str(time) for time in times], where


@contextmanager
def serving() -> Iterator[str]:
    """Start a server on an empty folder, and give its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-m", "dyncrp", "serve", folder, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            address = re.search(r"http://\S+", said)
            if address is None:
                raise RuntimeError(f"the server did not start: {said}")
            try:
                yield address[0].rstrip("/")
            finally:
                process.terminate()


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send a request, and return what is answered."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def fill(address: str) -> None:
    """Make the stream, send it the day, and give the largest table of each place its name."""
    stream = f"{address}/streams/{STREAM}"
    rows, times, where = day()
    ask("PUT", stream, SETTINGS)
    part_way = 3 * N // 4
    tables: list[int] = []
    named: set[int] = set()
    for part in (slice(0, part_way), slice(part_way, N)):
        tables += ask("POST", f"{stream}/rows", {"rows": rows[part].tolist(), "times": times[part]})["labels"]
        for name in PLACES if part.start == 0 else ():
            seen = [table for table, place in zip(tables, where, strict=False) if place == name]
            table = max(set(seen), key=seen.count, default=-1)
            if table >= 0 and table not in named:
                ask("POST", f"{stream}/rename", {"table": table, "name": name})
                named.add(table)


def main() -> None:
    """Take the pictures."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, help="where to put pictures in both themes and of a phone, too")
    given = parser.parse_args()
    # Name, width, theme, whether a table is chosen.
    wanted = [(HERE.parent / "docs" / "images" / "serve.png", 1280, "light", False)]
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        for width in (1280, 390):
            for theme in ("light", "dark"):
                wanted += [(given.folder / f"{theme}-{width}.png", width, theme, False)]
                wanted += [(given.folder / f"{theme}-{width}-panel.png", width, theme, True)]
    with serving() as address, sync_playwright() as playwright:
        fill(address)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS.split())
        for path, width, theme, chosen in wanted:
            page = browser.new_page(
                viewport={"width": width, "height": 844},
                color_scheme=theme,  # type: ignore[arg-type]
                timezone_id="UTC",
                reduced_motion="reduce",
            )
            page.goto(address)
            page.locator("#state:not([data-state=connecting])").wait_for()
            page.locator("#clusters li, #clusters .caption:not(:empty)").first.wait_for()
            if chosen:
                page.locator("#tables tbody button").nth(1).click()
                page.locator("#panel-body dl").wait_for()
            page.wait_for_timeout(300)
            page.screenshot(path=path, full_page=not (chosen and width < 600))
            page.close()
            Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
            print(f"{path}: {path.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
