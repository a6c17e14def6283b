"""Models as files: a ``.npz`` of plain arrays with a JSON header. Loading never executes code.

The file holds one array ``header`` (UTF-8 JSON: ``format``, ``version``, and a ``config`` of plain values) and the
numeric arrays that the caller gave. It is written beside its target, synced and renamed over it. A class is known by
its name in ``DYNAMICS`` or ``FAMILIES``; add yours there to save it.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import stat
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import DYNAMICS
from dyncrp.families import FAMILIES

FORMAT = "dyncrp-model"
VERSION = 1
DEEPEST = 100  # how deeply values may nest, well before Python's recursion limit


def dumps(config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the content of a file that holds ``config`` (plain values, dynamics and families) and ``arrays``."""
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"the array {name!r} cannot be saved: it holds numbers that are not finite")
    header = {"format": FORMAT, "version": VERSION, "config": _to_plain(config)}
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    np.savez(buffer, header=text, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def loads(content: bytes, name: str = "this") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what ``dumps`` returned: (config, arrays). Anything else is a ``ValueError`` that says what is wrong.

    name: what the messages call it, such as a file's name.
    """
    try:
        if not content.startswith(b"PK"):
            raise ValueError("it is no .npz file")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            if "header" not in file.files:
                raise ValueError("it is an .npz file, but not one that save wrote: it has no header")
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes().decode())
        found = header["format"], header["version"]
    except Exception as error:  # damaged bytes make the readers of zip, npy and JSON raise almost anything
        raise ValueError(f"{name} is not a readable dyncrp model: {error}") from error
    if found[0] != FORMAT or found[1] != VERSION:
        raise ValueError(
            f"{name} is a {found[0]!r} file of version {found[1]!r}; this dyncrp reads version {VERSION} of {FORMAT!r}"
        )
    try:
        return _from_plain(header["config"]), arrays
    except Exception as error:  # a hostile header may make constructors raise almost anything
        raise ValueError(f"{name} has a damaged header: {error}") from error


def _kinds() -> dict[str, type[Any]]:
    """Return every class that a file may hold, by name, as registered now."""
    return {**DYNAMICS, **FAMILIES}


def _to_plain(value: Any, depth: int = 0) -> Any:
    """Turn a configuration into JSON values; a dynamics or family becomes {"kind": name, field: value …}."""
    _check_depth(depth)
    if is_dataclass(value):
        for name, kind in _kinds().items():
            if type(value) is kind:
                return {"kind": name} | {f.name: _to_plain(getattr(value, f.name), depth + 1) for f in fields(value)}
    if isinstance(value, dict):
        return {key: _to_plain(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_to_plain(entry, depth + 1) for entry in value]
    if isinstance(value, np.generic):
        value = float(value) if isinstance(value, np.floating) else value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{value!r} cannot be saved: only plain values and the dynamics and families in DYNAMICS and FAMILIES can"
    )


def _from_plain(value: Any, depth: int = 0) -> Any:
    _check_depth(depth)
    if isinstance(value, list):
        return [_from_plain(entry, depth + 1) for entry in value]
    if isinstance(value, dict):
        entries = {key: _from_plain(entry, depth + 1) for key, entry in value.items()}
        if "kind" not in entries:
            return entries
        kind, kinds = entries.pop("kind"), _kinds()
        if kind not in kinds:
            raise ValueError(f"unknown dynamics or family {kind!r}; known are {sorted(kinds)}")
        if "terms" in entries:
            entries["terms"] = tuple(entries["terms"])
        return kinds[kind](**entries)
    return value


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"a model in a file may nest at most {DEEPEST} levels deep")


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a new file beside the one that ``path`` names, links followed, sync it and rename it over that one."""
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".dyncrp-{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:  # in terms of the file that the user named
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(target)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Have the folder that a file is in on the disk, so that its name is."""
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
