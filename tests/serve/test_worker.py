"""The worker gives each stream its turn, answers what is done before it goes on, and answers every request."""

import asyncio
import threading

import pytest

from cases import PATIENCE
from dyncrp.serve import worker as worker_module
from dyncrp.serve.journal import JournalError
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.registry import Registry
from dyncrp.serve.worker import Worker


def carry_out(folder, jobs):
    """Let a worker find jobs at once, (name, function) each; return what they gave, in the order of the answers."""

    async def run():
        worker = Worker(Registry(folder, Limits()), lambda notices: None)
        go, found = threading.Event(), []

        async def ask(name, run):
            try:
                found.append(await worker.call(run, name))
            except RequestError as refused:
                found.append(refused.status)

        async with asyncio.timeout(PATIENCE):
            asking = [asyncio.ensure_future(ask(None, lambda _: go.wait(PATIENCE)))]
            await asyncio.sleep(0)
            asking += [asyncio.ensure_future(ask(name, run)) for name, run in jobs]
            await asyncio.sleep(0)
            go.set()
            await asyncio.gather(*asking)
            await worker.close()
        return found[1:]

    return asyncio.run(run())


def test_one_request_does_not_wait_for_all_of_another_stream(tmp_path):
    jobs = [("a", lambda _, i=i: f"a{i}") for i in range(4)] + [("b", lambda _: "b0")]
    assert carry_out(tmp_path, jobs) == ["a0", "b0", "a1", "a2", "a3"]


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_after_some_work_what_is_done_is_answered(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(worker_module, "SECONDS_TOGETHER", seconds)
    commits = carry_out(
        tmp_path, [(n, lambda registry, n=n: (registry.put(n, {}), registry.journal.n_commits)[1]) for n in "abc"]
    )
    assert commits == ([0, 1, 2] if not seconds else [0, 0, 0])


def test_requests_behind_one_that_the_disk_does_not_take_are_answered(tmp_path):
    def fail(registry):
        raise JournalError("disk full")

    assert carry_out(tmp_path, [("a", fail), ("a", lambda _: "a1"), ("b", lambda _: "b0")]) == [507, "b0", "a1"]


def test_who_asked_for_something_long_is_told_to_ask_again_when_the_server_stops(tmp_path):
    """The HTTP server cancels requests that it does not wait for any longer. A 500 would be final."""

    async def run():
        worker, go = Worker(Registry(tmp_path, Limits()), lambda notices: None), threading.Event()
        asking = asyncio.ensure_future(worker.call(lambda _: go.wait(PATIENCE)))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(RequestError) as refused:
            await asking
        go.set()
        await worker.close()
        return refused.value.status

    assert asyncio.run(run()) == 503
