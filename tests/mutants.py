"""Mutants: small errors, put into a copy of the code one at a time, each of which some test must find.

``make mutants`` takes some fifteen minutes; ``make mutants ONLY=loop`` tries those in files of that name. The C++ ones
are compiled together, and an environment variable chooses one of them. Whoever thins out tests runs this before and
after. When code changes, change the text of its mutants here; one that does not apply any more is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CPP = "engine/cpp/"
ENGINE, INDEX = "tests/engine", "tests/engine/test_index.py tests/engine/test_many_tables.py"
COMPONENTS = "tests/joining/test_components.py"
WEIGHTS = "tests/engine/test_weights.py"


class Mutant(NamedTuple):
    """In ``file``, below src/dyncrp, ``before`` occurs once and becomes ``after``; ``tests`` find that out.

    In C++ both are expressions; an empty ``after`` leaves out a call.
    """

    file: str
    before: str
    after: str
    tests: str = ENGINE


MUTANTS = [
    Mutant(CPP + "loop.hpp", "total + rules_.alpha", "total"),
    Mutant(CPP + "loop.hpp", "rules_.new_table_threshold * (1.0 - TIE)", "rules_.new_table_threshold * (1.0 + TIE)"),
    Mutant(CPP + "loop.hpp", "r < DROPPED", "r < 0.0"),
    Mutant(CPP + "loop.hpp", "Learns && !passes", "false"),
    Mutant(CPP + "loop.hpp", "lift + MARGIN", "lift"),
    Mutant(CPP + "process.hpp", "opened || frame.time >= quiet_until_", "opened"),
    Mutant(CPP + "loop.hpp", "seats_.update_posterior(work_.places, work_.responsibilities.begin())", ""),
    Mutant(CPP + "loop.hpp", "blind || indexed != is_indexed()", "indexed != is_indexed()"),
    Mutant(CPP + "loop.hpp", "most * (1.0 - TIE)", "most"),
    Mutant(CPP + "process.hpp", "fastest_ * (t - origin_) > REBASE_AT", "false"),
    Mutant(CPP + "process.hpp", "0.5 * (t - origin_)", "0.4 * (t - origin_)"),
    Mutant(CPP + "process.hpp", "before * (1.0 - share)", "before"),
    Mutant(CPP + "process.hpp", "lowest * (1.0 + TIE) + slack", "lowest"),
    Mutant(CPP + "process.hpp", "*found == id && is_closed_[found - begin] == 0", "*found == id"),
    Mutant(CPP + "process.hpp", "log_bounds_[c] - static_cast<float>(log_decay(origin_))", "log_bounds_[c]"),
    Mutant(CPP + "process.hpp", "0.999 * std::log(least / prune_below)", "1.5 * std::log(least / prune_below)"),
    Mutant(CPP + "dense.hpp", "m < size && !outcome_.ends_block", "m < size"),
    Mutant(CPP + "gaussian.hpp", "1.0001 * std::sqrt(square)", "0.0 * square"),
    Mutant(CPP + "gaussian.hpp", "keep * (p_ + n) / q", "keep * n / q"),
    Mutant(CPP + "gaussian.hpp", "moved_[c] > 0.0F", "false"),
    Mutant(CPP + "family.hpp", "block.touch(c)", ""),
    Mutant(CPP + "vectors.cpp", "(q + 1.0) * inverse", "q * inverse"),
    Mutant(CPP + "normal_wishart.hpp", "r * (q / (q + r))", "r"),
    Mutant(CPP + "normal_wishart.hpp", "scratch_.correlation", "1.0"),
    Mutant(CPP + "agreement.hpp", "0.5 * entropies - expected", "0.5 * entropies"),
    Mutant(CPP + "trials.hpp", "streams[1 - j]", "streams[j]"),
    Mutant("engine/reference.py", "value > NEGLIGIBLE", "value > -np.inf"),
    Mutant("engine/reference.py", "t - state.time", "t"),
    Mutant("stream/bins.py", "self._total = 1.0 + W", "self._total = W", "tests/stream/test_novelty.py"),
    Mutant("stream/warmup.py", "1 << (n.bit_length() - 1)", "n", "tests/stream/test_warmup.py"),
    Mutant("stream/warmup.py", "X[:n].copy()", "X[:n]", "tests/stream/test_warmup.py tests/test_estimator.py"),
    Mutant(
        "stream/learner.py", "tables[tables == closed] = opened", "pass", "tests/input/test_constraints.py tests/engine"
    ),
    Mutant(
        "stream/learner.py", "% ROWS_PER_ALPHA == 0", "% ROWS_PER_ALPHA == 1", "tests/search tests/test_estimator.py"
    ),
    Mutant("stream/learner.py", "examples.forget(trace.closed)", "pass", "tests/stream/test_examples.py"),
    Mutant("search/search.py", "not run.reproducibility < least", "True", "tests/search"),
    Mutant("search/search.py", "price * kind.n_unknown", "0.0", "tests/search"),
    Mutant("search/alpha.py", "total += weight", "total += 0.5 * weight", "tests/search"),
    Mutant("joining/components.py", "max(OTHERS_COUNT_AS, differ_in)", "OTHERS_COUNT_AS", COMPONENTS),
    Mutant("joining/components.py", "gaps[somewhere] / lengths[somewhere, None]", "gaps[somewhere]", COMPONENTS),
    Mutant("families/gaussian_shape.py", "within < LEAST_WITHIN", "within < 0.0", COMPONENTS),
    Mutant("joining/clusters.py", "shapes.spread.ndim == 3", "shapes.spread.size > 0", "tests/joining/test_curves.py"),
    Mutant("stream/counts.py", "if not len(at):", "if len(at) < 2:", "tests/stream/test_counts.py"),
    Mutant("joining/clusters.py", "ids[oldest[roots]]", "ids[roots]", "tests/views/test_clusters.py"),
    Mutant("joining/kept.py", "heirs.get(cluster, cluster)", "cluster", "tests/joining/test_kept.py"),
    Mutant("joining/kept.py", "of[follows] =", "of[:0] =", "tests/joining/test_kept.py"),
    Mutant("joining/kept.py", "self.after in self.tables", "self.after < self.before", "tests/joining/test_kept.py"),
    Mutant("stream/keeping.py", "self.kept.due - self.engine.n_observations", "len(X)", "tests/stream/test_keeping.py"),
    Mutant("stream/keeping.py", "self._join(edited=True)", "pass", "tests/stream/test_keeping.py"),
    Mutant("stream/events.py", "counts < FAINT", "counts > FAINT", "tests/stream/test_events.py"),
    Mutant("combining.py", "n_opened + n_new))", "n_opened + n_new + 1))", "tests/test_combining.py"),
    Mutant("families/normal_wishart.py", "(nu + n + (D - 1.0))", "(nu + n)", "tests/families"),
    Mutant("families/gaussian.py", "mean**2 / (2.0 * variance)", "mean**2 / variance", "tests/families"),
    Mutant(CPP + "loop.hpp", "rules_.repeat(weight, r, keep)", "", WEIGHTS),
    Mutant(CPP + "loop.hpp", "weight * work_.responsibilities[j]", "work_.responsibilities[j]", WEIGHTS),
    Mutant(CPP + "loop.hpp", "work_.weight == 0.0", "false", WEIGHTS),
    Mutant(CPP + "process.hpp", "weight * std::log1p(-r / memory)", "std::log1p(-r / memory)", WEIGHTS),
    Mutant(CPP + "stream.hpp", "work.weight > 0.0", "true", WEIGHTS),
    Mutant(CPP + "multinomial.cpp", "weight * work_.length", "work_.length", WEIGHTS),
    Mutant(CPP + "multinomial.cpp", "work_.weight == 0.0", "false", WEIGHTS),
    Mutant("engine/reference.py", "weight * np.log1p(-r * seen / memory)", "np.log1p(-r * seen / memory)", WEIGHTS),
    Mutant("engine/reference.py", "weight * seated[:, None]", "seated[:, None]", WEIGHTS),
    Mutant("engine/reference.py", "before.n_opened if weight else UNKNOWN", "before.n_opened", WEIGHTS),
    Mutant(
        "stream/warmup.py",
        "flatnonzero(known.weights[:n] > 0.0)",
        "flatnonzero(known.weights[:n] >= 0.0)",
        "tests/stream/test_weights.py",
    ),
    Mutant("stream/learner.py", "if opened < 0", "if False", "tests/stream/test_weights.py"),
    Mutant("stream/examples.py", "weights[part] > 0.0", "weights[part] >= 0.0", "tests/stream/test_weights.py"),
    Mutant("search/alpha.py", "betaln(a / step, weight)", "betaln(a, weight)", "tests/stream/test_weights.py"),
    Mutant("input/constraints.py", "np.ones(len(p.tables))", "np.zeros(len(p.tables))", "tests/stream/test_weights.py"),
]


def main() -> None:
    """Try the mutants, say what became of each, and fail if one survived."""
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [(number, one) for number, one in enumerate(MUTANTS, 1) if only in one.file]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        copy_project(work)
        if any(one.file.startswith(CPP) for _, one in chosen):
            compile_mutants(work, [(number, one) for number, one in chosen if one.file.startswith(CPP)])
        survivors = [number for number, one in chosen if not is_killed(work, number, one)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    sys.exit(bool(survivors))


def copy_project(work: Path) -> None:
    """Copy code and tests, with the compiled extensions, and make an interpreter that sees no other copy."""
    for name in ("src", "tests", "docs", "examples", "benchmarks", "experiments", "CMakeLists.txt", "pyproject.toml"):
        source = ROOT / name
        shutil.copytree(source, work / name) if source.is_dir() else shutil.copy(source, work)
    for library in (Path(sysconfig.get_path("purelib")) / "dyncrp").rglob("*.so"):
        shutil.copy(library, work / "src/dyncrp" / library.parent.name)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", work / "venv"], check=True)


def compile_mutants(work: Path, chosen: list[tuple[int, Mutant]]) -> None:
    """Compile the engine with all C++ mutants in it, of which ``DYNCRP_MUTANT`` chooses one."""
    for number, one in chosen:
        path = work / "src/dyncrp" / one.file
        before, after = (one.before, one.after) if one.after else (f"void({one.before})", "void()")
        path.write_text(applied(path, one, f"(dyncrp::is_mutant({number}) ? ({after}) : ({before}))"))
    numbers = work / "src/dyncrp" / CPP / "numbers.hpp"
    switch = (
        "#include <cstdlib>\nnamespace dyncrp {\ninline bool is_mutant(int number) {\n"
        '    static const char* chosen = std::getenv("DYNCRP_MUTANT");\n'
        "    return chosen != nullptr && std::atoi(chosen) == number;\n}\n}  // namespace dyncrp\n"
    )
    numbers.write_text(numbers.read_text().replace("\nnamespace dyncrp {", f"\n{switch}\nnamespace dyncrp {{", 1))
    build = work / "build"
    print("compiling the engine with its mutants", flush=True)
    subprocess.run(
        ["cmake", "-S", work, "-B", build, f"-DPython_EXECUTABLE={sys.executable}"], check=True, capture_output=True
    )
    subprocess.run(["cmake", "--build", build, "--parallel", "2"], check=True, capture_output=True)
    for library in build.glob("loop*.so"):
        shutil.copy(library, work / "src/dyncrp/engine")


def applied(path: Path, one: Mutant, after: str) -> str:
    """Return the text of a file with a mutant in it."""
    text = path.read_text()
    if text.count(one.before) != 1:
        raise SystemExit(f"{one.file} has {one.before!r} {text.count(one.before)} times, and must have it once")
    return text.replace(one.before, after)


def is_killed(work: Path, number: int, one: Mutant) -> bool:
    """Run the tests of a mutant, and say whether any of them failed."""
    path, in_cpp = work / "src/dyncrp" / one.file, one.file.startswith(CPP)
    original = path.read_text()
    if not in_cpp:
        path.write_text(applied(path, one, one.after))
    paths = [str(work / "src"), sysconfig.get_path("purelib")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    if in_cpp:
        environment["DYNCRP_MUTANT"] = str(number)
    command = [work / "venv/bin/python", "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *one.tests.split()], cwd=work, env=environment, capture_output=True, text=True)
    path.write_text(original)
    killed = "FAILED" in done.stdout  # with -x and several processes, the code is that of an interruption
    if not killed and done.returncode != 0:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    what = "killed  " if killed else "SURVIVED"
    print(f"{number:3} {what} {one.file}: {one.before} -> {one.after or 'left out'}", flush=True)
    return killed


if __name__ == "__main__":
    main()
