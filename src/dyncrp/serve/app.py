"""The HTTP interface: it reads requests, lets the worker carry them out, and writes the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dyncrp.serve.bodies import JSON, Roles, as_batch, read_batch
from dyncrp.serve.endpoints import ENDPOINTS
from dyncrp.serve.feeds import EVENTS_PER_MESSAGE, Feed, FetchEvents, watch_events, watch_rows
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.middleware import Middleware, names_of, refusal
from dyncrp.serve.openapi import openapi
from dyncrp.serve.plain import dump
from dyncrp.serve.queries import after_event, is_whole, retry_key, stream_name, stretch, whole
from dyncrp.serve.receiving import Bodies
from dyncrp.serve.registry import Action, Notice, Registry
from dyncrp.serve.sending import EventStream
from dyncrp.serve.settings import KEYS
from dyncrp.serve.streams import ServedStream
from dyncrp.serve.watching import Watch, resolved
from dyncrp.serve.work import is_heavy
from dyncrp.serve.worker import Worker, in_thread
from dyncrp.views.clusters import Clusters

T = TypeVar("T")
STATIC = Path(__file__).parent / "static"
TABLES_JOINED_AT_ONCE = 200  # with more, the list of tables has the clusters that were computed last
SECONDS_PER_LOOK = 0.02  # at a warm-up that is ending


class Service:
    """A data folder behind HTTP; ``app`` is what a server runs.

    token: what requests must bring, or None. sync: whether an answer waits for the disk. host: the address at which it
    listens, if it is another one of this machine than 127.0.0.1.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        *,
        token: str | None = None,
        sync: bool = True,
        host: str | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.registry = Registry(folder, self.limits, sync=sync)
        self.feeds: dict[str, Feed] = {}
        self.watch = Watch(self.registry.streams.values())
        self.worker: Worker
        self.stuck = False  # whether something went on when it was stopped
        self.bodies = Bodies(self.limits)
        self.n_readers = self.n_alarms = self.n_rows = 0
        self._clusters: dict[tuple[str, int | None], tuple[ServedStream, int, Clusters]] = {}
        self._joining, self._making = asyncio.Lock(), asyncio.Lock()
        routes: list[BaseRoute] = [
            Route(one.path, getattr(self, one.handler), methods=[one.method]) for one in ENDPOINTS
        ]
        routes.append(Mount("/static", StaticFiles(directory=STATIC)))
        handlers = {HTTPException: _answer_http, RequestError: _answer_error}
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        self.app = Middleware(app, token, names_of(host))

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.worker = Worker(self.registry, self._publish, self.limits.requests)
        try:
            yield
        finally:
            self.end_feeds()
            self.stuck = not await self.worker.close()

    def _publish(self, notices: list[Notice]) -> None:
        """Tell the readers of the feeds; called in the event loop."""
        for notice in notices:
            there = self.registry.streams.get(notice.name)
            self.n_alarms += self.watch.publish(notice, None if there is None else there.stream.spec.alarm_rate)
            if notice.outcome is not None:
                self.n_rows += notice.outcome.n_rows
            else:
                self._clusters = {key: kept for key, kept in self._clusters.items() if key[0] != notice.name}
            feed = self.feeds.get(notice.name)
            if feed is not None:
                feed.publish(notice)
                if feed.over:
                    del self.feeds[notice.name]

    def end_feeds(self) -> None:
        """End the feeds of all readers, before the server stops."""
        for feed in self.feeds.values():
            feed.over = True
            feed.wake()

    # Streams

    async def list_streams(self, request: Request) -> Response:
        """Answer with all streams."""
        found, unreadable = await self.worker.call(
            lambda registry: (registry.summaries(), sorted(registry.unreadable.items()))
        )
        bad = [{"name": name, "error": error} for name, error in unreadable]
        return _json({"streams": sorted(found, key=lambda summary: summary["name"]), "unreadable": bad})

    async def put_stream(self, request: Request) -> Response:
        """Make a stream."""
        name = stream_name(request)
        async with self.bodies.read_object(request, KEYS, optional=True) as (settings, _):
            made = await self.worker.call(lambda registry: registry.put(name, settings), name, changes=True)
        return _json({"name": name, "made": made}, 201 if made else 200)

    async def get_stream(self, request: Request) -> Response:
        """Answer with what is known of a stream."""
        found = await self._read(request, ServedStream.describe)
        return _json(found | {"pulse": self.watch.pulse(found["name"]).tell()})

    async def delete_stream(self, request: Request) -> Response:
        """Delete a stream."""
        name = stream_name(request)
        await self.worker.call(lambda registry: registry.delete(name), name, changes=True)
        return Response(status_code=204)

    # Operations on a stream

    async def post_rows(self, request: Request) -> Response:
        """Learn from rows."""
        stream_name(request)  # a wrong one is refused before the body is read
        given = request.query_params
        roles = Roles(*map(given.get, ("time_column", "label_column", "cannot_link_column", "weight_column")))
        kind = request.headers.get("content-type", JSON)
        async with self.bodies.read(request) as content, self.bodies.open(content):
            batch = await self.bodies.parse(content, read_batch, content, kind, roles, self.limits)
            heavy = partial(is_heavy, batch=batch, n_bytes=len(content))
            return await self._do(request, lambda stream: stream.learn(batch), content, heavy)

    async def post_merge(self, request: Request) -> Response:
        """Merge two tables."""
        async with self.bodies.read_object(request, ("tables",)) as (told, content):
            return await self._do(request, lambda stream: stream.merge(told.get("tables")), content, is_heavy)

    async def post_rename(self, request: Request) -> Response:
        """Give a table a name."""
        async with self.bodies.read_object(request, ("table", "name")) as (told, content):
            return await self._do(request, lambda stream: stream.rename(told.get("table"), told.get("name")), content)

    async def post_undo(self, request: Request) -> Response:
        """Undo the last merge."""
        async with self.bodies.read_object(request, (), optional=True) as (_, content):
            return await self._do(request, ServedStream.undo_merge, content, lambda stream: stream.undo is not None)

    async def post_join(self, request: Request) -> Response:
        """Put two tables into one cluster."""
        async with self.bodies.read_object(request, ("tables",)) as (told, content):
            return await self._do(request, lambda stream: stream.join(told.get("tables")), content)

    async def post_part(self, request: Request) -> Response:
        """Leave the clusters of two tables to the evidence again."""
        async with self.bodies.read_object(request, ("tables",)) as (told, content):
            return await self._do(request, lambda stream: stream.join(told.get("tables"), apart=True), content)

    async def post_acknowledge(self, request: Request) -> Response:
        """Note that alarms were seen."""
        async with self.bodies.read_object(request, ("alarms",)) as (told, content):
            return await self._do(request, lambda stream: stream.acknowledge(told.get("alarms")), content)

    async def post_end_warmup(self, request: Request) -> Response:
        """End the warm-up with the rows so far, and answer once it is over."""
        await self._do(request, ServedStream.end_warmup, b"")
        while await self._read(request, lambda stream: stream.is_searching):
            await asyncio.sleep(SECONDS_PER_LOOK)
        return await self.get_stream(request)

    async def _do(
        self, request: Request, action: Action, content: bytes, heavy: Callable[[ServedStream], bool] | None = None
    ) -> Response:
        name, key = stream_name(request), retry_key(request, content)
        answer = await self.worker.do(name, action, key, heavy)
        return Response(answer, media_type=JSON)

    # Answers that change nothing

    async def post_explain(self, request: Request) -> Response:
        """Answer why a row would join its table."""
        async with self.bodies.read_object(request, ("row", "time"), cells=True) as (told, _):
            time = None if told.get("time") is None else [told["time"]]
            batch = replace(as_batch([told.get("row")], self.limits), times=time)
            return _json(await self._look(request, lambda stream: stream.explain(batch)))

    async def get_tables(self, request: Request) -> Response:
        """Answer with the open tables."""
        make, clusters = await self._tables(request)
        return await self._large(lambda: {"tables": make(clusters)})

    async def get_table(self, request: Request) -> Response:
        """Answer with one table and its examples."""
        which = request.path_params["table"]
        asked = int(which) if is_whole(which) else which
        found = await self._read(request, lambda stream: stream.table(asked))
        entries = await self._make(*await self._tables(request))
        entry = next((entry for entry in entries if entry["id"] == found["id"]), None)
        if entry is None:
            raise RequestError(404, f"there is no open table {which!r}")
        return _json(entry | {"examples": found["examples"]})

    async def _tables(self, request: Request) -> tuple[Callable[[Clusters | None], list[dict[str, Any]]], Any]:
        """Return a function that lists the tables, and the clusters that it is to be given."""
        make, n_tables = await self._look(request, lambda stream: (stream.tables(), stream.summary()["tables"]))
        name = request.path_params["name"]
        if n_tables <= TABLES_JOINED_AT_ONCE:
            clusters = await self._clusters_of(request, None)
        else:
            kept = self._clusters.get((name, None))
            clusters = None if kept is None else kept[2]
        return make, clusters

    async def get_clusters(self, request: Request) -> Response:
        """Answer with the tables joined into clusters."""
        try:
            clusters = await self._clusters_of(request, whole(request, "n", None, 1))
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        if clusters is None:
            return _json({"clusters": []})
        found = clusters
        told = await self._look(request, lambda stream: stream.clusters(found))
        return await self._large(lambda: {"clusters": told})

    async def _clusters_of(self, request: Request, n: int | None) -> Clusters | None:
        """Return clusters of the tables as they are now. Another thread computes them, one request at a time."""
        name = stream_name(request)
        async with self._joining:
            stream, version = await self._read(request, lambda stream: (stream, stream.version))
            kept = self._clusters.get((name, n))
            if kept is not None and kept[0] is stream and kept[1] == version:
                return kept[2]
            joining, version = await self._look(request, lambda stream: (stream.joining(), stream.version))
            if joining is None:
                return None
            clusters: Clusters = await in_thread(joining, n)
            if n is not None:  # one number of them is kept at a time
                self._clusters = {key: kept for key, kept in self._clusters.items() if key[0] != name or key[1] is None}
            self._clusters[name, n] = stream, version, clusters
            return clusters

    async def get_timeline(self, request: Request) -> Response:
        """Answer with the latest rows and their results."""
        last = whole(request, "last", 2_000, 1)
        told = await self._read(request, lambda stream: stream.latest(last))
        return await self._large(lambda: told)

    async def get_history(self, request: Request) -> Response:
        """Answer with what came when, thinned."""
        name = stream_name(request)
        told = self.watch.history(name, *stretch(request))
        found = await self._read(request, lambda stream: resolved(told, stream))
        return await self._large(lambda: found)

    async def get_alarms(self, request: Request) -> Response:
        """Answer with the latest alarms, and how many nobody has acknowledged."""
        name, most = stream_name(request), whole(request, "limit", 200, 1, 10_000)
        found, n_new = await self.worker.call(lambda registry: registry.alarms(name, most))
        return await self._large(lambda: {"alarms": found, "unacknowledged": n_new})

    async def post_compare(self, request: Request) -> Response:
        """Answer how far apart two tables are."""
        async with self.bodies.read_object(request, ("tables",)) as (told, _):
            return _json(await self._look(request, lambda stream: stream.compare(told.get("tables"))))

    async def get_model(self, request: Request) -> Response:
        """Answer with the model as a file, for ``DynamicalMixture.load``."""

        def save(stream: ServedStream) -> bytes:
            if not stream.learned:
                raise RequestError(409, "this stream is still in its warm-up: send more rows, or POST …/end-warmup")
            return stream.stream.to_bytes()

        return Response(await self._look(request, save), media_type="application/octet-stream")

    async def get_events(self, request: Request) -> Response:
        """Answer with events, as JSON or as server-sent events."""
        if "text/event-stream" in request.headers.get("accept", ""):
            return await self._follow(request, watch_events)
        name, after = stream_name(request), after_event(request, -1)
        most = whole(request, "limit", 500, 1, 10_000)
        found = await self.worker.call(lambda registry: registry.events(name, after, most))
        return Response(f'{{"events":[{",".join(found)}]}}', media_type=JSON)

    async def get_live(self, request: Request) -> Response:
        """Answer with what happens from now on, for the page."""
        return await self._follow(request, watch_rows)

    async def _follow(
        self, request: Request, watch: Callable[[Feed, int, FetchEvents], AsyncIterator[str]]
    ) -> Response:
        name = stream_name(request)
        stream, last, learned = await self._read(request, lambda stream: (stream, stream.last_event, stream.learned))
        after = after_event(request, last)
        if self.n_readers >= self.limits.readers:
            raise RequestError(503, f"there are {self.n_readers:,} readers of events, the most that this server takes")

        def fetch(after: int) -> Awaitable[list[str]]:
            return self.worker.call(lambda registry: registry.events(name, after, EVENTS_PER_MESSAGE))

        def start() -> AsyncIterator[str]:
            feed = Feed(last, learned=learned, pulse=self.watch.pulse(name))
            if self.registry.streams.get(name) is stream:
                feed = self.feeds.setdefault(name, feed)
            else:  # it was deleted meanwhile, and another may have its name
                feed.over = True
            return watch(feed, after, fetch)

        return EventStream(self, start)

    # Other answers

    async def get_health(self, request: Request) -> Response:
        """Answer whether the server works."""
        if self.registry.broken is not None:
            raise RequestError(503, self.registry.broken)
        return _json({"status": "ok"})

    async def get_metrics(self, request: Request) -> Response:
        """Answer with counters in Prometheus' text format."""
        streams, size = await self.worker.call(lambda registry: (registry.summaries(), registry.journal.size))
        return Response(self._metrics(streams, size), media_type="text/plain; version=0.0.4")

    def _metrics(self, streams: list[dict[str, Any]], size: int) -> str:
        worker, commits = self.worker, self.registry.journal.n_commits
        requests: dict[str, float] = {f'{{code="{code}"}}': n for code, n in sorted(self.app.codes.items())}
        rows, tables = ({f'{{stream="{s["name"]}"}}': s[key] for s in streams} for key in ("rows", "tables"))
        told: list[tuple[str, str, str, dict[str, float]]] = [
            ("requests_total", "counter", "Requests by the code of their answer.", requests),
            ("rows_total", "counter", "Rows learned since the server started.", {"": self.n_rows}),
            ("alarms_total", "counter", "Alarms since the server started.", {"": self.n_alarms}),
            ("commits_total", "counter", "Commits of the journal; requests share them.", {"": commits}),
            ("learning_seconds_total", "counter", "Time spent learning and reading.", {"": worker.learning_seconds}),
            (
                "aside_seconds_total",
                "counter",
                "Time spent on warm-ups and on much work, aside.",
                {"": worker.aside_seconds},
            ),
            ("commit_seconds_total", "counter", "Time spent waiting for the disk.", {"": worker.commit_seconds}),
            ("journal_bytes", "gauge", "Size of the journal on the disk.", {"": size}),
            ("subscribers", "gauge", "Readers of events and live feeds.", {"": self.n_readers}),
            ("streams", "gauge", "Streams.", {"": len(streams)}),
            ("unreadable_streams", "gauge", "Streams that cannot be read.", {"": len(self.registry.unreadable)}),
            ("stream_rows", "gauge", "Rows of each stream.", rows),
            ("stream_tables", "gauge", "Open tables of each stream.", tables),
        ]
        lines = []
        for name, kind, text, values in told:
            lines += [f"# HELP dyncrp_{name} {text}", f"# TYPE dyncrp_{name} {kind}"]
            lines += [f"dyncrp_{name}{labels} {value}" for labels, value in values.items()]
        return "\n".join(lines) + "\n"

    async def get_openapi(self, request: Request) -> Response:
        """Answer with a description of this interface."""
        return _json(openapi())

    async def get_docs(self, request: Request) -> Response:
        """Answer with a page that shows this description."""
        return FileResponse(STATIC / "docs.html")

    async def get_page(self, request: Request) -> Response:
        """Answer with the page."""
        return FileResponse(STATIC / "index.html")

    async def _large(self, tell: Callable[[], Any]) -> Response:
        """Answer with what a function tells, which may be long."""
        return Response(await self._make(lambda: dump(tell())), media_type=JSON)

    async def _make(self, run: Callable[..., T], *args: Any) -> T:
        """Return what a function returns that goes through a part of an answer, in a thread.

        There is one of these threads at a time: Python's threads take turns, and the event loop, which is one of them,
        would wait for all others.
        """
        async with self._making:
            return await in_thread(run, *args)

    async def _look(self, request: Request, look: Callable[[ServedStream], Any]) -> Any:
        """Return what a function makes of a stream that goes through the whole model."""
        return await self._read(request, look, is_heavy)

    async def _read(
        self, request: Request, look: Callable[[ServedStream], Any], heavy: Callable[[ServedStream], bool] | None = None
    ) -> Any:
        name = stream_name(request)

        def run(registry: Registry) -> Any:
            try:
                return look(registry.stream(name))
            except ValueError as error:
                raise RequestError(400, str(error)) from None

        return await self.worker.call(run, name, heavy=heavy)


async def _answer_http(request: Request, error: Exception) -> Response:
    """Answer with an error of the routes: an unknown path or method."""
    assert isinstance(error, HTTPException)
    return refusal(RequestError(error.status_code, f"{request.method} {request.url.path}: {error.detail}"))


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return refusal(error)


def _json(content: Any, status: int = 200) -> Response:
    return Response(dump(content), status, media_type=JSON)
