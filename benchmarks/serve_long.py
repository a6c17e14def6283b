"""``python -m benchmarks.serve_long``: five million rows through ``dyncrp serve``, and how long another stream waits.

Four connections send batches to one stream, one after the other, with sequence numbers; its clusters move, so that
tables open and close and there are events. Beside them one row goes to another stream every 20 ms. Both are of one
server, which is a process of its own. Prints the rates, the memory, and the slowest requests of the other stream with
the moment of each; then how long a restart takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.serve import N_CLUSTERS, N_CONNECTIONS, N_FEATURES, SETTINGS, Client, cpu_seconds, start

SECONDS_BETWEEN = 0.02  # of the requests of the other stream
BOUNDED = SETTINGS | {"max_tables": 100, "prune_below": 0.001, "n_examples": 3}
ROWS_PREPARED = 500_000
N_TOLD = 8  # of the slowest requests


def bodies(size: int) -> list[bytes]:
    """Return bodies of so many rows, whose clusters move: one of them anew in each. They are sent again and again."""
    rng, found = np.random.default_rng(0), []
    centers = rng.normal(0.0, 10.0, (N_CLUSTERS, N_FEATURES))
    for _ in range(max(10, ROWS_PREPARED // size)):
        centers[rng.integers(N_CLUSTERS)] = rng.normal(0.0, 10.0, N_FEATURES)
        rows = centers[rng.integers(N_CLUSTERS, size=size)] + rng.normal(size=(size, N_FEATURES))
        found.append(json.dumps({"rows": rows.round(3).tolist()}).encode())
    return found


def resident(process: int) -> float:
    """Return the memory of a process in MB."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1e3


async def measure(port: int, process: int, n: int, size: int) -> None:
    """Send n rows, print what came of it."""
    asking = await Client(port, "-").open()
    for name, settings in (("load", BOUNDED), ("other", SETTINGS)):
        await asking.ask("PUT", f"/streams/{name}", json.dumps(settings).encode())
    prepared, left = bodies(size), -(-n // size)
    took: list[float] = []
    waits: list[tuple[float, float]] = []  # how long, and after how many seconds
    memory: list[float] = []
    over, begin, computed = asyncio.Event(), time.perf_counter(), cpu_seconds(process)

    async def send(client: Client) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            since = time.perf_counter()
            await client.post(prepared[left % len(prepared)])
            took.append(time.perf_counter() - since)

    async def look() -> None:
        client = await Client(port, "other").open()
        while not over.is_set():
            since = time.perf_counter()
            await client.ask("POST", "/streams/other/rows", b'{"rows": [[0.1, 0.2, 0.3, 0.4]]}')
            waits.append((time.perf_counter() - since, since - begin))
            if len(waits) % 20 == 1:
                memory.append(resident(process))
            await asyncio.sleep(SECONDS_BETWEEN)

    looking = asyncio.ensure_future(look())
    await asyncio.gather(*[send(await Client(port, f"load-{i}").open()) for i in range(N_CONNECTIONS)])
    seconds, computed = time.perf_counter() - begin, cpu_seconds(process) - computed
    over.set()
    await looking
    asking = await Client(port, "-").open()  # the connection before was idle for too long
    told = json.loads(await asking.ask("GET", "/streams/load", b""))
    print(f"{told['rows']:,} rows in {seconds:.0f} s, {told['rows'] / seconds:,.0f} a second, {computed:.0f} s of CPU")
    print(f"tables opened {told['opened']:,}, memory {memory[0]:.0f} to {max(memory):.0f} MB")
    for name, times in ((f"batches of {size:,} rows", took), ("the other stream's row", [wait for wait, _ in waits])):
        p50, p99, p999 = 1e3 * np.percentile(times, [50, 99, 99.9])
        print(f"{name:24} p50 {p50:6.1f}, p99 {p99:6.1f}, p99.9 {p999:6.1f}, at most {1e3 * max(times):6.1f} ms")
    slowest = sorted(waits, reverse=True)[:N_TOLD]
    print(
        "slowest of the other: " + ", ".join(f"{1e3 * wait:.0f} ms at {at:.1f} s" for wait, at in slowest), flush=True
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--no-sync", action="store_true", help="let the server not wait for the disk")
    parser.add_argument("--folder", type=Path, help="on whose disk to measure; by default that of temporary files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data, flags = Path(folder) / "data", ["--no-sync"] * options.no_sync
        server, port = start(data, *flags)
        try:
            asyncio.run(measure(port, server.pid, options.rows, options.batch))
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait(30)
        size = sum(file.stat().st_size for file in data.iterdir())
        begin = time.perf_counter()
        server, port = start(data, *flags)
        print(f"after a kill: {size / 1e6:.0f} MB in the folder, restarted in {time.perf_counter() - begin:.1f} s")
        server.send_signal(signal.SIGTERM)
        server.wait(30)


if __name__ == "__main__":
    main()
