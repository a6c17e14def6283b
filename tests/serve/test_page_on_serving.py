"""The commands and the client on the page on serving do what it says."""

import doctest
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from serving import KNOWN, serving

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_commands(tmp_path):
    blocks = "".join(re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^\$ (.*\n(?:> .*\n)*)((?:[^$>].*\n)*)", blocks, re.MULTILINE)
    assert len(commands) == 10
    checker = doctest.OutputChecker()
    with serving(tmp_path) as (client, _):
        for command, wanted in commands:
            line = command.replace("\n> ", "\n").replace(ADDRESS, str(client.base_url).rstrip("/"))
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
            assert checker.check_output(wanted.strip(), done.stdout.strip(), doctest.ELLIPSIS), done.stdout


def test_the_client(tmp_path, capsys):
    (block,) = re.findall(r"^```python\n(import .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with serving(tmp_path) as (client, _):
        client.put("/streams/doors", json=KNOWN)
        code = block.replace(ADDRESS, str(client.base_url).rstrip("/"))
        for _ in range(2):  # the second time, all of it has been answered before
            names = {}
            exec(code, names)
            assert capsys.readouterr().out == "[0, 1]\n[0]\n"
        with pytest.raises(ValueError, match="must hold numbers"):
            names["send"]([["x", "y"]], 3)
        assert client.get("/streams/doors").json()["rows"] == 3
