"""The tables of docs/files.md are those of the schema, row by row; and what is saved is as the schema says."""

from pathlib import Path

import numpy as np
import pytest

from dyncrp import Categorical, Columns, DynamicalMixture, Gaussian, Multinomial, NormalGamma, NormalWishart
from dyncrp.engine import schema
from dyncrp.engine.reference import ReferenceEngine
from dyncrp.io import model_file

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")


def row(entry):
    """An entry of the schema as a row of the page."""
    field = isinstance(entry, schema.Field)
    kind = entry.kind if field else f"`{entry.dtype.__name__}` | {schema.shape_text(entry)}"
    absent = f". If absent: {entry.absent}" if entry.absent else ""
    return f"| `{entry.name}` | {kind} | {entry.meaning}{absent} |"


def rows_of_page():
    """The rows of all tables of the page that tell of the format, by what they are about."""
    section = PAGE[PAGE.index("## Format, version 1") : PAGE.index("## Checkpoints")]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: line for line in rows}


def test_the_page_has_a_row_for_each_entry_and_no_other():
    assert rows_of_page() == {entry.name: row(entry) for entry in (*schema.HEADER, *schema.ARRAYS.values())}


SAVED = {
    "gaussian": (Gaussian(1.0, 100.0), {"alarm_rate": 0.01, "n_examples": 2}, None),
    "scatter": (NormalGamma(1.0, 100.0), {"learn_alpha": True}, None),
    "products": (NormalWishart(1.0, 100.0), {}, None),
    "cells": (Columns({0: Categorical(1.0, 2), 1: Gaussian(1.0, 9.0)}), {}, None),
    "words": (Multinomial(5.0), {"n_examples": 1}, ["a storm at sea", "calm sea", "election won", "vote won"]),
    "unknown": (Gaussian(), {"warmup": 40}, None),
}


@pytest.mark.parametrize(("family", "params", "X"), SAVED.values(), ids=SAVED)
def test_what_is_saved_is_in_the_schema(family, params, X):
    X = np.random.default_rng(0).integers(2, size=(12, 2)).astype(float) if X is None else X
    model = DynamicalMixture(family, **params).partial_fit(X, cannot_link=["a"] * len(X))
    config, arrays = model_file.loads(model.to_bytes())
    assert {f"config.{name}" for name in config} <= {field.name for field in schema.HEADER}
    assert arrays.keys() <= schema.ARRAYS.keys()
    there = {name: entry for name, entry in schema.ARRAYS.items() if name in arrays and entry.shape != ("m",)}
    assert schema.check(arrays, there).keys() == there.keys()  # a symbol is one number throughout a file, but for m


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_features": 2.0}, "'n_features' must be of the kind integer, got 2.0"),
        ({"n_features": True}, "'n_features' must be of the kind integer, got True"),
        ({"clock": None}, "'clock' must be of the kind text"),
        ({"names": {}}, "'names' must be of the kind list"),
        ({"mood": 3}, r"does not know, \['mood'\]"),
    ],
)
def test_a_header_that_is_not_as_the_schema_says_is_refused(change, message):
    config, arrays = model_file.loads(DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]]).to_bytes())
    with pytest.raises(ValueError, match=message):
        DynamicalMixture.from_bytes(model_file.dumps(config | change, arrays))
    for name in config:
        rest = {other: value for other, value in config.items() if other != name}
        with pytest.raises(ValueError, match=f"its entry '{name}' is missing"):
            DynamicalMixture.from_bytes(model_file.dumps(rest, arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table_ids": np.array([1, 0])}, "'table_ids' must hold numbers from 0 that count up of type int64"),
        ({"table_ids": np.array([0, 9])}, "its ids must stay below 2"),
        ({"sizes": np.array([-1, 1])}, "'sizes' must hold numbers from 0"),
        ({"sizes": np.array([1, 9])}, "sizes must be from 0 to the number of observations, 3"),
        ({"first_times": np.array([0.0, 7.0])}, "first_times must not be after its last_times"),
        ({"mode_time": np.array(9.0)}, "mode_time 9.0 is after its time 2.0"),
        ({"n_opened": np.array(1)}, "its ids must stay below 1|2 tables of 1 ever opened"),
        ({"n_tables_posterior": np.zeros(2)}, r"has shape \(2,\), expected \(K \+ 1,\) with K = 2"),
        ({"stats": np.zeros((2, 4))}, r"has shape \(2, 4\), expected \(K, S\) with S = 3, K = 2"),
        ({"squares": np.zeros(2)}, r"'squares' has shape \(2,\), expected \(K, P\)"),
        ({"taken": np.array([0])}, "'mark' and 'taken' must both be present"),
    ],
)
@pytest.mark.parametrize("kind", ["native", "reference"])
def test_engines_refuse_what_is_not_as_the_schema_says(kind, change, message, monkeypatch):
    if kind == "reference":
        monkeypatch.setattr("dyncrp.stream.learner.make_engine", ReferenceEngine)
    engine = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [90.0, 9.2], [0.2, 0.0]]).engine_
    arrays = engine.arrays()
    with pytest.raises(ValueError, match=message):
        engine.restore(arrays | change)
    engine.restore(arrays)
