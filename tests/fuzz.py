"""Feed a million inputs that nobody sends by accident to readers, model files, the service and the command line.

``python tests/fuzz.py 1000000`` counts what was accepted and what was refused, and exits with 1 if anything else came:
an error that is not documented, a pickle that was loaded, a file written elsewhere, a state that changed although its
input was refused, more memory than is sensible, a crash, or no end. ``--minutes`` and Ctrl-C end it earlier. An input
is made from the seed, its kind and its number alone, so ``--only csv --case 1234`` shows one of them again.

The inputs are tried in forks, a few hundred in each, so that a crash costs no more than one of them.
"""

import argparse
import asyncio
import collections
import contextlib
import faulthandler
import io
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse
import warnings
from pathlib import Path

import numpy as np
from typer.main import get_command

import fuzz_inputs as inputs
from cases import PATIENCE
from dyncrp import DynamicalMixture
from dyncrp.cli.app import app
from dyncrp.io.files import FileError
from dyncrp.io.readers import open_reader
from dyncrp.serve.app import Service
from dyncrp.serve.bodies import Roles, read_batch
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.registry import Registry

MEMORY = 1 << 30  # bytes that an input may take beside what the program has
SECONDS = 20  # of CPU time that an input may take
MOST_PIECES = 50_000  # of a file: it may decompress to millions of lines, and is then read in pieces of three
REFUSED, ACCEPTED = "refused", "accepted"
main = get_command(app)


class Fault(Exception):
    """A promise that was not kept."""


def check(fact, what):
    if not fact:
        raise Fault(what)


# Readers


def read_rows(kind, r, folder):
    """A reader gives rows as it should, and the same from any place in the middle, or says what is wrong where."""
    content, selection = getattr(inputs, f"{kind}_file")(r)
    path = folder / f"in.{kind}"
    path.write_bytes(content)
    most_rows = r.choice((1, 3, 1000))
    parts = []
    try:
        with open_reader(str(path), kind, selection, most_rows) as reader:
            for chunk in reader.chunks():
                check_chunk(chunk, reader)
                parts.append(chunk)
                if len(parts) == MOST_PIECES:
                    return ACCEPTED
            check(len({len(chunk.place) for chunk in parts}) < 2, "places differ")
            seekable = reader.seekable
    except FileError as error:
        check(str(error).startswith(str(path)), f"a message that does not name the file: {error}")
        return REFUSED
    if seekable and len(parts) > 1 and reader.encoding is None:
        at = r.randrange(len(parts) - 1)
        place = json.loads(json.dumps(parts[at].place))
        try:
            with open_reader(str(path), kind, selection, most_rows) as reader:
                rest = list(reader.chunks(place))
        except FileError:
            check(kind == "parquet", "what can be read cannot be read on")  # whose end may say that it has no rows
            return REFUSED
        check(_joined(rest) == _joined(parts[at + 1 :]), "other rows from a place in the middle")
    return ACCEPTED


def _joined(chunks):
    """Return all rows of chunks, however they are cut."""
    found = []
    for chunk in chunks:
        times = [None] * len(chunk.rows) if chunk.times is None else chunk.times.tolist()
        told = zip(*chunk.told.values(), strict=True) if chunk.told else times
        found += zip(chunk.rows.tolist(), map(repr, chunk.X), times, map(repr, told), strict=True)
    return found


def check_chunk(chunk, reader):
    n = len(chunk.rows)
    check(len(chunk.X) == n, "rows and indices differ in number")
    check(all(len(column) == n for column in chunk.kept.values()), "columns to copy differ in length")
    check(all(len(column) == n for column in chunk.told.values()), "what is told differs in length")
    check(not n or np.all(np.diff(chunk.rows) > 0), "indices do not increase")
    if chunk.X.dtype != object:
        check(chunk.X.shape[1] == len(reader.features) if reader.encoding is None else True, "another width")
        check(not np.any(np.isinf(chunk.X)), "an infinite number")
    if chunk.times is not None and n:
        check(len(chunk.times) == n, "times differ in number")
        check(
            not np.any(np.isnat(chunk.times) if chunk.times.dtype.kind == "M" else ~np.isfinite(chunk.times)), "no time"
        )
        check(np.all(chunk.times[1:] >= chunk.times[:-1]), "time runs backwards")
    json.dumps(chunk.place)


# Models


def load_model(r, folder):
    """A file is refused in words that begin with its name, or it is a model that works and can be saved."""
    content, rows = inputs.model_bytes(r)
    try:
        model = DynamicalMixture.from_bytes(content)
    except ValueError as error:
        check(str(error).startswith("this "), f"a message of somebody else: {error}")
        return REFUSED
    use_model(model, rows)
    return ACCEPTED


