"""The journal: a SQLite file with the operations on each stream since its checkpoint, the answers, and the events.

One thread writes it. The operations of a group of requests are one transaction, and are answered once it is on disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dyncrp.io.files import sync_folder

FILE = "streams.sqlite"
PAGES_PER_MOVE = 10_000  # 40 MB of SQLite's log, before it moves them to the file; a commit rarely waits for that
VERSION = 1  # of the layout of the file
MOST_EVENTS, MOST_ANSWERS, MOST_ANSWER_BYTES = 10_000, 1_000, 64 * 2**20  # kept per stream
LARGEST_VALUE = 1_000_000_000  # bytes, of SQLite
MOST_CLIENTS = 1_000_000  # of a stream, whose last sequence numbers are kept for ever: some 150 MB
SCHEMA = """
CREATE TABLE IF NOT EXISTS streams
    (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, settings TEXT, defaults TEXT);
CREATE TABLE IF NOT EXISTS checkpoints (stream INTEGER PRIMARY KEY, model BLOB, beside BLOB);
CREATE TABLE IF NOT EXISTS operations (number INTEGER PRIMARY KEY, stream INTEGER, kind TEXT, payload BLOB);
CREATE INDEX IF NOT EXISTS operations_of_stream ON operations (stream);
CREATE TABLE IF NOT EXISTS answers
    (number INTEGER PRIMARY KEY, stream INTEGER, client TEXT, sequence INTEGER, digest BLOB, answer BLOB);
