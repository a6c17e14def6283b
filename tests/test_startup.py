"""Start-up: importing compiles nothing, compiled code is kept on disk, and a disk that refuses is no error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dyncrp
from dyncrp import Bernoulli, DynamicalMixture, Gaussian
from dyncrp.engine import bernoulli

PACKAGE = Path(dyncrp.__file__).parent


def python(code, **environment):
    """Run ``code`` in a process of its own and return what it printed."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | environment
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_import_does_not_load_the_compiler():
    assert python("import sys, dyncrp; print('numba' in sys.modules)") == ["False"]


@pytest.mark.slow
def test_a_second_process_loads_compiled_code_from_disk():
    DynamicalMixture(Gaussian(1.0, 9.0)).fit([[0.0], [1.0]])  # the first process is this one
    code = """
import dyncrp
dyncrp.DynamicalMixture(dyncrp.Gaussian(1.0, 9.0)).fit([[0.0], [1.0]])
from dyncrp.engine.gaussian import run
print(sum(run.stats.cache_hits.values()), sum(run.stats.cache_misses.values()))
"""
    assert python(code) == ["1", "0"]


@pytest.mark.slow
def test_without_a_place_to_keep_it_code_is_compiled_again(tmp_path):
    # Every place that compiled code could be kept in is, or lies below, a file. (Permissions would not stop root.)
    shutil.copytree(PACKAGE, tmp_path / "dyncrp", ignore=shutil.ignore_patterns("__pycache__"))
    obstacle = tmp_path / "dyncrp" / "engine" / "__pycache__"
    obstacle.write_text("not a directory")
    below = str(obstacle / "x")
    code = """
import dyncrp.engine.compiled, dyncrp.engine.special
print(dyncrp.__file__, dyncrp.engine.special.digamma(1.0))
"""
    places = {"NUMBA_CACHE_DIR": below, "HOME": below, "XDG_CACHE_HOME": below, "PYTHONPATH": str(tmp_path)}
    path, value = python(code, **places)
    assert Path(path).is_relative_to(tmp_path)
    assert abs(float(value) + np.euler_gamma) < 1e-12


def test_no_layout_of_the_input_is_compiled_for_anew():
    X, times = np.eye(4), np.arange(4.0)
    DynamicalMixture(Bernoulli(1.0, 1.0)).fit(X, times=times)
    compiled_for = len(bernoulli.run.signatures)
    frozen, spread = np.eye(4), np.arange(8.0)[::2]
    frozen.flags.writeable = times.flags.writeable = False
    DynamicalMixture(Bernoulli(1.0, 1.0)).fit(frozen, times=times)
    DynamicalMixture(Bernoulli(1.0, 1.0)).fit(np.asfortranarray(X), times=spread)
    assert len(bernoulli.run.signatures) == compiled_for


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]], ids=" ".join)
def test_help_does_not_wait_for_what_only_work_needs(arguments):
    code = "import sys; from dyncrp.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "print([name for name in ('numpy', 'scipy', 'sklearn', 'pandas', 'matplotlib') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_every_public_name_is_there():
    code = "import dyncrp, sys; assert 'numpy' not in sys.modules; print([getattr(dyncrp, n) for n in dyncrp.__all__])"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert set(dyncrp.__all__) <= set(dir(dyncrp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dyncrp.nothing
