"""What is committed is there after a restart, and nothing else; old answers and events go."""

import os
import sqlite3

import pytest

from dyncrp.serve import journal as module
from dyncrp.serve.journal import FILE, Answer, Journal, JournalError, Operation


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path) as journal:
        yield journal


def test_what_is_not_committed_has_not_happened(tmp_path):
    with Journal(tmp_path) as journal:
        stream = journal.add_stream("s", "{}")
        journal.add_operation(stream, Operation("rows", b"1"))
        journal.commit()
        journal.add_operation(stream, Operation("rows", b"2"))
    with Journal(tmp_path) as journal:
        assert journal.streams() == [(stream, "s", "{}", "{}")]
        assert list(journal.operations(stream)) == [Operation("rows", b"1")]


def test_a_checkpoint_takes_the_place_of_deeds(journal):
    stream, other = journal.add_stream("s", "{}"), journal.add_stream("t", "{}")
    for one in (stream, other):
        journal.add_operation(one, Operation("rows", b"1"))
    assert journal.checkpoint(stream) is None
    journal.set_checkpoint(stream, b"model", b"beside")
    assert journal.checkpoint(stream) == (b"model", b"beside")
    assert list(journal.operations(stream)) == []
    assert list(journal.operations(other)) == [Operation("rows", b"1")]
    journal.add_operation(stream, Operation("merge", b"2"))
    assert list(journal.operations(stream)) == [Operation("merge", b"2")]


def test_deeds_come_in_order(journal):
    stream = journal.add_stream("s", "{}")
    for number in range(12):
        journal.add_operation(stream, Operation("rows", str(number).encode()))
    assert [operation.payload for operation in journal.operations(stream)] == [
        str(number).encode() for number in range(12)
    ]


def test_a_folder_has_one_server(tmp_path, journal):
    with pytest.raises(JournalError, match="another server has it"):
        Journal(tmp_path)


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / FILE).write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(JournalError, match="not a database"):
        Journal(tmp_path)


def test_a_file_of_a_later_version(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(module, "VERSION", 2)
        Journal(tmp_path).close()
    with pytest.raises(JournalError, match="another version of dyncrp"):
        Journal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(JournalError, match="unable to open"):
        Journal(tmp_path)


def test_the_last_answers_of_each_client_are_kept(journal, monkeypatch):
    monkeypatch.setattr(module, "MOST_ANSWERS", 3)
    stream = journal.add_stream("s", "{}")
    for client in ("a", "b"):
        for sequence in range(5):
            journal.add_answer(stream, client, sequence * 10, Answer(b"", b"x"))
    journal.set_checkpoint(stream, b"", b"")
    for client in ("a", "b"):
        assert [journal.answer(stream, client, n * 10) is not None for n in range(5)] == [0, 0, 1, 1, 1]
        assert journal.last_sequence(stream, client) == 40
    assert journal.last_sequence(stream, "c") is None


def test_long_answers_go_sooner_but_for_the_last(journal, monkeypatch):
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 25)
    stream = journal.add_stream("s", "{}")
    journal.add_answer(stream, "old", 7, Answer(b"", b"x" * 10))
    for sequence in range(5):
        journal.add_answer(stream, "new", sequence, Answer(b"", b"x" * 10))
    journal.set_checkpoint(stream, b"", b"")
    assert [journal.answer(stream, "new", n) is not None for n in range(5)] == [0, 0, 0, 1, 1]
    assert journal.last_sequence(stream, "old") == 7


def test_the_last_number_of_a_client_is_kept_for_ever(journal, monkeypatch):
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 25)
    stream = journal.add_stream("s", "{}")
    for sequence in (3, 4):
        journal.add_answer(stream, "first", sequence, Answer(b"digest", b"x" * 10))
    for at in range(20):
        journal.add_answer(stream, f"client {at}", 0, Answer(b"", b"x" * 10))
    journal.set_checkpoint(stream, b"", b"")
    assert journal.last_sequence(stream, "first") == 4
    assert [journal.answer(stream, "first", n) for n in (3, 4)] == [None, Answer(b"digest", None)]
    journal.set_checkpoint(stream, b"", b"")
    assert journal.n_clients(stream) == 21
    journal.add_answer(stream, "first", 5, Answer(b"", b"y"))  # and its earlier numbers are not needed any more
    assert [journal.answer(stream, "first", n) for n in (4, 5)] == [None, Answer(b"", b"y")]
    assert journal.n_clients(stream) == 21
    journal.commit()
    journal.add_answer(stream, "new", 0, Answer(b"", b""))
    assert journal.n_clients(stream) == 22
    journal.rollback()
    assert journal.n_clients(stream) == 21


def test_a_journal_of_an_earlier_day(tmp_path):
    with Journal(tmp_path) as journal:
        stream = journal.add_stream("s", "{}")
        journal.add_answer(stream, "a", 1, Answer(b"", b"x"))
        journal.commit()
    with sqlite3.connect(tmp_path / FILE) as file:
        file.execute("DROP INDEX answers_kept")
    file.close()
    with Journal(tmp_path) as journal:
        journal.set_checkpoint(stream, b"", b"")
        assert journal.answer(stream, "a", 1) == Answer(b"", b"x")


def test_the_latest_events_are_kept(journal, monkeypatch):
    monkeypatch.setattr(module, "MOST_EVENTS", 3)
    stream = journal.add_stream("s", "{}")
    journal.add_events(stream, [(number, str(number)) for number in range(1, 8)])
    journal.set_checkpoint(stream, b"", b"")
    assert journal.events(stream, 0, 10) == ["5", "6", "7"]
    assert journal.events(stream, 5, 1) == ["6"]
    assert journal.events(stream, -1, 2) == ["6", "7"]
    assert journal.last_event(stream) == 7


def test_a_removed_stream_leaves_nothing(journal):
    stream = journal.add_stream("s", "{}")
    journal.add_operation(stream, Operation("rows", b"1"))
    journal.add_answer(stream, "a", 1, Answer(b"", b""))
    journal.add_events(stream, [(1, "1")])
    journal.remove_stream(stream)
    again = journal.add_stream("s", "{}")
    assert again != stream
    for one in (stream, again):
        assert list(journal.operations(one)) == []
        assert journal.last_sequence(one, "a") is None
        assert journal.last_event(one) == 0


def test_without_waiting_for_the_disk_it_is_synced_when_asked(tmp_path):
    with Journal(tmp_path, sync=False) as journal:
        stream = journal.add_stream("s", "{}")
        journal.add_operation(stream, Operation("rows", b"x" * 10_000))
        journal.commit()
        before = journal.path.stat().st_size
        journal.sync()  # moves what was committed from the log to the file itself
        assert journal.path.stat().st_size > before


def test_a_journal_is_opened_without_a_write(tmp_path):
    """So that a server can be started, and its streams read, where the disk is full."""
    with Journal(tmp_path) as journal:
        journal.add_stream("s", "{}")
        journal.commit()
    content = (tmp_path / FILE).read_bytes()
    with Journal(tmp_path):
        pass
    assert (tmp_path / FILE).read_bytes() == content
