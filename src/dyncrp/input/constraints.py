"""Constraints from users: the table of a row, rows that cannot share one, names of tables, and tables to merge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import BadLabel, BadRow, is_missing
from dyncrp.arrays.exchange import readable
from dyncrp.engine.types import NEW, UNKNOWN, Float, Int

LONGEST_NAME = 200
MOST_FORWARDED = (
    1 << 16
)  # ids that stand for others: a table that closes and opens again for ever adds to them for ever
LARGEST = (1 << 63) - 1  # the largest integer that may be a mark
WHOLE = re.compile(r"(-1|\d{1,18})(\.0*)?")  # an id as text; spreadsheets write 3 as 3.0 in a column with gaps


class Constraints(NamedTuple):
    """What is known about n rows.

    tables: (n,) the id of the table of each row, ``UNKNOWN``, or −2 − j for the table with the name names[j]. marks:
    (n,) consecutive rows with the same mark, other than ``UNKNOWN``, cannot share a table. names: texts. weights: (n,)
    how many rows each counts as, see ``as_weights``; None if each counts as one.
    """

    tables: Int
    marks: Int
    names: tuple[str, ...] = ()
    weights: Float | None = None

    @classmethod
    def read(cls, labels: Any, cannot_link: Any, n: int) -> Constraints | None:
        """Return the constraints that ``labels`` and ``cannot_link`` put on n rows; None if there are none.

        >>> Constraints.read(["cat", None, 3, -1, "cat"], [8, 8, 9, -1, -1], 5)[:3]
        (array([-2, -1,  3, -1, -2]), array([ 8,  8,  9, -1, -1]), ('cat',))
        """
        if labels is None and cannot_link is None:
            return None
        known = {} if labels is None else dict(_known("labels", labels, n))
        marked = {} if cannot_link is None else dict(_known("cannot_link", cannot_link, n))
        if not known and not marked:
            return None
        tables, marks = np.full(n, UNKNOWN, dtype=np.int64), np.full(n, UNKNOWN, dtype=np.int64)
        names: dict[str, int] = {}
        for row, label in known.items():
            if isinstance(label, str):
                try:
                    label = NEW - names.setdefault(check_name(label), len(names))
                except ValueError as error:
                    raise BadLabel(f"labels: {error}", row) from None
            tables[row] = label
        for row, mark in marked.items():
            marks[row] = _digest(mark) if isinstance(mark, str) else mark
        told: dict[tuple[int, int], int] = {}  # rows by moment and table
        moments = np.cumsum(np.append(0, marks[1:] != marks[:-1]))
        for row in sorted(known.keys() & marked.keys()):
            if told.setdefault((int(moments[row]), int(tables[row])), row) != row:
                earlier = told[int(moments[row]), int(tables[row])]
                raise BadLabel(f"labels and cannot_link disagree: row {earlier} is at its table", row)
        return cls(tables, marks, tuple(names))

    @classmethod
    def nothing(cls, n: int) -> Constraints:
        """Return no constraints on n rows."""
        return cls(np.full(n, UNKNOWN, dtype=np.int64), np.full(n, UNKNOWN, dtype=np.int64))

    @property
    def empty(self) -> bool:
        """Whether there is no constraint on any row, and none has a weight."""
        return self.weights is None and self.free

    @property
    def free(self) -> bool:
        """Whether there is no constraint on any row."""
        return not (np.any(self.tables != UNKNOWN) or np.any(self.marks != UNKNOWN))

    def part(self, rows: slice) -> Constraints:
        """Return the constraints on some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Constraints(self.tables[rows], self.marks[rows], self.names, weights)

    @classmethod
    def join(cls, parts: Sequence[Constraints]) -> Constraints:
        """Return the constraints on the rows of all parts, in order.

        >>> Constraints.join([Constraints.read(["cat"], None, 1), Constraints.read(["dog", "cat"], None, 2)])[:3]
        (array([-2, -3, -2]), array([-1, -1, -1]), ('cat', 'dog'))
        """
        names: dict[str, int] = {}
        tables = []
        for part in parts:
            codes = np.array([NEW - names.setdefault(name, len(names)) for name in part.names], dtype=np.int64)
            named = part.tables <= NEW
            tables.append(part.tables.copy())
            tables[-1][named] = codes[NEW - part.tables[named]]
        weights = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate([np.ones(len(p.tables)) if p.weights is None else p.weights for p in parts])
        return cls(np.concatenate(tables), np.concatenate([part.marks for part in parts]), tuple(names), weights)

    def check_ids(self, n_opened: int, n_provisional: int) -> bool:
        """Raise ``BadRow`` if an id cannot be that of a table by then; return whether some may still turn out wrong.

        n_opened: how many tables were opened before. n_provisional: before so many of the rows, ids are not final.
        """
        early = np.flatnonzero(self.tables[:n_provisional] >= 0)
        if len(early):
            reason = "ids are provisional until hyperparameters are learned: use names, or call learn_unknown first"
            raise BadLabel(f"labels says table {self.tables[early[0]]}, but {reason}", early[0])
        wrong = np.flatnonzero(self.tables >= n_opened + np.arange(len(self.tables)))  # a row opens one at most
        if len(wrong):
            raise no_such_table(int(self.tables[wrong[0]]), n_opened, int(wrong[0]))
        return bool(np.any(self.tables >= n_opened))


