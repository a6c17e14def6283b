"""``dyncrp info``: the contents of a saved model or a checkpoint."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from dyncrp.cli.errors import print_result, report_errors
from dyncrp.families import Columns
from dyncrp.io.files import FileError
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.model_text import as_options, brief, brief_dynamics, changed_settings
from dyncrp.jobs.run import join_names
from dyncrp.stream.stream import Stream
from dyncrp.views.groups import groups_of

MOST_TABLES_SHOWN = 10  # and groups
MOST_TABLES_JOINED = 1000  # into groups, which takes less than a second
LONGEST_SHOWN = 1000  # characters of options


def show(file: Path, as_json: bool) -> None:
    """Print the contents of a file, as lines or as JSON."""
    with report_errors():
        checkpoint, stream = read_stream(file)
        facts = _describe(checkpoint, stream)
        print_result(json.dumps(facts) if as_json else "\n".join(_lines(facts, stream)))


def read_stream(file: Path) -> tuple[Checkpoint | None, Stream | None]:
    """Return the checkpoint in a file, or None for a saved model, and the stream, or None before the first row."""
    try:
        checkpoint = Checkpoint.read(str(file))
        return checkpoint, Stream.load(file) if checkpoint is None else checkpoint.stream
    except ValueError as error:
        raise FileError(str(error)) from error


def _describe(checkpoint: Checkpoint | None, stream: Stream | None) -> dict[str, Any]:
    """Return the facts as plain values, with the keys of the JSON view."""
    facts: dict[str, Any] = {"kind": "model" if checkpoint is None else "checkpoint"}
    if stream is not None:
        facts |= {
            "family": repr(stream.family),
            "dynamics": repr(stream.dynamics),
            "alpha": stream.alpha,
            **({"memory": stream.memory} if stream.memory < math.inf else {}),  # JSON has no infinity
            "features": stream.n_columns,
            "observations": stream.n_rows,
            "times": stream.clock.value,
            "tables": stream.engine.n_tables,
            "log_evidence": stream.engine.log_evidence,
        }
    if checkpoint is not None:
        facts |= {
            "input": checkpoint.input,
            "output": checkpoint.output,
            "rows_read": checkpoint.place["row"],
            "rows_labelled": checkpoint.n_rows,
            "bad_rows": checkpoint.n_bad,
            "finished": checkpoint.finished,
            **({} if checkpoint.events is None else {"events": checkpoint.events["name"]}),
            "options": {name: value for name, value in checkpoint.options.items() if value not in (None, [], False)},
        }
    if stream is not None:
        ids, occupancies = stream.engine.ids, stream.occupancies
        order = np.argsort(-occupancies, kind="stable")[:MOST_TABLES_SHOWN]
        facts["largest_tables"] = [{"table": int(ids[i]), "occupancy": float(occupancies[i])} for i in order]
        facts |= _describe_groups(stream) | _describe_edits(stream)
        learned = stream.family, stream.dynamics, stream.alpha, stream.memory
        if not isinstance(stream.family, Columns):  # it cannot be given by options
            facts["options_to_paste"] = as_options(*learned, **changed_settings(stream.spec))
    return facts


def _describe_edits(stream: Stream) -> dict[str, Any]:
    """Return the names of tables by their ids, and the merged ids; an empty dict if there are none."""
    ids = np.arange(stream.engine.n_opened)
    found = stream.resolve(ids)
    merged = {str(old): int(found[old]) for old in ids[found != ids].tolist()}
    names = {str(table): name for table, name in stream.names.items()}
    return ({"names": names} if names else {}) | ({"merged": merged} if merged else {})


def _describe_groups(stream: Stream) -> dict[str, Any]:
    """Return the number of groups and the largest; an empty dict for so many tables that it would take seconds."""
    if stream.engine.n_tables > MOST_TABLES_JOINED:
        return {}
    try:
        groups = groups_of(stream)
    except ValueError:  # a family whose tables have no known width
        return {}
    order = np.argsort(-groups.sizes, kind="stable")[:MOST_TABLES_SHOWN]
    largest = [{"group": int(groups.ids[i]), "rows": float(groups.sizes[i])} for i in order]
    return {"groups": len(groups), "largest_groups": largest}


def _lines(facts: dict[str, Any], stream: Stream | None) -> list[str]:
    """Return the facts as lines of text, with shortened numbers and spaces in names."""
    if stream is not None:
        largest = ", ".join("{table} ({occupancy:.4g})".format(**table) for table in facts["largest_tables"])
        facts = facts | {"family": brief(stream.family), "dynamics": brief_dynamics(stream.dynamics)}
        facts |= {"alpha": f"{stream.alpha:.6g}", "largest_tables": largest}
        if "groups" in facts:
            facts["largest_groups"] = ", ".join("{group} ({rows:,.0f})".format(**g) for g in facts["largest_groups"])
        for name, pair in (("names", "{} {!r}"), ("merged", "{} into {}")):
            if name in facts:
                facts[name] = join_names([pair.format(*entry) for entry in facts[name].items()])
        options = shlex.join(facts.pop("options_to_paste", []))
        if 0 < len(options) <= LONGEST_SHOWN:
            facts["to_paste"] = options
    else:
        facts = facts | {"kind": "checkpoint without a model, from before the first row"}
    texts = {name: f"{value:,}" if type(value) is int else value for name, value in facts.items()}
    return [f"{name.replace('_', ' ') + ':':<15} {text}" for name, text in texts.items()]
