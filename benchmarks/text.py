"""``python -m benchmarks.text --data FOLDER [--quick]``: streams of short texts, ours beside others, on one thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import speed

STREAMS = ("tweets", "news", "news-t")
CONCENTRATION, ALPHA, TIMESCALE = 100.0, 30.0, 500.0
DIMENSIONS = 100  # of the TF-IDF, for k-means
ROUNDS = 5
RADIUS = 0.8  # of TextClust: the best of 0.5, 0.7, 0.8 and 0.9 on the first 1,500 documents of news
SECONDS, QUICK_SECONDS = 120.0, 10.0  # for TextClust
# As reported by others, in the order of STREAMS: NMI with the geometric mean, and what else there is.
PUBLISHED: dict[str, tuple[dict[str, float], ...]] = {
    "MStream (KDD 2018, table 2)": ({"nmi": 0.844}, {"nmi": 0.834}, {"nmi": 0.850}),
    "MStreamF (the same)": ({"nmi": 0.823}, {"nmi": 0.797}, {"nmi": 0.873}),
    "DTM, told 300, 170 and 170 topics (the same)": ({"nmi": 0.801}, {"nmi": 0.793}, {"nmi": 0.806}),
    "OSDM (ACL 2020), the best reported": ({"nmi": 0.84, "ami": 0.67, "clusters": 2300}, {}, {}),
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """Documents in order of arrival: a CSR matrix of counts (n, V), and the class of each."""

    X: Any
    y: Any

    @classmethod
    def load(cls, path: Path) -> Stream:
        """Read ``indptr``, ``indices``, ``counts`` and ``y`` of an .npz file."""
        import numpy as np
        from scipy.sparse import csr_array

        with np.load(path) as file:
            parts = file["counts"].astype(np.float64), file["indices"].astype(np.int64), file["indptr"].astype(np.int64)
            width = int(parts[1].max()) + 1
            return cls(csr_array(parts, shape=(len(parts[2]) - 1, width)), file["y"])

    @property
    def n(self) -> int:
        """How many documents."""
        return len(self.y)

    def bags(self) -> list[dict[str, int]]:
        """Return documents as river's BagOfWords has them."""
        bounds = zip(self.X.indptr[:-1].tolist(), self.X.indptr[1:].tolist(), strict=True)
        words, counts = [str(word) for word in self.X.indices.tolist()], self.X.data.astype(int).tolist()
        return [dict(zip(words[begin:end], counts[begin:end], strict=True)) for begin, end in bounds]


def columns() -> dict[str, Any]:
    """Return the columns of the table that is printed."""
    from benchmarks import report

    shown: dict[str, Any] = {key: report.COLUMNS[key] for key in ("ami", "clusters", "fed", "rate", "ratio")}
    shown = {"told": ("given", str), "ami": shown.pop("ami"), "nmi": ("NMI", lambda v: f"{v:.3f}")} | shown
    return shown | {"learning": ("obs/s without labels", report.count)}


