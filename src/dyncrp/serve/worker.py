"""The thread that owns all streams. It carries out the requests that wait, in order, and commits them together."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from dyncrp.serve.aside import WARMING, Aside, Errand
from dyncrp.serve.journal import JournalError, Operation
from dyncrp.serve.limits import RequestError
from dyncrp.serve.registry import Action, Key, Notice, Registry
from dyncrp.serve.streams import Outcome, ServedStream

P = ParamSpec("P")
T = TypeVar("T")
Heavy = Callable[[ServedStream], bool]
MOST_TOGETHER = 256  # requests that share a commit
SECONDS_TOGETHER = 0.05  # of work, after which those that are done are answered before the rest
SECONDS_PER_SYNC = 1.0  # where commits do not wait for the disk
SECONDS_TO_END, SECONDS_PER_LOOK = 10.0, 0.02  # for what is under way when the server stops


@dataclass
class Job:
    """A request for the worker.

    name: of the stream that it reads or changes, None for all of them. changes: whether it may change it. action, key:
    if ``run`` carries out an operation, which is then ``done`` if another thread did it. heavy: whether it is so much
    work for its stream, as it is now, that another thread should do it.
    """

    run: Callable[[Registry], Any]
    name: str | None
    future: asyncio.Future[Any] | None = None
    changes: bool = False
    action: Action | None = None
    key: Key | None = None
    heavy: Heavy | None = None
    done: tuple[Operation, Outcome] | None = None
    result: Any = None
    error: BaseException | None = None


@dataclass
class Worker:
    """A thread that carries out jobs. An answer is given only after the commit.

    It is a daemon thread, so the process can end without it. That is as harmless as a kill.

    publish: called in the event loop with what happened, before the answers are given. learning_seconds,
    commit_seconds: how long it has learned and read, and committed. aside_seconds: how long other threads have, for it.
    """

    registry: Registry
    publish: Callable[[list[Notice]], None]
    most_waiting: int = 1_000
    learning_seconds: float = 0.0
    commit_seconds: float = 0.0
    aside_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._left: deque[Job] = deque()  # taken from the queue, and not done yet
        self._aside = Aside(self.registry, lambda: self._queue.put(Job(_do_nothing, None)))
        self._thread = threading.Thread(target=self._run, name="dyncrp-streams", daemon=True)
        self._closed, self._next_sync = False, 0.0
        self._thread.start()

    async def call(
        self,
        run: Callable[[Registry], T],
        name: str | None = None,
        *,
        changes: bool = False,
        heavy: Heavy | None = None,
    ) -> T:
        """Let the worker call a function, and return its result after the commit. name, changes, heavy: see ``Job``."""
        result: T = await self._wait_for(Job(run, name, self.loop.create_future(), changes, heavy=heavy))
        return result

    async def do(self, name: str, action: Action, key: Key | None = None, heavy: Heavy | None = None) -> bytes:
        """Let the worker carry out an operation on a stream, see ``Registry.do``. heavy: see ``Job``."""

        def run(registry: Registry) -> bytes:
            return registry.do(name, action, key)

        answer: bytes = await self._wait_for(Job(run, name, self.loop.create_future(), True, action, key, heavy))
        return answer

    @property
    def n_waiting(self) -> int:
        """How many jobs wait."""
        return self._queue.qsize() + len(self._left) + len(self._aside.waiting)

    async def _wait_for(self, job: Job) -> Any:
        if self._closed:
            raise RequestError(503, "the server is stopping")
        if self.n_waiting >= self.most_waiting:
            raise RequestError(503, f"{self.most_waiting:,} requests are waiting: try again later")
        self._queue.put(job)
        assert job.future is not None
        try:
            return await job.future
        except asyncio.CancelledError:  # by the HTTP server, which stops and waits no longer
            raise RequestError(503, "the server is stopping: ask again with the same number") from None

    async def close(self) -> bool:
        """Finish the jobs that wait, write a checkpoint of every stream, and close the journal.

        Return False if that takes too long: the journal then has what was answered, as after a kill.
        """
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            end = time.monotonic() + SECONDS_TO_END
            while self._thread.is_alive():
                if time.monotonic() > end:
                    return False
                await asyncio.sleep(SECONDS_PER_LOOK)
            self.registry.close()
        return True

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        ending = False
        while not ending or self._left or self._aside.errands or self._aside.waiting:
            ending = self._take() or ending
            for errand in self._aside.collect():
                self.aside_seconds += errand.seconds
                self._serve(deque(), errand)
                if errand.found is not None:
                    self._serve(deque([Job(errand.end_search, None)]))
            if self._left:
                self._serve(self._left)
            while found := self._aside.next():
                jobs = deque(found)
                while jobs:
                    self._serve(jobs, waited=True)
            if not ending:
                self._search()
            self._sync()

    def _serve(self, jobs: deque[Job], errand: Errand | None = None, *, waited: bool = False) -> None:
        """Carry out jobs, commit and answer, see ``_carry_out``."""
        self._tell(*self._carry_out(jobs, errand, waited=waited))

    def _search(self) -> None:
        """End warm-ups whose time is over, and let another thread do a piece of a search."""
        job = Job(lambda registry: registry.next_search(self._aside.names), None)
        _, notices = self._carry_out(deque([job]))
        if notices:
            self._tell([], notices)
        if job.result is not None and job.error is None and WARMING not in self._aside.errands:
            self._aside.start(job.result, [], WARMING)

    def _take(self) -> bool:
        """Take jobs, and wait for one if there are none, at most a second. Return whether the worker is to end."""
        ending = False
        with suppress(queue.Empty):
            found = self._queue.get_nowait() if self._left else self._queue.get(timeout=SECONDS_PER_SYNC)
            while found is not None:
                self._left.append(found)
                if len(self._left) >= MOST_TOGETHER:
                    break
                found = self._queue.get_nowait()
            ending = found is None
        self._left = deque(in_turns(self._left))
        return ending

    def _sync(self) -> None:
        """Sync the journal once a second, if commits do not."""
        if time.monotonic() >= self._next_sync:
            self._next_sync = time.monotonic() + SECONDS_PER_SYNC
            with suppress(JournalError):  # the next commit reports it
                self.registry.journal.sync()

    def _carry_out(
        self, jobs: deque[Job], errand: Errand | None = None, *, waited: bool = False
    ) -> tuple[list[Job], list[Notice]]:
        """Take jobs and carry them out for a while, and commit. If that fails, all of them fail and change nothing.

        errand: what another thread has done, which comes first. waited: whether they have waited for their streams
        already. Return the jobs that are done, and what happened; the others wait.
        """
        registry, begin = self.registry, time.perf_counter()
        served = [] if errand is None else list(errand.jobs)
        try:
            if registry.broken is not None:
                served += jobs
                jobs.clear()
                raise RequestError(503, registry.broken)
            if errand is not None:
                errand.end(registry)
            while jobs:
                job = jobs.popleft()
                if waited or not self._aside.takes(job):
                    served.append(job)
                    self._do(job)
                if time.perf_counter() - begin > SECONDS_TOGETHER:
                    break
            learned = time.perf_counter()
            notices = registry.commit()
        except (JournalError, RequestError) as error:
            status = 507 if isinstance(error, JournalError) else 503
            return served, self._fail(served, RequestError(status, f"nothing was changed: {error}"))
        except Exception as error:  # a stream could not be restored
            registry.broken = f"the server failed and needs a restart: {error}"
            traceback.print_exc()
            return served, self._fail(served, RequestError(503, registry.broken))
        self.learning_seconds += learned - begin
        self.commit_seconds += time.perf_counter() - learned
        return served, notices

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
            if job.name is not None and job.changes:
                self.registry.reload(job.name)

    def _tell(self, jobs: list[Job], notices: list[Notice]) -> None:
        with suppress(RuntimeError):  # the event loop has ended without waiting
            self.loop.call_soon_threadsafe(self._deliver, jobs, notices)

    def _deliver(self, jobs: list[Job], notices: list[Notice]) -> None:
        if notices:
            self.publish(notices)
        for job in jobs:
            if job.future is None or job.future.done():  # the client has disconnected
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


def in_turns(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs so that each stream has its turn: the first of each, then the second of each, and so on.

    Otherwise one row would wait for all requests of another stream that were there before it.

    >>> jobs = [Job(lambda _: None, name) for name in ("a", "a", "a", "b", "b")]
    >>> [job.name for job in in_turns(jobs)]
    ['a', 'b', 'a', 'b', 'a']
    """
    turns: Counter[str | None] = Counter()
    found = []
    for job in jobs:
        found.append((turns[job.name], job))
        turns[job.name] += 1
    return [job for _, job in sorted(found, key=lambda one: one[0])]


async def in_thread(run: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return what a function returns that takes long. It runs in a thread for which the process does not wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: Exception | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)  # type: ignore[arg-type]

    def work() -> None:
        try:
            told: tuple[T | None, Exception | None] = run(*args, **named), None
        except Exception as error:
            told = None, error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(finish, *told)

    threading.Thread(target=work, daemon=True).start()
    return await future


def _do_nothing(registry: Registry) -> None:
    """Wake the worker."""
