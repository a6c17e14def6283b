"""The values of a JSON text, one on each line: those of an array, or objects that each take several lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dyncrp.io.files import FileError
from dyncrp.io.readers.source import BLOCK, Source

SPACE = re.compile(r"[\s\ufeff]*")
LONGEST_VALUE = 1 << 26  # characters
BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte-order mark, or a part of it, and space
NEAR_THE_END = 64  # characters: an error there may only mean that more is to come


class JsonSource:
    """A source of JSON lines. If the text is an array, or objects over several lines, it is brought into lines.

    ``in_lines`` tells whether the text has a value on each line already, and is left as it is. A value that is being
    read must fit into memory; the text need not.

    >>> import io
    >>> source = JsonSource(Source(io.BytesIO(b'[{"x": 1},\\n {"x":\\n 2}]'), "rows.json"))
    >>> source.in_lines, source.read()
    (False, b'{"x": 1}\\n{"x":  2}\\n')
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._first = source.read()
        while self._first and not self._first.strip(BLANK):
            more = source.read()
            if not more:
                break
            self._first += more
        self.in_lines = _is_in_lines(self._first)
        self.plain = source.plain and self.in_lines
        self._lines = None if self.in_lines else self._split()

    def read(self) -> bytes:
        """Return the next bytes, about ``BLOCK`` of them, and b"" at the end."""
        if self._lines is None:
            first, self._first = self._first, b""
            return first or self.source.read()
        held, n = [], 0
        for line in self._lines:
            held.append(line)
            n += len(line)
            if n >= BLOCK:
                break
        return b"".join(held)

    def _split(self) -> Iterator[bytes]:
        """Yield the values, each as a line."""
        text, at, done, n = self._decode(self._first), 0, False, 0
        decoder = json.JSONDecoder()
        at = _skip(text, 0)
        array = text[at] == "["
        at += array
        while True:
            begin = at = _skip(text, at)
            if at < len(text) and array and text[at] == "]":
                self._check_rest(text[at + 1 :])
                return
            if at < len(text) and n and array:
                if text[at] != ",":
                    raise self._error(n, f"a comma or ] must follow a row, got {text[at]!r}")
                at = _skip(text, at + 1)
            try:
                if at == len(text):
                    raise json.JSONDecodeError("the text ends within the array", text, at)
                _, end = decoder.raw_decode(text, at)
                if end == len(text) and not done:  # a number may go on
                    raise json.JSONDecodeError("", text, end)
            except (ValueError, RecursionError) as error:
                fault = getattr(error, "msg", str(error))
                far = getattr(error, "pos", 0) < len(text) - NEAR_THE_END and not fault.startswith("Unterminated")
                if at == len(text) and done and not array:
                    return
                if done or far or len(text) - at > LONGEST_VALUE:
                    raise self._error(n, f"not JSON: {fault}") from None
                block = self.source.read()
                done = not block
                text, at = text[begin:] + self._decode(block), 0
                continue
            yield re.sub("[\r\n]", " ", text[at:end]).encode("utf-8", "surrogateescape") + b"\n"
            n, at = n + 1, end

    def _decode(self, block: bytes) -> str:
        """Return bytes as text, and keep the part of a character at their end for the next time."""
        data = getattr(self, "_rest", b"") + block
        cut = len(data)
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte >= 0xC0:  # the first byte of a character of several
                length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                cut = len(data) - back if length > back and block else cut
                break
            if byte < 0x80:
                break
        self._rest = data[cut:]
        return data[:cut].decode("utf-8", "surrogateescape")

    def _check_rest(self, text: str) -> None:
        """Raise if anything but space follows the array."""
        while text or (text := self._decode(self.source.read())):
            if text.strip():
                raise FileError(f"{self.source.name}: {text.strip()[:20]!r} follows the array")
            text = ""

    def _error(self, row: int, fault: str) -> FileError:
        return FileError(f"{self.source.name}, row {row}: {fault}")


def rows_within(value: dict[str, Any]) -> tuple[list[Any], str] | None:
    """Return the rows of a table that is one object, and a note that says where they are; None if it is not clear.

    >>> rows_within({"n": 1, "data": [{"x": 1}, {"x": 2}]})
    ([{'x': 1}, {'x': 2}], "the rows are those within 'data'")
    >>> rows_within({"x": {"0": 1, "1": 2}, "y": {"0": 3, "1": 4}})[0]
    [{'x': 1, 'y': 3}, {'x': 2, 'y': 4}]
    """
    cells = list(value.values())
    tables = [name for name, cell in value.items() if isinstance(cell, list) and cell and isinstance(cell[0], dict)]
    if len(tables) == 1:
        rows = value[tables[0]]
        if value.get("type") == "FeatureCollection" and all(isinstance(row, dict) for row in rows):  # GeoJSON
            return [row.get("properties") or {} for row in rows], "the rows are the properties of its features"
        return rows, f"the rows are those within {tables[0]!r}"
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        if all(len(row) == len(names) for row in data):
            return [dict(zip(map(str, names), row, strict=True)) for row in data], "the rows are those within 'data'"
    elif cells and all(isinstance(cell, dict) and cell.keys() == cells[0].keys() for cell in cells):
        # As pandas writes frames by itself: the columns one after the other.
        return [{name: column[key] for name, column in value.items()} for key in cells[0]], "its columns are made rows"
    return None


def why_not_rows(value: dict[str, object]) -> str:
    """Return why the only object of a text is not a row but a table, and what helps; "" if it may be a row.

    >>> why_not_rows({"x": {"0": 1, "1": 2}})[:49]
    'it has the columns one after the other, not rows:'
    >>> why_not_rows({"x": 1})
    ''
    """
    tables = [name for name, cell in value.items() if isinstance(cell, list) and cell and isinstance(cell[0], dict)]
    if tables:
        name = tables[0]
        return (
            f"the rows are within {name!r}: write them as an array, with "
            f"jq '.{name}' FILE > rows.json, or json.dump(json.load(file)[{name!r}], …) in Python"
        )
    split = isinstance(value.get("data"), list) and isinstance(value.get("columns"), list)
    if split or (value and all(isinstance(cell, dict) for cell in value.values())):
        return "it has the columns one after the other, not rows: in pandas, use frame.to_json(path, orient='records')"
    return ""


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return at if found is None else found.end()


def _is_in_lines(head: bytes) -> bool:
    """Return whether a text that begins so has a value on each line."""
    text = head.decode("utf-8", "surrogateescape").lstrip("\ufeff").lstrip()
    if text.startswith("["):
        return False
    line, end, _ = text.partition("\n")
    if not end or not line.startswith("{"):
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError) as error:
        # An object that goes on is cut off at the end of the line; anything else is wrong with the line.
        return getattr(error, "pos", 0) < len(line.rstrip()) - 1
    return True
