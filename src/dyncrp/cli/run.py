"""``dyncrp run``: label the rows of a file."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import typer

from dyncrp.arrays.checks import Clock
from dyncrp.cli.display import Display, show_features, terminal_width
from dyncrp.cli.errors import refuse, report_errors, say, show
from dyncrp.cli.options import CheckpointOptions, InputOptions, ModelOptions, OutputOptions
from dyncrp.cli.paths import check_distinct, is_pipe
from dyncrp.input.entries import CATEGORY, KINDS, NUMBER
from dyncrp.input.infer import ROWS_TO_INFER
from dyncrp.input.input import Input
from dyncrp.input.words import Vocabulary
from dyncrp.io.files import FileError
from dyncrp.io.growing import GrowingFile
from dyncrp.io.readers import OnlyTextError, Reader, Selection, open_reader
from dyncrp.io.writers import WRITERS
from dyncrp.io.writers.base import CLUSTER
from dyncrp.jobs.checkpoint import Checkpoint
from dyncrp.jobs.model_text import brief_clusters, brief_model, count
from dyncrp.jobs.run import MOST_ROWS_IN_CHUNK, Run
from dyncrp.jobs.stop import Stop, Stopped
from dyncrp.stream.stream import Stream
from dyncrp.views.profile import profile
from dyncrp.views.profile_text import format_profiles

RATES = ("alarm_rate=", "surge_rate=")  # settings that are compared as options of their own


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
    """Check the options, label the rows, tell the clusters, then save the model and draw them if requested."""
    format, selection, join = source.resolve_format(), source.select(target.keep), target.resolve_clusters()
    output, output_format = target.resolve(source.input)
    writer = WRITERS[output_format]
    files = writer.files(output)
    piped = is_pipe(output)
    if join == "auto" and piped and quiet and plot is None:
        join = None  # nobody would see them
    if target.output is None and not piped and not os.access(Path(output).parent, os.W_OK):
        refuse(f"{output} cannot be written: name another file with --output, or use -o - to print the rows")
    written: dict[str, str | Path | None] = {"--output": files[0]}
    written |= {f"the {Path(file).suffix} of --output": file for file in files[1:]}
    written |= {"--events": target.events, "--checkpoint": checkpointing.checkpoint, "--save": save, "--plot": plot}
    check_distinct({"INPUT": source.input, "--model": model}, written)
    if output == target.events == "-":
        refuse("--output and --events are both standard output")
    if checkpointing.resume and checkpointing.checkpoint is None:
        refuse("--resume needs --checkpoint FILE")
    for option, path in (("--output", output), ("--events", target.events)):
        if checkpointing.checkpoint is not None and path is not None and is_pipe(path):
            refuse(f"--checkpoint needs {option} FILE: a run that writes to a pipe cannot be resumed")
    if model is not None and model_options.given:
        refuse("--model has its own family, dynamics, alpha, memory and settings: do not give them again")
    if source.text is not None and model is None:
        model_options = model_options.for_texts()
    if target.as_of_arrival and model is None:
        model_options = model_options.keeping_clusters()
    with report_errors():  # before signals wait for the current chunk
        spec = model_options.parse(units=source.time_column is not None)
    options = _options_to_compare(format, output_format, selection, model_options)
    # Checkpoints of earlier versions do not have these, which reads as None.
    options |= {"--names": target.names or None, "--stop-words": source.stop_words or None}
    options["--sort-by-time"] = source.sort_by_time or None
    options |= {"--alarm-rate": spec.alarm_rate, "--surge-rate": spec.surge_rate}
    options["--as-of-arrival"] = target.as_of_arrival or None
    vocabulary = None if source.text is None else Vocabulary(stop_words=source.stop_words)
    stream = Stream(spec, Input(vocabulary=vocabulary))
    with report_errors(), Stop() as stop:
        if model is not None:
            stream = Stream.load(model)
            if model_options.alarm_rate is not None:
                stream.set_alarm_rate(model_options.alarm_rate)
            if model_options.surge_rate is not None:
                stream.set_surge_rate(model_options.surge_rate)
            vocabulary = stream.input.vocabulary
            if source.stop_words and vocabulary is not None and not vocabulary.stop_words:
                refuse(f"--stop-words: {model} was learned with them")
            spec = stream.spec
            options["--model"] = hashlib.sha256(model.read_bytes()).hexdigest()
        if target.as_of_arrival and not spec.keep_clusters:
            remedy = "--set keep_clusters=true" if model is None else f"{model} was learned without --as-of-arrival"
            refuse(f"--as-of-arrival needs a model that keeps its clusters: {remedy}")
        n_first = min(ROWS_TO_INFER, stream.spec.warmup)  # a pipe is waited for no longer than the warm-up takes
        selection = replace(selection, learned=stream.input.encoding, takes=_kinds_taken(stream), n_first=n_first)
        own = files if target.events is None else (*files, target.events)
        if target.output is None and not Path(output).is_symlink() and writer.wrote(output):
            own = own[1:]  # an earlier run made it, and nobody named it
        before = _find_checkpoint(own, checkpointing, target.force, quiet)
        if before is not None and before.n_rows:
            selection = replace(selection, findings=before.place.get("findings"))
        stop.waiting = source.input == "-"
        column = before.options.get("--text") if before is not None and before.n_rows else None
        opened: Reader | None = None
        if column is None or source.text is not None:
            try:
                opened = open_reader(source.input, format, selection, min(checkpointing.every, MOST_ROWS_IN_CHUNK))
            except OnlyTextError as error:
                if source.input == "-":  # it cannot be read again
                    raise
                column = error.column
                say(
                    f"{column} is the only column to cluster, and holds sentences: --text {shlex.quote(column)}",
                    quiet=quiet,
                )
                if error.others:
                    say(error.others, quiet=quiet)
        if opened is None:
            texts = replace(source, text=column, exclude=None, categorical=None, numeric=None, log=None)
            run_file(texts, target, model_options, checkpointing, model, save, plot, quiet)
            return
        with opened as reader:
            stop.waiting = False
            show_features(reader, quiet)
            more = ["name"] * target.names + ["novelty_p"] * (stream.spec.alarm_rate is not None)
            more += [CLUSTER] * target.as_of_arrival
            job = Run(
                reader,
                writer(output, reader, joined=join is not None and not piped and not target.as_of_arrival, more=more),
                stream,
                checkpoint=None if checkpointing.checkpoint is None else str(checkpointing.checkpoint),
                every=checkpointing.every,
                options=options,
                join=join,
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
        if job.no_clusters and join != "auto":
            where = "all rows are written" if piped else f"{output} is complete"
            why = re.sub("^n must", "--clusters must", job.no_clusters)
            raise FileError(f"{where}, but there are no clusters: {why}")


def _draw(job: Run, plot: Path, name: str) -> None:
    """Draw the timeline of a run, by cluster with what is typical of each if there are any. name: of the time axis."""
    import matplotlib  # slow to import, and rarely needed

    from dyncrp import plots

    matplotlib.use("agg")  # a file is written, and no window is wanted
    line, dated = job.timeline, job.stream.clock is Clock.DATES
    tables = job.stream.resolve(line.tables)  # some may have been merged since they were written
    if job.clusters is None or not len(job.clusters):
        figure = plots.timeline(line.times, tables, line.novelty, step=line.step, dated=dated, name=name)
    else:
        drawn = line.times, tables, line.novelty
        figure = plots.report(job.stream, *drawn, step=line.step, dated=dated, name=name, clusters=job.clusters)
    figure.savefig(plot, dpi=200)


def _options_to_compare(
    format: str, output_format: str, selection: Selection, model_options: ModelOptions
) -> dict[str, Any]:
    """Return the options that must be the same when a run is resumed, as plain values."""
    values = {"format": format, **vars(selection), "output_format": output_format}
    values |= {"family": model_options.family, "dynamics": model_options.dynamics or [], "alpha": model_options.alpha}
    settings = [setting for setting in model_options.settings or [] if not setting.startswith(RATES)]
    values |= {"memory": model_options.memory, "set": sorted(settings)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    derived = "findings", "takes", "learned", "n_first"  # derived from the others and from the model
    return {"--" + name.replace("_", "-"): value for name, value in plain.items() if name not in derived}


def _kinds_taken(stream: Stream) -> tuple[str, ...]:
    """Return the kinds of columns that a stream takes: all of them if the columns determine its family."""
    if stream.spec.chooses_family and (not stream.started or stream.input.encoding is not None):
        return KINDS
    family = stream.family if stream.started else stream.spec.family
    return (NUMBER,) if type(family).__name__ != "Categorical" else (NUMBER, CATEGORY)


def _find_checkpoint(
    files: tuple[str, ...], checkpointing: CheckpointOptions, force: bool, quiet: bool
) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None to start from the first row.

    Without --force, it is an error if files exist that the run would replace. A checkpoint comes first: it says that
    the others can be continued.
    """
    checkpoint = checkpointing.checkpoint
    if checkpoint is not None and checkpoint.exists():
        if checkpointing.resume:
            return _read_checkpoint(checkpoint, quiet)
        if not force:
            _refuse_to_replace(checkpoint)
        checkpoint.unlink()
    for path in map(Path, files):
        if not force and path.is_file() and (path.stat().st_size or not checkpointing.resume):
            why = f"there is no checkpoint {checkpoint}, but {path}" if checkpointing.resume else path
            refuse(f"{why} exists: use --force to replace it")
    if checkpointing.resume:
        say(f"there is no {checkpoint} yet: starting from the first row", quiet=quiet)
    return None


