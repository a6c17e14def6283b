"""A saved model, or the model of a checkpoint, changed by hand in its file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from dyncrp.estimator import DynamicalMixture
from dyncrp.io.files import FileError
from dyncrp.io.growing import GrowingFile, held
from dyncrp.io.writers import WRITERS
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.run import as_lines, as_plain_file
from dyncrp.stream.events import Event


def edit(path: str, change: Callable[[DynamicalMixture], None], output: str | None = None) -> DynamicalMixture:
    """Change the model in a file, and write the file: in place, in one step, or to another one. Return the model.

    A checkpoint keeps the rest as it was, so that its run goes on with the changed model. Its file of events, if it has
    one, is told of the change; not if the checkpoint is written to another file.
    """
    checkpoint = Checkpoint.read(path)
    if checkpoint is None:
        model = DynamicalMixture.load(path)
        change(model)
        model.save(path if output is None else output)
        return model
    found: list[Event] = []
    # A run that is under way has its model in memory, and would replace the file.
    outputs = [file for kind in WRITERS.values() for file in kind.files(checkpoint.output_path)]
    with held(*dict.fromkeys(outputs)) if output is None else nullcontext():
        checkpoint = Checkpoint.read(path) or checkpoint  # a run may have gone on until now
        if checkpoint.model is None:
            raise FileError(f"{path} is a checkpoint from before the first row: there are no tables yet")
        model = checkpoint.model
        model.on_event = found.append
        change(model)
        if output is None and checkpoint.events is not None:
            checkpoint = _note(checkpoint, found)
        checkpoint.write(path if output is None else output)
    return model


def _note(checkpoint: Checkpoint, found: list[Event]) -> Checkpoint:
    """Add events to the file of a checkpoint, as a run does: synced before the checkpoint says that they are there."""
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
