"""``python tests/kill_serve.py 200``: kill a server at random moments while clients write, so many times.

A second number says how many requests each client sends in a run, by default 150.

Five clients, each with a stream of its own, send rows, merges, renames and bad requests with sequence numbers, and
repeat what was not answered. In the end all answers, the models to the bit, the events and the timelines must be those
of a server that nobody killed. Every second run is without the sync. The search of the last stream is done between
requests, so its answers are compared from the first on that has final tables in both runs.
"""

import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dyncrp.cli.serve import serve_folder
from dyncrp.serve import registry
from dyncrp.serve.limits import Limits

LONGEST_LIFE = 0.4  # of the time that the clients take if nobody kills the server
MOST_KILLS_A_RUN = 300
SECONDS_TO_RETRY = 0.01
PLAIN = {
    "family": "gaussian",
    "dynamics": "exponential(50)",
    "alpha": 0.1,
    "alarm_rate": 0.01,
    "n_examples": 3,
    "max_tables": 6,
    "set": {"variance": 1.0, "prior_variance": 100.0},
}
TEXTS = {
    "text": "message",
    "dynamics": "exponential(50)",
    "alpha": 1.0,
    "n_examples": 2,
    "max_tables": 4,
    "set": {"concentration": 10.0},
}
# With no seconds, the answers of a warm-up depend on the requests alone.
SETTINGS = {
    "plain": PLAIN,
    "learning": {"warmup": 120, "n_examples": 2, "warmup_seconds": None},
    "mixed": {"warmup": 150, "alarm_rate": 0.02, "warmup_seconds": None},
    "texts": TEXTS,
    "aside": {"warmup": 120, "alarm_rate": 0.02, "warmup_seconds": 3600.0},
}
KINDS = {"learning": "application/x-ndjson", "mixed": "text/csv"}


def requests(name, n, seed=0):
    """Return what a client sends: (path, body) each."""
    rng = np.random.default_rng([seed, len(name)])
    centers = rng.normal(0.0, 10.0, (5, 2))
    found, time_now = [], 0.0
    for i in range(n):
        size = int(rng.integers(1, 12))
        rows = (centers[rng.integers(5, size=size)] + rng.normal(size=(size, 2))).round(3)
        if name == "plain":
            times = (time_now + np.cumsum(rng.exponential(1.0, size))).tolist()
            if i % 40 == 20:
                found.append(("merge", {"tables": [int(a) for a in rng.integers(8, size=2)]}))
            elif i % 40 == 30:
                found.append(("rename", {"table": int(rng.integers(4)), "name": f"name {i}"}))
            elif i % 17 == 5:
                found.append(("rows", {"rows": [[1.0, "x"]], "times": times[:1]}))
            else:
                labels = [0] + [None] * (size - 1) if i % 25 == 7 else None
                found.append(("rows", {"rows": rows.tolist(), "times": times, "labels": labels}))
                time_now = times[-1]
        elif name == "aside":
            found.append(("rows", {"rows": rows.tolist()}))
        elif name == "learning":
            found.append(("rows?", "\n".join(json.dumps({"x": x, "y": y}) for x, y in rows.tolist())))
        elif name == "texts":
            texts = [" ".join(f"w{k}{rng.integers(6)}" for _ in range(5)) for k in rng.integers(6, size=size)]
            asked = [{"message": f"{text} new{i}", "other": i} for text in texts]
            if i % 30 == 20:
                found.append(("merge", {"tables": [int(a) for a in rng.integers(8, size=2)]}))
            else:
                found.append(("rows", {"rows": [*asked, {"message": None}] if i % 17 == 5 else asked}))
        else:
            lines = [f"{x if rng.random() < 0.9 else ''},{'red' if x > y else 'blue'},{y}" for x, y in rows.tolist()]
            found.append(("rows?", "\n".join(["x,colour,y", *lines])))
    return found


async def ask(port, method, path, body=b"", kind="application/json"):
    """Return the status and the content of an answer, however often it takes."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                answer = await reader.read()
            finally:
                writer.close()
            start, _, content = answer.partition(b"\r\n\r\n")
            told = [line for line in start.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if told and len(content) == int(told[0].split(b":")[1]):
                return int(start.split()[1]), content
        except OSError:
            pass
        await asyncio.sleep(SECONDS_TO_RETRY)


async def write(port, name, n):
    """Send everything of one client; return all answers, and how its stream ends."""
    stream = f"/streams/{name}"
    status, _ = await ask(port, "PUT", stream, json.dumps(SETTINGS[name]).encode())
    assert status in (200, 201)
    answers = []
    for sequence, (path, body) in enumerate(requests(name, n)):
        kind = KINDS[name] if isinstance(body, str) else "application/json"
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        where = f"{stream}/{path.rstrip('?')}?client=me&sequence={sequence}"
        status, answer = await ask(port, "POST", where, content, kind)
        answers.append((status, answer.decode()))
    await ask(port, "POST", f"{stream}/end-warmup")  # if it is not over
    ends = [await ask(port, "GET", f"{stream}/{what}") for what in ("model", "events?after=0&limit=9999", "timeline")]
    assert [status for status, _ in ends] == [200, 200, 200], ends
    return answers, [content.hex() for _, content in ends]


async def write_all(port, n):
    return dict(zip(SETTINGS, await asyncio.gather(*(write(port, name, n) for name in SETTINGS)), strict=True))


def fork(run):
    """Run something in a process of its own, and return its id. It shares what is imported, which takes long."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        run()
        code = 0
    finally:
        os._exit(code)


