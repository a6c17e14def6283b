"""Messages and errors: a line on standard error, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from dyncrp.io.files import FileError
from dyncrp.jobs.stop import Stopped

BAD_DATA, WRONG_USAGE = 1, 2  # exit codes; that of a signal is 128 plus its number
STDOUT = "standard output"


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn expected errors into a line on standard error and an exit code."""
    try:
        yield
    except BrokenPipeError:  # the reader of the output has closed it
        _discard_output()
    except Stopped as stopped:
        _fail("stopped", 128 + stopped.args[0])
    except FileError as error:
        _fail(str(error), BAD_DATA)
    except ValueError as error:
        refuse(str(error))
    except OSError as error:
        if error.filename == STDOUT:
            _discard_output()
        _fail(f"{error.filename or 'file'}: {error.strerror or error}", BAD_DATA)
    except MemoryError:
        _fail("there is not enough memory", BAD_DATA)


def refuse(message: str) -> NoReturn:
    """End the program for wrong usage."""
    _fail(message, WRONG_USAGE)


def say(message: str, *, quiet: bool = False) -> None:
    """Print a line on standard error, unless ``quiet``."""
    if not quiet and sys.stderr is not None:  # None if it is closed, which print would take for standard output
        print(f"dyncrp: {message}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Print lines on standard error as they are."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def print_result(text: str) -> None:
    """Print a result on standard output, and flush it."""
    if sys.stdout is None:
        raise FileError(f"{STDOUT} is closed")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, STDOUT) from None


def _fail(message: str, code: int) -> NoReturn:
    say(message)
    raise typer.Exit(code)


def _discard_output() -> None:
    """Discard what is left for standard output; otherwise Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
