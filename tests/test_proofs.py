"""The tests that the page of proofs names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_each_promise_has_tests_that_exist():
    page = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    promises = re.findall(r"^\| (.+) \| (`tests/.+) \|$", page, flags=re.MULTILINE)
    assert len(promises) >= 36
    for promise, tests in promises:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests):
            found = f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
            assert found, f"there is no test {name} in {path}, which is to hold: {promise}"
