"""Start-up, in fresh processes: imports, the first results, and the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.settings import Settings
from benchmarks.timing import best_seconds

Row = dict[str, Any]
FIRST_RESULT = (
    "import numpy as np; from dyncrp import DynamicalMixture, Exponential, Gaussian; "
    "DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0)).partial_fit(np.zeros((10, 2)))"
)
FIRST_LEARNT = (
    "import numpy as np; from dyncrp import DynamicalMixture; rng = np.random.default_rng(0); "
    "DynamicalMixture().fit(rng.normal(10.0 * rng.integers(4, size=(1000, 1)), 1.0, (1000, 2)))"
)
PROGRAMS = {
    "python by itself": "pass",
    "import sklearn": "import sklearn",
    "import sklearn.cluster": "import sklearn.cluster",
    "import sklearn.base": "import sklearn.base",
    "import dyncrp": "import dyncrp",
    "from dyncrp import DynamicalMixture": "from dyncrp import DynamicalMixture",
    "first result": FIRST_RESULT,
    "first result, hyperparameters learned from 1,000 × 2": FIRST_LEARNT,
    "dyncrp --version": "from dyncrp.__main__ import main; import sys; sys.argv[1:] = ['--version']; main()",
    "dyncrp --help": "from dyncrp.__main__ import main; import sys; sys.argv[1:] = ['--help']; main()",
}


def run(settings: Settings) -> Iterator[tuple[str, list[Row]]]:
    """Yield the seconds that each program takes from start to end."""
    calls = [lambda code=code: _process(code) for code in PROGRAMS.values()]
    for call in calls:
        call()  # fills the file cache
    seconds = best_seconds(calls, settings.processes)
    yield (
        "fresh processes",
        [
            {"system": name, "seconds": total, "net": total - seconds[0]}
            for name, total in zip(PROGRAMS, seconds, strict=True)
        ],
    )


def _process(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
