"""``dyncrp tune``: learn the hyperparameters, and print them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np

import dyncrp
from dyncrp import plots
from dyncrp.cli.display import Display, show_features
from dyncrp.cli.errors import print_result, report_errors, say
from dyncrp.cli.options import InputOptions, ModelOptions
from dyncrp.cli.paths import check_writable
from dyncrp.input.entries import NUMBER
from dyncrp.input.words import STOP_WORDS, tokenize
from dyncrp.io.files import FileError
from dyncrp.io.readers import open_reader
from dyncrp.jobs.model_text import as_options, as_python, changed_settings, count
from dyncrp.jobs.run import MOST_ROWS_IN_CHUNK

TUNED = ("family", "dynamics", "alpha", "memory", "warmup", "resolution", "n_jobs")  # parameters of ``dyncrp.tune``
LONGEST_ARGUMENT = 100_000  # characters that a shell takes in one argument


def tune_file(source: InputOptions, model_options: ModelOptions, plot: Path | None, quiet: bool) -> None:
    """Learn from the first rows, print the result and draw the candidates."""
    if source.text is not None:
        model_options = model_options.for_texts()
    format, selection = source.resolve_format(), replace(source.select(keep="all"), takes=(NUMBER,))
    if plot is not None:
        check_writable(plot, "--plot", figure=True)
    with report_errors():
        spec = model_options.parse(units=source.time_column is not None)
        X, times = [], []
        with open_reader(source.input, format, selection, MOST_ROWS_IN_CHUNK) as reader:
            show_features(reader, quiet)
            for chunk in reader.chunks():
                X.append(chunk.X)
                times += [chunk.times] if chunk.times is not None else []
                if sum(map(len, X)) >= spec.warmup:
                    break
        rows = np.concatenate(X)[: spec.warmup] if X else np.empty((0, 1))
        if len(rows) < 2:
            raise FileError(f"{reader.name} has {count(len(rows), 'row')}, but at least 2 are needed to learn from")
        with Display(quiet) as display:
            display.on_start(len(rows))
            try:
                words = STOP_WORDS if source.stop_words else ()
                model, candidates = dyncrp.tune(
                    rows if source.text is None else [tokenize(str(text), words) for text in rows],
                    np.concatenate(times)[: spec.warmup] if times else None,
                    **{name: spec.params[name] for name in TUNED},
                )
            except ValueError as error:
                raise FileError(f"{reader.name}: {error}") from error
        learned = model.family, model.dynamics, model.alpha, model.memory
        settings = changed_settings(spec)
        command = ["dyncrp", "run", *source.as_arguments(), *as_options(*learned, **settings)]  # type: ignore[arg-type]
        if max(map(len, command)) > LONGEST_ARGUMENT:
            say("the options are too long for a shell; without them, run learns the same from these rows", quiet=quiet)
        print_result(shlex.join(command))
        print_result(as_python(*learned, **settings))  # type: ignore[arg-type]
        chosen = next((candidate for candidate in candidates if candidate.chosen), None)
        if chosen is not None:
            tables, n = count(chosen.n_tables, "table"), count(len(rows), "row")
            say(f"the best of {count(len(candidates), 'candidate')}: {tables} in {n}", quiet=quiet)
        if plot is not None:
            plots.evidence(candidates).savefig(plot, dpi=150)
