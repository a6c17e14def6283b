"""What takes long is done in threads beside the worker, so that other streams do not wait for it.

This is what is done in a warm-up: the search for hyperparameters, or the first rows if they have many columns. And it
is a request that is much work, see ``work.py``: many rows, many tables, long texts. The worker gives such a stream
away, with the requests for it, and takes it back when these are carried out. Requests that come meanwhile wait. There
is one thread for warm-ups and one for heavy requests. Only the worker uses the journal.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from dyncrp.serve.journal import JournalError, Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Registry, perform
from dyncrp.serve.streams import Outcome, ServedStream
from dyncrp.serve.work import ROWS_PER_CHECKPOINT

if TYPE_CHECKING:
    from dyncrp.serve.worker import Job

FAILED = "the server failed; the stream is unchanged"
WARMING, HEAVY = "warming", "heavy"  # why a stream is given away


class Errand:
    """Requests for one stream, and then a piece of its search. finished: whether all was done.

    why: ``WARMING`` or ``HEAVY``. found: what ended the search, if anything did. failed: whether the stream must be
    restored from the journal. kept: a checkpoint of the stream with what the requests did, if one was due. seconds: how
    long it took.
    """

    def __init__(self, stream: ServedStream, jobs: list[Job], why: str) -> None:
        self.stream, self.jobs, self.why = stream, jobs, why
        self.summary = stream.summary()  # as long as it is away
        self.found: tuple[Operation, Outcome] | None = None
        self.kept: tuple[bytes, bytes] | None = None
        self.failed = self.finished = False
        self.seconds = 0.0

    def run(self, registry: Registry) -> None:
        """Carry it out, in another thread."""
        begin = time.perf_counter()
        self._carry_out(registry)
        self.seconds = time.perf_counter() - begin
        self.finished = True

    def _carry_out(self, registry: Registry) -> None:
        for job in self.jobs:
            if self.failed:
                job.error = RequestError(503, "nothing was changed: try again")
                continue
            try:
                if job.action is None:
                    job.result = job.run(registry)
                else:
                    job.done = perform(self.stream, job.action)
            except RequestError as error:
                job.error = error
            except Exception:
                traceback.print_exc()
                job.error = RequestError(500, FAILED)
                self.failed = job.action is not None
        try:
            if not self.failed and self.stream.is_searching:
                self.found = self.stream.search()
            elif not self.failed and self.why == HEAVY and self.stream.is_due(ROWS_PER_CHECKPOINT):
                self.kept = registry.make_checkpoint(self.stream)
        except Exception:
            traceback.print_exc()
            self.failed = True

    def end(self, registry: Registry) -> None:
        """Add what the requests did to the journal, in the worker."""
        for job in self.jobs:
            if self.failed:
                job.error = job.error or RequestError(503, "nothing was changed: try again")
            elif job.done is not None:
                self._finish(job, registry)
        if registry.streams.get(self.stream.name) is not self.stream:
            return
        if self.failed:  # what was done before may be half of something
            registry.reload(self.stream.name)
        elif self.kept is not None:
            registry.keep_checkpoint(self.stream, self.kept)

    def _finish(self, job: Job, registry: Registry) -> None:
        """Add what a request did to the journal."""
        assert job.done is not None
        try:
            job.result = registry.finish(self.stream, job.done, job.key)
        except RequestError as error:
            job.error = error
        except JournalError:
            raise
        except Exception:
            traceback.print_exc()
            job.error, self.failed = RequestError(500, FAILED), True

    def end_search(self, registry: Registry) -> None:
        """Add the end of a search to the journal, if the stream is still the one that was given away.

        Until then there may be no checkpoint of the stream, which would have the end of the search already.
        """
        registry.away.pop(self.stream.name, None)
        if self.found is not None and registry.streams.get(self.stream.name) is self.stream:
            registry.finish(self.stream, self.found)


class Aside:
    """The streams that are away, and the requests that wait for their streams. tell: called when one is done."""

    def __init__(self, registry: Registry, tell: Callable[[], None]) -> None:
        self._registry, self._tell = registry, tell
        self.errands: dict[str, Errand] = {}  # by why they are away
        self.waiting: deque[Job] = deque()

    @property
    def names(self) -> Collection[str]:
        """The names of streams that requests wait for, or that are away."""
        return {*self._away, *(job.name for job in self.waiting if job.name is not None)}

    @property
    def _away(self) -> Collection[str]:
        return {errand.stream.name for errand in self.errands.values()}

    def takes(self, job: Job) -> bool:
        """Take a request if it has to wait, or if it is to be carried out aside; return whether."""
        if job.name is None or (job.name not in self.names and self._why(job) is None):
            return False
        self.waiting.append(job)
        return True

    def _why(self, job: Job) -> str | None:
        """Return why a request is to be carried out aside, None if the worker can do it."""
        stream = None if job.name is None else self._registry.streams.get(job.name)
        if stream is None:
            return None
        if not stream.learned and stream.unknown:
            return None if job.action is None else WARMING
        return HEAVY if job.heavy is not None and job.heavy(stream) else None

    def collect(self) -> list[Errand]:
        """Take back the streams whose errands are done."""
        done = [errand for errand in self.errands.values() if errand.finished]
        for errand in done:
            del self.errands[errand.why]
            if errand.found is None:
                self._registry.away.pop(errand.stream.name, None)
        return done

    def next(self) -> list[Job]:
        """Give streams away, with the requests that wait for them; return those that the worker can carry out.

        These are requests that are light by now, that were answered before, or that make or delete a stream. One that
        could be a retry of another waits until that one is in the journal.
        """
        for name in list(dict.fromkeys(job.name for job in self.waiting)):
            if name in self._away:
                continue
            of_stream = [job for job in self.waiting if job.name == name]
            why = self._why(of_stream[0])
            taken: list[Job] = []
            if why is None:
                now = self._light(of_stream)
            elif why in self.errands:
                continue
            else:
                taken, now = self._part(of_stream)
            gone = {id(job) for job in (*taken, *now)}
            self.waiting = deque(job for job in self.waiting if id(job) not in gone)
            if taken and why is not None and name is not None:
                self.start(self._registry.streams[name], taken, why)
            if now:
                return now
        return []

    def _light(self, jobs: list[Job]) -> list[Job]:
        """Return the first requests, which the worker can do, up to one that makes or deletes their stream."""
        now: list[Job] = []
        for job in jobs:
            if self._why(job) is not None:
                break
            now.append(job)
            if job.changes and job.action is None:
                break
        return now

    def _part(self, jobs: list[Job]) -> tuple[list[Job], list[Job]]:
        """Return the requests to carry out together, and those that were answered before."""
        taken: list[Job] = []
        answered: list[Job] = []
        clients = set()
        for job in jobs:
            if (job.key is not None and job.key.client in clients) or (job.changes and job.action is None):
                break
            if job.key is not None:
                clients.add(job.key.client)
            (answered if self._is_answered(job) else taken).append(job)
        return taken, answered

    def _is_answered(self, job: Job) -> bool:
        """Whether a request was answered before, or is refused because of its number."""
        if job.key is None or job.name is None:
            return False
        try:
            return self._registry.answered(job.name, job.key) is not None
        except RequestError:
            return True

    def start(self, stream: ServedStream, jobs: list[Job], why: str) -> None:
        """Give a stream away."""
        errand = self.errands[why] = Errand(stream, jobs, why)
        self._registry.away[stream.name] = errand.summary

        def run() -> None:
            errand.run(self._registry)
            self._tell()

        threading.Thread(target=run, name=f"dyncrp-{why}", daemon=True).start()
