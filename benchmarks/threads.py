"""What a second thread gains, as docs/benchmarks.md has it: ``python -m benchmarks.threads [--quick]``.

In wall time, so the machine must be idle: one stream while BLAS has one thread or two, and two streams at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import data, report
from benchmarks.systems import ours

Row = dict[str, Any]
SIZES = ((100, 16), (1000, 128), (1000, 768))
QUICK = ((100, 16), (1000, 128))


def best(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest wall time of some rounds."""
    found = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        run()
        found = min(found, perf_counter() - start)
    return found


def measure(K: int, D: int, n: int, rounds: int) -> list[Row]:
    """Return rows learned a second by one stream, by one with two threads of BLAS, and by two streams together."""
    X = data.gaussian(K, D, n, 0).pool
    models = [ours(1024, "dyncrp").model.partial_fit(X) for _ in range(2)]

    def learn(model: Any) -> None:
        for begin in range(0, len(X), 1024):
            model.partial_fit(X[begin : begin + 1024])

    seconds = {}
    for threads in (1, 2):
        with threadpool_limits(threads):
            seconds[threads] = best(lambda: learn(models[0]), rounds)
    with threadpool_limits(1), ThreadPoolExecutor(2) as pool:
        both = best(lambda: list(pool.map(learn, models)), rounds)
    rates = {
        "one stream": n / seconds[1],
        "one stream, two threads of BLAS": n / seconds[2],
        "two streams at once": 2 * n / both,
    }
    return [{"system": name, "rate": rate, "relative": rate * seconds[1] / n} for name, rate in rates.items()]


def run(sizes: tuple[tuple[int, int], ...], n: int, rounds: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a table for each size."""
    for K, D in sizes:
        yield f"K = {K}, D = {D}", measure(K, D, min(n, (256 << 20) // (8 * D)), rounds)


def main() -> None:
    """Parse, run and print."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, rougher figures")
    quick = parser.parse_args().quick
    for title, rows in run(QUICK if quick else SIZES, 1 << 15 if quick else 1 << 17, 3 if quick else 5):
        Console(width=120).print(report.table(title, rows))


if __name__ == "__main__":
    main()
