"""Edit a saved model, or the model of a checkpoint, in its file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from dyncrp.io.files import FileError
from dyncrp.io.growing import GrowingFile, held
from dyncrp.io.writers import WRITERS
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.run import as_lines, as_plain_file
from dyncrp.stream.events import Event
from dyncrp.stream.stream import Stream


def edit(path: str, change: Callable[[Stream], None], output: str | None = None) -> Stream:
    """Change the stream in a file and return it. The file is replaced in one step, unless ``output`` names another.

    The rest of a checkpoint stays, so that its run can be resumed with the changed model. The change is added to the
    file of events, if there is one, unless the checkpoint is written to another file.
    """
    target = path if output is None else output
    checkpoint = Checkpoint.read(path)
    if checkpoint is None:
        saved = Stream.load(path)
        change(saved)
        saved.save(target)
        return saved
    found: list[Event] = []
    # A run in progress has its stream in memory, and would replace the file.
    outputs = [file for kind in WRITERS.values() for file in kind.files(checkpoint.output_path)]
    with held(*dict.fromkeys(outputs)) if output is None else nullcontext():
        checkpoint = Checkpoint.read(path) or checkpoint  # a run may have written it in the meantime
        stream = checkpoint.stream
        if stream is None:
            raise FileError(f"{path} is a checkpoint from before the first row: there are no tables yet")
        stream.on_event = found.append
        change(stream)
        if output is None and checkpoint.events is not None:
            checkpoint = _note(checkpoint, found)
        checkpoint.write(target)
    return stream


def _note(checkpoint: Checkpoint, found: list[Event]) -> Checkpoint:
    """Add events to the file of a checkpoint, synced before the checkpoint refers to them, as in a run."""
    assert checkpoint.events is not None
    file = GrowingFile(checkpoint.events["path"])
    file.resume(checkpoint.events["length"], checkpoint.events["tail"])
    try:
        row = checkpoint.place["row"] - 1  # the latest one
        file.append(as_lines(event._replace(row=row) for event in found))
        file.sync()
        return replace(checkpoint, events=as_plain_file(file) | {"name": checkpoint.events["name"]})
    finally:
        file.close()
