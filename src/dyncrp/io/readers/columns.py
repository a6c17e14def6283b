"""Which columns are clustered, and what they hold."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from dyncrp.families import Categorical
from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import BOOLEAN, CATEGORY, CONSTANT, COUNTER, NUMBER, SENTENCES, join_columns
from dyncrp.input.infer import FEW_NUMBERS, ROWS_TO_INFER, Content, are_codes, read_words, shows_words
from dyncrp.input.left_out import FEW_ROWS
from dyncrp.io.files import FileError
from dyncrp.io.readers import cells
from dyncrp.io.readers.formats import Format, NumberFormat, YesNo

NOTES = {
    CATEGORY: "categories are left out: the family takes numbers only",
    COUNTER: "to cluster {0} all the same: --numeric {0}",
    SENTENCES: "to cluster the sentences by their words: --text {1}",
}
# Names of what is numbered, not measured. The numbers alone do not tell: in the files of R and of KEEL, ratings and
# brackets are as uneven as codes, and as categories they gave worse clusters as often as better ones.
CODES = "id|code|status|type|kind|category|region|sector|zone|zip"
CODE_NAME = re.compile(rf"(?i:(^|[^a-z])({CODES}|zipcode|postcode)$)|[a-z]({CODES.title()}|ID)$")
LEAST_REPEATS = 5  # rows of the mean code


class OnlyTextError(FileError):
    """There is nothing to cluster but a column of sentences.

    ``column`` is its name, ``others`` is a line about the other columns, "" if there are none.
    """

    def __init__(self, name: str, encoding: Encoding, column: str) -> None:
        super().__init__(
            f"{name} has no columns to cluster: {encoding.describe()}; --text {shlex.quote(column)} clusters the "
            "sentences by their words"
        )
        self.column = column
        self.others = Encoding(tuple(entry for entry in encoding.entries if entry.name != column)).describe()


def choose_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the selected names, each once. Select by name, position (#3), range (x1-x20) or pattern (x_*).

    Raises ``LookupError``, with the text as its argument, if a text matches no column.

    >>> choose_columns(["t", "x1", "x2", "x3", "y-z"], ["y-z", "x1-x2", "#4", "x*"])
    ['y-z', 'x1', 'x2', 'x3']
    """
    places = {f"#{at + 1}": at for at in range(len(names))} | {name: at for at, name in enumerate(names)}
    found: list[str] = []
    for text in wanted:
        if text in places:
            found.append(names[places[text]])
            continue
        ends = [(text[:at], text[at + 1 :]) for at, mark in enumerate(text) if mark == "-"]
        between = [(places[first], places[last]) for first, last in ends if first in places and last in places]
        if len(between) == 1 and between[0][0] <= between[0][1]:
            found += names[between[0][0] : between[0][1] + 1]
            continue
        fitting = [name for name in names if fnmatchcase(name, text)]
        if not fitting:
            raise LookupError(text)
        found += fitting
    return list(dict.fromkeys(found))


def read_cells(name: str, format: Format | None, column: Sequence[object]) -> Content:
    """Return what the first cells of a column are, given those that are not missing.

    format: how they are written, None for text.

    >>> read_cells("protocol", None, ["tcp", "udp", "tcp"]).kind
    'category'
    """
    if isinstance(format, YesNo):
        return Content(name, BOOLEAN, [str(cell).lower() for cell in column], (format.yes, format.no))
    if isinstance(format, NumberFormat):
        numbers = cells.as_numbers(format.read(column))
        return Content(name, NUMBER, numbers[np.isfinite(numbers)])
    return read_words(name, [str(cell).strip() for cell in column])


def holds_words(format: Format | None, column: Sequence[object]) -> bool:
    """Return whether cells that are mostly numbers are categories, since there are words among them.

    >>> holds_words(NumberFormat(), ["4", "6"] * 5 + ["rotary"]), holds_words(NumberFormat(), ["4", "6"] * 5 + ["*"])
    (True, False)
    """
    if not isinstance(format, NumberFormat):
        return False
    numbers = cells.as_numbers(format.read(column))
    at = np.flatnonzero(np.isnan(numbers))
    if np.any(np.isfinite(cells.as_numbers([column[i] for i in at.tolist()]))):
        return False  # a number with another decimal mark
    if not len(at):
        return False
    texts = [str(cell).strip() for cell in column]
    return are_codes(texts) or shows_words(numbers[np.isfinite(numbers)], [texts[i] for i in at.tolist()])


def find_only_text(encoding: Encoding) -> str | None:
    """Return the column of sentences, if it is the only one and there are no features; None otherwise."""
    texts = [entry.name for entry in encoding.entries if entry.reason == SENTENCES]
    return texts[0] if len(texts) == 1 and not encoding.features else None


