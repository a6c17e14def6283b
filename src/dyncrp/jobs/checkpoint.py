"""The checkpoint of a run: everything that is needed to resume it, in one file that is replaced in one step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.io import files, model_file
from dyncrp.io.readers import Chunk, Place
from dyncrp.jobs.timeline import Timeline
from dyncrp.stream.stream import Stream

ROWS_IN_FINGERPRINT = 1000
TIMELINE = "timeline_"  # the prefix of the names of the arrays of a timeline
LARGEST = 2**62  # the largest integer in a checkpoint
PLACE: dict[str, Any] = {
    "row": int,
    "offset": int,
    "line": int,
    "tail": [int, str],
    "times": (str,),
    "findings": dict,
    "order": str,
}
PLACE |= {"last": ({int, float},)}
KINDS: dict[str, Any] = {
    "options": dict,
    "input": str,
    "output": str,
    "output_path": str,
    "length": int,
    "tail": str,
    "place": PLACE,
    "n_rows": int,
    "n_bad": int,
    "fingerprint": [int, str],
    "finished": bool,
    "events": ({"name": str, "path": str, "length": int, "tail": str},),
    "counts": dict,
}  # the types of the fields of a checkpoint; (kind,) may be None


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run.

    options: those that must be the same in a resumed run. input, output: their names. output_path: the output with
    links resolved. length, tail: of the output, see ``Writer``. place: where to continue reading. n_rows, n_bad: rows
    labelled and rows skipped. fingerprint: of the input, see ``Fingerprint``. finished: whether the input was read to
    its end. stream: None before the first row. events: "name", "path", "length" and "tail" of the file of events, or
    None. counts: the number of events of each kind, if they are counted.
    """

    options: dict[str, Any]
    input: str
    output: str
    output_path: str
    length: int
    tail: str
    place: Place
    n_rows: int
    n_bad: int
    fingerprint: list[Any]
    finished: bool
    stream: Stream | None
    timeline: Timeline
    events: dict[str, Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def write(self, path: str) -> None:
        """Write the file, replacing the previous one."""
        plain = [entry.name for entry in fields(self) if entry.name not in ("stream", "timeline")]
        arrays: dict[str, NDArray[Any]] = {TIMELINE + name: array for name, array in self.timeline.arrays().items()}
        if self.stream is not None:
            arrays["model"] = np.frombuffer(self.stream.to_bytes(), dtype=np.uint8)
        files.write(path, model_file.dumps({"run": {name: getattr(self, name) for name in plain}}, arrays))

    @classmethod
    def read(cls, path: str) -> Checkpoint | None:
        """Read a file that ``write`` wrote. Return None if it holds a model; raise ``ValueError`` for anything else."""
        config, arrays = model_file.loads(Path(path).read_bytes(), path)
        if "run" not in config:
            return None
        stream = Stream.from_bytes(arrays.pop("model").tobytes()) if "model" in arrays else None
        try:
            timeline = Timeline()
            timeline.restore({name.removeprefix(TIMELINE): array for name, array in arrays.items()})
            _check(config["run"], KINDS)
            _check(config["run"]["place"]["row"], int)
            found = cls(**config["run"], stream=stream, timeline=timeline)
            found._check_consistency()
            return found
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a readable checkpoint: {error}") from error

    def _check_consistency(self) -> None:
        """Raise if numbers contradict each other, or if entries are missing: somebody has edited the file."""
        for kind, n in self.counts.items():
            _check(n, int, f"counts, {kind}")
        missing = () if self.events is None else [name for name in KINDS["events"][0] if name not in self.events]
        if missing:
            raise ValueError(f"events has no {missing[0]!r}")
        if self.place["row"] != self.n_rows + self.n_bad:
            raise ValueError(f"it is at row {self.place['row']} after {self.n_rows} rows and {self.n_bad} bad ones")
        if self.stream is not None and self.stream.n_rows < self.n_rows:
            raise ValueError(f"its model has {self.stream.n_rows} rows of {self.n_rows}")


def _check(value: Any, kind: Any, name: str = "it") -> None:
    """Raise if a value is not of a kind: a type, a set of types, or the kinds of its entries; (kind,) also allows None.

    It finds the fault of a checkpoint that was edited by hand and has a correct digest.
    """
    if isinstance(kind, tuple):
        if value is not None:
            _check(value, kind[0], name)
    elif isinstance(kind, dict):
        _check(value, dict, name)
        for key, inner in kind.items():
            if key in value:
                _check(value[key], inner, f"{name}, {key}")
    elif isinstance(kind, list):
        if type(value) is not list or len(value) != len(kind):
            raise ValueError(f"{name} should have {len(kind)} entries, got {value!r}")
        for at, inner in enumerate(kind):
            _check(value[at], inner, f"{name}, {at}")
    elif isinstance(kind, set):
        if type(value) not in kind:
            raise ValueError(f"{name} must be a number, got {value!r}")
    elif type(value) is not kind or (kind is int and not 0 <= value <= LARGEST):
        raise ValueError(f"{name} should be of {kind.__name__}, got {value!r}")


class Fingerprint:
    """A digest of the first rows, to recognise an input."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._digests = {"numbers": hashlib.sha256(), "times": hashlib.sha256()}  # and some for labels and marks

    def add(self, chunk: Chunk, most: int = ROWS_IN_FINGERPRINT) -> None:
        """Add rows, as long as there are fewer than ``most``."""
        part = slice(0, max(most - self.n_rows, 0))
        self.n_rows += len(chunk.X[part])
        rows = chunk.X[part]
        texts = rows.dtype == object
        self._digests["numbers"].update("\n".join(map(repr, rows)).encode() if texts else rows.tobytes())
        if chunk.times is not None:
            self._digests["times"].update(np.ascontiguousarray(chunk.times[part]).tobytes())
        for name, known in chunk.told.items():
            text = "".join(f"{entry!r}\n" for entry in known[part])
            self._digests.setdefault(name, hashlib.sha256()).update(text.encode("utf-8", "surrogatepass"))

    @property
    def digest(self) -> str:
        """The digest so far."""
        return "".join(part.hexdigest() for part in self._digests.values())
