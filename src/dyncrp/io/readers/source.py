"""The bytes of a text file as UTF-8, decompressed and converted if necessary."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from dyncrp.io.files import FileError

BLOCK = 1 << 20  # bytes to read at a time
UTF_16 = b"\xff\xfe", b"\xfe\xff"  # its byte-order marks
HIDDEN = re.compile(r"(^|/)(__MACOSX/|\.)")  # what a Mac adds to archives
ONLY_RETURNS = re.compile(rb"\r[^\r]")
MOST_NAMED = 10
SPREADSHEET = (
    "is a spreadsheet, which is not read: save the sheet as CSV (UTF-8) in the program that wrote it, or with "
    "pandas.read_excel(path).to_csv('rows.csv', index=False)"
)
ENCODING_HINT = "--encoding names the encoding, such as latin-1 or cp1252"


class Compression(NamedTuple):
    """A compression: its name, how a file begins, and a function that opens it."""

    name: str
    magic: re.Pattern[bytes]
    open: Callable[[Any, str], Any]


def find_member(file: BinaryIO, name: str) -> tuple[zipfile.ZipFile, str]:
    """Return a zip archive and the name of the one file in it; raise ``FileError`` if it holds several. name: its own.

    >>> content = io.BytesIO()
    >>> with zipfile.ZipFile(content, "w") as archive:
    ...     archive.writestr("rows.csv", "x,y")
    >>> find_member(content, "rows.zip")[1]
    'rows.csv'
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError) as error:
        raise FileError(f"{name} is not a readable zip file: {error}") from error
    inside = [member for member in archive.namelist() if not member.endswith("/") and not HIDDEN.search(member)]
    if "[Content_Types].xml" in inside or "content.xml" in inside:
        raise FileError(f"{name} {SPREADSHEET}")
    if len(inside) != 1:
        names = ", ".join(inside[:MOST_NAMED]) + (", …" if len(inside) > MOST_NAMED else "")
        holds = f"holds {len(inside)} files: {names}" if inside else "holds no file"
        raise FileError(f"{name} {holds}; unpack it and name one")
    return archive, inside[0]


def _open_zip(file: Any, name: str) -> Any:
    if not file.seekable():  # the index is at the end
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with the stream
        shutil.copyfileobj(file, copy)
        file = copy
    archive, member = find_member(file, name)
    try:
        return archive.open(member)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise FileError(f"{name} is not a readable zip file: {error}") from error


def _open_zstd(file: BinaryIO, name: str) -> Any:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise FileError("zstd needs pyarrow: pip install 'dyncrp[cli]'") from None
    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


COMPRESSIONS = {
    ".gz": Compression("gzip", re.compile(rb"\x1f\x8b\x08"), lambda file, _: gzip.GzipFile(mode="rb", fileobj=file)),
    ".bz2": Compression("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), lambda file, _: bz2.BZ2File(file)),
    ".zip": Compression("zip", re.compile(rb"PK(\x03\x04|\x05\x06)"), _open_zip),
    ".zst": Compression("zstd", re.compile(rb"\x28\xb5\x2f\xfd"), _open_zstd),
}


def find_compression(head: bytes) -> Compression | None:
    """Return the compression of a file that begins with these bytes, None if it is not compressed."""
    return next((kind for kind in COMPRESSIONS.values() if kind.magic.match(head)), None)


class Source:
    """The text of a file or a pipe as UTF-8, block by block. Compression is recognised by the first bytes.

    encoding: of the text. By default, UTF-16 if there is a byte-order mark of it, and UTF-8 otherwise; then bytes that
    are not valid UTF-8 are returned unchanged. live: whether to return bytes as soon as they arrive.

    ``plain`` tells whether the bytes are those of the file, so that a place in the text is a place in the file.

    >>> source = Source(io.BytesIO(gzip.compress("größe".encode("latin-1"))), "rows.csv.gz", "latin-1")
    >>> source.plain, source.read().decode()
    (False, 'größe')
    """

    def __init__(self, file: BinaryIO, name: str, encoding: str | None = None, *, live: bool = False) -> None:
        self.name = name
        self.file: Any = file if hasattr(file, "peek") else io.BufferedReader(file)
        self.compression = find_compression(self.file.peek(16))
        stream: Any = self.file if self.compression is None else self.compression.open(self.file, name)
        self._read = stream.read1 if live and hasattr(stream, "read1") else stream.read
        self._pending = self._read_bytes()
        if len(self._pending) == 1:  # half of a byte-order mark
            self._pending += self._read_bytes()
        self.encoding = "utf-16" if encoding is None and self._pending.startswith(UTF_16) else encoding
        self._decoder = None if self.encoding is None else codecs.getincrementaldecoder(self.encoding)()
        self._line = 1
        self._returns = False  # whether lines end in carriage returns alone, as on old Macs
        self.plain = self.compression is None and self._decoder is None
        if not live and self.encoding != "utf-16":
            self._returns = b"\n" not in self._pending and bool(ONLY_RETURNS.search(self._pending))
            self.plain = self.plain and not self._returns

    def read(self) -> bytes:
        """Return the next bytes, about ``BLOCK`` of them, and b"" at the end."""
        while True:
            block, self._pending = self._pending or self._read_bytes(), b""
            block = block.replace(b"\r", b"\n") if self._returns else block
            if self._decoder is None:
                return block
            text = self._decode(block)
            if text or not block:  # a block may hold only a part of a character
                self._line += text.count("\n")
                return text.encode("utf-8", "surrogatepass")

    def _read_bytes(self) -> bytes:
        try:
            return bytes(self._read(BLOCK))
        except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
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
                fault = f"the bytes {bad} are not a character of {self.encoding}"
            raise FileError(f"{self.name}, line {line}: {fault}; {ENCODING_HINT}") from None
