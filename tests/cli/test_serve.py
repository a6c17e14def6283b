"""``dyncrp serve``: what it refuses, the built-in stream, and how it stops."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from typer.testing import CliRunner

import dyncrp
from cases import PATIENCE
from dyncrp.cli.app import app
from dyncrp.serve import demo
from dyncrp.serve.journal import Journal


def run(*arguments, **environment):
    done = CliRunner().invoke(app, ["serve", *map(str, arguments)], env={"DYNCRP_TOKEN": None, **environment})
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "serve needs a DATA_FOLDER"),
        (["--host", "0.0.0.0", "--demo"], "--host 0.0.0.0 listens to other machines"),
        (["--host", "::", "--demo"], "--host :: listens to other machines"),
        (["--host", "example.org", "--demo"], "--host example.org listens to other machines"),
        (["--host", "0.0.0.0", "--token", "short", "--demo"], "a token has 16 to 1000 ASCII characters"),
    ],
)
def test_what_is_refused(arguments, message):
    code, said = run(*arguments)
    assert code == 2
    assert message in said


def test_a_token_of_the_environment_is_looked_at():
    assert "a token has 16" in run("--demo", DYNCRP_TOKEN="short")[1]


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run(tmp_path, "--port", port)
    assert code == 1
    assert f"127.0.0.1:{port}: Address already in use" in said


def test_a_folder_that_another_server_has(tmp_path):
    with Journal(tmp_path):
        code, said = run(tmp_path, "--port", 0)
    assert code == 1
    assert "another server has it" in said


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(dyncrp, "serve", dyncrp.serve)  # put back: the import below makes another package
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    for name in [name for name in sys.modules if name.startswith(("dyncrp.serve", "dyncrp.cli.serve"))]:
        monkeypatch.delitem(sys.modules, name)
    code, said = run("--demo")
    assert code == 2
    assert "pip install 'dyncrp[serve]'" in said


def test_the_built_in_stream_comes_to_new_clusters():
    stream = demo.rows()
    first = [next(stream) for _ in range(3)]
    again = demo.rows()
    for row in first:
        same = next(again)
        assert (same.time, same.state, same.values.tolist()) == (row.time, row.state, row.values.tolist())


@pytest.mark.slow
def test_the_demo_runs_until_it_is_asked_to_stop(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "dyncrp", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stderr.readline().split()[-1]
            end = time.monotonic() + PATIENCE
            rows = 0
            while rows < demo.N_AT_FIRST + 5:
                assert time.monotonic() < end
                rows = next((stream["rows"] for stream in httpx.get(f"{address}/streams").json()["streams"]), 0)
            assert httpx.get(f"{address}/streams/{demo.NAME}/tables").json()["tables"]
            watched = {"accept": "text/event-stream"}
            with httpx.stream("GET", f"{address}/streams/{demo.NAME}/live", headers=watched, timeout=PATIENCE) as feed:
                lines = feed.iter_lines()
                next(line for line in lines if line == "event: rows")
                process.send_signal(signal.SIGTERM)
                list(lines)  # ends
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []
