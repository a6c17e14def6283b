"""Streams in their warm-up are worked on in a thread of their own, so that other streams do not wait for them.

What is done in a warm-up may take long: the search for hyperparameters, or the first rows if they have many columns.
The worker gives such a stream away, with the requests for it, and takes it back when these are carried out. Requests
that come meanwhile wait. Only the worker uses the journal.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from dyncrp.serve.journal import Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Registry, perform
from dyncrp.serve.streams import Outcome, ServedStream

if TYPE_CHECKING:
    from dyncrp.serve.worker import Job

FAILED = "the server failed; the stream is unchanged"


class Errand:
    """Requests for one stream, and then a piece of its search. finished: whether all was done.

    found: what ended the search, if anything did. failed: whether the stream must be restored from the journal.
    """

    def __init__(self, stream: ServedStream, jobs: list[Job]) -> None:
        self.stream, self.jobs = stream, jobs
        self.summary = stream.summary()  # as long as it is away
        self.found: tuple[Operation, Outcome] | None = None
        self.failed = self.finished = False

    def run(self, registry: Registry) -> None:
        """Carry it out, in another thread."""
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
        except Exception:
            traceback.print_exc()
            self.failed = True

    def end(self, registry: Registry) -> None:
        """Add what the requests did to the journal, in the worker."""
        if self.failed:  # what was done before may be half of something
            for job in self.jobs:
                job.error = job.error or RequestError(503, "nothing was changed: try again")
            if registry.streams.get(self.stream.name) is self.stream:
                registry.reload(self.stream.name)
            return
        for job in self.jobs:
            if job.done is not None:
                try:
                    job.result = registry.finish(self.stream, job.done, job.key)
                except RequestError as error:
                    job.error = error

    def end_search(self, registry: Registry) -> None:
        """Add the end of a search to the journal, if the stream is still the one that was given away.

        Until then there may be no checkpoint of the stream, which would have the end of the search already.
        """
        registry.away.clear()
        if self.found is not None and registry.streams.get(self.stream.name) is self.stream:
            registry.finish(self.stream, self.found)


class Aside:
    """The stream that is away, and the requests that wait for their streams. tell: called when one is done."""

    def __init__(self, registry: Registry, tell: Callable[[], None]) -> None:
        self._registry, self._tell = registry, tell
        self.errand: Errand | None = None
        self.waiting: deque[Job] = deque()

    @property
    def names(self) -> Collection[str]:
        """The names of streams that requests wait for, or that are away."""
        away = () if self.errand is None else (self.errand.stream.name,)
        return {*away, *(job.name for job in self.waiting if job.name is not None)}

    def takes(self, job: Job) -> bool:
        """Take a request if it has to wait, or if it is an operation on a stream in its warm-up; return whether."""
        if job.name is None or not (job.name in self.names or (job.action is not None and self._is_heavy(job.name))):
            return False
        self.waiting.append(job)
        return True

    def _is_heavy(self, name: str) -> bool:
        stream = self._registry.streams.get(name)
        return stream is not None and not stream.learned and stream.unknown

    def collect(self) -> Errand | None:
        """Take back a stream whose errand is done."""
        errand = self.errand
        if errand is None or not errand.finished:
            return None
        self.errand = None
        if errand.found is None:
            self._registry.away.clear()
        return errand

    def next(self) -> list[Job]:
        """Give the next stream away, with the requests that wait for it; return those that the worker can carry out.

        These are requests for streams that are no longer in their warm-up, that were answered before, or that make or
        delete a stream. One that could be a retry of another waits until that one is in the journal.
        """
        if self.errand is not None or not self.waiting:
            return []
        name = self.waiting[0].name
        assert name is not None
        of_stream = [job for job in self.waiting if job.name == name]
        taken: list[Job] = []
        if not self._is_heavy(name):
            now = of_stream
        elif of_stream[0].changes and of_stream[0].action is None:
            now = of_stream[:1]
        else:
            taken, now = self._part(of_stream)
        gone = {id(job) for job in (*taken, *now)}
        self.waiting = deque(job for job in self.waiting if id(job) not in gone)
        if taken:
            self.start(self._registry.streams[name], taken)
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

    def start(self, stream: ServedStream, jobs: list[Job]) -> None:
        """Give a stream away."""
        errand = self.errand = Errand(stream, jobs)
        self._registry.away[stream.name] = errand.summary

        def run() -> None:
            errand.run(self._registry)
            errand.finished = True
            self._tell()

        threading.Thread(target=run, name="dyncrp-aside", daemon=True).start()
