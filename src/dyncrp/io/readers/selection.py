"""Which columns a reader reads, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dyncrp.input.encoding import Encoding
from dyncrp.input.entries import KINDS
from dyncrp.input.infer import ROWS_TO_INFER


@dataclass(frozen=True)
class Selection:
    """Which columns to read, by name, and how.

    Args:
        columns: the features, as ``choose_columns`` takes them. None for all informative ones except the time column.
        time_column: the column of the times, if there is one.
        keep: the columns to copy. None for all except the time column.
        skip_bad: whether to skip rows with invalid cells.
        sort_by_time: whether to sort the rows by the time column, which takes memory for all of them.
        delimiter, decimal: of CSV. None to infer them from the first rows.
        header: whether CSV has a header.
        encoding: of text. None for UTF-8, or UTF-16 with a byte-order mark.
        exclude: columns that are not features, as in ``columns``.
        missing: texts that stand for a missing cell, in addition to "NA" and the like.
        time_format: of the times, as ``DateFormat`` takes it. None to infer it from the first rows.
        findings: what an earlier reader of the same input found, so that a longer input is read in the same way.
        categorical, numeric: columns of categories and of numbers, as in ``columns``.
        log: columns that are learned as log1p. None to infer them from the first rows.
        takes: the kinds of columns that the family takes.
        n_first: how many rows decide what columns hold.
        learned: the encoding of columns that the model already has.
        label_column, cannot_link_column, weight_column: those of ``labels``, ``cannot_link`` and ``sample_weight``,
            which are not features.
        text: the column of texts, if rows are texts. It is then the only feature.
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
    n_first: int = ROWS_TO_INFER
    learned: Encoding | None = None
    label_column: str | None = None
    cannot_link_column: str | None = None
    weight_column: str | None = None
    text: str | None = None
    sort_by_time: bool = False

    @property
    def takes_all(self) -> bool:
        """Whether columns of every kind are taken: no family says otherwise."""
        return set(KINDS) <= set(self.takes)

    @property
    def decides(self) -> bool:
        """Whether the first rows decide which columns are clustered: no model, family or option says so."""
        return self.learned is None and self.columns is None and self.takes_all

    @property
    def told(self) -> dict[str, str]:
        """The columns of constraints and weights, by the names of the arguments of ``Stream.learn``."""
        columns = {
            "labels": self.label_column,
            "cannot_link": self.cannot_link_column,
            "sample_weight": self.weight_column,
        }
        return {name: column for name, column in columns.items() if column is not None}
