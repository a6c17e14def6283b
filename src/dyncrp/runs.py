"""A run over a table: read, learn, write, and go on after any stop as if there had been none.

The order keeps that promise: rows are written and synced before a checkpoint says that they are, and the checkpoint
replaces the one before it in one step. Whatever was written after the last checkpoint is cut off and written again.
The first checkpoint comes before the output, so that an output without one is never ours to cut.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp import persistence
from dyncrp.checks import as_times
from dyncrp.mixture import DynamicalMixture
from dyncrp.tables import Chunk, Output, Place, Table
from dyncrp.timeline import Timeline

MOST_ROWS = 1 << 16  # in a chunk, which is also bounded in bytes
FINGERPRINT = 1000  # rows by which an input is known again
FAULTS = 5  # bad rows that are named
NAMES = 10  # features that are named
AT_ROW = re.compile(r",? at row (\d+)(?:, column (\d+))?")


class Stopped(KeyboardInterrupt):
    """A signal, whose number it is given, asked for the end."""


class Stop:
    """Takes SIGINT and SIGTERM as a request to stop after the present chunk; a second one does not wait.

    While a pipe is waited for, there is no present chunk, and the request is granted at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.waiting = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        twice, self.signal = self.signal is not None, number
        if twice or self.waiting:
            raise Stopped(number)


class Checkpoint(NamedTuple):
    """What a checkpoint file says: the state of the run in plain values, and its arrays."""

    run: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @property
    def model(self) -> DynamicalMixture | None:
        """The model as it was; None before the first row."""
        return DynamicalMixture.from_bytes(self.arrays["model"].tobytes()) if "model" in self.arrays else None


def read_checkpoint(path: str) -> Checkpoint | None:
    """Return what a file says if it is a checkpoint, None if it is a model; anything else is a ValueError."""
    config, arrays = persistence.loads(Path(path).read_bytes(), path)
    return Checkpoint(config["run"], arrays) if "run" in config else None