CREATE UNIQUE INDEX IF NOT EXISTS answers_of_client ON answers (stream, client, sequence);
CREATE INDEX IF NOT EXISTS answers_kept ON answers (stream, number) WHERE answer IS NOT NULL;
CREATE TABLE IF NOT EXISTS events (stream INTEGER, id INTEGER, event TEXT, PRIMARY KEY (stream, id)) WITHOUT ROWID;
"""


class JournalError(Exception):
    """The journal cannot be opened, read or written; nothing was changed."""


class Operation(NamedTuple):
    """An operation on a stream: its kind, and what is needed to repeat it."""

    kind: str
    payload: bytes


class Made(NamedTuple):
    """A stream that was made: its id, its name, its settings as given, and the defaults of the others."""

    id: int
    name: str
    settings: str
    defaults: str


class Answer(NamedTuple):
    """An answer. digest: of the request. content: None if it is no longer kept, and only tells that there was one."""

    digest: bytes
    content: bytes | None


class Journal:
    """The journal of a data folder. It is locked, so that a second server of the same folder is refused.

    sync: whether ``commit`` waits for the disk. If not, a power cut loses what was committed since ``sync`` was called.
    A kill loses nothing, since the kernel has what a process has written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
    ...     stream = journal.add_stream("doors", "{}")
    ...     journal.add_operation(stream, Operation("rows", b"..."))
    ...     journal.commit()
    ...     list(journal.operations(stream))
    [Operation(kind='rows', payload=b'...')]
    """

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self.path = folder / FILE
        self.syncs = sync
        self.n_commits = self._n_synced = 0
        self._n_clients: dict[int, int] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let everybody read it
            self._file = sqlite3.connect(self.path, isolation_level=None, timeout=0.0, check_same_thread=False)
            # The process holds the lock until it ends, and SQLite needs no file of shared memory.
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            self._file.execute("PRAGMA trusted_schema = OFF")
            self._file.execute(f"PRAGMA wal_autocheckpoint = {PAGES_PER_MOVE}")
            self._file.execute("BEGIN IMMEDIATE")
            found = self._file.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise JournalError(f"{self.path} was written by another version of dyncrp ({found}, not {VERSION})")
            known = self._file.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers_kept'").fetchone()
            if (
                found != VERSION or not known
            ):  # otherwise nothing is written, so that the folder can be opened on a full disk
                for statement in SCHEMA.split(";"):
                    self._file.execute(statement)
                self._file.execute(f"PRAGMA user_version = {VERSION}")
            self._file.execute("COMMIT")
            sync_folder(self.path)
        except OSError as error:
            raise JournalError(f"{folder}: {error.strerror or error}") from None
        except sqlite3.Error as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            raise JournalError(f"{self.path}: {'another server has it' if busy else error}") from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self.rollback()
        self._file.close()

    def commit(self) -> None:
        """Write everything since the last commit to the disk, or nothing and raise ``JournalError``."""
        if self._file.in_transaction:
            self._run("COMMIT")
            self.n_commits += 1

    def sync(self) -> None:
        """Wait until everything that was committed is on the disk, if ``commit`` does not."""
        if self.n_commits > self._n_synced and not self.syncs:
            self._run("PRAGMA wal_checkpoint(PASSIVE)")
            self._n_synced = self.n_commits

    def rollback(self) -> None:
        """Undo everything since the last commit."""
        self._n_clients.clear()
        if self._file.in_transaction:
            self._run("ROLLBACK")

    @property
    def size(self) -> int:
        """The size in bytes of the file and of SQLite's log."""
        files = (self.path, self.path.with_name(FILE + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def streams(self) -> list[Made]:
        """Return all streams, in order of their names."""
        return [Made(*row) for row in self._run("SELECT id, name, settings, defaults FROM streams ORDER BY name")]

    def add_stream(self, name: str, settings: str, defaults: str = "{}") -> int:
        """Add a stream and return its id, which is never used again."""
        insert = "INSERT INTO streams (name, settings, defaults) VALUES (?, ?, ?)"
        return int(self._write(insert, name, settings, defaults).lastrowid or 0)

    def remove_stream(self, stream: int) -> None:
        """Remove a stream and all that belongs to it."""
        self._write("DELETE FROM streams WHERE id = ?", stream)
        for table in ("checkpoints", "operations", "answers", "events"):
            self._write(f"DELETE FROM {table} WHERE stream = ?", stream)

    def add_operation(self, stream: int, operation: Operation) -> None:
        """Add an operation on a stream."""
        self._write("INSERT INTO operations (stream, kind, payload) VALUES (?, ?, ?)", stream, *operation)

    def operations(self, stream: int) -> Iterator[Operation]:
        """Return the operations on a stream since its checkpoint, in order."""
        found = self._run("SELECT kind, payload FROM operations WHERE stream = ? ORDER BY number", stream)
        return (Operation(*row) for row in found)

    def checkpoint(self, stream: int) -> tuple[bytes, bytes] | None:
        """Return the latest checkpoint, or None."""
        found = self._run("SELECT model, beside FROM checkpoints WHERE stream = ?", stream).fetchone()
        return None if found is None else (found[0], found[1])

    def set_checkpoint(self, stream: int, model: bytes, beside: bytes) -> None:
        """Store a checkpoint with all operations of its stream, and delete these and old answers and events."""
        self._write("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", stream, model, beside)
        self._write("DELETE FROM operations WHERE stream = ?", stream)
        self._trim(stream)

    def _trim(self, stream: int) -> None:
        old = """SELECT number FROM (
            SELECT number, sequence < MAX(sequence) OVER (PARTITION BY client) AS followed,
                ROW_NUMBER() OVER (PARTITION BY client ORDER BY sequence DESC) AS place,
                SUM(LENGTH(answer)) OVER (ORDER BY number DESC) AS bytes
            FROM answers WHERE stream = ? AND answer IS NOT NULL)
            WHERE (place > ? OR bytes > ?)"""
        limits = stream, MOST_ANSWERS, MOST_ANSWER_BYTES
        self._write(f"DELETE FROM answers WHERE number IN ({old} AND followed)", *limits)
        # Without its content the last answer of a client stays for ever: it tells a retry from a new request.
        self._write(f"UPDATE answers SET answer = NULL WHERE number IN ({old})", *limits)
        self._write("DELETE FROM events WHERE stream = ? AND id <= ?", stream, self.last_event(stream) - MOST_EVENTS)

    def n_clients(self, stream: int) -> int:
        """Return how many clients have had answers."""
        if stream not in self._n_clients:
            count = "SELECT COUNT(DISTINCT client) FROM answers WHERE stream = ?"
            self._n_clients[stream] = self._run(count, stream).fetchone()[0]
        return self._n_clients[stream]

    def last_sequence(self, stream: int, client: str) -> int | None:
        """Return the largest sequence number that a client has used, or None."""
        found = self._run("SELECT MAX(sequence) FROM answers WHERE stream = ? AND client = ?", stream, client)
        last: int | None = found.fetchone()[0]
        return last

    def answer(self, stream: int, client: str, sequence: int) -> Answer | None:
        """Return the answer to the request with this number, if it is still kept."""
        which = "stream = ? AND client = ? AND sequence = ?"
        found = self._run(f"SELECT digest, answer FROM answers WHERE {which}", stream, client, sequence).fetchone()
        return None if found is None else Answer(*found)

    def add_answer(self, stream: int, client: str, sequence: int, answer: Answer) -> None:
        """Keep the answer to a request, which has a higher sequence number than any before of its client."""
        last, n = self.last_sequence(stream, client), self.n_clients(stream)
        self._n_clients[stream] = n + (last is None)
        if last is not None:  # of which nothing else is kept: its number is no longer needed
            which = "stream = ? AND client = ? AND sequence = ? AND answer IS NULL"
            self._write(f"DELETE FROM answers WHERE {which}", stream, client, last)
        columns = "stream, client, sequence, digest, answer"
        self._write(f"INSERT INTO answers ({columns}) VALUES (?, ?, ?, ?, ?)", stream, client, sequence, *answer)

    def last_event(self, stream: int) -> int:
        """Return the id of the latest event, 0 if there was none."""
        found = self._run("SELECT MAX(id) FROM events WHERE stream = ?", stream).fetchone()[0]
        return found or 0

    def add_events(self, stream: int, events: list[tuple[int, str]]) -> None:
        """Add events, (id, JSON) each."""
        for event in events:
            self._write("INSERT INTO events VALUES (?, ?, ?)", stream, *event)

    def events(self, stream: int, after: int, most: int) -> list[str]:
        """Return at most ``most`` events after an id, or the latest events if the id is negative, in order."""
        order = "DESC" if after < 0 else "ASC"
        query = f"SELECT event FROM events WHERE stream = ? AND id > ? ORDER BY id {order} LIMIT ?"
        found = [row[0] for row in self._run(query, stream, after, most)]
        return found[::-1] if after < 0 else found

    def _write(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if not self._file.in_transaction:
            self._run("BEGIN IMMEDIATE")
        return self._run(statement, *values)

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, values)
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {error}") from error
