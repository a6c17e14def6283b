"""The built-in stream of ``dyncrp serve --demo``: clusters that come, go and come back, and now and then a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np

from dyncrp.serve.app import Service
from dyncrp.serve.bodies import Batch, Float
from dyncrp.serve.limits import RequestError

NAME, FEATURES = "demo", ("x", "y")
SETTINGS = {
    "family": "gaussian",
    "dynamics": "0.99*exponential(20) + 0.01*stationary()",
    "alpha": 0.1,
    "alarm_rate": 0.001,
    "n_examples": 5,
    "set": {"variance": 1.0, "prior_variance": 100.0},
    "features": list(FEATURES),
}
ROWS_A_SECOND = 20
N_AT_FIRST = 600  # rows before the page opens
MEAN_VISIT, NEW_CLUSTER = 30, 0.04  # the length of a visit in rows; the probability of a new cluster
SPREAD = 10.0


def rows(seed: int = 0) -> Iterator[Float]:
    """Yield rows (2,) without end: visits to clusters. Each visit goes to another cluster, or to a new one.

    >>> stream = rows()
    >>> [next(stream).shape for _ in range(2)]
    [(2,), (2,)]
    """
    rng = np.random.default_rng(seed)
    centers = [rng.normal(0.0, SPREAD, 2) for _ in range(4)]
    here = 0
    while True:
        for _ in range(1 + rng.poisson(MEAN_VISIT)):
            yield centers[here] + rng.normal(0.0, 1.0, 2)
        if rng.random() < NEW_CLUSTER:
            centers.append(rng.normal(0.0, SPREAD, 2))
            here = len(centers) - 1
        else:
            here = (here + int(rng.integers(1, len(centers)))) % len(centers)


async def feed(service: Service) -> None:
    """Make the stream, and send it rows until the server stops, as a client would."""
    worker = service.worker
    await worker.call(lambda registry: registry.put(NAME, SETTINGS), NAME)
    begin = await worker.call(lambda registry: registry.stream(NAME).n_rows)
    stream = rows()
    for _ in range(begin):
        next(stream)

    async def send(n: int) -> None:
        batch = Batch(n, FEATURES, columns=tuple(np.array([next(stream) for _ in range(n)]).T.copy()))
        await worker.call(lambda registry: registry.do(NAME, lambda one: one.learn(batch)), NAME)

    try:
        if begin < N_AT_FIRST:
            await send(N_AT_FIRST - begin)
        while True:
            await asyncio.sleep(1.0 / ROWS_A_SECOND)
            await send(1)
    except RequestError as refused:
        if refused.status not in (404, 503):  # the stream was deleted, or the server is stopping
            raise
