"""Kill a checkpointed run again and again, at random moments, and compare what it finally wrote.

``python tests/kill_runs.py 200`` starts a run, kills it with SIGKILL after a random moment, resumes with ``--resume``,
and so on, half of the time with an input that grows once its output is finished; whenever a run gets to its end, its
output, with the cluster of each row, and its events must be, byte for byte, those of a run that nobody disturbed. The
runs are forks of one process with the engine ready, or each would spend seconds on starting.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from typer.main import get_command

from dyncrp.cli.app import app

main = get_command(app)  # made once, not in every fork
ROWS = 800
MODEL = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=100", "--alpha", "1"]
MODEL += ["--dynamics", "0.99*exponential(50s) + 0.01*stationary()", "--time-column", "when", "--keep", "note"]
# Tables come back, close, open again under their names, and are kept apart: all that an event or a name depends
# on.
MODEL += ["--set", "max_tables=5", "--alarm-rate", "0.01", "--names"]
MODEL += ["--label-column", "who", "--cannot-link-column", "frame", "--set", "keep_clusters=true"]
FIRST_ROWS = 650  # of an input that grows once its output is finished
MOST_IN_A_ROW = 60  # kills without an end: then nothing is gained between them


def write_input(path, n_rows=ROWS):
    """Write the first n_rows of the input."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.integers(0, 4, ROWS // 50), 50)
    X = rng.normal(np.array([-9.0, 0.0, 9.0, 18.0])[z, None], 1.0, size=(ROWS, 2)).tolist()
    names = [f"place {z[t]}" if t % 40 == 7 else "" for t in range(ROWS)]
    marks = [str(t // 2) if t % 97 < 2 else "" for t in range(ROWS)]
    cells = [f'{t},"a ""note"",\n{t}",{names[t]},{marks[t]},{x!r},{y!r}' for t, (x, y) in enumerate(X)][:n_rows]
    path.write_text("when,note,who,frame,x,y\n" + "\n".join(cells) + "\n")


def command(source, output, every):
    kept = ["--checkpoint", f"{output}.checkpoint", "--every", str(every), "--resume", "--quiet"]
    named = ["--output", str(output), "--events", str(events_of(output))]
    named += ["--as-of-arrival"] if output.suffix == ".jsonl" else []
    return ["run", str(source), "--columns", "x,y", *named, *MODEL, *kept]


def events_of(output):
    return output.with_name(output.name + ".events.jsonl")


def written(output):
    """Return the bytes of an output, and of its events."""
    return output.read_bytes(), events_of(output).read_bytes()


def fork(arguments):
    """Start a run in a process of its own."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = main(arguments, standalone_mode=False) or 0
    finally:
        os._exit(code)


def kill_until(n_kills, folder, seed=0):
    """Return how many runs got to their end under this many kills, each with the right output."""
    random.seed(seed)
    source, grows = folder / "in.csv", folder / "grows.csv"
    write_input(source)
    wanted = {}
    for suffix in ("csv", "jsonl", "parquet"):
        undisturbed = folder / f"undisturbed.{suffix}"
        for _ in range(2):  # a second time, so that what resuming needs is ready, too
            main(command(source, undisturbed, ROWS), standalone_mode=False)
        wanted[suffix] = written(undisturbed)
        kinds = {json.loads(line)["kind"] for line in wanted[suffix][1].splitlines()}
        assert kinds - {"parted"} == {"opened", "returned", "alarm", "closed", "joined"}, kinds
    begin = time.monotonic()
    os.waitpid(fork(command(source, folder / "timed.csv", 50)), 0)
    longest = time.monotonic() - begin
    kills = done = 0
    while kills < n_kills:
        suffix = ("csv", "jsonl", "parquet")[done % 3]
        output = folder / f"killed.{suffix}"
        write_input(grows, n_rows := random.choice([FIRST_ROWS, ROWS]))
        for _ in range(MOST_IN_A_ROW):
            child = fork(command(grows, output, every=random.choice([20, 50, 300])))
            time.sleep(random.uniform(0.0, longest))
            os.kill(child, signal.SIGKILL)  # a child that has ended waits for us, so its id is still its own
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                kills += 1
            elif n_rows == ROWS or os.WEXITSTATUS(status):
                break
            else:  # a finished output is continued
                write_input(grows, n_rows := ROWS)
        if os.WIFSIGNALED(status):
            sys.exit(f"run {done} was killed {MOST_IN_A_ROW} times and got nowhere")
        if os.WEXITSTATUS(status) or written(output) != wanted[suffix]:
            sys.exit(f"run {done} ended with code {os.WEXITSTATUS(status)} and another output, after {kills} kills")
        left = [path.name for path in folder.iterdir() if path.name.startswith((".dyncrp", "killed"))]
        done += 1
        for name in left:
            (folder / name).unlink()
    return kills, done


if __name__ == "__main__":
    memory = Path("/dev/shm")  # a kill, unlike a power cut, needs no disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        kills, done = kill_until(int(sys.argv[1]), Path(folder))
    print(f"{kills} kills, {done} runs to the end, all outputs the same")
