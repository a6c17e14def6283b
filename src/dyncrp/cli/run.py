"""``dyncrp run``: label the rows of a file."""

from __future__ import annotations

import hashlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import typer

from dyncrp.arrays.checks import Clock
from dyncrp.cli.display import Display, show_features
from dyncrp.cli.errors import refuse, report_errors, say
from dyncrp.cli.options import CheckpointOptions, InputOptions, ModelOptions, OutputOptions
from dyncrp.cli.paths import check_distinct, is_pipe
from dyncrp.input.entries import CATEGORY, KINDS, NUMBER
from dyncrp.input.input import Input
from dyncrp.input.words import Vocabulary
from dyncrp.io.files import FileError
from dyncrp.io.growing import GrowingFile
from dyncrp.io.readers import Selection, open_reader
from dyncrp.io.writers import WRITERS
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.model_text import brief_groups, brief_model, count
from dyncrp.jobs.run import JOIN, MOST_ROWS_IN_CHUNK, Run
from dyncrp.jobs.stop import Stop, Stopped
from dyncrp.stream.stream import Stream
from dyncrp.views.groups import Groups


def run_file(
    source: InputOptions,
    target: OutputOptions,
    model_options: ModelOptions,
    checkpointing: CheckpointOptions,
    model: Path | None,
    save: Path | None,
    plot: Path | None,
    quiet: bool,
) -> None:
    """Check the options, label the rows, then save the model and draw the timeline if requested."""
    format, output_format, selection = source.resolve_format(), target.resolve_format(), source.select(target.keep)
    writer = WRITERS[output_format]
    files = writer.files(target.output)
    join = target.resolve_groups()
    groups_file = None if join is None or is_pipe(target.output) else writer.groups_file(target.output)
    written: dict[str, str | Path | None] = {"--output": files[0], "the groups of --output": groups_file}
    written |= {f"the {Path(file).suffix} of --output": file for file in files[1:]}
    written |= {"--events": target.events, "--checkpoint": checkpointing.checkpoint, "--save": save, "--plot": plot}
    check_distinct({"INPUT": source.input, "--model": model}, written)
    if target.output == target.events == "-":
        refuse("--output and --events are both standard output")
    if checkpointing.resume and checkpointing.checkpoint is None:
        refuse("--resume needs --checkpoint FILE")
    for option, path in (("--output", target.output), ("--events", target.events)):
        if checkpointing.checkpoint is not None and path is not None and is_pipe(path):
            refuse(f"--checkpoint needs {option} FILE: a run that writes to a pipe cannot be resumed")
    if model is not None and model_options.given:
        refuse("--model has its own family, dynamics, alpha, memory and settings: do not give them again")
    if source.text is not None and model is None:
        model_options = model_options.for_texts()
    with report_errors():  # before signals wait for the current chunk
        spec = model_options.parse(units=source.time_column is not None)
    options = _options_to_compare(format, output_format, selection, model_options)
    # Checkpoints of earlier versions do not have these, which reads as None.
    options |= {"--names": target.names or None, "--stop-words": source.stop_words or None}
    options["--alarm-rate"] = spec.alarm_rate
    vocabulary = None if source.text is None else Vocabulary(stop_words=source.stop_words)
    stream = Stream(spec, Input(vocabulary=vocabulary))
    with report_errors(), Stop() as stop:
        if model is not None:
            stream = Stream.load(model)
            if model_options.alarm_rate is not None:
                stream.set_alarm_rate(model_options.alarm_rate)
            vocabulary = stream.input.vocabulary
            if source.stop_words and vocabulary is not None and not vocabulary.stop_words:
                refuse(f"--stop-words: {model} was learned with them")
            options["--model"] = hashlib.sha256(model.read_bytes()).hexdigest()
        selection = replace(selection, learned=stream.input.encoding, takes=_kinds_taken(stream))
        own = files if target.events is None else (*files, target.events)
        before = _find_checkpoint(own, groups_file, checkpointing, target.force, quiet)
        replaces = target.force or (before is not None and before.options.get(JOIN) is not None)
        if join is None and replaces and not is_pipe(target.output):
            groups_file = writer.groups_file(target.output)  # of the output that is replaced; it is removed too
        if before is not None and before.n_rows:
            selection = replace(selection, findings=before.place.get("findings"))
        stop.waiting = source.input == "-"
        with open_reader(source.input, format, selection, min(checkpointing.every, MOST_ROWS_IN_CHUNK)) as reader:
            stop.waiting = False
            show_features(reader, quiet)
            more = ["name"] * target.names + ["novelty_p"] * (stream.spec.alarm_rate is not None)
            job = Run(
                reader,
                writer(target.output, reader, grouped=join is not None, more=more),
                stream,
                checkpoint=None if checkpointing.checkpoint is None else str(checkpointing.checkpoint),
                every=checkpointing.every,
                options=options,
                join=join,
                groups_file=groups_file,
                events=None if target.events is None else GrowingFile(target.events),
            )
            if before is not None:
                job.resume(before)
            _execute(job, stop, quiet)
        if save is not None:
            if not job.stream.started:
                raise FileError(f"{reader.name} has no rows, so there is no model to save")
            job.stream.save(save)
        if plot is not None and job.n_rows:
            _draw(job, plot, source.time_column or "row")
        if job.no_groups:
            where = "all rows are written" if is_pipe(target.output) else f"{target.output} is complete"
            raise FileError(f"{where}, but there are no groups: {job.no_groups.replace('n_groups', '--groups')}")


