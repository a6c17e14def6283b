"""``python -m benchmarks.serve``: how much ``dyncrp serve`` takes on loopback, with the sync and without.

The server is a process of its own on one core; the client, if there is another core, on that. Three loads, each for a
few seconds: batches of 100 rows one after the other on each of 4 connections; 500 requests of one row a second on 64
connections, sent when they are due whether or not earlier ones are answered, whose latency counts from then; and
requests of one row on 64 connections, as fast as they are answered. Every request has a sequence number. Prints a line
for each, and saves them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report

HERE = Path(__file__).parent
SECONDS, RATE, BATCH, N_CONNECTIONS, N_CLIENTS = 8.0, 500, 100, 4, 64
N_FEATURES, N_CLUSTERS = 4, 20
SETTINGS = {
    "family": "gaussian",
    "dynamics": "exponential(1000)",
    "alpha": 0.01,
    "alarm_rate": 0.001,
    "set": {"variance": 1.0, "prior_variance": 100.0},
}
DISK_SYNCS = 50  # of a file of its own, to know what the disk takes


class Client:
    """One connection; requests of one client id, with numbers that count up."""

    def __init__(self, port: int, name: str) -> None:
        self.port, self.name, self.sequence = port, f"{name}-{secrets.token_hex(4)}", 0

    async def open(self) -> Client:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def ask(self, method: str, path: str, body: bytes) -> bytes:
        """Send a request, and return what it was answered."""
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self.reader.readexactly(length)
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(f"{method} {path}: {content.decode()}")
        return content

    async def post(self, body: bytes) -> bytes:
        """Send rows."""
        self.sequence += 1
        path = f"/streams/load/rows?sequence={self.sequence}&client={self.name}"
        return await self.ask("POST", path, body)


def bodies(n: int, size: int, seed: int) -> list[bytes]:
    """Return n requests of so many rows, as JSON."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(0.0, 10.0, (N_CLUSTERS, N_FEATURES))
    found = []
    for _ in range(n):
        rows = centers[rng.integers(N_CLUSTERS, size=size)] + rng.normal(size=(size, N_FEATURES))
        found.append(json.dumps({"rows": rows.round(4).tolist()}).encode())
    return found


async def closed_loop(port: int, size: int, seconds: float, n_connections: int) -> dict[str, float]:
    """Send requests one after the other on each connection; return rates and latencies."""
    clients = [await Client(port, f"closed-{size}-{i}").open() for i in range(n_connections)]
    prepared = bodies(200, size, seed=size)
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def loop(client: Client) -> None:
        while time.perf_counter() < end:
            begin = time.perf_counter()
            await client.post(prepared[len(took) % len(prepared)])
            took.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*map(loop, clients))
    return tell(took, time.perf_counter() - begin, size)


async def open_loop(port: int, rate: int, seconds: float, n_connections: int) -> dict[str, float]:
    """Send single rows at a rate, whatever the answers do; latency counts from when a request was due."""
    clients = [await Client(port, f"open-{i}").open() for i in range(n_connections)]
    prepared = bodies(200, 1, seed=1)
    free: asyncio.Queue[Client] = asyncio.Queue()
    for client in clients:
        free.put_nowait(client)
    took: list[float] = []

    async def one(due: float, body: bytes) -> None:
        client = await free.get()
        await client.post(body)
        free.put_nowait(client)
        took.append(time.perf_counter() - due)

    begin = time.perf_counter()
    tasks = []
    for i in range(int(rate * seconds)):
        due = begin + i / rate
        pause = due - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.ensure_future(one(due, prepared[i % len(prepared)])))
    await asyncio.gather(*tasks)
    return tell(took, time.perf_counter() - begin, 1)


def tell(took: list[float], seconds: float, size: int) -> dict[str, float]:
    """Return rates, and latencies in milliseconds."""
    p50, p99 = np.percentile(took, [50, 99])
    rates = {
        "requests": len(took),
        "requests_a_second": len(took) / seconds,
        "rows_a_second": size * len(took) / seconds,
    }
    return rates | {"p50_ms": 1e3 * float(p50), "p99_ms": 1e3 * float(p99), "max_ms": 1e3 * max(took)}


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server on a free port and the first core; return it and the port."""
    command = [sys.executable, "-m", "dyncrp", "serve", str(folder), "--port", "0", *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(server.pid, cores[:1])
    assert server.stderr is not None
    line = server.stderr.readline()
    return server, int(line.rsplit(":", 1)[1])


def sync_milliseconds(folder: Path) -> float:
    """Return the median time that the disk takes to sync one page."""
    took = []
    with open(folder / "probe", "wb", buffering=0) as file:
        for _ in range(DISK_SYNCS):
            file.write(b"x" * 4096)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(took))


def cpu_seconds(process: int) -> float:
    """Return how long a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(port: int, process: int, seconds: float) -> dict[str, dict[str, float]]:
    """Return what each load came to, and how long the server computed for a request."""
    await (await Client(port, "-").open()).ask("PUT", "/streams/load", json.dumps(SETTINGS).encode())
    loads: dict[str, Callable[[], Awaitable[dict[str, float]]]] = {
        f"batches of {BATCH} rows": lambda: closed_loop(port, BATCH, seconds, N_CONNECTIONS),
        f"{RATE} requests of one row a second": lambda: open_loop(port, RATE, seconds, N_CLIENTS),
        "one row, as fast as answered": lambda: closed_loop(port, 1, seconds, N_CLIENTS),
    }
    await closed_loop(port, BATCH, 1.0, 1)  # so that everything is loaded
    found = {}
    for name, load in loads.items():
        before = cpu_seconds(process)
        told = await load()
        found[name] = told | {"cpu_ms": 1e3 * (cpu_seconds(process) - before) / told["requests"]}
    return found


def main() -> None:
    """Run the loads with the sync and without, print them, and save them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each load")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "serve.json")
    parser.add_argument("--folder", type=Path, help="on whose disk to measure; by default that of temporary files")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    results: dict[str, Any] = {"cores": len(cores), "seconds": options.seconds}
    for name, flags in {"sync": (), "no sync": ("--no-sync",)}.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            if name == "sync":
                results["disk_sync_ms"] = sync_milliseconds(Path(folder))
                print(f"the disk takes {results['disk_sync_ms']:.2f} ms to sync a page")
            server, port = start(Path(folder) / "data", *flags)
            if len(cores) > 1:
                os.sched_setaffinity(0, cores[1:])
            try:
                results[name] = asyncio.run(measure(port, server.pid, options.seconds))
            finally:
                os.sched_setaffinity(0, cores)
                server.send_signal(signal.SIGTERM)
                server.wait(30)
        for load, told in results[name].items():
            rates = f"{told['requests_a_second']:8,.0f} requests/s {told['rows_a_second']:10,.0f} rows/s"
            latency = f"p50 {told['p50_ms']:5.1f} ms, p99 {told['p99_ms']:5.1f} ms"
            print(f"{name:8} {load:32} {rates}   {latency}, {told['cpu_ms']:.2f} ms of CPU each", flush=True)
    results["commit"] = report.commit()
    options.results.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
