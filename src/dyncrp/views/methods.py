"""The methods of a fitted estimator that show its tables, and those that edit them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dyncrp.families import Family
from dyncrp.input.encoding import is_frame
from dyncrp.stream.examples import Examples
from dyncrp.stream.stream import Stream
from dyncrp.stream.translation import translate
from dyncrp.views.attributes import FittedAttributes
from dyncrp.views.clusters import Clusters
from dyncrp.views.describe import describe
from dyncrp.views.described import DescribedClusters, described
from dyncrp.views.examples import examples_of
from dyncrp.views.explain import Explanation, explain
from dyncrp.views.fill import PredictedCategories, PredictedNumbers, fill, predict_cells

if TYPE_CHECKING:
    import pandas as pd


class TableMethods(FittedAttributes):
    """What a fitted estimator can do with its tables. A table is given by its id or its name."""

    @abstractmethod
    def _check_names(self, X: Any, stream: Stream) -> None:
        """Warn or raise if the names of the features of X differ from those of the stream."""

    @classmethod
    @abstractmethod
    def from_stream(cls, stream: Stream) -> Self:
        """Return an estimator that continues a stream."""

    def clusters(self, n: int | None = None, shape: str = "auto") -> DescribedClusters:
        """Return the clusters, which is what people look at: open tables, joined. They print with a line for each.

        Several tables often tile one cluster. They are joined from their statistics alone, at any moment. Events name
        the clusters of the latest call.

        Parameters
        ----------
        n : int, optional
            The number of clusters. By default, as many as the evidence is for.
        shape : {"auto", "elliptical", "any"}
            "elliptical" joins tables as long as one ellipse explains their rows better than two. "any" joins tables
            unless there is a significant valley between them, so that rings and moons stay whole; with ``n``, by Ward's
            criterion. "auto" is "elliptical" unless that cuts through curves, or the rows are a cloud without clusters.

        Returns
        -------
        DescribedClusters
            The clusters as they are now. The id of a cluster is that of its oldest table. ``print`` shows the rows of
            each, their share, when they came, and what is typical of them. Columns are read as from a DataFrame, such
            as ``clusters["rows"]``, or from ``clusters.frame``. ``clusters.labels(model.labels_)`` are the clusters of
            rows.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from dyncrp import DynamicalMixture
        >>> X, y = make_moons(500, noise=0.05, random_state=0)
        >>> model = DynamicalMixture().fit(X)
        >>> model.n_tables_ > 20, len(model.clusters()), model.clusters().shape
        (True, 2, 'any')
        """
        return described(self.stream_, n, shape)

    def describe(self, clusters: Clusters | int | None = None) -> pd.DataFrame:
        """Return a pandas DataFrame that describes the open tables, with their ids as its index.

        Its columns are: ``called``, the name, if any table has one; ``rows``, how many rows have the label of the
        table; ``share``, their share of the rows of all open tables; ``first_seen`` and ``last_seen``, the times of the
        first and the last of them (dates in UTC if times were dates, numbers otherwise); ``cluster``, if ``clusters``
        is given; and one for each feature, with the mean of the table's rows, each weighted by its responsibility. That
        of a boolean is the share of true. For categories it is a text with the likeliest ones and their lift, the ratio
        of their probability to that in all tables. (``centers_`` are posterior means.)

        Parameters
        ----------
        clusters : Clusters or int, optional
            What ``clusters`` returned, or a number of clusters.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit(
        ...     [[0.0, 0.1], [9.0, 9.2], [0.2, 0.0]]
        ... )
        >>> model.describe().round(2)
               rows  share  first_seen  last_seen   x0    x1
        table
        0         2   0.67         0.0        2.0  0.1  0.05
        1         1   0.33         1.0        1.0  9.0  9.20
        """
        return describe(self.stream_, clusters)

    def explain(self, x: Any, t: Any = None) -> Explanation:
        """Return why x would join its table: log odds against the runner-up and a new table, feature by feature.

        The log odds are sums of a term for the prior weights and one term for each feature. Nothing is learned. With
        ``assignment="variational"``, the odds are those of predictive scores, which differ a little from those that
        decide.

        Parameters
        ----------
        x : array-like of shape (D,), mapping, or DataFrame of one row
            One row: numbers, a mapping from the names of the features, or a frame. With ``Multinomial``, one document,
            whose features are its words.
        t : number or date, optional
            Its time, as in ``predict``.

        Returns
        -------
        Explanation
            The odds, which print as a list.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit(
        ...     [[0.0, 0.1], [9.0, 0.2], [0.2, 0.0]]
        ... )
        >>> print(model.explain([6.0, 0.0]))
        table 1
        log odds in nats  against table 0  against a new table
        prior weight                -0.69                +0.00
        x0 = 6                      +9.35                +0.01
        x1 = 0                      -0.15                +1.95
        total                       +8.51                +1.97
        """
        if is_frame(x):
            self._check_names(x, self.stream_)
        return explain(self.stream_, x, t)

    def fill(self, X: Any, times: ArrayLike | None = None) -> Any:
        """Return rows with their missing cells filled in, each by what is expected given the cells that are there.

        A number becomes its predictive mean, a category or boolean its likeliest value. Cells that are there do not
        change. Nothing is learned. See ``predict_cells`` for how sure this is.

        Parameters
        ----------
        X : array-like of shape (n, D) or DataFrame
            Rows, of the same columns as those learned. NaN and None are missing cells.
        times : array-like of shape (n,), optional
            The time of each row, as in ``predict``.

        Returns
        -------
        ndarray of shape (n, D) or DataFrame
            A new frame if X is one, with words for categories, otherwise an array. Columns that are left out stay as
            they are. A number that is modelled by its logarithm gets that of the mean logarithm, about its median.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, NormalGamma
        >>> model = DynamicalMixture(NormalGamma(1.0, 100.0)).fit(
        ...     [[0.0, 1.0], [9.0, 5.0], [0.2, 1.1], [9.1, 5.2]]
        ... )
        >>> model.fill([[9.2, float("nan")]]).round(1)
        array([[9.2, 4.9]])
        """
        self._check_names(X, self.stream_)
        return fill(self.stream_, X, times)

    def predict_cells(
        self, X: Any, column: int | str, times: ArrayLike | None = None
    ) -> PredictedNumbers | PredictedCategories:
        """Return how one column is distributed in each row, given the other cells that are there.

        With w_c the weight of a table at the time of the row, and α that of a new one, this is the mixture

            p(x_d | x_o) = Σ_c π_c p(x_d | x_o, table c),   π_c ∝ w_c p(x_o | table c).

        It is exact. Cells of the column that are there are ignored.

        Parameters
        ----------
        X : array-like of shape (n, D) or DataFrame
            Rows, of the same columns as those learned. NaN and None are missing cells.
        column : int or str
            The position or the name of the column.
        times : array-like of shape (n,), optional
            The time of each row, as in ``predict``.

        Returns
        -------
        PredictedNumbers or PredictedCategories
            For a number its ``mean``, ``std``, ``quantile``, ``interval`` and ``log_density``; for a category or a
            boolean the ``probabilities`` of its ``categories``.

        Examples
        --------
        >>> from dyncrp import Bernoulli, DynamicalMixture
        >>> model = DynamicalMixture(Bernoulli(0.5, 0.5)).fit(
        ...     [[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 1]]
        ... )
        >>> model.predict_cells([[1, float("nan"), 0]], 1).probabilities.round(2)
        array([[0.28, 0.72]])
        """
        self._check_names(X, self.stream_)
        return predict_cells(self.stream_, X, column, times)

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
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0), n_examples=1).fit(
        ...     [[0.0], [9.0], [0.4], [1.2]]
        ... )
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

        Examples
        --------
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

        Examples
        --------
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

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(4.0, 100.0)).fit([[0.0], [3.0], [0.2], [3.2]])
        >>> model.n_tables_, model.split(0, [[3.0], [3.2]]), model.centers_.round(1).ravel()
        (1, 1, array([0.1, 3. ]))
        """
        return self.stream_.split(table, X, times=times)

    def resolve(self, tables: Iterable[int | str], level: str = "table") -> NDArray[np.int64]:
        """Return the present ids of tables or of their clusters, which brings earlier labels up to date.

        Parameters
        ----------
        tables : iterable of int or str
            Ids and names of tables; −1 stays −1. The id of a cluster counts as that of its oldest table.
        level : {"table", "cluster"}, default="table"
            "table" follows merges by hand. "cluster" returns the cluster that each table is in as known now, with
            ``keep_clusters``; the rows of a closed table stay with its cluster.

        Returns
        -------
        ndarray of shape (n,)
            The ids.
        """
        return self.stream_.resolve(tables, level)

    def translate(
        self,
        old: ArrayLike | None,
        new: ArrayLike,
        *,
        labels: Iterable[int | str | None] | None = None,
        family: Family | None = None,
        unmatched: str = "error",
    ) -> Self:
        """Return a model with the same tables in another space, such as that of a new encoder.

        Tables keep their ids, names, numbers of rows, times and occupancies. What they know of their rows is learned
        anew, from some rows in both spaces: a few of each table, such as its ``examples``. This model does not change.

        Parameters
        ----------
        old : array-like of shape (n, D), or None
            Rows in the space of this model, or None if ``labels`` are all known. Each belongs to the table that it has
            as a kept example (``n_examples``), or else to that of ``predict``. Rows that are unlike all tables are not
            used.
        new : array-like of shape (n, E)
            The same rows in the new space, with any number of features.
        labels : iterable of length n, optional
            The tables of rows by id or name, −1 or None where they are unknown.
        family : Family, optional
            The family in the new space. By default, and where its hyperparameters are None, it is that under which the
            new rows are likeliest, given their tables; by default it is of the same kind as that of this model.
        unmatched : {"error", "close"}
            What to do with tables to which no row belongs: raise an error that names them, or close them.

        Returns
        -------
        DynamicalMixture
            A new model, which goes on with the stream in the new space. It has learned nothing yet about how unexpected
            rows are there, so alarms begin as for a new stream. Examples whose rows were given are kept.

        Examples
        --------
        >>> from dyncrp import DynamicalMixture, Gaussian
        >>> model = DynamicalMixture(Gaussian(1.0, 100.0)).fit([[0.0], [9.0], [0.4], [9.2]])
        >>> model.rename(1, "warm")
        >>> celsius = [[0.1], [0.3], [9.1]]
        >>> fahrenheit_and_more = [[32.2, 1.0], [32.5, 1.0], [48.4, 2.0]]
        >>> after = model.translate(
        ...     celsius, fahrenheit_and_more, family=Gaussian(1.0, 1000.0)
        ... )
        >>> after.names_, after.predict([[48.0, 2.1], [32.1, 0.9]])
        ({1: 'warm'}, array([1, 0]))
        """
        stream = self.stream_
        if old is not None:
            self._check_names(old, stream)
        return self.from_stream(translate(stream, old, new, labels=labels, family=family, unmatched=unmatched))
