"""The options of the command line. Each group of options is a dataclass whose fields are the options.

Modules that are slow to import are imported where they are used, so that help is fast.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from dyncrp.cli.errors import refuse
from dyncrp.cli.paths import is_pipe

if TYPE_CHECKING:
    from dyncrp.io.readers import Selection
    from dyncrp.search.spec import ModelSpec

INPUT_HELP = (
    "A .csv, .tsv, .json, .jsonl, .parquet or .npy file, or - for standard input; text may be .gz, .bz2, .zst or .zip."
)
COLUMNS_HELP = "Columns to cluster: x,y,z, or x1-x20, or sensor_*, or #3 for the third."
TEXT_HELP = "The column of texts, if the rows are texts: they are clustered by their words."
LOG_HELP = "Columns of numbers to transform to log(1 + x), or none."
BY_ROWS = "by the first rows"
BESIDE = "INPUT.clusters.csv; with standard input, -"
TIME_HELP = "Format of dates, such as %d/%m/%Y %H:%M; or s, ms, us or ns since 1970; or number."
SORT_HELP = "Sort the rows by the time column. All of them must fit into memory."
LABEL_HELP = "The known table of each row: an id or a name; empty if unknown."
CANNOT_LINK_HELP = "A column of marks: consecutive rows with the same mark cannot share a table."
WEIGHT_HELP = "How many rows each counts as: a number ≥ 0; 0 only gets a label."
EVENTS_HELP = "Write what happens to tables as it happens, one line of JSON per event."
ALARM_HELP = "The share of rows that may raise a false alarm, such as 0.001."
SURGE_HELP = "The share of rows that may report a false surge, rise or fall of a cluster, such as 0.0001."
OUTPUT_HELP = "Where to write the labels: out.csv, out.jsonl, out.parquet, or - for standard output."
FAMILY_HELP = (
    "A family such as gaussian, normal_gamma, normal_wishart, bernoulli, poisson, categorical, von_mises_fisher or "
    "multinomial."
)
MEMORY_HELP = "How many members a table remembers, so that it can move: a number ≥ 2, inf, or auto to learn it."
DYNAMICS_HELP = (
    'How the past is forgotten, such as "0.999*exponential(2h) + 0.001*stationary()"; repeat it for several to choose '
    "from."
)
CLUSTERS_HELP = "How many clusters to find at the end: a number, auto for as many as stand out, or none."
SETTINGS_HELP = "A parameter of the family or the model: variance=1, warmup=500."
ARRIVAL_HELP = "Write the cluster of each row as known when it came, not as known at the end."
RENAMED = "there is no option --groups: use --clusters, as in --clusters 3"
MOST_DIGITS = 18  # in a number of clusters
# Options that a selection has as they are given.
AS_GIVEN = (
    *("time_column", "label_column", "cannot_link_column", "weight_column", "time_format"),
    *("text", "decimal", "encoding", "header", "skip_bad", "sort_by_time"),
)
# Options without a panel are those of a first day; help shows them first.
_input = partial(typer.Option, rich_help_panel="Input")
_times = partial(typer.Option, rich_help_panel="Times")
_output = partial(typer.Option, rich_help_panel="Output")
_model = partial(typer.Option, rich_help_panel="Model")
_checkpoint = partial(typer.Option, rich_help_panel="Checkpoint")


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see the fields of each dataclass parameter of a command as separate options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            members = inspect.signature(groups[name]).parameters.values()
            parameters += [member.replace(annotation=types[member.name]) for member in members]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    return call


@dataclass(frozen=True)
class InputOptions:
    """What to read, and how. Its fields are in the order of the help and of ``as_arguments``."""

    input: Annotated[str, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
    format: Annotated[str | None, _input(help="csv, json, jsonl, parquet or npy.", show_default="by the suffix")] = None
    columns: Annotated[str | None, typer.Option(help=COLUMNS_HELP, show_default="all but the times")] = None
    exclude: Annotated[str | None, typer.Option(help="Columns not to cluster, in the same notation.")] = None
    categorical: Annotated[str | None, _input(help="Columns that hold categories.", show_default=BY_ROWS)] = None
    numeric: Annotated[str | None, _input(help="Columns that hold numbers.", show_default=BY_ROWS)] = None
    log: Annotated[str | None, _input(help=LOG_HELP, show_default=BY_ROWS)] = None
    text: Annotated[str | None, typer.Option(help=TEXT_HELP, show_default="no texts")] = None
    stop_words: Annotated[bool, _input("--stop-words", help="Ignore the most common English words in texts.")] = False
    time_column: Annotated[str | None, typer.Option(help="Times: numbers or dates.", show_default="the row index")] = (
        None
    )
    label_column: Annotated[str | None, _input(help=LABEL_HELP, show_default="nothing is known")] = None
    cannot_link_column: Annotated[str | None, _input(help=CANNOT_LINK_HELP, show_default="no marks")] = None
    weight_column: Annotated[str | None, _input(help=WEIGHT_HELP, show_default="each counts as one")] = None
    time_format: Annotated[str | None, _times(help=TIME_HELP, show_default=BY_ROWS)] = None
    sort_by_time: Annotated[bool, _times("--sort-by-time", help=SORT_HELP)] = False
    missing: Annotated[str | None, _input(help="What stands for a missing cell besides NA and ?: unknown,-999.")] = None
    delimiter: Annotated[str | None, _input(help="Separator of CSV cells, or whitespace.", show_default=BY_ROWS)] = None
    decimal: Annotated[str | None, _input(help="Decimal mark of CSV: . or ,", show_default=BY_ROWS)] = None
    encoding: Annotated[str | None, _input(help="Encoding, such as latin-1.", show_default="UTF-8, or by mark")] = None
    header: Annotated[bool, _input(help="Whether CSV starts with column names; if not, they are 0, 1, 2, …")] = True
    skip_bad: Annotated[bool, _input("--skip-bad", help="Skip rows with bad cells instead of stopping.")] = False

    def resolve_format(self) -> str:
        """Return the format, as given or by the suffix."""
        from dyncrp.io.files import FileError
        from dyncrp.io.readers import READERS, SUFFIXES, find_format

        if self.format is not None:
            if self.format not in READERS:
                refuse(f"--format must be one of {', '.join(READERS)}, got {self.format}")
            return self.format
        if self.input == "-":
            refuse(f"standard input needs --format: one of {', '.join(READERS)}")
        try:
            found = find_format(self.input)
        except (FileError, OSError) as error:
            refuse(str(error))
        if found is None:
            refuse(f"{self.input} has none of the suffixes {', '.join(SUFFIXES)}: use --format")
        return found

    def select(self, keep: str | None) -> Selection:
        """Return which columns to read, and how. keep: names of columns to copy, or "all"."""
        from dyncrp.io.readers import WHITESPACE, Selection, find_suffix, is_pattern

        delimiter = "\t" if self.delimiter is None and find_suffix(self.input) == ".tsv" else self.delimiter
        delimiter = {"tab": "\t", "\\t": "\t"}.get(str(delimiter), delimiter)
        if delimiter not in (None, WHITESPACE) and (
            len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()
        ):
            refuse(
                f"--delimiter must be one character, tab or whitespace, not a quote or a line end, got {delimiter!r}"
            )
        if self.decimal not in (None, ".", ","):
            refuse(f"--decimal must be . or , but is {self.decimal!r}")
        if self.decimal is not None and self.decimal == delimiter:
            refuse(f"--decimal and --delimiter are both {delimiter!r}: use another --delimiter, such as ';'")
        if self.time_format is not None:
            if self.time_column is None:
                refuse(f"--time-format needs --time-column, got {self.time_format!r}")
            if not is_pattern(self.time_format):
                wanted = "a strptime format, or s, ms, us, ns or number"
                refuse(f"--time-format must be {wanted}, got {self.time_format!r}")
        if self.sort_by_time and self.time_column is None:
            refuse("--sort-by-time needs --time-column")
        if self.encoding is not None and not _is_encoding(self.encoding):
            refuse(f"--encoding must name an encoding of text, such as utf-8, latin-1 or utf-16, got {self.encoding!r}")
        names, kept = _split_names(self.columns), _split_names(keep)
        others = {self.time_column, self.label_column, self.cannot_link_column, self.weight_column}
        chosen = self.columns is not None
        if chosen and (not names or len(set(names)) < len(names) or not others.isdisjoint(names)):
            only_time = others == {self.time_column, None}
            wanted = "the time column" if only_time else "the columns of times, labels, marks and weights"
            refuse(f"--columns must name each feature once, and not {wanted}, got {self.columns}")
        categorical, numeric = _split_names(self.categorical), _split_names(self.numeric)
        both = next((name for name in categorical if name in numeric), None)
        if both is not None:
            refuse(f"--categorical and --numeric both name {both}")
        self._check_text()
        if keep != "all" and len(set(kept)) < len(kept):
            refuse(f"--keep must name each column once, got {keep}")
        no_log = self.log is not None and self.log.lower() == "none"
        return Selection(
            columns=names if chosen else None,
            keep=None if keep == "all" else kept,
            delimiter=delimiter,
            exclude=_split_names(self.exclude),
            missing=_split_names(self.missing),
            categorical=categorical,
            numeric=numeric,
            log=None if self.log is None else () if no_log else _split_names(self.log),
            **{name: getattr(self, name) for name in AS_GIVEN},
        )

    def _check_text(self) -> None:
        """Raise for options that do not go with --text, and for --stop-words without it."""
        if self.text is None:
            if self.stop_words:
                refuse("--stop-words needs --text")
            return
        choices = ("columns", "exclude", "categorical", "numeric", "log")
        given = next((name for name in choices if getattr(self, name) is not None), None)
        if given is not None:
            refuse(f"--text names the only column to cluster: leave out --{given}")
        if self.text in (self.time_column, self.label_column, self.cannot_link_column, self.weight_column):
            refuse(f"--text must not be the column of times, labels, marks or weights, got {self.text}")

    def as_arguments(self) -> list[str]:
        """Return the arguments of a command that reads the same input."""
        arguments = [self.input]
        for option in fields(self)[1:]:
            name, value = option.name.replace("_", "-"), getattr(self, option.name)
            if value != option.default:
                arguments += (
                    [f"--{name}"] if value is True else [f"--no-{name}"] if value is False else [f"--{name}", value]
                )
        return arguments


@dataclass(frozen=True)
class OutputOptions:
    """What to write, and where."""

    output: Annotated[str | None, typer.Option("--output", "-o", help=OUTPUT_HELP, show_default=BESIDE)] = None
    output_format: Annotated[str | None, _output(help="csv, jsonl or parquet.", show_default="by the suffix")] = None
    keep: Annotated[str | None, typer.Option(help="Columns to copy to the output, by name, or all.")] = None
    names: Annotated[bool, _output("--names", help="Also write the name of the table of each row.")] = False
    events: Annotated[str | None, _output(metavar="FILE.jsonl", help=EVENTS_HELP)] = None
    clusters: Annotated[str, typer.Option(help=CLUSTERS_HELP)] = "auto"
    as_of_arrival: Annotated[bool, _output("--as-of-arrival", help=ARRIVAL_HELP)] = False
    force: Annotated[bool, _output("--force", help="Replace an existing output, file of events or checkpoint.")] = False
    groups: Annotated[str | None, _output(hidden=True)] = None  # what clusters were called once

    def resolve(self, input: str) -> tuple[str, str]:
        """Return the path of the output and its format. By default, it is beside the input."""
        from dyncrp.io.readers import SUFFIXES
        from dyncrp.io.writers import WRITERS

        suffix = "" if self.output is None else Path(self.output).suffix.lower()
        unnamed = self.output is None or (not suffix and is_pipe(self.output))
        by_suffix = "csv" if unnamed else SUFFIXES.get(suffix, suffix[1:])
        found = self.output_format or by_suffix
        if found not in WRITERS or (self.output_format is None and suffix == ".tsv"):
            kinds = ", ".join(WRITERS)
            refuse(f"the output must be {kinds}, by suffix or --output-format; got {self.output_format or self.output}")
        path = self.output
        if path is None:
            path = "-" if is_pipe(input) else _beside(input, found)
        if not WRITERS[found].pipes and is_pipe(path):
            refuse(f"{found.title()} needs --output FILE: it cannot be written to a pipe")
        return path, found

    def resolve_clusters(self) -> int | Literal["auto"] | None:
        """Return into how many clusters to join the tables, or None for no clusters."""
        if self.groups is not None:
            refuse(RENAMED)
        n = self.clusters.lower()
        if n in ("auto", "none"):
            return "auto" if n == "auto" else None
        if not (n.isascii() and n.isdigit() and 0 < len(n.lstrip("0")) <= MOST_DIGITS):
            refuse(f"--clusters must be auto, none or an integer ≥ 1, got {self.clusters!r}")
        return int(n)


@dataclass(frozen=True)
class ModelOptions:
    """The model. Hyperparameters that are not given are learned from the first rows."""

    family: Annotated[str | None, _model(help=FAMILY_HELP, show_default="learned")] = None
    dynamics: Annotated[list[str] | None, _model(help=DYNAMICS_HELP)] = None
    alpha: Annotated[float | None, _model(help="The larger, the more readily new tables open.")] = None
    memory: Annotated[str | None, _model(help=MEMORY_HELP, show_default="inf")] = None
    alarm_rate: Annotated[float | None, typer.Option(help=ALARM_HELP, show_default="no alarms")] = None
    surge_rate: Annotated[float | None, _model(help=SURGE_HELP, show_default="no surges")] = None
    settings: Annotated[list[str] | None, _model("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None

    @property
    def given(self) -> bool:
        """Whether any option is given that cannot change for a saved model: all but the two rates."""
        return bool(self.family or self.dynamics or self.alpha is not None or self.memory or self.settings)

    def keeping_clusters(self) -> ModelOptions:
        """Return these options for a model that keeps its clusters."""
        told = any(setting.startswith("keep_clusters=") for setting in self.settings or [])
        return self if told else replace(self, settings=[*(self.settings or []), "keep_clusters=true"])

    def for_texts(self) -> ModelOptions:
        """Return these options for rows that are texts."""
        if self.family is not None and self.family.lower() != "multinomial":
            refuse(f"--text needs --family multinomial, got {self.family}")
        return replace(self, family="multinomial")

    def parse(self, *, units: bool) -> ModelSpec:
        """Return the parameters of the model. units: whether durations may have a unit."""
        from dyncrp.jobs.model_text import parse_model

        rates = {"alarm_rate": self.alarm_rate, "surge_rate": self.surge_rate}
        asked = [f"{name}={rate!r}" for name, rate in rates.items() if rate is not None]
        settings = [*(self.settings or []), *asked]
        given = self.family, self.dynamics or [], self.alpha, settings, self.memory
        return parse_model(*given, units=units)


@dataclass(frozen=True)
class CheckpointOptions:
    """Where and how often to save the state."""

    checkpoint: Annotated[Path | None, _checkpoint(help="Where to save the state, to resume after any stop.")] = None
    every: Annotated[int, _checkpoint(min=1, help="Rows from one checkpoint to the next.")] = 100_000
    resume: Annotated[bool, _checkpoint("--resume", help="Continue from the checkpoint, if it exists.")] = False


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on standard error.")]


def _beside(input: str, format: str) -> str:
    """Return the path of an output beside its input, whose suffixes it replaces.

    >>> _beside("logs/day.csv.gz", "csv"), _beside("access.log", "csv"), _beside("day.parquet", "jsonl")
    ('logs/day.clusters.csv', 'access.log.clusters.csv', 'day.clusters.jsonl')
    """
    from dyncrp.io.readers import SUFFIXES, find_suffix

    suffix, name = find_suffix(input), input
    if suffix in SUFFIXES:
        name = name if name.lower().endswith(suffix) else name.removesuffix(Path(name).suffix)  # of a compression
        name = name[: -len(suffix)]
    return f"{name}.clusters.{format}"


def _split_names(text: str | None) -> tuple[str, ...]:
    """Return the names between commas, none for None. A name that contains a comma must be in double quotes.

    A column may have no name: '' stands for it.
    """
    if text is None:
        return ()
    try:
        return tuple(name.strip() for name in next(csv.reader([text]), [])) or ("",)
    except csv.Error:
        refuse(f"column names must be on one line, separated by commas, got {text!r}")


def _is_encoding(name: str) -> bool:
    """Return whether Python has a text encoding of this name. Some codecs, such as hex, are not text encodings."""
    try:
        return "".encode(name) is not None
    except (LookupError, ValueError):
        return False