def _refuse_to_replace(checkpoint: Path) -> NoReturn:
    """Say that a checkpoint exists, and how to continue its run."""
    try:
        found = Checkpoint.read(str(checkpoint))
    except ValueError:
        found = None
    if found is None:
        refuse(f"{checkpoint} exists, and is not a checkpoint: use --force to replace it")
    run = f"a run that has {'' if found.finished else 'not '}finished, after row {found.place['row']:,}"
    refuse(
        f"{checkpoint} is the checkpoint of {run}: add --resume to continue it, or --force to start again\n"
        f"dyncrp: resume with: {_command_to_resume()}"
    )


def _read_checkpoint(checkpoint: Path, quiet: bool) -> Checkpoint:
    """Return a checkpoint, and print from where the run continues."""
    found = Checkpoint.read(str(checkpoint))
    if found is None:
        refuse(f"{checkpoint} is a saved model, not a checkpoint")
    row = f"after row {found.place['row']:,}"
    if not found.n_rows:
        say(f"{checkpoint} has no rows yet: starting from the first row", quiet=quiet)
    elif found.finished:
        say(f"{checkpoint} is finished: looking for new rows {row}", quiet=quiet)
    else:
        say(f"resuming from {checkpoint}, {row}", quiet=quiet)
    return found


def _command_to_resume() -> str:
    """Return the command that continues this run."""
    return shlex.join(["dyncrp", *sys.argv[1:], *([] if "--resume" in sys.argv else ["--resume"])])


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
            say(f"resume with: {_command_to_resume()}", quiet=quiet)
        raise typer.Exit(128 + stopped.args[0]) from None
    except BaseException:
        job.discard()  # a file without rows would look like a result
        raise
    finally:
        job.close()
    if job.n_bad and not job.n_rows:
        raise job.reader.error(f": every row is bad, {job.n_bad:,} in all: {job.faults[0]}")
    if not quiet:
        _print_summary(job, before, monotonic() - begin)
        _print_clusters(job)


