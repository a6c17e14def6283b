"""Start-up: what importing loads, and what happens where the extension was not built."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import dyncrp
from dyncrp import DynamicalMixture, Gaussian, engine
from dyncrp.engine import ReferenceEngine


def python(code):
    """Run ``code`` in a process of its own and return what it printed, and what it said on stderr."""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def test_import_does_not_load_the_extension():
    assert python("import sys, dyncrp; print('dyncrp.engine.loop' in sys.modules)")[0] == ["False"]


# As if the extension had not been built.
WITHOUT = """
import sys
sys.modules["dyncrp.engine.loop"] = sys.modules["dyncrp.baselines.sweeps"] = None
import numpy as np
from dyncrp import DynamicalMixture, Gaussian
"""


def test_without_the_extension_the_reference_computes_and_one_warning_says_so_and_the_baselines_what_they_need():
    code = (
        WITHOUT
        + """
X = np.array([[0.0], [9.0], [0.5]])
models = [DynamicalMixture(Gaussian(1.0, 100.0)).fit(X) for _ in range(2)]
print(*models[1].labels_, type(models[1].engine_).__name__)
try:
    import dyncrp.baselines
except ImportError as error:
    print(error)
"""
    )
    printed, said = python(code)
    assert printed[:4] == ["0", "1", "0", "ReferenceEngine"]
    assert said.count("RuntimeWarning") == 1
    assert "Install a wheel, or a C++20 compiler" in said
    assert " ".join(printed[4:]).startswith("the baselines need dyncrp's C++ extension")


def test_a_model_file_does_not_need_the_engine_that_wrote_it(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2)) * 5.0
    model = DynamicalMixture(Gaussian(1.0, 25.0)).fit(X[:30])
    content = model.to_bytes()
    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr(engine, "has_extension", lambda: False)
        slow = DynamicalMixture.from_bytes(content)
        assert isinstance(slow.engine_, ReferenceEngine)
        slow.partial_fit(X[30:45])
        again = slow.to_bytes()
    fast = DynamicalMixture.from_bytes(again)
    assert not isinstance(fast.engine_, ReferenceEngine)
    fast.partial_fit(X[45:])
    model.partial_fit(X[30:])
    assert fast.log_evidence_ == pytest.approx(model.log_evidence_, rel=1e-12)
    assert fast.labels_.tolist() == model.labels_[15:].tolist()


def test_any_layout_of_the_input_will_do():
    X, times = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8.0)
    expected = DynamicalMixture(Gaussian(1.0, 9.0)).fit(X, times=times).log_evidence_
    frozen, spread = X.copy(), np.repeat(times, 2)[::2]
    frozen.flags.writeable = False
    for rows, when in ((frozen, times), (np.asfortranarray(X), spread), (np.repeat(X, 2, axis=0)[::2], times)):
        assert DynamicalMixture(Gaussian(1.0, 9.0)).fit(rows, times=when).log_evidence_ == expected


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