def use_model(model, rows):
    warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that somebody put there on purpose
    try:
        before = model.to_bytes()
    except ValueError:  # sums of numbers that somebody put there are infinite, and no file holds those
        return
    check(DynamicalMixture.from_bytes(before).to_bytes() == before, "a model that is saved and loaded is another")
    for ask in (model.predict_proba, lambda rows: model.clusters(), lambda rows: model.describe()):
        with contextlib.suppress(ValueError):
            ask(rows)
    try:
        model.partial_fit(rows)
    except ValueError as error:
        # What the engine makes of numbers that were forged may be no numbers; it stops there, after the rows before.
        forged = "as family.check returns it" in str(error)
        check(forged or model.to_bytes() == before, "rows that were refused changed the model")
    else:
        with contextlib.suppress(ValueError):  # as above: what was learned on top of forged numbers may be none
            after = model.to_bytes()
            check(DynamicalMixture.from_bytes(after).to_bytes() == after, "a model that has learned more is another")


UNCHANGED = {}  # models by their files, for the next state


def set_state(r, folder):
    """A state is refused, and the model stays as it was, or it is one that works."""
    content, state, rows = inputs.state_bytes(r)
    model = UNCHANGED.pop(content, None) or DynamicalMixture.from_bytes(content)
    before = model.to_state()
    try:
        model.set_state(state)
    except ValueError:
        check(model.to_state() == before, "a state that was refused changed the model")
        UNCHANGED[content] = model
        return REFUSED
    use_model(model, rows)
    return ACCEPTED


def read_body(r, folder):
    """The body of a request is rows within the limits, or refused with 4xx."""
    body, kind = inputs.rows(r)
    if r.random() < 0.5:
        body = inputs.damage(r, body, tokens=inputs.JSON_TOKENS)
    names = [r.choice(("t", "x", "y")) if r.random() < 0.1 else None for _ in range(3)]
    try:
        batch = read_batch(body, kind, Roles(*names), Served.limits)
    except RequestError as refused:
        check(400 <= refused.status < 500 and refused.error, f"refused with {refused.status}")
        json.dumps(refused.content).encode()
        return REFUSED
    check(0 < batch.n <= Served.limits.rows and 0 < batch.width <= Served.limits.features, "more than the limits")
    return ACCEPTED


# The command line

OPTIONS = [[], ["--family", "gaussian"], ["--skip-bad"], ["--clusters", "auto"], ["--set", "warmup=5"], ["--names"]]
OPTIONS += [["--time-column", "t"], ["--columns", "x,y"], ["--keep", "all"], ["--alarm-rate", "0.1"], ["--no-header"]]
OPTIONS += [["--family", "bernoulli"], ["--dynamics", "exponential(20)"], ["--text", "w"], ["--max-tables", "x"]]
KNOWN = ["--family", "gaussian", "--set", "variance=1", "--set", "prior_variance=9", "--dynamics", "stationary()"]
KNOWN += ["--alpha", "1"]