def _brief_events(job: Run) -> str:
    """Return the numbers of events as one readable line."""
    told = [f"{count(job.counts['opened'], 'table')} opened"]
    told += [f"{job.counts[kind]:,} {kind}" for kind in ("returned", "closed") if job.counts[kind]]
    told += [f"{count(job.counts[kind], 'cluster')} {kind}" for kind in ("joined", "parted") if job.counts[kind]]
    if job.stream.spec.alarm_rate is not None:
        n = job.counts["alarm"]
        told.append(f"{count(n, 'alarm')} (1 row in {job.n_rows / n:,.0f})" if n else "no alarms")
    if job.stream.spec.surge_rate is not None:
        told.append(count(job.counts["surge"], "surge"))
        told += [f"{job.counts[kind]:,} {kind}" for kind in ("growing", "fading")]
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
        if job.events is not None or job.stream.spec.tells_events:
            say(_brief_events(job))
    if job.n_bad:
        faults = "; ".join(job.faults)
        more = f"; and {job.n_bad - len(job.faults):,} more" if job.n_bad > len(job.faults) > 0 else ""
        say(f"{count(job.n_bad, 'bad row')} skipped" + (f": {faults}{more}" if faults else ""))


def _print_clusters(job: Run) -> None:
    """Print the clusters with what is typical of them, and where the labels are."""
    if job.no_clusters:
        say(f"there are no clusters: {job.no_clusters}")
    if job.clusters is not None and job.n_rows:
        say(brief_clusters(job.clusters, told=job.join != "auto"))
        show(format_profiles(profile(job.stream, job.clusters), terminal_width()))
    if not job.n_rows:
        say(f"{job.reader.name} has no rows, so there are no clusters")
    elif job.writer.path != "-":
        columns = "the table of each row is" if job.clusters is None else "the table and the cluster of each row are"
        if CLUSTER in job.writer.results:
            columns = "the table of each row and its cluster as known when it came are"
        say(f"{columns} in {job.writer.path}")
