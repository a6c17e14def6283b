"""Files written beside their place, synced and renamed, so that a crash leaves the old one or the new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat


class FileError(ValueError):
    """A file, or a pipe, does not hold what it should; the message names it and the place in it."""


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a new file beside the one that ``path`` names, links followed, sync it and rename it over that one."""
    try:
        _write(os.path.realpath(path), content)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # names the file that the user named


def _write(target: str, content: bytes) -> None:
    if os.path.exists(target) and not os.path.isfile(target):  # a new file would take the place of a device
        raise OSError(errno.EINVAL, "it exists and is no regular file")
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
    """Have the folder that a file is in on the disk, so that its name is; Windows cannot be asked for that."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | flag)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