def start(folder, port, *, sync):
    return fork(lambda: serve_folder(folder, "127.0.0.1", port, None, Limits(), sync=sync, demo=False))


def wait_for(port):
    """Wait until a server answers, so that some of them get something done before they are killed."""
    for _ in range(1000):
        with socket.socket() as probe:
            probe.settimeout(100)
            if not probe.connect_ex(("127.0.0.1", port)):
                probe.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                probe.recv(100)
                return
        time.sleep(0.01)


def run(folder, n, *, longest=None, most=0, sync=True):
    """Serve a folder, let the clients write, and return what they were told and how often the server was killed.

    longest: the seconds after which it is killed at the latest, but not more than ``most`` times. In the end it is
    asked to stop.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = folder.with_suffix(".json")
    client = fork(lambda: told.write_text(json.dumps(asyncio.run(write_all(port, n)))))
    children = {"client": client, "server": start(folder, port, sync=sync)}
    try:
        kills = disturb(children, lambda: start(folder, port, sync=sync), port, longest, most)
    finally:
        for child in children.values():
            os.kill(child, signal.SIGKILL)
    if not told.exists():
        sys.exit("a client was answered something that it did not expect")
    return json.loads(told.read_text()), kills


def disturb(children, restart, port, longest, most):
    """Kill the server at random moments and start it again, until the client has ended; return how often.

    children: the ids of both, without those that have ended. longest, most: as ``run`` has them. In the end the server
    is asked to stop, and must do so.
    """
    kills = 0
    while True:
        if kills < most and random.random() < 0.5:
            wait_for(port)
        time.sleep(random.uniform(0.0, longest) if kills < most else 0.05)
        if os.waitpid(children["client"], os.WNOHANG) != (0, 0):
            del children["client"]
            break
        if kills < most:
            server = children.pop("server")
            os.kill(server, signal.SIGKILL)  # a child that has ended waits for us, so its id is still its own
            _, status = os.waitpid(server, 0)
            if not os.WIFSIGNALED(status):
                sys.exit(f"the server ended by itself, with code {os.WEXITSTATUS(status)}, after {kills} kills")
            kills += 1
            if kills > MOST_KILLS_A_RUN:
                sys.exit(f"after {kills} kills the clients have got nowhere")
            children["server"] = restart()
    wait_for(port)  # before it has started, a signal just ends it
    server = children.pop("server")
    os.kill(server, signal.SIGTERM)
    _, status = os.waitpid(server, 0)
    if status:
        sys.exit(f"the server ended with status {status} when it was asked to stop")
    return kills


def difference(wanted, got):
    """Return where two runs differ, None if they do not."""
    for name in SETTINGS:
        for i, (right, wrong) in enumerate(zip(wanted[name][0], got[name][0], strict=True)):
            provisional = name == "aside" and not all('"learned":true' in answer for _, answer in (right, wrong))
            if right != wrong and not provisional:
                return f"answer {i} of {name}: {right} became {wrong}"
        for what, right, wrong in zip(("model", "events", "timeline"), wanted[name][1], got[name][1], strict=True):
            if right != wrong and (name, what) != ("aside", "timeline"):  # which begins when tables become final
                return f"{what} of {name}"
    return None


def kill_until(n_kills, n_requests=150, *, folder):
    """Run until the server was killed so often; return the kills, the runs, and the answers in each."""
    before, registry.ROWS_PER_CHECKPOINT = registry.ROWS_PER_CHECKPOINT, 10**9
    begin = time.monotonic()
    wanted, _ = run(folder / "undisturbed", n_requests)
    longest = LONGEST_LIFE * (time.monotonic() - begin)
    registry.ROWS_PER_CHECKPOINT = 100  # so that some kills come while one is written
    kills, runs, half = 0, 0, -(-n_kills // 2)  # so that there is a run of either kind
    try:
        while kills < n_kills:
            got, more = run(folder / f"killed{runs}", n_requests, longest=longest, most=half, sync=runs % 2 == 0)
            found = difference(wanted, got)
            if found is not None:
                sys.exit(f"run {runs} differs after {more} kills: {found}")
            kills, runs = kills + more, runs + 1
    finally:
        registry.ROWS_PER_CHECKPOINT = before
    return kills, runs, sum(len(answers) for answers, _ in wanted.values())


if __name__ == "__main__":
    memory = Path("/dev/shm")  # a kill, unlike a power cut, needs no disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        kills, runs, n = kill_until(*map(int, sys.argv[1:]), folder=Path(folder))
    print(f"{kills} kills in {runs} runs of {n} requests: all answers, models and events are those of no kill")