def suggest_options(encoding: Encoding) -> list[str]:
    """Return sentences about columns that are left out, with the options that help.

    >>> from dyncrp.input.entries import Entry
    >>> suggest_options(Encoding((Entry("x", "number"), Entry("my review", "left out", (), "sentences"))))
    ["to cluster the sentences by their words: --text 'my review'"]
    """
    found = []
    for reason, note in NOTES.items():
        name = next((entry.name for entry in encoding.entries if entry.reason == reason), None)
        if name is not None:
            found.append(note.format(as_argument(name), shlex.quote(name)))
    return found


def suggest_categories(contents: Sequence[Content]) -> list[str]:
    """Return a sentence about columns of numbers that are likely codes, if any are.

    Their names say so, and they hold 3 to 20 different whole numbers that repeat.

    >>> suggest_categories([Content("status", "number", np.array([200.0, 301.0, 404.0] * 9))])
    ['status holds few whole numbers, which may be codes: --categorical status takes them for categories']
    """
    names = [content.name for content in contents if content.kind == NUMBER and _may_be_codes(content)]
    hold = "holds" if len(names) == 1 else "hold"
    remedy = f"--categorical {as_argument(*names)} takes them for categories"
    return [f"{join_columns(names)} {hold} few whole numbers, which may be codes: {remedy}"] if names else []


def suggest_booleans(contents: Sequence[Content]) -> list[str]:
    """Return a sentence if all columns that vary hold zeros and ones, and there are several.

    >>> flags = np.array([0.0, 1.0] * 20)
    >>> suggest_booleans([Content("open", "number", flags), Content("lit", "number", flags)])
    ['all numbers are 0 or 1: --family bernoulli takes them for booleans']
    """
    if any(one.kind != NUMBER for one in contents):
        return []
    vary = [different for one in contents if len(different := np.unique(one.cells)) > 1]
    few = max((len(one.cells) for one in contents), default=0) < FEW_ROWS
    if few or len(vary) < 2 or not all(np.array_equal(different, [0.0, 1.0]) for different in vary):
        return []
    return ["all numbers are 0 or 1: --family bernoulli takes them for booleans"]


def _may_be_codes(content: Content) -> bool:
    numbers = np.asarray(content.cells)
    if not CODE_NAME.search(content.name) or not np.array_equal(numbers, np.rint(numbers)):
        return False
    different = len(np.unique(numbers))
    return 3 <= different <= FEW_NUMBERS and len(numbers) >= max(LEAST_REPEATS * different, FEW_ROWS)


def tell_others(encoding: Encoding, contents: Sequence[Content]) -> list[str]:
    """Return a sentence for each column with more categories than the family that is learned distinguishes.

    >>> from dyncrp.input.entries import Entry
    >>> tell_others(Encoding((Entry("city", "category"),)), [Content("city", "category", [f"c{i}" for i in range(40)])])
    ["city holds 40 categories in the first rows: 32 are distinguished, and the rest count together, as 'others'"]
    """
    most = Categorical().n_codes
    different = {one.name: len(set(one.cells)) for one in contents if one.kind == CATEGORY}
    return [
        f"{entry.name} holds {different[entry.name]} categories in the first rows: {most} are distinguished, and the "
        "rest count together, as 'others'"
        for entry in encoding.entries
        if entry.kind == CATEGORY and different.get(entry.name, 0) > most
    ]


def tell_constants(encoding: Encoding, first: Mapping[str, Sequence[object]]) -> list[str]:
    """Return a sentence about columns that are constant in the first rows, if there may be more rows than these.

    first: the cells of the first rows.

    >>> from dyncrp.input.entries import Entry
    >>> encoding = Encoding((Entry("x", "number"), Entry("month", "left out", (), "constant")))
    >>> tell_constants(encoding, {"x": range(1000), "month": ["1"] * 1000})
    ['constant in the first 1,000 rows: month; if that changes later, it is clustered with --numeric month']
    """
    names = [entry.name for entry in encoding.entries if entry.reason == CONSTANT]
    n = max((len(first[name]) for name in names), default=0)
    if n < ROWS_TO_INFER:
        return []
    numbers = [name for name in names if any(map(cells.is_number, first[name]))]
    words = [name for name in names if name not in numbers]
    chosen = [f"--numeric {as_argument(*numbers)}"] * bool(numbers) + [f"--categorical {as_argument(*words)}"] * bool(
        words
    )
    constant = f"constant in the first {n:,} rows: {join_columns(names)}"
    return [f"{constant}; if that changes later, it is clustered with {' '.join(chosen)}"]


def as_argument(*names: str) -> str:
    """Return names as an option takes them that takes several, for a shell.

    >>> print(as_argument("Income, yearly"), as_argument(""), as_argument("x", "y z"))
    '"Income, yearly"' '' 'x,y z'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue() if names != ("",) else "")


def name_repeated(names: Sequence[str]) -> list[str]:
    """Return the names of columns, with positions in place of repeated names.

    >>> name_repeated(["x", "y", "x"])
    ['#1', 'y', '#3']
    """
    counts = Counter(names)
    return [name if counts[name] == 1 else f"#{at}" for at, name in enumerate(names, 1)]