def main(arguments: list[str] | None = None) -> None:
    """Parse, run and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"TextClust gets {QUICK_SECONDS:g} seconds")
    parser.add_argument("--only", action="append", choices=STREAMS, help="run this stream (may be repeated)")
    parser.add_argument("--given-only", action="store_true", help="leave out the run that is told nothing")
    parser.add_argument("--data", type=Path, required=True, help="a folder with tweets.npz and so on, see docs/text.md")
    parser.add_argument("--results", type=Path, default=speed.HERE / "results" / "text.json")
    options = parser.parse_args(arguments)
    from benchmarks import report

    every = {name: _section(name) for name in STREAMS}
    for name, found in speed.run(every, options.only or list(STREAMS), options, columns()):
        if found:
            report.write(options.results, {name: found}, quick=options.quick)


def _section(name: str) -> Callable[[Any], Iterator[tuple[str, list[Row]]]]:
    def run(options: Any) -> Iterator[tuple[str, list[Row]]]:
        path = options.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: left out, since there is no {path}")
            return
        stream, seconds = Stream.load(path), QUICK_SECONDS if options.quick else SECONDS
        rows = compare(stream, seconds, 1 if options.quick else ROUNDS, given_only=options.given_only)
        rows += [
            {"system": system, "told": "published"} | scores[STREAMS.index(name)]
            for system, scores in PUBLISHED.items()
            if scores[STREAMS.index(name)]
        ]
        yield f"{name}: {stream.n:,} documents, {len(set(stream.y.tolist()))} classes", rows

    return run


def compare(stream: Stream, seconds: float, rounds: int, *, given_only: bool = False) -> list[Row]:
    """Return a row for each system. seconds: after which TextClust is stopped. rounds: of ours, the best counts."""
    from benchmarks.systems import has_river

    rows = [_ours("dyncrp", f"B = {CONCENTRATION:g}, α = {ALPHA:g}, timescale {TIMESCALE:g}", given, stream, rounds)]
    if not given_only:
        rows.append(_ours("dyncrp, learning all", "nothing", unknown, stream, 1))
    if has_river():
        for told, settings in TEXTCLUST.items():
            rows.append(_text_clust(told, settings, stream, seconds))
    rows.append(_k_means(stream))
    for row in rows:
        if not row["system"].startswith("dyncrp"):
            row["ratio"] = rows[0]["rate"] / row["rate"]
    return rows


def given() -> Any:
    """Return our model with the same settings for all streams."""
    from dyncrp import DynamicalMixture, Exponential, Multinomial

    return DynamicalMixture(Multinomial(CONCENTRATION), Exponential(TIMESCALE), alpha=ALPHA)


def unknown() -> Any:
    """Return our model with nothing told."""
    from dyncrp import DynamicalMixture, Multinomial

    return DynamicalMixture(Multinomial())


def _ours(system: str, told: str, make: Callable[[], Any], stream: Stream, rounds: int) -> Row:
    """Return how our labels on arrival, in one pass, agree with the classes."""
    labels, best = None, float("inf")
    for _ in range(rounds):
        model, begin = make(), process_time()
        labels = model.fit(stream.X).labels_
        best = min(best, process_time() - begin)
    return _row(system, told, stream, labels, best)


# Time that counts documents, as ours does here. "Its own": the example of its documentation.
TEXTCLUST: dict[str, dict[str, Any]] = {
    "its example's settings": {
        "real_time_fading": False,
        "fading_factor": 0.001,
        "tgap": 100,
        "auto_r": True,
        "radius": 0.9,
    },
    f"radius {RADIUS:g}": {"real_time_fading": False, "radius": RADIUS},
}


def _text_clust(told: str, settings: dict[str, Any], stream: Stream, seconds: float) -> Row:
    """Return how river's TextClust does on the documents that it finishes.

    The label of a document is the cluster that it is nearest to just after it was learned. The others label as they
    learn, or in no time; it has to be asked, so its rate is given without that, too.
    """
    from river import cluster

    model: Any = cluster.TextClust(**settings)
    labels, learning, begin = [], 0.0, process_time()
    for bag in stream.bags():
        before = process_time()
        model.learn_one(bag)
        learning += process_time() - before
        label = model.predict_one(bag)
        labels.append(-1 if label is None else label)
        if process_time() - begin > seconds:
            break
    row = _row("river TextClust", told, stream, labels, process_time() - begin)
    return row | {"learning": len(labels) / max(learning, 1e-9)}


def _k_means(stream: Stream) -> Row:
    """Return how one pass of k-means does, told K, on TF-IDF and an SVD of the whole stream, which are not timed."""
    from itertools import pairwise

    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.preprocessing import normalize

    weights = TfidfTransformer(sublinear_tf=True).fit_transform(stream.X)
    svd = TruncatedSVD(min(DIMENSIONS, weights.shape[1] - 1), random_state=0)
    X = normalize(svd.fit_transform(weights))
    K = len(set(stream.y.tolist()))
    model = MiniBatchKMeans(K, random_state=0)
    edges = [0, *range(max(3 * K, model.batch_size), stream.n, model.batch_size), stream.n]
    begin = process_time()
    for start, stop in pairwise(edges):
        model.partial_fit(X[start:stop])
    labels = model.predict(X)
    return _row("MiniBatchKMeans", "K, TF-IDF and SVD of all", stream, labels, process_time() - begin)


def _row(system: str, told: str, stream: Stream, labels: Any, seconds: float) -> Row:
    """Return the scores of labels of the first documents, which took so many seconds."""
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    n, truth = len(labels), stream.y[: len(labels)]
    return {
        "system": system,
        "told": told,
        "ami": float(adjusted_mutual_info_score(truth, labels)),
        "nmi": float(normalized_mutual_info_score(truth, labels, average_method="geometric")),
        "clusters": len(set(map(int, labels))),
        "fed": n,
        "rate": n / max(seconds, 1e-9),
    }


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.text")
    main()
