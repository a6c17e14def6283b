"""A file that grows, and can be cut back to any length that it had when it was synced, to resume a run."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import BinaryIO

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from dyncrp.io.files import FileError, sync_folder

TAIL = 1 << 16  # how many of the last bytes are compared when a run is resumed


class GrowingFile:
    """A file that grows, or standard output for "-"; ``length`` is the number of complete bytes.

    If the file system has locks, no other process can write the file at the same time.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
    >>> file = GrowingFile(path)
    >>> file.start()
    >>> file.append(b"first")
    >>> file.sync()
    >>> length, tail = file.length, file.tail()  # a checkpoint stores these
    >>> file.append(b", lost")
    >>> file.close()
    >>> again = GrowingFile(path)
    >>> again.resume(length, tail)
    >>> again.append(b", second")
    >>> again.close()
    >>> Path(path).read_text()
    'first, second'
    """

    def __init__(self, path: str) -> None:
        self.path, self.length = path, 0
        self._file: BinaryIO | None = None
        self._name_synced = False  # whether the folder was synced

    def start(self) -> None:
        """Start an empty file, and replace any that exists."""
        if self.path == "-" and sys.stdout is None:
            raise FileError("standard output is closed")
        self._file = sys.stdout.buffer if self.path == "-" else self._open_empty()
        self.length = 0

    def resume(self, length: int, tail: str) -> None:
        """Continue after this many bytes, whose last ones must have the digest ``tail``."""
        try:
            file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            raise FileError(f"{self.path} is missing, but the checkpoint continues it") from None
        _lock(file, self.path)
        if os.fstat(file.fileno()).st_size < length or tail_of(self.path, length) != tail:
            file.close()
            raise FileError(f"{self.path} has changed since the checkpoint, so it cannot be continued")
        file.truncate(length)
        file.seek(length)
        self._file, self.length = file, length

    def append(self, content: bytes) -> None:
        """Append bytes. If that fails, none of them are kept."""
        assert self._file is not None
        view = memoryview(content)
        try:
            while view:
                view = view[self._file.write(view) :]
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.path != "-":
                with suppress(OSError):
                    self._file.truncate(self.length)
            name = "standard output" if self.path == "-" else self.path
            raise OSError(error.errno, error.strerror, name) from None
        self.length += len(content)

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        if not self._name_synced:
            sync_folder(self.path)
            self._name_synced = True

    def tail(self) -> str:
        """Return a digest of the last bytes."""
        return tail_of(self.path, self.length)

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._file is not None and self.path != "-":
            self._file.close()

    def _open_empty(self) -> BinaryIO:
        """Return the file, emptied once it is locked."""
        file = open(  # noqa: SIM115
            self.path, "wb", buffering=0, opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC, 0o666)
        )
        _lock(file, self.path)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        return file


@contextmanager
def held(*paths: str) -> Iterator[None]:
    """Lock these files, if they exist; raise ``FileError`` if another run is writing one of them."""
    with ExitStack() as stack:
        for path in paths:
            if os.path.isfile(path):
                _lock(stack.enter_context(open(path, "r+b", buffering=0)), path)
        yield


def _lock(file: FileIO, path: str) -> None:
    """Lock a file until it is closed; raise ``FileError`` if another run is writing it."""
    try:
        if fcntl is not None:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise FileError(f"{path} is being written by another run") from None
    except OSError:  # some file systems have no locks
        pass


def tail_of(path: str, length: int) -> str:
    """Return a digest of the last bytes of a file that is cut to this length."""
    with open(path, "rb") as file:
        file.seek(max(length - TAIL, 0))
        return hashlib.sha256(file.read(min(length, TAIL))).hexdigest()
