"""``dyncrp info``: the contents of a saved model or a checkpoint."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from dyncrp.cli.errors import print_result, report_errors
from dyncrp.estimator import DynamicalMixture
from dyncrp.families import Columns
from dyncrp.io.files import FileError
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.model_text import as_options, brief, brief_dynamics, changed_settings
from dyncrp.jobs.run import join_names

MOST_TABLES_SHOWN = 10  # and groups
MOST_TABLES_JOINED = 1000  # into groups, which takes less than a second
LONGEST_SHOWN = 1000  # characters of options


def show(file: Path, as_json: bool) -> None:
    """Print the contents of a file, as lines or as JSON."""
    with report_errors():
        checkpoint, model = read_model(file)
        facts = _describe(checkpoint, model)
        print_result(json.dumps(facts) if as_json else "\n".join(_lines(facts, model)))


def read_model(file: Path) -> tuple[Checkpoint | None, DynamicalMixture | None]:
    """Return the checkpoint in a file, or None for a saved model, and the model, or None before the first row."""
    try:
        checkpoint = Checkpoint.read(str(file))
        return checkpoint, DynamicalMixture.load(file) if checkpoint is None else checkpoint.model
    except ValueError as error:
        raise FileError(str(error)) from error


def _describe(checkpoint: Checkpoint | None, model: DynamicalMixture | None) -> dict[str, Any]:
    """Return the facts as plain values, with the keys of the JSON view."""
    facts: dict[str, Any] = {"kind": "model" if checkpoint is None else "checkpoint"}
    if model is not None:
        facts |= {
            "family": repr(model.family_),
            "dynamics": repr(model.dynamics_),
            "alpha": model.alpha_,
            **({"memory": model.memory_} if model.memory_ < math.inf else {}),  # JSON has no infinity
            "features": model.n_features_in_,
            "observations": model.n_observations_,
            "times": model.clock_,
            "tables": model.n_tables_,
            "log_evidence": model.log_evidence_,
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
    if model is not None:
        order = np.argsort(-model.occupancies_, kind="stable")[:MOST_TABLES_SHOWN]
        facts["largest_tables"] = [
            {"table": int(model.table_ids_[i]), "occupancy": float(model.occupancies_[i])} for i in order
        ]
        facts |= _describe_groups(model) | _describe_told(model)
        learned = model.family_, model.dynamics_, model.alpha_, model.memory_
        if not isinstance(model.family_, Columns):  # it cannot be given by options
            facts["options_to_paste"] = as_options(*learned, **changed_settings(model))
    return facts


def _describe_told(model: DynamicalMixture) -> dict[str, Any]:
    """Return the names of tables by their ids, and the merged ids; an empty dict if there are none."""
    ids = np.arange(model.n_opened_)
    found = model.resolve(ids)
    merged = {str(old): int(found[old]) for old in ids[found != ids].tolist()}
    names = {str(table): name for table, name in model.names_.items()}
    return ({"names": names} if names else {}) | ({"merged": merged} if merged else {})


def _describe_groups(model: DynamicalMixture) -> dict[str, Any]:
    """Return the number of groups and the largest; an empty dict for so many tables that it would take seconds."""
    if model.n_tables_ > MOST_TABLES_JOINED:
        return {}
    try:
        groups = model.groups()
    except ValueError:  # a family whose tables have no known width
        return {}
    order = np.argsort(-groups.sizes, kind="stable")[:MOST_TABLES_SHOWN]
    largest = [{"group": int(groups.ids[i]), "rows": float(groups.sizes[i])} for i in order]
    return {"groups": len(groups), "largest_groups": largest}


def _lines(facts: dict[str, Any], model: DynamicalMixture | None) -> list[str]:
    """Return the facts as lines of text, with shortened numbers and spaces in names."""
    if model is not None:
        largest = ", ".join("{table} ({occupancy:.4g})".format(**table) for table in facts["largest_tables"])
        facts = facts | {"family": brief(model.family_), "dynamics": brief_dynamics(model.dynamics_)}
        facts |= {"alpha": f"{model.alpha_:.6g}", "largest_tables": largest}
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
