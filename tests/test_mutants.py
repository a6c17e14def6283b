"""That the list of mutants fits the code: ``make mutants`` tries them, and takes too long to be a test."""

from mutants import MUTANTS, ROOT


def test_every_mutant_applies_in_one_place_and_names_tests_that_are_there():
    wrong = []
    for one in MUTANTS:
        path = ROOT / "src/dyncrp" / one.file
        n = path.read_text(encoding="utf-8").count(one.before) if path.exists() else 0
        wrong += [] if n == 1 else [f"{one.file} has {one.before!r} {n} times"]
        wrong += [f"{one.file}: there is no {tests}" for tests in one.tests.split() if not (ROOT / tests).exists()]
    assert wrong == []
