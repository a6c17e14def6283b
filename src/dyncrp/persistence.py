"""Models as files: a ``.npz`` of plain arrays with a JSON header. Loading never executes code.

The file holds one array ``header`` (UTF-8 JSON: ``format``, ``version``, and a ``config`` of plain values) and the
numeric arrays that the caller gave. It is written beside its target, synced and renamed over it.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import DYNAMICS
from dyncrp.families import FAMILIES

FORMAT = "dyncrp-model"
VERSION = 1
KINDS: dict[str, type[Any]] = {**DYNAMICS, **FAMILIES}


def save(path: str | os.PathLike[str], config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write ``config`` (plain values, dynamics and families) and ``arrays`` to ``path``, atomically and synced."""
    header = {"format": FORMAT, "version": VERSION, "config": _to_plain(config)}
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(buffer, header=text, **arrays)  # type: ignore[arg-type]
    _write_atomically(Path(path), buffer.getvalue())


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what ``save`` wrote: (config, arrays). Anything else is a ``ValueError`` that says what is wrong."""
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes().decode())
        found = header["format"], header["version"]
    except Exception as error:  # damaged bytes make the readers of zip, npy and JSON raise almost anything
        raise ValueError(f"{os.fspath(path)} is not a readable dyncrp model: {error}") from error
    if found[0] != FORMAT or found[1] != VERSION:
        raise ValueError(
            f"{os.fspath(path)} is a {found[0]!r} file of version {found[1]!r}; this dyncrp reads version {VERSION} "
            f"of {FORMAT!r}"
        )
    try:
        return _from_plain(header["config"]), arrays
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} has a damaged header: {error}") from error


def _to_plain(value: Any) -> Any:
    """Turn a configuration into JSON values; a dynamics or family becomes {"kind": name, field: value …}."""
    if is_dataclass(value) and type(value).__name__ in KINDS:
        return {
            "kind": type(value).__name__,
            **{f.name: _to_plain(getattr(value, f.name)) for f in fields(value)},
        }
    if isinstance(value, dict):
        return {key: _to_plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{value!r} cannot be saved: only plain values and the dynamics and families of DYNAMICS and FAMILIES can"
    )


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(entry) for entry in value]
    if isinstance(value, dict):
        entries = {key: _from_plain(entry) for key, entry in value.items()}
        if "kind" not in entries:
            return entries
        kind = entries.pop("kind")
        if kind not in KINDS:
            raise ValueError(f"unknown dynamics or family {kind!r}; known are {sorted(KINDS)}")
        if "terms" in entries:
            entries["terms"] = tuple(entries["terms"])
        return KINDS[kind](**entries)
    return value


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it; mkstemp ignores it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_atomically(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
