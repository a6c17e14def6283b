"""Generated examples are the same on every run and on every machine; ``--fast`` leaves out what takes seconds.

``pytest --fast tests``, which is ``make test-fast``, also fails if no function of some module of the package is called.
"""

import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings

PACKAGE = Path(__file__).parents[1] / "src" / "dyncrp"
NOT_RUN = {"__main__.py"}  # by a process of its own

settings.register_profile("dyncrp", derandomize=True, deadline=None, database=None, max_examples=25)
settings.register_profile("fast", settings.get_profile("dyncrp"), max_examples=8)


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="leave out slow tests, and see that the rest run every module")


def pytest_configure(config):
    settings.load_profile("fast" if config.getoption("--fast", default=False) else "dyncrp")
    if config.getoption("--fast", default=False):
        config.pluginmanager.register(Modules())


def pytest_collection_modifyitems(config, items):
    if config.getoption("--fast", default=False):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


class Modules:
    """Sees which modules' functions are called while tests run, and fails the session if a module's never are.

    Only the first of a parametrised test's cases is watched, in each worker: to watch takes time.
    """

    def __init__(self):
        self.called, self.watched, self.missing = set(), set(), []

    def note(self, frame, event, _):
        if event == "call":
            self.called.add(frame.f_code.co_filename)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        test = item.nodeid.split("[")[0]
        if test in self.watched:
            return (yield)
        self.watched.add(test)
        sys.setprofile(self.note)
        threading.setprofile(self.note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """A worker of pytest-xdist has ended: take over what it saw."""
        self.called.update(getattr(node, "workeroutput", {}).get("called", []))

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["called"] = sorted(self.called)
        elif [Path(argument).resolve() for argument in session.config.args] == [Path(__file__).parent]:
            self.missing = sorted(path for path in modules_with_code() if str(PACKAGE / path) not in self.called)
            if self.missing and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        for path in self.missing:
            terminalreporter.write_line(f"no fast test runs dyncrp/{path}: mark fewer of its tests slow", red=True)


def modules_with_code():
    """Return the paths, below the package, of the modules that define a function."""
    paths = (path for path in PACKAGE.rglob("*.py") if "def " in path.read_text(encoding="utf-8"))
    return {str(path.relative_to(PACKAGE)) for path in paths} - NOT_RUN
