"""Atomic writes: a file is written under another name, synced and renamed, so a crash leaves the old or the new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat


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
    temporary = os.path.join(os.path.dirname(target), f".dyncrp-{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
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
    """Sync the folder of a file, so that its name is on the disk. Windows has no call for this."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | flag)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
