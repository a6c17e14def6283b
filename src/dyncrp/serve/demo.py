"""The built-in stream of ``dyncrp serve --demo``: the sensors of an office building, week after week.

A row comes for every five minutes of the building: temperature, CO₂ and power. Nights, office hours, lunch, cleaning
and weekends come back; now and then somebody leaves the windows open, the heating fails, or a sensor is off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from dyncrp.serve.app import Service
from dyncrp.serve.bodies import Batch, Float
from dyncrp.serve.limits import RequestError
from dyncrp.serve.streams import ServedStream

NAME = "building"
FEATURES = ("temperature (°C)", "CO₂ (ppm)", "power (W)")
USUAL = np.array([20.5, 600.0, 2000.0])
NOISE = np.array([0.35, 30.0, 120.0])
STATES = {
    "night": np.array([18.5, 430.0, 350.0]),
    "office hours": np.array([21.8, 820.0, 4300.0]),
    "lunch": np.array([22.3, 620.0, 3100.0]),
    "cleaning": np.array([20.3, 520.0, 1700.0]),
    "weekend": np.array([16.2, 405.0, 180.0]),
    "windows open": np.array([15.5, 440.0, 4700.0]),
    "heating fails": np.array([12.5, 690.0, 2400.0]),
}
NAMED = ("night", "office hours", "lunch", "cleaning", "weekend")
SETTINGS = {
    "family": "gaussian",
    "dynamics": "0.98*exponential(21600) + 0.02*stationary()",  # seconds: six hours
    "alpha": 0.05,
    "alarm_rate": 0.002,
    "n_examples": 5,
    "features": list(FEATURES),
    "set": {
        "variance": (NOISE**2).tolist(),
        "prior_mean": USUAL.tolist(),
        "prior_variance": (100.0 * NOISE**2).tolist(),
    },
}
BEGIN, STEP = np.datetime64("2026-01-05T00:00:00", "us"), np.timedelta64(5 * 60, "s")  # a Monday
ROWS_A_SECOND = 10
N_AT_FIRST = 2016  # a week, before the page opens
P_SPIKE, P_WINDOWS, P_FAILS = 0.0008, 0.1, 0.03  # of a row; of an office day


class Row(NamedTuple):
    """What the sensors say at a time, (3,), and in which of ``STATES`` the building is."""

    time: np.datetime64
    values: Float
    state: str


def rows(seed: int = 3) -> Iterator[Row]:
    """Yield rows without end.

    >>> stream = rows()
    >>> first = next(stream)
    >>> str(first.time), first.values.shape, first.state
    ('2026-01-05T00:00:00.000000', (3,), 'night')
    """
    rng = np.random.default_rng(seed)
    time, special, begin, end = BEGIN, "", 0.0, 0.0
    while True:
        day = int((time.astype("M8[D]") - np.datetime64("2026-01-05")).astype(int)) % 7
        hour = float((time - time.astype("M8[D]")) / np.timedelta64(3600, "s"))
        if hour == 0.0:
            draw, begin = rng.random(), rng.uniform(9.0, 14.0)
            special = "windows open" if draw < P_WINDOWS else "heating fails" if draw < P_WINDOWS + P_FAILS else ""
            end = begin + rng.uniform(1.0, 3.0)
        state = _state(day, hour)
        if special and day < 5 and begin <= hour < end:
            state = special
        values = STATES[state] + NOISE * rng.normal(size=3)
        if rng.random() < P_SPIKE:
            values = values + np.array([0.0, 1500.0, 0.0]) * rng.uniform(0.7, 1.0)
        yield Row(time, values.round(2), state)
        time = time + STEP


def _state(day: int, hour: float) -> str:
    if day >= 5:
        return "weekend"
    if 7.5 <= hour < 18.0:
        return "lunch" if 12.0 <= hour < 13.0 else "office hours"
    return "cleaning" if 18.0 <= hour < 20.0 else "night"


async def feed(service: Service) -> None:
    """Make the stream, and send it rows until the server stops, as a client would."""
    worker = service.worker
    await worker.call(lambda registry: registry.put(NAME, SETTINGS), NAME, changes=True)
    begin = await worker.call(lambda registry: registry.stream(NAME).n_rows)
    stream = rows()
    for _ in range(begin):
        next(stream)

    async def send(n: int) -> list[Row]:
        sent = [next(stream) for _ in range(n)]
        columns = tuple(np.array([row.values for row in sent]).T.copy())
        batch = Batch(n, FEATURES, columns=columns, times=[f"{row.time}Z" for row in sent])
        await worker.do(NAME, lambda one: one.learn(batch))
        return sent

    try:
        if begin < N_AT_FIRST:
            await _name(service, await send(N_AT_FIRST - begin))
        while True:
            await asyncio.sleep(1.0 / ROWS_A_SECOND)
            await send(1)
    except RequestError as refused:
        if refused.status not in (404, 503):  # the stream was deleted, or the server is stopping
            raise


async def _name(service: Service, sent: list[Row]) -> None:
    """Give the table that most rows of a state joined the name of the state."""
    line = await service.worker.call(lambda registry: registry.stream(NAME).timeline)
    tables = [] if line is None else line.tables.tolist()
    states = [row.state for row in sent[len(sent) - len(tables) :]]
    taken: set[int] = set()
    for state in NAMED:
        joined = [table for table, of in zip(tables, states, strict=True) if of == state and table not in taken]
        if joined:
            table = max(set(joined), key=joined.count)
            taken.add(table)
            action = partial(ServedStream.rename, table=table, name=state)
            await service.worker.do(NAME, action)
