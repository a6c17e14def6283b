"""Atomic writes: a file is written under another name, synced and renamed, so a crash leaves the old or the new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from contextlib import suppress

try:
    import fcntl
except ModuleNotFoundError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = ".dyncrp-"  # of the names under which files are written
STALE = 60.0  # seconds after which a file that nobody writes was left by a process that was killed

_cleaned: set[str] = set()  # folders, by this process


class FileError(ValueError):
    """The content of a file or a pipe is invalid. The message names the file and the place in it."""


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the file at ``path``, or the one that it links to, atomically."""
    try:
        _write(os.path.realpath(path), content)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # with the path that the user gave


def _write(target: str, content: bytes) -> None:
    if os.path.exists(target) and not os.path.isfile(target):  # such as a device, which a new file would replace
        raise OSError(errno.EINVAL, "it exists and is not a regular file")
    folder = os.path.dirname(target)
    if folder not in _cleaned:
        _cleaned.add(folder)
        remove_left_over(folder)
    temporary = os.path.join(folder, f"{PREFIX}{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file.fileno())
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


def _lock(handle: int) -> bool:
    """Lock a file as long as it is open, if nobody else has; return whether it is known that nobody has."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has, or the file system has no locks
        return False
    return True


def remove_left_over(folder: str) -> None:
    """Remove the files that processes which were killed had begun to write in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(PREFIX) or len(entry.name) != len(PREFIX) + 16:
                continue
            with suppress(OSError):
                if not entry.is_file(follow_symlinks=False) or time.time() - entry.stat().st_mtime < STALE:
                    continue
                handle = os.open(entry.path, os.O_RDONLY)
                try:
                    if _lock(handle):
                        os.unlink(entry.path)
                finally:
                    os.close(handle)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Sync the folder of a file, so that its name is on the disk. Windows has no call for this."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | flag)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
