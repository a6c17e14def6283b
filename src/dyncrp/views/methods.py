"""Methods of a fitted estimator that describe its tables and edit them. Each is a call of its stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.stream.examples import Examples
from dyncrp.views.attributes import FittedAttributes
from dyncrp.views.describe import describe
from dyncrp.views.examples import examples_of
from dyncrp.views.groups import Groups

if TYPE_CHECKING:
    import pandas as pd


class TableMethods(FittedAttributes):
    """What a fitted estimator can do with its tables. A table is given by its id or its name."""

    def describe(self, groups: Groups | int | None = None) -> pd.DataFrame:
        """Return a pandas DataFrame that describes the open tables, with their ids as its index.

        Its columns are: ``called``, the name, if any table has one; ``rows``, how many rows have the label of the
        table; ``share``, their share of the rows of all open tables; ``first_seen`` and ``last_seen``, the times of the
        first and the last of them (dates in UTC if times were dates, numbers otherwise); ``group``, if ``groups`` is
        given; and one for each feature, with the centre of the table. The centre of a boolean is the probability of
        true. For categories it is a text with the likeliest ones and their lift, the ratio of their probability to that
        in all tables.

        Parameters
        ----------
        groups : Groups or int, optional
            What ``groups`` returned, or a number of groups.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0]])
        >>> model.describe().round(2)
               rows  share  first_seen  last_seen    x0    x1
        table
        0         2   0.67         0.0        2.0  0.10  0.05
        1         1   0.33         1.0        1.0  8.91  9.11
        """
        return describe(self.stream_, groups)

    def examples(self, table: int | str) -> Examples:
        """Return up to ``n_examples`` typical rows of a table, and as many of its latest rows.

        The typical rows are the likeliest of a fair sample of the table's rows. Of documents, they are those with the
        strongest evidence for the table; see ``dyncrp.stream.examples.choose``.

        Parameters
        ----------
        table : int or str
            An open table.

        Returns
        -------
        Examples
            ``typical``, the likeliest first, and ``latest``, the newest first: rows as the family sees them, with their
            numbers in the stream and their times. Documents are dictionaries from words to counts.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0), n_examples=1).fit([[0.0], [9.0], [0.4], [1.2]])
        >>> model.examples(0).typical.X, model.examples(0).latest.numbers
        (array([[0.4]]), array([3]))
        """
        return examples_of(self.stream_, table)

    def merge(self, a: int | str, b: int | str) -> int:
        """Merge two tables into one.

        The result is the table that would be there if the rows of both had been seated together: statistics and
        occupancies add up. One table cannot cover two that lie far apart. Then similar rows will open new tables, and
        the event "merged" has ``far_apart``.

        Parameters
        ----------
        a, b : int or str
            Open tables. If both have a name, that of ``a`` stays.

        Returns
        -------
        int
            The id of the merged table, which is the older one. The other id stands for it from now on.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [4.0], [9.2]])
        >>> model.merge(2, 0), model.table_ids_, model.resolve([0, 1, 2])
        (0, array([0, 1]), array([0, 1, 0]))
        """
        return self.stream_.merge(a, b)

    def rename(self, table: int | str, name: str) -> None:
        """Give a table a name.

        Parameters
        ----------
        table : int or str
            An open table.
        name : str
            A name that no other table has, or "" to remove its name.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0]])
        >>> model.rename(1, "door 3")
        >>> model.names_, model.resolve(["door 3"])
        ({1: 'door 3'}, array([1]))
        """
        self.stream_.rename(table, name)

    def split(self, table: int | str, X: ArrayLike, *, times: ArrayLike | None = None) -> int:
        """Move rows from a table to a new one.

        Parameters
        ----------
        table : int or str
            An open table.
        X : array-like of shape (n, D)
            Rows that were seated at this table. They are removed from it, exactly if their responsibilities were 1.
        times : array-like of shape (n,), optional
            The times of the rows. Required unless the dynamics are ``Stationary``.

        Returns
        -------
        int
            The id of the new table.

        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(4.0, 100.0)).fit([[0.0], [3.0], [0.2], [3.2]])
        >>> model.n_tables_, model.split(0, [[3.0], [3.2]]), model.centers_.round(1).ravel()
        (1, 1, array([0.1, 3. ]))
        """
        return self.stream_.split(table, X, times=times)

    def resolve(self, tables: Iterable[int | str]) -> NDArray[np.int64]:
        """Return the present ids of tables, which brings labels from before a merge up to date.

        Parameters
        ----------
        tables : iterable of int or str
            Ids and names; −1 stays −1.

        Returns
        -------
        ndarray of shape (n,)
            The ids.
        """
        return self.stream_.resolve(tables)
