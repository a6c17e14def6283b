"""What the server remembers of its streams for those who watch them: how often rows come, and what came when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from dyncrp.arrays.checks import Clock
from dyncrp.serve.history import FIRST_WIDTH, OTHERS, History
from dyncrp.serve.pulse import Pulse
from dyncrp.serve.registry import Notice
from dyncrp.serve.segments import Segment
from dyncrp.serve.streams import ServedStream


class Watch:
    """Pulses and histories by the name of the stream. A stream that is deleted is forgotten.

    streams: those of the data folder. The history of one whose times are dates begins with the rows that it keeps.
    """

    def __init__(self, streams: Iterable[ServedStream]) -> None:
        self._pulses: dict[str, Pulse] = {}
        self._histories: dict[str, History] = {}
        self._came: dict[str, list[tuple[float, int]]] = {}  # when rows of a warm-up came, and how many
        for stream in streams:
            line = stream.timeline
            if line is not None and line.clock == Clock.DATES:
                history = self._histories[stream.name] = History(stream.stream.spec.alarm_rate, line.clock)
                history.add(line)

    def pulse(self, name: str) -> Pulse:
        """Return how often rows come to a stream."""
        return self._pulses.setdefault(name, Pulse())

    def publish(self, notice: Notice, alarm_rate: float | None) -> int:
        """Take in what has happened; return how many alarms there were."""
        outcome = notice.outcome
        if outcome is None:
            self._pulses.pop(notice.name, None)
            self._histories.pop(notice.name, None)
            self._came.pop(notice.name, None)
            return 0
        alarms = sum(event["kind"] == "alarm" for event in outcome.content["events"])
        self.pulse(notice.name).add(outcome.n_rows, alarms)
        if outcome.segment is not None:
            history = self._histories.get(notice.name)
            if history is None:
                history = self._histories[notice.name] = History(alarm_rate, outcome.segment.clock)
            self._add(history, outcome.segment, outcome.n_rows, self._came.pop(notice.name, []))
        elif outcome.n_rows:
            self._note(notice.name, outcome.n_rows)
        return alarms

    def _note(self, name: str, n_rows: int) -> None:
        """Note that rows came whose tables are provisional."""
        came, now = self._came.setdefault(name, []), time.time()
        if came and 0.0 <= now - came[-1][0] < FIRST_WIDTH:
            came[-1] = came[-1][0], came[-1][1] + n_rows
        else:
            came.append((now, n_rows))

    @staticmethod
    def _add(history: History, segment: Segment, n_now: int, came: list[tuple[float, int]]) -> None:
        """Add rows to a history, of which n_now came just now. came: when those before them came, and how many."""
        if not history.dated:  # when rows came is known since the server started
            segment = segment.last(n_now + sum(n for _, n in came))
        history.add(segment, came)

    def history(self, name: str, begin: float, end: float, span: float | None) -> dict[str, Any]:
        """Return what came from a time to another, or in the last ``span`` seconds; see ``History.tell``."""
        history = self._histories.get(name)
        if history is None:
            return History(None, Clock.INDEX).tell()
        return history.tell(begin if span is None else history.now() - span, end)


def resolved(told: dict[str, Any], stream: ServedStream) -> dict[str, Any]:
    """Return a history with the ids that its tables have now, as texts, and −1 for those that were counted together."""
    ids = [table for table in told["tables"] if table != OTHERS]
    now = dict(zip(ids, stream.stream.resolve(ids).tolist() if ids else (), strict=True))
    tables: dict[str, dict[int, int]] = {}
    for table, pairs in told["tables"].items():
        counts = tables.setdefault(str(now.get(table, OTHERS)), {})
        for at, n in pairs:
            counts[at] = counts.get(at, 0) + n
    return told | {"tables": {table: sorted(map(list, counts.items())) for table, counts in tables.items()}}
