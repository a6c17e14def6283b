"""Values as JSON has them: numbers that are not finite are null, and dates are texts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyncrp.arrays.checks import Clock
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import LOG, NUMBER
from dyncrp.serve.bodies import Float
from dyncrp.stream import events
from dyncrp.stream.events import Event
from dyncrp.views.explain import Explanation, Odds


def as_cell(encoding: Encoding | None, name: str, value: float) -> Any:
    """Return the value of a feature as the data have it: a number, a word, or None if it is missing.

    >>> from dyncrp.input.entries import Entry
    >>> as_cell(Encoding((Entry("bytes", "log"),)), "bytes", np.log1p(99.0)), as_cell(None, "x", 0.5)
    (99.0, 0.5)
    """
    if encoding is None or not math.isfinite(value) or encoding[name].kind == NUMBER:
        return as_number(value)
    if encoding[name].kind == LOG:
        return float(f"{math.copysign(math.expm1(abs(value)), value):.12g}")
    return encoding.label(name, value)


def as_number(value: Any) -> Any:
    """Return a number for JSON, None if it is not finite; a text as it is."""
    if isinstance(value, str) or value is None:
        return value
    number = value.item() if isinstance(value, np.generic) else value
    return number if math.isfinite(number) else None


def as_numbers(values: Float) -> list[Any]:
    """Return numbers for JSON, None for those that are not finite.

    >>> as_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    found: list[Any] = values.tolist()
    return found if np.all(np.isfinite(values)) else [value if math.isfinite(value) else None for value in found]


def as_time(seconds: float, clock: str) -> float | str | None:
    """Return a time for JSON: a number, or a date in ISO 8601.

    >>> as_time(1.5, "numbers"), as_time(1.5, "dates")
    (1.5, '1970-01-01T00:00:01.500Z')
    """
    return as_plain_time(events.as_time(seconds, Clock(clock)))


def as_plain_time(time: Any) -> float | str | None:
    """Return a time, a number or a datetime64, for JSON."""
    if not isinstance(time, np.datetime64):
        number: float | None = as_number(time)
        return number
    in_milliseconds = np.datetime_data(time.dtype)[0] == "us" and time.view(np.int64) % 1000 == 0
    return f"{time.astype('M8[ms]') if in_milliseconds else time}Z"


def as_plain(event: Event, number: int) -> dict[str, Any]:
    """Return an event for JSON, with its id."""
    what = {name: value if isinstance(value, list) else as_number(value) for name, value in event.what.items()}
    return {"id": number, **event._asdict(), "time": as_plain_time(event.time), "what": what}


def as_explanation(found: Explanation) -> dict[str, Any]:
    """Return why a row is at its table for JSON: log odds, feature by feature."""
    return {
        "table": found.table,
        "name": found.table_names.get(found.table),
        "runner_up": found.runner_up,
        "against_runner_up": _as_odds(found.against_runner_up, found.names),
        "against_new": _as_odds(found.against_new, found.names),
        "values": dict(zip(found.names, found.values, strict=True)),
    }


def _as_odds(odds: Odds | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Return log odds, with those of each feature by its name; None if there are none."""
    if odds is None:
        return None
    features = dict(zip(names, as_numbers(odds.features), strict=True))
    return {"prior": as_number(odds.prior), "features": features, "total": as_number(odds.total)}


def dump(value: Any) -> str:
    """Return a value as compact JSON; NaN and infinity raise ``ValueError``."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