def no_such_table(table: int, n_opened: int, row: int) -> BadLabel:
    """Return the error for an id that no table has when a row comes."""
    reason = f"ids of tables are below {n_opened} so far; use a name, such as 'door 3', for a table of your own"
    return BadLabel(f"labels says table {table}, but {reason}", row)


def _known(name: str, given: Any, n: int) -> Iterable[tuple[int, int | str]]:
    """Yield the rows with a known value, and the value: an integer ≥ 0 or a text."""
    given = readable(given, name)
    if not hasattr(given, "__array__"):
        try:
            given = list(given)
        except TypeError:
            raise ValueError(f"{name} must have an entry for each of the {n} rows, got {given!r}") from None
    array: NDArray[Any] = np.asarray(given, dtype=None)
    if array.dtype.kind in "US":  # NumPy turns a list of texts and numbers into texts
        array = np.array(list(given), dtype=object)
    if np.ma.is_masked(given):
        array = np.array(given, dtype=object)
        array[np.ma.getmaskarray(given)] = None
    if array.shape != (n,):
        raise ValueError(f"{name} must have an entry for each of the {n} rows, got shape {array.shape}")
    if array.dtype.kind in "iu":
        bad = np.flatnonzero((array < UNKNOWN) | (array > LARGEST))
        if len(bad):
            raise BadRow(f"{name} must be integers ≥ 0, texts, or −1 if unknown, got {array[bad[0]]}", bad[0])
        rows = np.flatnonzero(array >= 0)
        yield from zip(rows.tolist(), array[rows].tolist(), strict=True)
        return
    for row, value in enumerate(array.tolist()):
        if is_missing(value):
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        whole = isinstance(value, int) and not isinstance(value, bool) and UNKNOWN <= value < 1 << 62
        if not whole and not isinstance(value, str):
            raise BadRow(f"{name} must be integers ≥ 0, texts, or −1 if unknown, got {value!r}", row)
        if value not in (UNKNOWN, ""):
            yield row, value