def run_command(r, folder):
    """A command ends with 0, or says what is wrong and ends with 1 or 2; a run that failed leaves no output."""
    kind = r.choice(("csv", "jsonl", "npy", "parquet", "model", "checkpoint"))
    path, output = folder / f"in.{kind}", folder / "out.csv"
    if kind == "model":
        warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that somebody put there on purpose
        path.write_bytes(inputs.model_bytes(r)[0])
        arguments = r.choice((["info", path], ["summary", path], ["run", folder / "rows.csv", "--model", path]))
        (folder / "rows.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    elif kind == "checkpoint":
        (folder / "rows.csv").write_text("x,y\n" + "1,2\n4,5\n" * 20)
        output.write_text("row,table,probability,novelty\n")
        arguments = ["run", folder / "rows.csv", *KNOWN, "--output", output, "--checkpoint", path, "--quiet"]
        if not Run.checkpoint:
            call([*arguments, "--force"])
            Run.checkpoint = path.read_bytes()
        path.write_bytes(Run.damaged(r))
        arguments += ["--resume"]
    else:
        path.write_bytes(getattr(inputs, f"{kind}_file")(r)[0])
        arguments = [
            "run",
            path,
            "--output",
            output,
            "--force",
            *r.choice((KNOWN, r.choice(OPTIONS))),
            *r.choice(OPTIONS),
        ]
        if r.random() < 0.1:
            arguments = [r.choice(("tune", "run")), path, *r.choice(OPTIONS)]
    return ACCEPTED if call(arguments) == 0 else REFUSED


class Run:
    """The checkpoint of a run that is damaged again and again."""

    checkpoint = b""

    @classmethod
    def damaged(cls, r):
        members = inputs.members_of(cls.checkpoint)
        for _ in range(r.choice((1, 2))):
            inputs.edit(r, members)
        return inputs.seal(members) if r.random() < 0.9 else inputs.damage(r, cls.checkpoint)


def call(arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(said):
        try:
            code = main([str(argument) for argument in arguments], standalone_mode=True)
        except SystemExit as ended:
            code = ended.code
    check(code in (0, 1, 2, None), f"exit code {code}")
    check("Traceback" not in said.getvalue(), "a traceback")
    check(code != 2 or said.getvalue().strip(), "an exit code without a word")
    return code or 0


# The service


class Served:
    """A service in this process, asked without a socket; a new one for each fork."""

    limits = Limits(
        body=300_000, rows=300, cells=3_000, streams=3, features=50, tables=50, warmup=200, warmup_seconds=None
    )

    def __init__(self, folder, r):
        self.folder = folder / "served"
        self.loop = asyncio.new_event_loop()
        self.service = Service(self.folder, self.limits, sync=False)
        self._states = {}
        self._events = asyncio.Queue()
        self._life = self.loop.create_task(self._live())
        self.loop.run_until_complete(asyncio.sleep(0.01))
        for name in "ab":
            self.loop.run_until_complete(self._ask("PUT", f"/streams/{name}", [], {}, inputs.settings(r)))
        self._states = self.states()

    async def _live(self):
        async def send(message):
            pass

        await self._events.put({"type": "lifespan.startup"})
        await self.service.app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._events.get, send)

    async def _ask(self, method, path, query, headers, body):
        parts = [body] if len(body) < 2 else [body[: len(body) // 2], body[len(body) // 2 :]]
        messages = [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
        answer = []

        async def receive():
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message):
            answer.append(message)

        named = {"host": "localhost", "content-type": "application/json", **headers}
        raw = urllib.parse.urlencode(query, errors="surrogatepass").encode()
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode("utf-8", "replace"), "query_string": raw, "root_path": ""}
        scope |= {"headers": [(k.encode(), v.encode("utf-8")) for k, v in named.items()], "client": ("127.0.0.1", 1)}
        scope |= {"server": ("localhost", 80)}
        await asyncio.wait_for(self.service.app(scope, receive, send), PATIENCE)
        return answer

    def ask(self, r):
        """A request is answered with 2xx, or with 4xx and an error in words, and then nothing has changed."""
        method, path, query, headers, body = inputs.request(r)
        answer = self.loop.run_until_complete(self._ask(method, path, query, headers, body))
        check(answer and answer[0]["type"] == "http.response.start", "no answer")
        status = answer[0]["status"]
        content = b"".join(message.get("body", b"") for message in answer[1:])
        kinds = dict(answer[0].get("headers", ()))
        check(200 <= status < 500, f"status {status}: {content[:200]!r}")
        check(self.service.registry.broken is None, f"broken: {self.service.registry.broken}")
        if status >= 400:
            check(method == "HEAD" or json.loads(content)["error"], "a refusal without a word")
        elif kinds.get(b"content-type") == b"application/json":
            json.loads(content, parse_constant=_refuse)
        states = self.states()
        if status >= 400 or method in ("GET", "HEAD", "OPTIONS") or path.endswith("/explain"):
            check(states == self._states, f"{method} {path} was answered {status} and changed a stream")
        self._states = states
        return ACCEPTED if status < 400 else REFUSED

    def states(self):
        return {name: _state(stream) for name, stream in self.service.registry.streams.items()}

    def close(self):
        """End the service, and see that what it wrote is what it had."""
        last = self.states()
        self.loop.run_until_complete(self._events.put({"type": "lifespan.shutdown"}))
        self.loop.run_until_complete(asyncio.wait_for(self._life, PATIENCE))
        self.loop.close()
        again = Registry(self.folder, self.limits, sync=False)
        found = {name: _state(stream) for name, stream in again.streams.items()}
        again.close()
        check(found == last, "the service came back as another")
        shutil.rmtree(self.folder)


def _state(stream):
    """Return what there is of a stream; before it has learned, its rows, since asking for more would end the search."""
    return stream.n_rows, stream.last_event, stream.features, stream.stream.to_bytes() if stream.learned else None


def _refuse(name):
    raise Fault(f"{name} in an answer")


# Forks

# The shares of the kinds, in thousandths: what takes longest, least.
KINDS = {"model": 100, "csv": 120, "jsonl": 120, "npy": 220, "parquet": 80, "state": 140, "body": 170}
KINDS |= {"service": 45, "command": 5}
BLOCK = {"service": 200, "command": 50}  # inputs of one fork; others 500
RECORD = struct.Struct("<qqqq")  # the number of the input, how many were accepted, how many refused, peak memory


def trial(kind, folder, r):
    """Return what tries an input of a kind, given its random numbers, and what to do at the end."""
    if kind == "service":
        served = Served(folder, r)
        return served.ask, served.close
    if kind in ("csv", "jsonl", "npy", "parquet"):
        return (lambda r: read_rows(kind, r, folder)), lambda: None
    tries = {"model": load_model, "state": set_state, "body": read_body, "command": run_command}[kind]
    return (lambda r: tries(r, folder)), lambda: None


def watch(folder):
    """Let nothing be unpickled, started or connected to, and nothing written outside of the folder."""
    inside = (str(folder), "/dev/null", os.devnull)
    forbidden = (
        "pickle.find_class",
        "os.system",
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "socket.connect",
        "os.mkdir",
    )

    def hook(event, arguments):
        if not hook.on:
            return
        if event in forbidden and not (event == "os.mkdir" and str(arguments[0]).startswith(inside)):
            raise Fault(f"{event}{arguments!r}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, mode, flags = os.fsdecode(arguments[0]), arguments[1] or "", arguments[2] or 0
            writes = set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not os.path.realpath(path).startswith(inside) and not path.startswith(inside):
                raise Fault(f"open{arguments!r}")

    hook.on = True
    sys.addaudithook(hook)
    return hook


def signature(kind, error):
    """Return what makes two failures one: the kind, the error and the place in the package where it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/src/dyncrp/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}:{frames[-1].lineno}" if frames else "-"
    words = str(error)[:60] if isinstance(error, Fault) else ""
    return f"{kind} {type(error).__name__} {place} {words}".strip()


def try_block(kind, seed, begin, end, folder, record, report):
    """Try inputs, in a fork: count in the record, and write failures as lines of JSON."""
    inputs.Canary.folder = str(folder.parent / "canary")
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + MEMORY, limit))
    warnings.simplefilter("error")
    signal.signal(signal.SIGPROF, _too_long)
    attempt, close = trial(kind, folder, random.Random(f"{seed} {kind} {begin} begins"))
    hook = watch(folder)
    counts = collections.Counter()

    def guarded(number, action):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            counts[action()] += 1
        except BaseException as error:  # whatever it is, it is a failure
            hook.on = False
            text = "".join(traceback.format_exception(error))[-4000:]
            line = {"what": signature(kind, error), "case": number, "text": text}
            with report.open("a") as file:
                file.write(json.dumps(line) + "\n")
            hook.on = True
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    for number in range(begin, end):
        RECORD.pack_into(record, 0, number, counts[ACCEPTED], counts[REFUSED], 0)
        r = random.Random(f"{seed} {kind} {number}")
        guarded(number, lambda r=r: attempt(r))
    guarded(end - 1, close)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    RECORD.pack_into(record, 0, end, counts[ACCEPTED], counts[REFUSED], peak)


def _too_long(*_):
    raise Fault(f"no end after {SECONDS} s")


class Campaign:
    """All forks, what they found, and when to stop."""

    def __init__(self, seed, folder, minutes, log):
        self.seed, self.folder, self.log = seed, folder, log
        self.end, self.stopped = time.monotonic() + 60 * minutes, False
        self.counts = collections.defaultdict(collections.Counter)
        self.failures = {}
        self.peak = 0
        self.record = mmap.mmap(-1, RECORD.size)

    def over(self):
        return self.stopped or time.monotonic() > self.end

    def block(self, kind, begin, end):
        """Try the inputs of one fork; after a crash go on behind it."""
        while begin < end:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            report = self.folder / "report"
            RECORD.pack_into(self.record, 0, begin, 0, 0, 0)
            child = os.fork()
            if not child:
                code = 70
                try:
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    with open(self.folder / "stderr", "w") as quiet:
                        os.dup2(quiet.fileno(), 2)
                        faulthandler.enable(quiet)
                        try_block(kind, self.seed, begin, end, folder, self.record, report)
                        code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            status = self._wait(child)
            number, accepted, refused, peak = RECORD.unpack_from(self.record)
            self.peak = max(self.peak, peak)
            self.counts[kind].update({ACCEPTED: accepted, REFUSED: refused})
            if report.exists():
                for line in report.read_text().splitlines():
                    self._fail(**json.loads(line))
                    self.counts[kind]["failed"] += 1
                report.unlink()
            if (self.folder / "canary").exists():
                self._fail(f"{kind} a pickle was loaded", begin, "")
                (self.folder / "canary").rmdir()
            shutil.rmtree(folder)
            if status:
                text = (self.folder / "stderr").read_text(errors="replace")[-3000:]
                self._fail(f"{kind} ended with {status}: {_where(text)}", number, text)
                self.counts[kind]["failed"] += 1
            begin = number + 1 if status else end

    def _wait(self, child):
        """Return how a fork ended; one that makes no progress is killed."""
        last, since = None, time.monotonic()
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return status
            at = RECORD.unpack_from(self.record)[0]
            if at != last:
                last, since = at, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)

    def _fail(self, what, case, text):
        found = self.failures.setdefault(what, {"count": 0, "case": case, "text": text})
        found["count"] += 1
        if found["count"] == 1:
            print(f"FAILED {what}, case {case}", flush=True)
            if self.log is not None:
                with self.log.open("a") as file:
                    file.write(json.dumps({"failed": what, "case": case, "text": text}) + "\n")

    def run(self, shares):
        """Try so many inputs of each kind, the kinds in turns."""
        done = dict.fromkeys(shares, 0)
        begin = time.monotonic()
        next_line = begin
        while not self.over() and any(done[kind] < n for kind, n in shares.items()):
            kind = min(
                (kind for kind in shares if done[kind] < shares[kind]), key=lambda kind: done[kind] / shares[kind]
            )
            step = min(BLOCK.get(kind, 500), shares[kind] - done[kind])
            self.block(kind, done[kind], done[kind] + step)
            done[kind] += step
            if self.log is not None and time.monotonic() > next_line:
                next_line = time.monotonic() + 30
                told = {"inputs": sum(done.values()), "minutes": round((time.monotonic() - begin) / 60, 1)}
                with self.log.open("a") as file:
                    file.write(json.dumps(told | {"failures": len(self.failures)}) + "\n")
        return done, (time.monotonic() - begin) / 60


def _where(text):
    """Return the innermost frame of a crash that lies in the package."""
    return next((line.strip() for line in text.splitlines() if "/src/dyncrp/" in line), text.strip()[-80:])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=10_000, help="inputs in all")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", action="append", choices=KINDS, help="inputs of this kind (may be repeated)")
    parser.add_argument("--case", type=int, help="try this one input of --only in this process, and show what it does")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which to stop")
    parser.add_argument("--log", type=Path, help="a file for what it does, a line of JSON now and then")
    parser.add_argument("--results", type=Path, help="a JSON file for the counts")
    return parser.parse_args()


def show(kind, seed, number, folder):
    """Try one input here, with its traceback; of the service, those of its fork before it, too."""
    inputs.Canary.folder = str(folder / "canary")
    warnings.simplefilter("error")
    first = number - number % BLOCK["service"] if kind == "service" else number
    attempt, close = trial(kind, folder, random.Random(f"{seed} {kind} {first} begins"))
    for at in range(first, number + 1):
        print(kind, at, attempt(random.Random(f"{seed} {kind} {at}")))
    close()


def commit():
    """Return the commit that is checked out, "" outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def start():
    options = parse()
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as name:
        folder = Path(name).resolve()
        if options.case is not None:
            show(options.only[0], options.seed, options.case, folder)
            return 0
        chosen = {kind: share for kind, share in KINDS.items() if not options.only or kind in options.only}
        shares = {kind: -(-options.n * share // sum(chosen.values())) for kind, share in chosen.items()}
        campaign = Campaign(options.seed, folder, options.minutes, options.log)
        for wanted in (signal.SIGINT, signal.SIGTERM):
            signal.signal(wanted, lambda *_: setattr(campaign, "stopped", True))
        done, minutes = campaign.run(shares)
    kinds = {kind: {"inputs": n, **campaign.counts[kind]} for kind, n in done.items()}
    for kind, counts in kinds.items():
        print(f"{kind}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    total = sum(done.values())
    print(
        f"{total:,} inputs in {minutes:.0f} minutes, at most {campaign.peak / 2**20:,.0f} MiB in a process, "
        f"{len(campaign.failures)} failures that differ"
    )
    if options.results is not None:
        told = {
            "commit": commit(),
            "seed": options.seed,
            "inputs": total,
            "minutes": round(minutes, 1),
            "peak": campaign.peak,
            "kinds": kinds,
        }
        failures = {what: {"count": f["count"], "case": f["case"]} for what, f in campaign.failures.items()}
        options.results.write_text(json.dumps(told | {"failures": failures}, indent=1) + "\n")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(start())
