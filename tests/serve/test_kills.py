"""A server that is killed goes on as if it had not been; ``python tests/kill_serve.py 200`` does it more often."""

import subprocess
import sys
from pathlib import Path

import pytest

from cases import PATIENCE


@pytest.mark.slow
def test_four_kills():
    script = Path(__file__).parents[1] / "kill_serve.py"
    done = subprocess.run(
        [sys.executable, script, "4", "50"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "all answers, models and events are those of no kill" in done.stdout