class Run:
    """Labels the rows of a table with a model and writes them to an output.

    checkpoint: where to keep the state, if anywhere. every: after how many rows at the latest, beside a chunk. options:
    plain values that a checkpoint must agree with to go on from it.

    rows: labelled so far. n_bad, faults: how many rows were left out, and what was wrong with the first ones.
    """

    def __init__(
        self,
        table: Table,
        output: Output,
        model: DynamicalMixture,
        *,
        checkpoint: str | None = None,
        every: int = 100_000,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.table, self.output, self.model = table, output, model
        self.checkpoint, self.every, self.options = checkpoint, every, options or {}
        self.timeline = Timeline()
        self.rows = self.n_bad = 0
        self.faults: list[str] = []
        self.place: Place = {"row": 0, "offset": 0}
        self._before: dict[str, Any] | None = None  # what the checkpoint said that is gone on from
        self._seen = _Fingerprint()
        self._unsaved = 0
        self._begun = False

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint; one without rows only tells which output may be begun again."""
        before, model = checkpoint.run, checkpoint.model
        if model is None or not before["rows"]:
            if before["output_at"] != os.path.realpath(self.output.path):
                raise ValueError(
                    f"--output was {before['output']!r} at the checkpoint, and is {self.output.path!r} now"
                )
            return
        for name, now in self.options.items():
            if before["options"].get(name) != now:
                raise ValueError(f"{name} was {before['options'].get(name)!r} at the checkpoint, and is {now!r} now")
        arrays = checkpoint.arrays
        self.model = model
        self.timeline.restore({key[9:]: array for key, array in arrays.items() if key.startswith("timeline_")})
        self.rows, self.n_bad, self.faults = before["rows"], before["n_bad"], before["faults"]
        self.place, self._before = before["place"], before

    @property
    def progress(self) -> float | None:
        """The share of the table that is done, if it can be told."""
        return self.table.progress(self.place)

    @property
    def learning(self) -> int:
        """How many rows the model must see first to learn what is unknown."""
        if self.model.__sklearn_is_fitted__():
            return 0
        wanted = self.model._checked()
        return wanted.warmup if wanted.settled is None else 0

    def go(self, stop: Stop, report: Callable[[Run], object], starting: Callable[[int], object]) -> None:
        """Label all rows that there are; ``report`` is called after each chunk, ``starting`` before the first.

        Raises ``Stopped`` when asked to stop, with everything saved.
        """
        self._check_features()
        finished = self._before is not None and self._before["finished"]
        chunks = self._chunks()
        least, held = self.learning, list[Chunk]()
        while True:
            try:
                stop.waiting = not self.table.seekable
                chunk = next(chunks, None)
            finally:
                stop.waiting = False
            if chunk is not None:
                held.append(self._admitted(chunk))
                if sum(len(chunk.rows) for chunk in held) < max(least, 1) and stop.signal is None:
                    continue
            if stop.signal is not None and least:
                raise Stopped(stop.signal)
            if held or not finished:
                self._begin()
                if any(len(chunk.rows) for chunk in held):
                    if not self.model.__sklearn_is_fitted__():
                        starting(min(least, sum(len(chunk.rows) for chunk in held)))
                    self._label(held)
                least = 0
                self._done(held)
                held = []
                report(self)
            if stop.signal is not None:
                self.save()
                raise Stopped(stop.signal)
            if chunk is None:
                break
            if self._unsaved >= self.every:
                self.save()
        if self._begun:
            self.save()
            self.output.finish()
            self.save(finished=True)
            self.output.clean()

    def save(self, *, finished: bool = False) -> None:
        """Write a checkpoint, if there is a file for it."""
        if self.checkpoint is None:
            return
        if self._begun:
            self.output.sync()
        state = {
            "options": self.options,
            "input": self.table.name,
            "output": self.output.path,
            "output_at": os.path.realpath(self.output.path),
            "length": self.output.length,
            "tail": self.output.tail() if self._begun else "",
            "place": self.place,
            "rows": self.rows,
            "n_bad": self.n_bad,
            "faults": self.faults,
            "seen": [self._seen.n, self._seen.digest],
            "finished": finished,
        }
        arrays: dict[str, NDArray[Any]] = {"timeline_" + name: array for name, array in self.timeline.arrays().items()}
        if self.model.__sklearn_is_fitted__():
            arrays["model"] = np.frombuffer(self.model.to_bytes(), dtype=np.uint8)
        persistence.write(self.checkpoint, persistence.dumps({"run": state}, arrays))
        self._unsaved = 0

    def _begin(self) -> None:
        """Open the output, at the latest moment: one that is finished is left alone if there is nothing to add."""
        if self._begun:
            return
        before = self._before
        if before is None:
            self.save()
        self._begun = True
        if before is None:
            self.output.start()
        else:
            self.output.resume(before["length"], before["tail"], before["finished"])

    def _chunks(self) -> Iterator[Chunk]:
        """Yield what is left of the table, if it begins as it did."""
        if self._before is None:
            for fresh in self.table.chunks():
                self._seen.add(fresh)
                yield fresh
            return
        n, digest = self._before["seen"]
        begin = self.place["row"]
        chunks = self.table.chunks()
        chunk: Chunk | None = None
        while self._seen.n < n:
            chunk = next(chunks, None)
            if chunk is None:
                raise self.table.error(f" is not the same as before: it ended after {self._seen.n} rows")
            self._seen.add(chunk, n)
        if self._seen.digest != digest:
            raise self.table.error(" is not the same as before: it begins with other rows")
        if self.table.seekable:
            rest = self.table.chunks(self.place)
        else:
            rest = self._skipped(chain([] if chunk is None else [chunk], chunks), begin)
        for fresh in rest:
            self._seen.add(fresh)
            yield fresh

    def _skipped(self, chunks: Iterator[Chunk], begin: int) -> Iterator[Chunk]:
        reached = 0
        for chunk in chunks:
            reached = chunk.place["row"]
            if reached > begin:
                yield chunk.after(begin)
        if reached < begin:
            raise self.table.error(f" is not the same as before: it ended after {reached} rows, and {begin} were read")

    def _check_features(self) -> None:
        """Hold the table to the features that the model was learnt on, by name and in order; or by number, unnamed."""
        if not self.model.__sklearn_is_fitted__():
            return
        wanted, found = getattr(self.model, "feature_names_in_", None), self.table.features
        if wanted is None and len(found) != self.model.n_features_in_:
            raise ValueError(
                f"the model has {self.model.n_features_in_} features, and {self.table.name} has {len(found)}: "
                f"{shown(found)}"
            )
        if wanted is not None and tuple(wanted) != found:
            raise ValueError(
                f"the model was learnt on the features {shown(wanted)}, and those of {self.table.name} are "
                f"{shown(found)}: --columns chooses them, in order"
            )

    def _admitted(self, chunk: Chunk) -> Chunk:
        """Return the rows that the family takes; of others, say where they are, or leave them out."""
        if not len(chunk.rows):
            return chunk
        family = self.model.family_ if self.model.__sklearn_is_fitted__() else self.model._checked().family
        try:
            family.check(chunk.X)
        except ValueError as error:
            if not self.table.selection.skip_bad or AT_ROW.search(str(error)) is None:
                self._refuse(error, [chunk])
        else:
            return chunk
        faults: dict[int, str] = {}
        for i in range(len(chunk.rows)):
            try:
                family.check(chunk.X[i : i + 1])
            except ValueError as error:
                faults[i] = self._located(error, chunk, i)
        mask = np.ones(len(chunk.rows), dtype=bool)
        mask[list(faults)] = False
        return chunk.taken(mask, chunk.bad + list(faults.values()))

    def _located(self, error: ValueError, chunk: Chunk, i: int) -> str:
        """Say in terms of the table what is wrong with a row."""
        found = AT_ROW.search(str(error))
        column = f", column {self.table.features[int(found[2])]!r}" if found and found[2] else ""
        return f"{chunk.where(int(chunk.rows[i]))}{column}: {AT_ROW.sub('', str(error))}"

    def _refuse(self, error: ValueError, chunks: list[Chunk]) -> NoReturn:
        """Raise an error in terms of the table."""
        found = AT_ROW.search(str(error))
        if found is None:
            raise self.table.error(f": {error}") from error
        at = int(found[1])
        for chunk in chunks:
            if at < len(chunk.rows):
                break
            at -= len(chunk.rows)
        raise self.table.error(f", {self._located(error, chunk, at)}") from error

    def _label(self, chunks: list[Chunk]) -> None:
        """Learn from chunks in one call, and write what came of it."""
        chunks = [chunk for chunk in chunks if len(chunk.rows)]
        X = np.concatenate([chunk.X for chunk in chunks])
        dates = [chunk.times for chunk in chunks if chunk.times is not None]
        times = np.concatenate(dates) if dates else None
        fresh = not self.model.__sklearn_is_fitted__()
        try:
            with warnings.catch_warnings():  # of rows without names: the names were compared
                warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
                self.model.partial_fit(X, times=times)
        except ValueError as error:
            self._refuse(error, chunks)
        if fresh:
            self.model.feature_names_in_ = np.array(self.table.features, dtype=object)
        shares = self.model.responsibilities_
        probability = np.maximum.reduceat(shares.data, shares.indptr[:-1])
        labels, novelty = self.model.labels_, self.model.novelty_
        begin = 0
        for chunk in chunks:
            part = slice(begin, begin + len(chunk.rows))
            self.output.write(chunk.kept, chunk.rows, labels[part], probability[part], novelty[part])
            begin = part.stop
        clock = np.concatenate([chunk.rows for chunk in chunks]) if times is None else as_times(times, ordered=False)
        self.timeline.add(clock.astype(np.float64), labels, novelty)
        self.rows += len(X)
        self._unsaved += len(X)

    def _done(self, chunks: list[Chunk]) -> None:
        """Note where we are."""
        for chunk in chunks:
            self.place = chunk.place
            self.n_bad += len(chunk.bad)
            self.faults = (self.faults + chunk.bad)[:FAULTS]


def shown(names: Sequence[str]) -> str:
    """Return names with commas between them, the first ten of many."""
    return ", ".join(names[:NAMES]) + (f", … ({len(names):,} in all)" if len(names) > NAMES else "")


class _Fingerprint:
    """A digest of the first rows, by which an input is known again."""

    def __init__(self) -> None:
        self.n = 0
        self._numbers, self._times = hashlib.sha256(), hashlib.sha256()

    def add(self, chunk: Chunk, most: int = FINGERPRINT) -> None:
        """Take in rows, as long as there are fewer than ``most``."""
        part = slice(0, max(most - self.n, 0))
        self.n += len(chunk.X[part])
        self._numbers.update(chunk.X[part].tobytes())
        if chunk.times is not None:
            self._times.update(np.ascontiguousarray(chunk.times[part]).tobytes())

    @property
    def digest(self) -> str:
        """The digest so far."""
        return self._numbers.hexdigest() + self._times.hexdigest()
