"""Models as files: a ``.npz`` of plain arrays with a JSON header. Loading never executes code. See docs/files.md.

The file holds an array ``header`` (UTF-8 JSON: ``format``, ``version``, ``dyncrp``, and a ``config`` of plain values),
the numeric arrays that the caller gave, and ``sha256``, a digest of them all. Classes are stored by their names in
``DYNAMICS`` and ``FAMILIES``; add your own class there to save it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyncrp.dynamics import DYNAMICS
from dyncrp.families import FAMILIES
from dyncrp.version import __version__

FORMAT = "dyncrp-model"
END = b"PK\x05\x06"  # begins the last 22 bytes of an archive
VERSION = 1
DEEPEST = 200  # how deeply values may nest, well below Python's recursion limit
MOST_IN_HEADER = 100  # a hyperparameter with more numbers than this becomes an array of its own
INFINITY = {"number": "inf"}  # how an infinite number is written
DTYPES = ("<f8", "<c16", "<i8", "|u1")  # of the arrays in a file, on every machine


def dumps(config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the content of a file that holds ``config`` (plain values, dynamics and families) and ``arrays``."""
    arrays = dict(arrays)
    plain = _to_plain(config, arrays, ())
    header = {"format": FORMAT, "version": VERSION, "dyncrp": __version__, "config": plain}
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    members = {"header": text}
    for name, array in arrays.items():
        members[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        if members[name].dtype.str not in DTYPES or np.any(np.isinf(array)):
            raise ValueError(
                f"the array {name!r} cannot be saved: it must be float64, complex128 or int64, without infinite numbers"
            )
    buffer = io.BytesIO()
    np.savez(buffer, sha256=_digest(members), **members)  # type: ignore[arg-type]
    return buffer.getvalue()


def loads(content: bytes, name: str = "this") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the config and the arrays of a file that ``dumps`` made; raise ``ValueError`` if it is invalid.

    name: what error messages call the content, such as the name of the file.
    """
    try:
        members = _members(content)
        if "header" not in members:
            raise ValueError("it is an .npz file, but not one that save wrote: it has no header")
        header = json.loads(members["header"].tobytes().decode())
        found = header["format"], header["version"]
    except Exception as error:  # damaged bytes make the readers of zip, npy and JSON raise almost anything
        raise ValueError(f"{name} is not a readable dyncrp model: {error}") from error
    if found[0] != FORMAT or type(found[1]) is not int or found[1] != VERSION:
        raise ValueError(
            f"{name} is a {found[0]!r} file of version {found[1]!r}; "
            f"this dyncrp reads version {VERSION} of {FORMAT!r}{_writer(header)}"
        )
    if not np.array_equal(members.pop("sha256", None), _digest(members)):  # type: ignore[arg-type]
        raise ValueError(f"{name} was changed after it was saved: its content does not match its sha256")
    del members["header"]
    try:
        arrays = {key: array.astype(array.dtype.newbyteorder("=")) for key, array in members.items()}
        config = _from_plain(header["config"], arrays)
        if not isinstance(config, dict):
            raise ValueError(f"its config must be an object, got {type(config).__name__}")
        return config, arrays
    except Exception as error:  # a hostile header may make constructors raise almost anything
        raise ValueError(f"{name} has a damaged header: {error}{_writer(header)}") from error


def writer(content: bytes) -> str:
    """Return a note for errors that says which version of dyncrp wrote a file, "" if it is this one."""
    return _writer(json.loads(_members(content)["header"].tobytes().decode()))


def _writer(header: dict[str, Any]) -> str:
    version = header.get("dyncrp")
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"; dyncrp {version[:40]!r} wrote it, and this is {__version__!r}"


def _digest(members: dict[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the SHA-256 of the members, sorted by name: name, dtype and shape of each, then its bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(members.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _members(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an uncompressed .npz file, after checking their sizes."""
    if not content.startswith(b"PK"):
        raise ValueError("it is not an .npz file")
    if content[-len(END) - 18 : -18] != END:  # with which every archive without a comment ends
        raise ValueError("it is cut off, or bytes follow it")
    members = {}
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if sum(info.file_size for info in file.infolist()) > len(content):
            raise ValueError("its members are larger than the file, but save does not compress")
        if file.infolist() and file.infolist()[0].header_offset != 0:
            raise ValueError("there are other bytes before it")
        for info in file.infolist():
            name = info.filename.removesuffix(".npy")
            if name in members or name == info.filename or info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its member {info.filename!r} is repeated, compressed or not an .npy file")
            members[name] = _array(name, file.read(info))
    return members


def _array(name: str, raw: bytes) -> NDArray[Any]:
    """Return the array of an .npy file, after checking that its header matches the number of bytes."""
    file = io.BytesIO(raw)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"its array {name!r} has an unknown version of .npy")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    start, size = file.tell(), math.prod(shape) * dtype.itemsize
    if dtype.str not in DTYPES or by_columns or min(shape, default=0) < 0 or size != len(raw) - start:
        raise ValueError(f"its array {name!r} of {dtype} and shape {shape} is not what save writes")
    return np.ndarray(shape, dtype, raw, start)


def _kinds() -> dict[str, type[Any]]:
    """Return the classes that a file may hold, by their registered names."""
    return {**DYNAMICS, **FAMILIES}


def _to_plain(value: Any, arrays: dict[str, NDArray[Any]], path: tuple[str, ...]) -> Any:
    """Turn a configuration into JSON values; a dynamics or family becomes {"kind": name, field: value …}.

    A long vector or a matrix is added to the arrays and becomes {"array": name}, such as "params.family.variance".
    """
    _check_depth(len(path))
    if is_dataclass(value):
        for name, kind in _kinds().items():
            if type(value) is kind:
                return {"kind": name} | {
                    f.name: _to_plain(getattr(value, f.name), arrays, (*path, f.name)) for f in fields(value)
                }
    if isinstance(value, dict):
        return {key: _to_plain(entry, arrays, (*path, key)) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        if value.dtype == np.float64 and value.size > MOST_IN_HEADER:
            name = ".".join(path)
            arrays[name] = value
            return {"array": name}
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_to_plain(entry, arrays, (*path, str(at))) for at, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = float(value) if isinstance(value, np.floating) else value.item()
    if value == math.inf:  # JSON has no infinity
        return dict(INFINITY)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{value!r} cannot be saved: only plain values and the dynamics and families in DYNAMICS and FAMILIES can"
    )


def _from_plain(value: Any, arrays: dict[str, NDArray[Any]], depth: int = 0) -> Any:
    """Undo ``_to_plain``, and remove the arrays that it added."""
    _check_depth(depth)
    if isinstance(value, list):
        return [_from_plain(entry, arrays, depth + 1) for entry in value]
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return arrays.pop(value["array"])
        if value == INFINITY:
            return math.inf
        entries = {key: _from_plain(entry, arrays, depth + 1) for key, entry in value.items()}
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
