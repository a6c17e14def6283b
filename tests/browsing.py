"""A browser, Debian's chromium, before ``dyncrp serve`` in a process of its own; nothing is simulated."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from cases import PATIENCE

CHROMIUM = shutil.which("chromium")
PAGE_PATIENCE = 120_000  # milliseconds
try:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PAGE_PATIENCE)
except ImportError:
    expect = sync_playwright = None

needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: `apt-get install chromium` gives one"),
    pytest.mark.skipif(sync_playwright is None, reason="there is no playwright: `pip install playwright` gives one"),
]
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
TOLD = {  # nothing is left to learn, so that the ids of tables are final at once
    "family": "gaussian",
    "dynamics": "stationary()",
    "alpha": 0.1,
    "set": {"variance": 1.0, "prior_variance": 400.0},
    "features": ["width", "height"],
    "n_examples": 3,
    "alarm_rate": 0.01,
}
PLACES = np.array([[-20.0, 0.0], [0.0, 20.0], [20.0, 0.0], [0.0, -20.0]])


class Server:
    """``dyncrp serve`` on a free port, stopped and started again at will."""

    def __init__(self, folder, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.options = folder, options
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "dyncrp", "serve", str(self.folder), "--port", str(self.port), *self.options]
        log = Path(f"{self.folder}.log")
        with log.open("ab") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self("GET", "health")
                return
            except OSError:
                said = log.read_text()
                assert self.process.poll() is None, said
                assert time.monotonic() < end, said
                time.sleep(0.05)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)

    def __call__(self, method, path, body=None, token=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(f"{method} {path}: {refused.code} {refused.read().decode()}") from None

    def make(self, name, **settings):
        return self("PUT", f"streams/{name}", {**TOLD, **settings})

    def send(self, name, rows, **more):
        return self("POST", f"streams/{name}/rows", {"rows": np.asarray(rows).tolist(), **more})

    def tables(self, name):
        return {table["id"]: table for table in self("GET", f"streams/{name}/tables")["tables"]}


def visits(n_places, per_visit, n_visits, seed=0):
    """Rows that stay at one of some places for a while: (n, 2)."""
    rng = np.random.default_rng(seed)
    places = np.repeat(np.arange(n_visits) % n_places, per_visit)
    return PLACES[places] + rng.normal(size=(len(places), 2))


class Watched:
    """What a page says on its console and asks of others; a test that expects some of it takes it away."""

    def __init__(self, page, url):
        self.errors, self.strangers = [], []
        page.on("console", lambda said: said.type in ("error", "warning") and self.errors.append(said.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(url) or self.strangers.append(asked.url))


def is_live(page):
    expect(page.locator("#state:is([data-state=live], [data-state=quiet])")).to_be_visible()


def broken_connections(page):
    """Take away what a browser itself says of a connection that breaks."""
    said = page.watched.errors
    page.watched.errors = [text for text in said if not re.search(r"net::ERR_|status of 50[23]", text)]


def line(page, table):
    return page.locator(f'#tables tr[data-id="{table}"]')


def colours(page):
    """Return how many pixels of each colour the drawing has, of those that it has more than a few of."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas");
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
          const counts = {};
          for (let i = 0; i < data.length; i += 4) {
            const colour = "#" + [0, 1, 2].map((j) => data[i + j].toString(16).padStart(2, "0")).join("");
            counts[colour] = (counts[colour] ?? 0) + 1;
          }
          return Object.fromEntries(Object.entries(counts).filter(([, n]) => n > 9));
        }"""
    )
