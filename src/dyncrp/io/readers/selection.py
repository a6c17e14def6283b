"""What a reader is asked for: which columns, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import KINDS


@dataclass(frozen=True)
class Selection:
    """Which columns to read, by name, and how.

    columns: the features, as ``choose_columns`` takes them, None for all that tell something but the time column.
    time_column: where the times are, if anywhere. keep: what to copy, None for all but the time column. skip_bad:
    whether to drop rows with bad cells. header: whether CSV has one. delimiter, decimal: of CSV, None to find them from
    the first rows. encoding: of text, None for UTF-8, or UTF-16 with a byte-order mark. exclude: what is no feature, as
    in columns. missing: what stands for a missing cell, beside "NA" and the like. time_format: of the times, as
    ``DateFormat`` takes it, None to find it from the first rows. findings: what a reader of the same input found
    before, as its places say, so that an input that has grown is read as it was. categorical, numeric: what holds
    categories and numbers, as in columns. log: what is learned as log1p, None to find it from the first rows. takes:
    the kinds of columns that the family takes. learned: how the model encodes columns already. label_column,
    cannot_link_column: where ``labels`` and ``cannot_link`` of the rows are, if anywhere; neither is a feature. text:
    the column of texts, if the rows are texts; then it is the only feature.
    """

    columns: tuple[str, ...] | None = None
    time_column: str | None = None
    keep: tuple[str, ...] | None = ()
    skip_bad: bool = False
    delimiter: str | None = None
    header: bool = True
    decimal: str | None = None
    encoding: str | None = None
    exclude: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    time_format: str | None = None
    findings: dict[str, Any] | None = None
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    log: tuple[str, ...] | None = None
    takes: tuple[str, ...] = KINDS
    learned: Encoding | None = None
    label_column: str | None = None
    cannot_link_column: str | None = None
    text: str | None = None

    @property
    def told(self) -> dict[str, str]:
        """The columns with what is known of the rows, by the names of the arguments of ``partial_fit`` for it."""
        columns = {"labels": self.label_column, "cannot_link": self.cannot_link_column}
        return {name: column for name, column in columns.items() if column is not None}
