"""The bytes of a text file as UTF-8: decompressed, and encoded anew, if need be."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from dyncrp.io.files import FileError

BLOCK = 1 << 20  # bytes to read at a time
UTF_16 = b"\xff\xfe", b"\xfe\xff"  # how it begins
ENCODING_HINT = "--encoding names the encoding, such as latin-1 or cp1252"


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
    """UTF-8 of a text file or a pipe, block by block. The first bytes say whether they are compressed, not the name.

    encoding: of the text. By default it is UTF-16 if it begins with its byte-order mark, and UTF-8 otherwise; bytes
    that are no UTF-8 then pass through unharmed. live: whether bytes may have to be waited for, and are
    taken as they come.

    ``plain`` tells whether the bytes are those of the file, so that a place in them is a place in the file.

    >>> source = Source(io.BytesIO(gzip.compress("größe".encode("latin-1"))), "rows.csv.gz", "latin-1")
    >>> source.plain, source.read().decode()
    (False, 'größe')
    """

    def __init__(self, file: BinaryIO, name: str, encoding: str | None = None, *, live: bool = False) -> None:
        self.name = name
        self.file: Any = file if hasattr(file, "peek") else io.BufferedReader(file)
        self.compression = find_compression(self.file.peek(16))
        stream: Any = self.file if self.compression is None else self.compression.open(self.file)
        self._read = stream.read1 if live and hasattr(stream, "read1") else stream.read
        self._pending = self._read_bytes()
        if len(self._pending) == 1:  # a pipe may begin with half of a mark
            self._pending += self._read_bytes()
        self.encoding = "utf-16" if encoding is None and self._pending.startswith(UTF_16) else encoding
        self._decoder = None if self.encoding is None else codecs.getincrementaldecoder(self.encoding)()
        self._line = 1
        self.plain = self.compression is None and self._decoder is None

    def read(self) -> bytes:
        """Return the next bytes, some BLOCK of them; none at the end."""
        while True:
            block, self._pending = self._pending or self._read_bytes(), b""
            if self._decoder is None:
                return block
            text = self._decode(block)
            if text or not block:  # a block may hold no more than a part of a character
                self._line += text.count("\n")
                return text.encode("utf-8", "surrogatepass")

    def _read_bytes(self) -> bytes:
        try:
            return bytes(self._read(BLOCK))
        except (EOFError, OSError, zlib.error) as error:
            if self.compression is None or getattr(error, "errno", None) is not None:
                raise
            fault = " ".join(str(error).split())
            raise FileError(f"{self.name} is not a readable {self.compression.name} file: {fault}") from error

    def _decode(self, block: bytes) -> str:
        assert self._decoder is not None
        try:
            return self._decoder.decode(block, final=not block)
        except UnicodeError as error:
            line, fault = self._line, str(error)
            if isinstance(error, UnicodeDecodeError):
                before = error.object[: error.start].decode(error.encoding, "ignore")
                line += before.count("\n")
                bad = " ".join(f"{byte:02x}" for byte in error.object[error.start : error.end][:4])
                fault = f"the bytes {bad} are no character of {self.encoding}"
            raise FileError(f"{self.name}, line {line}: {fault}; {ENCODING_HINT}") from None