def _draw(job: Run, plot: Path, name: str) -> None:
    """Draw the timeline of a run. name: of the time axis."""
    from dyncrp import plots  # slow to import, and rarely needed

    line, dated = job.timeline, job.stream.clock is Clock.DATES
    tables = job.stream.resolve(line.tables)  # some may have been merged since they were written
    figure = plots.timeline(line.times, tables, line.novelty, step=line.step, dated=dated, name=name, groups=job.groups)
    figure.savefig(plot, dpi=200)


def _options_to_compare(
    format: str, output_format: str, selection: Selection, model_options: ModelOptions
) -> dict[str, Any]:
    """Return the options that must be the same when a run is resumed, as plain values."""
    values = {"format": format, **vars(selection), "output_format": output_format}
    values |= {"family": model_options.family, "dynamics": model_options.dynamics or [], "alpha": model_options.alpha}
    settings = [setting for setting in model_options.settings or [] if not setting.startswith("alarm_rate=")]
    values |= {"memory": model_options.memory, "set": sorted(settings)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    derived = "findings", "takes", "learned"  # derived from the others and from the model
    return {"--" + name.replace("_", "-"): value for name, value in plain.items() if name not in derived}


def _kinds_taken(stream: Stream) -> tuple[str, ...]:
    """Return the kinds of columns that a stream takes: all of them if the columns determine its family."""
    if stream.spec.chooses_family and (not stream.started or stream.input.encoding is not None):
        return KINDS
    family = stream.family if stream.started else stream.spec.family
    return (NUMBER,) if type(family).__name__ != "Categorical" else (NUMBER, CATEGORY)


def _find_checkpoint(
    files: tuple[str, ...], groups_file: str | None, checkpointing: CheckpointOptions, force: bool, quiet: bool
) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None to start from the first row.

    Without --force, it is an error if files exist that the run would replace.
    """
    checkpoint = checkpointing.checkpoint
    if checkpointing.resume and checkpoint is not None and checkpoint.exists():
        found = Checkpoint.read(str(checkpoint))
        if found is None:
            refuse(f"{checkpoint} is a saved model, not a checkpoint")
        if groups_file and found.options.get(JOIN) is None and Path(groups_file).exists() and not force:
            refuse(f"{groups_file} exists: use --force to replace it")  # it does not belong to the run that is resumed
        row = f"after row {found.place['row']:,}"
        if not found.n_rows:
            say(f"{checkpoint} has no rows yet: starting from the first row", quiet=quiet)
        elif found.finished:
            say(f"{checkpoint} is finished: looking for new rows {row}", quiet=quiet)
        else:
            say(f"resuming from {checkpoint}, {row}", quiet=quiet)
        return found
    if groups_file is not None:
        files = *files, groups_file
    if checkpointing.resume:
        for path in map(Path, files):
            if path.is_file() and path.stat().st_size and not force:
                refuse(f"there is no checkpoint {checkpoint}, but {path} exists: use --force to replace it")
        say(f"there is no {checkpoint} yet: starting from the first row", quiet=quiet)
        return None
    for path in (*map(Path, files), *([] if checkpoint is None else [checkpoint])):
        if path.is_file() and not force and str(path) != "-":
            remedy = "--resume to continue it, or --force" if path == checkpoint else "--force"
            refuse(f"{path} exists: use {remedy} to replace it")
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return None


def _execute(job: Run, stop: Stop, quiet: bool) -> None:
    """Run the job to the end and print a summary. On SIGINT or SIGTERM, print how to resume, and exit."""
    begin, before = monotonic(), job.n_rows
    try:
        with Display(quiet) as display:
            job.execute(stop, display.report, display.on_start)
    except Stopped as stopped:
        say(f"stopped after {count(job.n_rows, 'row')}", quiet=quiet)
        if job.checkpoint is None:
            say("this run cannot be resumed: it has no --checkpoint", quiet=quiet)
        else:
            again = sys.argv[1:] + ([] if "--resume" in sys.argv else ["--resume"])
            say(f"resume with: {shlex.join(['dyncrp', *again])}", quiet=quiet)
        raise typer.Exit(128 + stopped.args[0]) from None
    finally:
        job.close()
    if job.n_bad and not job.n_rows:
        raise job.reader.error(f": every row is bad, {job.n_bad:,} in all: {job.faults[0]}")
    if not quiet:
        _print_summary(job, before, monotonic() - begin)


def _brief_events(job: Run) -> str:
    """Return the numbers of events as one readable line."""
    told = [f"{count(job.counts['opened'], 'table')} opened"]
    told += [f"{job.counts[kind]:,} {kind}" for kind in ("returned", "closed") if job.counts[kind]]
    if job.stream.spec.alarm_rate is not None:
        n = job.counts["alarm"]
        told.append(f"{count(n, 'alarm')} (1 row in {job.n_rows / n:,.0f})" if n else "no alarms")
    return ", ".join(told)


def _print_summary(job: Run, before: int, seconds: float) -> None:
    """Print what a run did. before: how many rows were labelled before it was resumed."""
    n_new = job.n_rows - before
    done = f"{count(n_new, 'row')} in {seconds:.1f} s"
    n_timed, timed = n_new - job.n_rows_learned_from, seconds - job.seconds_to_learn  # learning is not in the rate
    rate = f"{n_timed / timed:,.0f} per second" if n_timed else ""
    if job.n_rows_learned_from:
        done += ", including learning the hyperparameters"
        rate += f" after the first {job.n_rows_learned_from:,}" if rate else ""
    done += f" ({rate})" if rate else ""
    say(done + (f", {job.n_rows:,} in all" if before else ""))
    if job.n_rows:
        engine = job.stream.engine
        opened = f" open, of {engine.n_opened:,} opened" if engine.n_opened > engine.n_tables else ""
        say(f"{count(engine.n_tables, 'table')}{opened}, log evidence {engine.log_evidence:.1f}")
        say(brief_model(job.stream))
        if job.events is not None or job.stream.spec.alarm_rate is not None:
            say(_brief_events(job))
        if job.groups is not None:
            _print_groups(job, job.groups)
    if job.n_bad:
        faults = "; ".join(job.faults)
        more = f"; and {job.n_bad - len(job.faults):,} more" if job.n_bad > len(job.faults) > 0 else ""
        say(f"{count(job.n_bad, 'bad row')} skipped" + (f": {faults}{more}" if faults else ""))


def _print_groups(job: Run, groups: Groups) -> None:
    """Print the sizes of the groups, and which file has the group of each table or row."""
    say(brief_groups(groups, told=job.join != "auto"))
    if job.groups_file is not None:
        say(f"the group of each table is in {job.groups_file}")
    elif job.writer.groups_file(job.writer.path) is None:
        say(f"the group of each row is in {job.writer.path}")