def _digest(text: str) -> int:
    """Return an integer ≥ 0 that stands for a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 2


class Names:
    """The names of tables by their ids, and the ids that were merged into others: the latest 65,536 of them.

    >>> names = Names()
    >>> names.give(3, "door 3")
    >>> names.forward(7, 3)  # from now on, table 7 is table 3
    >>> names.find("door 3"), names.find(7), names.of[3]
    (3, 3, 'door 3')
    """

    def __init__(self) -> None:
        self.of: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._forwarded: dict[int, int] = {}  # to ids that may be forwarded themselves; the earliest first

    def find(self, table: int | str) -> int | None:
        """Return the id that an id or a name stands for; None if no table has the name."""
        if isinstance(table, str):
            return self._ids.get(table)
        return self._follow(table)

    def _follow(self, table: int) -> int:
        """Return the id that an id stands for. The ids on the way there lead to it directly from now on."""
        forwarded, passed = self._forwarded, []
        while table in forwarded:
            passed.append(table)
            table = forwarded[table]
        for one in passed[:-1]:
            forwarded[one] = table
        return table

    def find_all(self, ids: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the ids that these ids stand for, (n,).

        >>> names = Names()
        >>> names.forward(2, 0)
        >>> names.find_all([0, 1, 2, -1])
        array([ 0,  1,  0, -1])
        """
        found = np.array(ids, dtype=np.int64)  # a copy
        if self._forwarded:
            given, which = np.unique(found, return_inverse=True)
            stands_for = [self._follow(table) for table in given.tolist()]
            found = np.array(stands_for, dtype=np.int64)[which].reshape(found.shape)
        return found

    def give(self, table: int, name: str) -> None:
        """Give a table a name in place of its old one; "" removes it. Another table with that name loses it."""
        before = self.of.pop(table, None)
        if before is not None:
            del self._ids[before]
        if name:
            self.of.pop(self._ids.pop(name, -1), None)
            self.of[table], self._ids[name] = name, table

    def forward(self, old: int, new: int) -> None:
        """Let an id, and all ids that stand for it, stand for another. The other takes its name if it has none."""
        self._forwarded[old] = new
        if len(self._forwarded) > MOST_FORWARDED:  # those that led to it were forwarded before it, and are gone
            del self._forwarded[next(iter(self._forwarded))]
        name = self.of.get(old)
        if name is not None:
            self.give(old, "")
            if new not in self.of:
                self.give(new, name)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, for a file: an empty dict if there are no names and no merged ids."""
        if not self.of and not self._forwarded:
            return {}
        merged = [[table, self._follow(table)] for table in self._forwarded]
        return {"names": [[*pair] for pair in self.of.items()], "merged": merged}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], n_opened: int) -> Self:
        """Return the names that ``to_plain`` described; raise ``ValueError`` unless ids are below n_opened."""
        names = cls()
        for table, name in plain.get("names", []):
            if not _is_id(table, n_opened) or name in names._ids or table in names.of:
                raise ValueError(f"it names table {table!r}, but {n_opened} were opened, with at most one name each")
            names.give(table, check_name(name))
        for old, new in plain.get("merged", []):
            if not _is_id(old, n_opened) or not _is_id(new, n_opened) or old == new or old in names._forwarded:
                raise ValueError(f"it merges table {old!r} into {new!r}, but {n_opened} were opened")
            names._forwarded[old] = new
        if any(new in names._forwarded for new in names._forwarded.values()):
            raise ValueError("it merges tables into tables that were themselves merged")
        return names


def _is_id(value: Any, n_opened: int) -> bool:
    return type(value) is int and 0 <= value < n_opened


def check_name(name: Any) -> str:
    """Return a valid name of a table, without blanks around it.

    >>> check_name(" door 3 ")
    'door 3'
    """
    text = name.strip() if isinstance(name, str) else ""
    # On the command line, in files and in answers, an integer as text is an id.
    whole = text.removeprefix("-").isdecimal()
    if not text or len(text) > LONGEST_NAME or not text.isprintable() or whole:
        raise ValueError(
            f"a name must be a text of at most {LONGEST_NAME} characters on one line, and not an integer, which "
            f"would be an id; got {name!r}"
        )
    return text


def as_table(given: object) -> int | str:
    """Return the table that a cell or an argument stands for: an integer is an id, any other text is a name.

    >>> as_table(" 7"), as_table("7.0"), as_table(7.0), as_table("door 3"), as_table("-1")
    (7, 7, 7, 'door 3', -1)
    """
    if isinstance(given, str):
        whole = WHOLE.fullmatch(given.strip())
        return check_name(given) if whole is None else int(whole[1])
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given >= UNKNOWN and given == given // 1:
        return int(given)
    raise ValueError(f"a table must be an id, which is an integer ≥ 0, or a name; got {given!r}")
