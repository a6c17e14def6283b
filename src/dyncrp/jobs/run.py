"""A run over a file: read, learn, write, and continue after any stop as if there had been none.

The order of writes guarantees this. Rows and events are written and synced before a checkpoint refers to them, and a
checkpoint replaces the previous one in one step. Anything written after the last checkpoint is cut off and written
again. The first checkpoint comes before the output, so an output without a checkpoint is not ours and is never cut.
At the end, the rows with their clusters are made beside the output. They take its place once a checkpoint refers to
them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from time import monotonic
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadLabel, BadRow, BadTime, as_times
from dyncrp.families import Family
from dyncrp.families.base import check_rows
from dyncrp.input.input import NamedRows
from dyncrp.input.weights import BadWeight
from dyncrp.io.growing import GrowingFile
from dyncrp.io.readers import Chunk, Place, Reader
from dyncrp.io.readers.columns import as_argument
from dyncrp.io.writers import Writer
from dyncrp.io.writers.base import CLUSTER
from dyncrp.jobs.checkpoint import Checkpoint, Fingerprint
from dyncrp.jobs.stop import Stop, Stopped
from dyncrp.jobs.timeline import Timeline
from dyncrp.stream.events import Event, as_plain
from dyncrp.stream.stream import Stream
from dyncrp.views.clusters import Clusters, clusters_of

MOST_ROWS_IN_CHUNK = 1 << 16  # a chunk is also bounded in bytes
MOST_FAULTS_NAMED = 5
MOST_NAMES_JOINED = 10
JOIN = "--clusters"  # the option that may differ when a run is resumed


class Run:
    """Learn the rows of a reader, and write them with their labels.

    Args:
        reader, writer: the input and the output.
        stream: what learns the rows.
        checkpoint: where to save the state, or None.
        every: how many rows there are between checkpoints, up to a chunk more.
        options: plain values that must be the same when the run is resumed.
        join: into how many clusters to join the tables at the end, "auto" for as many as stand out, or None.
        events: where to write events, or None.

    Attributes:
        clusters: the clusters of the tables, at the end. no_clusters: why there are none, if they could not be found.
        n_rows: how many rows are labelled so far. n_bad: how many rows were skipped.
        faults: what is wrong with the first of the skipped rows, since the start or the resumption.
        n_rows_learned_from: the number of rows in the call that learned the hyperparameters, or 0.
        seconds_to_learn: how long that call took.
        counts: the number of events of each kind, if events are written or there are alarms.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        stream: Stream,
        *,
        checkpoint: str | None = None,
        every: int = 100_000,
        options: dict[str, Any] | None = None,
        join: int | Literal["auto"] | None = None,
        events: GrowingFile | None = None,
    ) -> None:
        self.reader, self.writer, self.stream = reader, writer, stream
        self.checkpoint, self.every, self.options = checkpoint, every, {**(options or {}), JOIN: join}
        self.join, self.events = join, events
        self.counts = Counter[str]()
        self.clusters: Clusters | None = None
        self.no_clusters = ""
        self.timeline = Timeline()
        self.n_rows = self.n_bad = 0
        self.n_rows_learned_from, self.seconds_to_learn = 0, 0.0
        self.faults: list[str] = []
        self.place: Place = {"row": 0, "offset": 0}
        self._resumed: Checkpoint | None = None
        self._fingerprint = Fingerprint()
        self._n_unsaved = 0
        self._started = False

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint.

        A checkpoint without rows has no state to continue from. It only proves that this run created the output, which
        may therefore be overwritten.
        """
        before = checkpoint.events or {"name": None, "path": None}
        now = None if self.events is None else self.events.path
        if checkpoint.stream is None or not checkpoint.n_rows:
            if checkpoint.output_path != os.path.realpath(self.writer.path):
                raise _differs("--output", checkpoint.output, self.writer.path)
            if now is not None and before["path"] != os.path.realpath(now):
                raise _differs("--events", before["name"], now)
            return
        if (before["name"] is None) != (now is None):
            raise _differs("--events", before["name"], now)
        for name, value in self.options.items():
            if checkpoint.options.get(name) != value and name != JOIN:
                raise _differs(name, checkpoint.options.get(name), value)
        self.stream, self.timeline, self.place = checkpoint.stream, checkpoint.timeline, checkpoint.place
        self.n_rows, self.n_bad, self.counts = checkpoint.n_rows, checkpoint.n_bad, Counter(checkpoint.counts)
        self._resumed = checkpoint
        self.writer.recover(checkpoint.length, checkpoint.tail)

    @property
    def progress(self) -> float | None:
        """The share of the input that is done; None if it is unknown."""
        return self.reader.progress(self.place)

    @property
    def n_to_learn_from(self) -> int:
        """How many rows the warm-up needs to learn the unknown hyperparameters."""
        spec = self.stream.spec
        return 0 if spec.given is not None or self.stream.learned else spec.warmup - self.stream.n_rows

    def execute(self, stop: Stop, report: Callable[[Run], object], on_start: Callable[[int], object]) -> None:
        """Label all remaining rows. ``on_start`` is called before the first chunk, ``report`` after each one.

        Raises ``Stopped`` when asked to stop, with everything saved.
        """
        self._check_features()
        before = self._resumed  # its output is left alone if there is nothing to add
        finished = before is not None and before.finished and before.options.get(JOIN) == self.join
        chunks = self._chunks()
        least, held = self.n_to_learn_from, list[Chunk]()
        while True:
            try:
                stop.waiting = self.reader.live
                chunk = next(chunks, None)
            finally:
                stop.waiting = False
            if chunk is not None:
                if held and not len(held[-1].rows) and not held[-1].bad:  # blank lines, of which there may be millions
                    held.pop()
                held.append(self._check_rows(chunk))
                if sum(len(chunk.rows) for chunk in held) < max(least, 1) and stop.signal is None:
                    continue
            if stop.signal is not None and least:
                raise Stopped(stop.signal)
            if held or not finished:
                self._start()
                n_held = sum(len(chunk.rows) for chunk in held)
                if n_held:
                    if not self.stream.started:
                        on_start(min(least, n_held))
                    self._label(held)
                least = 0
                self._advance(held)
                held = []
                report(self)
            if stop.signal is not None:
                self.save()
                raise Stopped(stop.signal)
            if chunk is None:
                break
            if self._n_unsaved >= self.every:
                self.save()
        self._join_tables()
        if self._started:
            self.save()
            on_arrival = CLUSTER in self.writer.results  # then the rows have their clusters
            self.writer.finish(None if self.clusters is None or on_arrival else self._cluster_of)
            self.save(finished=True)
            self.writer.settle()

    def save(self, *, finished: bool = False) -> None:
        """Write a checkpoint, if a file was given for it."""
        if self.checkpoint is None:
            return
        if self._started:
            self.writer.sync()
            if self.events is not None:
                self.events.sync()
        Checkpoint(
            options=self.options,
            input=self.reader.name,
            output=self.writer.path,
            output_path=os.path.realpath(self.writer.path),
            length=self.writer.length,
            tail=self.writer.tail() if self._started else "",
            place=self.place,
            n_rows=self.n_rows,
            n_bad=self.n_bad,
            fingerprint=[self._fingerprint.n_rows, self._fingerprint.digest],
            finished=finished,
            stream=self.stream if self.stream.started else None,
            timeline=self.timeline,
            events=None if self.events is None else as_plain_file(self.events, started=self._started),
            counts=dict(self.counts),
        ).write(self.checkpoint)
        self._n_unsaved = 0

    def discard(self) -> None:
        """Remove an output that has no rows, unless a checkpoint refers to it."""
        if self._started and not self.n_rows and self.checkpoint is None:
            self.close()
            for path in filter(os.path.isfile, self.writer.files(self.writer.path)):
                os.unlink(path)

    def close(self) -> None:
        """Close the files that are written."""
        self.writer.close()
        if self.events is not None:
            self.events.close()

    def _join_tables(self) -> None:
        """Find the clusters, if requested. If that fails, the output is written without them."""
        if self.join is None:
            return
        if not self.stream.started:  # there were no rows
            none = np.empty(0, dtype=np.int64)
            self.clusters = Clusters(none, none, np.empty(0), np.empty((0, 4)), "any")
            return
        try:
            self.clusters = clusters_of(self.stream, None if self.join == "auto" else self.join)
        except (ValueError, MemoryError) as error:
            self.no_clusters = str(error) or "there is not enough memory for so many tables"

    def _cluster_of(self, tables: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the clusters of tables given by the ids that were written; some may have been merged since."""
        assert self.clusters is not None
        if not self.stream.started:
            return self.clusters.labels(tables)
        now, kept = self.stream.resolve(tables), self.stream.learner.kept
        found = self.clusters.labels(now)
        return found if kept is None else np.where(found < 0, self.clusters.labels(kept.resolve(now)), found)

    @property
    def _family(self) -> Family:
        """The family that checks rows: that of the model, or the one that it will have."""
        if self.stream.started:
            return self.stream.family
        encoding, spec = self.reader.encoding, self.stream.spec
        own = encoding.families() if encoding is not None and spec.chooses_family else ()
        return own[0] if own else spec.family

    def _start(self) -> None:
        """Open the output as late as possible, so that a finished one is left alone if there is nothing to add."""
        if self._started:
            return
        before = self._resumed
        if before is None:
            self.save()
        self._started = True
        if self.events is not None:
            if before is None or before.events is None:
                self.events.start()
            else:
                self.events.resume(before.events["length"], before.events["tail"])
        if before is None:
            self.writer.start()
        else:
            self.writer.resume(before.length, before.tail, before.finished)
            if before.finished and self.checkpoint is not None:
                cut_back = replace(before, length=self.writer.length, tail=self.writer.tail(), finished=False)
                cut_back.write(self.checkpoint)
                self.writer.settle()

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the remaining chunks, if the input still begins with the same rows."""
        for chunk in self.reader.chunks() if self._resumed is None else self._remaining(*self._resumed.fingerprint):
            self._fingerprint.add(chunk)
            yield chunk

    def _remaining(self, n_rows: int, digest: str) -> Iterator[Chunk]:
        """Yield the chunks after the checkpoint, if the first rows have the digest."""
        chunks = self.reader.chunks()
        last: list[Chunk] = []
        while self._fingerprint.n_rows < n_rows:
            last = list(islice(chunks, 1))
            if not last:
                raise self.reader.error(f" is not the same as before: it ended after {self._fingerprint.n_rows} rows")
            self._fingerprint.add(last[0], n_rows)
        if self._fingerprint.digest != digest:
            raise self.reader.error(" is not the same as before: it begins with other rows")
        if self.reader.seekable:
            yield from self.reader.chunks(self.place)
            return
        begin, end = self.place["row"], 0
        for chunk in chain(last, chunks):
            end = chunk.place["row"]
            if end > begin:
                yield chunk.after(begin)
        if end < begin:
            raise self.reader.error(f" is not the same as before: it ended after {end} rows, but {begin} were read")

    def _check_features(self) -> None:
        """Raise unless the input has the features of the model: names in order, or their number if there are none."""
        if not self.stream.started:
            return
        input, n_columns = self.stream.input, self.stream.n_columns
        texts = input.vocabulary is not None
        if texts != (self.reader.selection.text is not None):
            learned, remedy = ("texts", "name their column with --text") if texts else ("numbers", "leave out --text")
            raise ValueError(f"the model was learned on {learned}: {remedy}")
        if texts:
            return
        wanted = input.names if input.encoding is None else input.encoding.features
        found = self.reader.features
        if wanted is None and len(found) != n_columns:
            raise ValueError(
                f"the model has {n_columns} features, but {self.reader.name} has {len(found)}: {join_names(found)}"
            )
        if wanted is not None and tuple(wanted) != found:
            raise ValueError(
                f"the model was learned on the features {join_names(wanted)}, but those of {self.reader.name} are "
                f"{join_names(found)}: select them with --columns, in the same order"
            )

    def _check_rows(self, chunk: Chunk) -> Chunk:
        """Return the rows that the family takes. Skip the others, or raise an error with their place."""
        if not len(chunk.rows) or self.reader.selection.text is not None:
            return chunk
        family = self._family
        try:
            check_rows(family, chunk.X)
            return chunk
        except ValueError as error:
            if not self.reader.selection.skip_bad or not isinstance(error, BadRow):
                self._refuse(error, [chunk])
        faults: dict[int, str] = {}
        for i in range(len(chunk.rows)):
            try:
                check_rows(family, chunk.X[i : i + 1])
            except BadRow as error:
                faults[i] = self._describe(error, chunk, i)
        mask = np.ones(len(chunk.rows), dtype=bool)
        mask[list(faults)] = False
        return chunk.select(mask, chunk.bad + list(faults.values()))

    def _describe(self, error: BadRow, chunk: Chunk, i: int) -> str:
        """Return what is wrong with the i-th row of a chunk, and its place in the input."""
        column, reason = None, error.reason
        if isinstance(error, BadTime):
            column = self.reader.selection.time_column
        elif isinstance(error, BadLabel):
            column = self.reader.selection.label_column
        elif isinstance(error, BadWeight):
            column, reason = self.reader.selection.weight_column, reason.removeprefix("sample_weight: ")
        elif error.column is not None:
            column = self.reader.features[error.column]
            if np.isnan(chunk.X[i, error.column]):
                reason = f"the cell is missing, and {type(self._family).__name__} takes whole rows only"
                if not self.reader.selection.skip_bad:
                    remedy = f"--exclude {as_argument(column)} leaves the column out"
                    reason += f"; --skip-bad skips such rows, {remedy}, --missing says which cells are missing"
        where = chunk.where(int(chunk.rows[i])) + ("" if column is None else f", column {column!r}")
        return f"{where}: {reason}"

    def _refuse(self, error: ValueError, chunks: list[Chunk]) -> NoReturn:
        """Raise an error that names the input and the place of the row, given the chunks of the call."""
        if not isinstance(error, BadRow):
            raise self.reader.error(f": {error}") from error
        i = error.row
        for chunk in chunks:
            if i < len(chunk.rows):
                break
            i -= len(chunk.rows)
        raise self.reader.error(f", {self._describe(error, chunk, i)}") from error

    def _label(self, chunks: list[Chunk]) -> None:
        """Learn from chunks in one call, and write the results."""
        chunks = [chunk for chunk in chunks if len(chunk.rows)]
        X = np.concatenate([chunk.X for chunk in chunks])
        dates = [chunk.times for chunk in chunks if chunk.times is not None]
        times = np.concatenate(dates) if dates else None
        told: dict[str, Any] = {
            name: list(chain.from_iterable(chunk.told[name] for chunk in chunks)) for name in self.reader.selection.told
        }
        stream, learns, begin = self.stream, self.n_to_learn_from > 0, monotonic()
        n_before, names = stream.n_rows, stream.names if stream.started else {}
        try:
            stream.learn(self._as_input(X), times, **told, whole=True)
            stream.end_warmup()  # written ids must be final, not provisional
        except ValueError as error:
            self._refuse(error, chunks)
        if learns:
            self.n_rows_learned_from, self.seconds_to_learn = len(X), monotonic() - begin
        assert stream.batch is not None
        trace = stream.batch.trace
        labels, novelty, probability = trace.labels, -trace.log_evidence, trace.probability
        # A name may pass to another table when its own closes, but output must not depend on how rows are divided.
        passed = {table: name for _, table, name in stream.batch.renamed if name is not None}
        names = names | passed | stream.names
        more: dict[str, Any] = {}
        if "name" in self.writer.results:
            more["name"] = [names.get(table) for table in labels.tolist()]
        if "novelty_p" in self.writer.results:
            more["novelty_p"] = stream.novelty_p()
        if CLUSTER in self.writer.results:
            more[CLUSTER] = stream.batch.clusters
        first = 0
        for chunk in chunks:
            part = slice(first, first + len(chunk.rows))
            asked = {name: column[part] for name, column in more.items()}
            self.writer.write(chunk.kept, chunk.rows, labels[part], probability[part], novelty[part], **asked)
            first = part.stop
        rows = np.concatenate([chunk.rows for chunk in chunks])
        if self.events is not None or stream.spec.tells_events:
            self._write_events(rows, n_before, names)
        at = rows if times is None else as_times(times, ordered=False)
        self.timeline.add(at.astype(np.float64), labels, novelty)
        self.n_rows += len(X)
        self._n_unsaved += len(X)

    def _as_input(self, X: Any) -> Any:
        """Return rows with the names of their columns, as the reader encoded them, and texts as they are."""
        if self.reader.selection.text is not None:
            return X
        encoding = self.reader.encoding
        return NamedRows(X, self.reader.features if encoding is None else encoding.names, encoding)

    def _write_events(self, rows: NDArray[np.int64], n_before: int, names: dict[int, str]) -> None:
        """Count and write the events of the last call.

        rows: their indices in the input. n_before: how many rows the model had seen before. names: those of the tables.
        """
        found = self.stream.events()
        self.counts.update(event.kind for event in found)
        if self.events is not None:
            here = (event._replace(row=int(rows[event.row - n_before]), name=names.get(event.table)) for event in found)
            self.events.append(as_lines(here))

    def _advance(self, chunks: list[Chunk]) -> None:
        """Note that these chunks are done."""
        for chunk in chunks:
            self.place = chunk.place
            self.n_bad += len(chunk.bad)
            self.faults = (self.faults + chunk.bad)[:MOST_FAULTS_NAMED]


def as_lines(events: Iterable[Event]) -> bytes:
    """Return events as lines of JSON."""
    return "".join(json.dumps(as_plain(event)) + "\n" for event in events).encode()


def as_plain_file(file: GrowingFile, *, started: bool = True) -> dict[str, Any]:
    """Return what a checkpoint records about a file of events. started: whether the file exists."""
    path, tail = os.path.realpath(file.path), file.tail() if started else ""
    return {"name": file.path, "path": path, "length": file.length, "tail": tail}


def _differs(option: str, before: Any, now: Any) -> ValueError:
    return ValueError(f"{option} was {before!r} at the checkpoint, but is {now!r} now")


def join_names(names: Sequence[str]) -> str:
    """Return names separated by commas; only the first ten if there are more.

    >>> join_names("abcdefghijkl")
    'a, b, c, d, e, f, g, h, i, j, … (12 in all)'
    """
    more = f", … ({len(names):,} in all)" if len(names) > MOST_NAMES_JOINED else ""
    return ", ".join(names[:MOST_NAMES_JOINED]) + more
