"""Checks of the files on a command line, before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from dyncrp.cli.errors import refuse

FIGURES = (".png", ".svg", ".pdf")


def is_pipe(path: str | Path) -> bool:
    """Return whether an output is standard output or a device such as /dev/null."""
    return str(path) == "-" or (os.path.exists(path) and not os.path.isfile(path))


def check_writable(path: Path, option: str, *, figure: bool = False) -> None:
    """Raise if a path cannot be written, or should be a figure and has another suffix."""
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}", param_hint=option)
    if figure and path.suffix.lower() not in FIGURES:
        raise typer.BadParameter(f"{path} must end in .png, .svg or .pdf", param_hint=option)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written", param_hint=option)


def _identity(path: str | Path) -> object:
    """Return what is the same for two paths only if they are of the same file, also by links of either kind."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)


def check_distinct(read: dict[str, str | Path | None], written: dict[str, str | Path | None]) -> None:
    """Raise if two options name the same file, or if a file cannot be written. A saved model may replace its source."""
    paths: dict[object, str] = {}
    for option, path in (read | written).items():
        if path is None or str(path) == "-":
            continue
        real = _identity(path)
        if real in paths and {option, paths[real]} != {"--save", "--model"}:
            refuse(f"{option} and {paths[real]} are the same file, {path}")
        paths[real] = option
        if option in written:
            check_writable(Path(path), option, figure=option == "--plot")
        if option in ("--checkpoint", "--save") and is_pipe(path):  # a new file would take its place
            refuse(f"{option} needs a regular file, and {path} is not one")
