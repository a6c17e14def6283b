"""The thread that owns all streams. It carries out the requests that wait, in order, and commits them together."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from dyncrp.serve.journal import JournalError
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Notice, Registry

T = TypeVar("T")
MOST_TOGETHER = 256  # requests that share a commit
SECONDS_PER_SYNC = 1.0  # where commits do not wait for the disk


@dataclass
class Job:
    """A request for the worker. name: of the stream that it may change."""

    run: Callable[[Registry], Any]
    name: str | None
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


@dataclass
class Worker:
    """A thread that carries out jobs. An answer is given only after the commit.

    It is a daemon thread, so the process can end without it. That is as harmless as a kill.

    publish: called in the event loop with what happened, before the answers are given. learning_seconds,
    commit_seconds: how long it has learned and read, and committed.
    """

    registry: Registry
    publish: Callable[[list[Notice]], None]
    most_waiting: int = 1_000
    learning_seconds: float = 0.0
    commit_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dyncrp-streams", daemon=True)
        self._closed, self._searching, self._next_sync = False, False, 0.0
        self._thread.start()

    async def call(self, run: Callable[[Registry], T], name: str | None = None) -> T:
        """Let the worker call a function, and return its result after the commit."""
        if self._closed:
            raise RequestError(503, "the server is stopping")
        if self._queue.qsize() >= self.most_waiting:
            raise RequestError(503, f"{self.most_waiting:,} requests are waiting: try again later")
        job = Job(run, name, self.loop.create_future())
        self._queue.put(job)
        result: T = await job.future
        return result

    async def close(self) -> None:
        """Finish the jobs that wait, write a checkpoint of every stream, and close the journal."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self.registry.close()

    def _run(self) -> None:
        ending = False
        while not ending:
            jobs, ending = self._take()
            if jobs:
                notices = self._serve(jobs)
                self.loop.call_soon_threadsafe(self._deliver, jobs, notices)
            if not ending:
                self._search()
            self._sync()

    def _search(self) -> None:
        """Do a piece of what is due without a request: searches, and the end of warm-ups."""
        job = Job(Registry.carry_on, None, self.loop.create_future())
        notices = self._serve([job])
        self._searching = bool(job.result) and job.error is None
        if notices:
            self.loop.call_soon_threadsafe(self._deliver, [], notices)

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for jobs, at most a second, if no search goes on. Return them, and whether the worker is to end."""
        jobs: list[Job] = []
        with suppress(queue.Empty):
            found = self._queue.get(timeout=0.0 if self._searching else SECONDS_PER_SYNC)
            while found is not None:
                jobs.append(found)
                if len(jobs) == MOST_TOGETHER:
                    return jobs, False
                found = self._queue.get_nowait()
            return jobs, True
        return jobs, False

    def _sync(self) -> None:
        """Sync the journal once a second, if commits do not."""
        if time.monotonic() >= self._next_sync:
            self._next_sync = time.monotonic() + SECONDS_PER_SYNC
            with suppress(JournalError):  # the next commit reports it
                self.registry.journal.sync()

    def _serve(self, jobs: list[Job]) -> list[Notice]:
        """Carry out jobs and commit. If the commit fails, all of them fail and nothing is changed."""
        registry, begin = self.registry, time.perf_counter()
        try:
            if registry.broken is not None:
                raise RequestError(503, registry.broken)
            for job in jobs:
                self._do(job)
            learned = time.perf_counter()
            notices = registry.commit()
        except (JournalError, RequestError) as error:
            status = 507 if isinstance(error, JournalError) else 503
            return self._fail(jobs, RequestError(status, f"nothing was changed: {error}"))
        except Exception as error:  # a stream could not be restored
            registry.broken = f"the server failed and needs a restart: {error}"
            traceback.print_exc()
            return self._fail(jobs, RequestError(503, registry.broken))
        self.learning_seconds += learned - begin
        self.commit_seconds += time.perf_counter() - learned
        return notices

    def _fail(self, jobs: list[Job], refused: RequestError) -> list[Notice]:
        for job in jobs:
            job.error = refused
        if self.registry.broken is None:
            try:
                self.registry.abort()
            except Exception:
                traceback.print_exc()
        return []

    def _do(self, job: Job) -> None:
        try:
            job.result = job.run(self.registry)
        except JournalError:
            raise
        except RequestError as error:
            job.error = error
        except Exception:
            traceback.print_exc()
            job.error = RequestError(500, "the server failed; the stream is unchanged")
            if job.name is not None:
                self.registry.reload(job.name)

    def _deliver(self, jobs: list[Job], notices: list[Notice]) -> None:
        if notices:
            self.publish(notices)
        for job in jobs:
            if job.future.done():  # the client has disconnected
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
