"""The bytes of a text file: decompressed, if it is compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from dyncrp.io.files import FileError

BLOCK = 1 << 20  # bytes to read at a time


class Compression(NamedTuple):
    """A way to compress: its name, how such a file begins, and what reads it."""

    name: str
    magic: re.Pattern[bytes]
    open: Callable[[Any], Any]


def _open_zstd(file: BinaryIO) -> Any:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise FileError("zstd needs pyarrow: pip install 'dyncrp[cli]'") from None
    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


COMPRESSIONS = {
    ".gz": Compression("gzip", re.compile(rb"\x1f\x8b\x08"), lambda file: gzip.GzipFile(mode="rb", fileobj=file)),
    ".bz2": Compression("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.BZ2File),
    ".zst": Compression("zstd", re.compile(rb"\x28\xb5\x2f\xfd"), _open_zstd),
}


def find_compression(head: bytes) -> Compression | None:
    """Return how a file that begins with these bytes is compressed, None if it is not."""
    return next((kind for kind in COMPRESSIONS.values() if kind.magic.match(head)), None)


class Source:
    """Bytes of a text file or a pipe, block by block. The first bytes say whether they are compressed, not the name.

    ``plain`` tells whether the bytes are those of the file, so that a place in them is a place in the file.

    >>> source = Source(io.BytesIO(gzip.compress(b"x,y")), "rows.csv.gz", live=False)
    >>> source.plain, source.read()
    (False, b'x,y')
    """

    def __init__(self, file: BinaryIO, name: str, *, live: bool) -> None:
        """live: whether bytes may have to be waited for, and should be taken as they come."""
        self.name = name
        self.file: Any = file if hasattr(file, "peek") else io.BufferedReader(file)
        self.compression = find_compression(self.file.peek(16))
        stream: Any = self.file if self.compression is None else self.compression.open(self.file)
        self.plain = self.compression is None
        self._read = stream.read1 if live and hasattr(stream, "read1") else stream.read

    def read(self) -> bytes:
        """Return the next bytes, at most BLOCK of them; none at the end."""
        try:
            return bytes(self._read(BLOCK))
        except (EOFError, OSError, zlib.error) as error:
            if self.compression is None or getattr(error, "errno", None) is not None:
                raise
            fault = " ".join(str(error).split())
            raise FileError(f"{self.name} is not a readable {self.compression.name} file: {fault}") from error
