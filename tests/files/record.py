"""Write model files, and what the models make of the rows that follow, for ``tests/io/test_old_files.py``.

``python tests/files/record.py`` adds the files that are not there yet to ``tests/files/v1``. A file that is there is of
a release, or will be: it is never written again. NAME.npz is what ``save`` wrote. NAME.json has the rows that come next
and what ``partial_fit`` made of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from dyncrp import (
    Bernoulli,
    Categorical,
    Columns,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    LinearODE,
    Multinomial,
    NormalGamma,
    NormalWishart,
    Oscillatory,
    Poisson,
    Stationary,
    VonMisesFisher,
)

FOLDER = Path(__file__).parent / "v1"
STICKY = 0.99 * Exponential(4.0) + 0.01 * Stationary()
ROUND = Gaussian(1.3, 40.0, 0.5)
FULL = Gaussian(1.3, [40.0, 10.0], 0.5, [[1.0, 0.4, 0.0], [-0.3, 2.0, 0.5]], 0.7)
WORDS = (
    "rain wind cloud storm snow sun",
    "goal match team coach season cup",
    "bank loan rate stock bond price",
)


def as_rows(kind, plain):
    """Return rows as ``partial_fit`` takes them: what is in a file of JSON is a list for each, or a text."""
    if kind == "texts":
        return plain
    if kind == "frame":
        return pd.DataFrame(plain)
    array = np.array(plain, dtype=np.float64)  # null becomes NaN
    return csr_array(array) if kind == "counts" else array


# As files of JSON have them, and as partial_fit does.
ARGUMENTS = {"labels": "labels", "apart": "cannot_link", "sample_weight": "sample_weight"}


def learn(model, next_):
    """Let a model go on with rows as a file of JSON has them; return what it made of them, as plain values."""
    times = None if next_["times"] is None else np.array(next_["times"])
    if next_.get("dates"):
        times = times.astype("datetime64[s]")
    told = {argument: next_[name] for name, argument in ARGUMENTS.items() if name in next_}
    model.partial_fit(as_rows(next_["kind"], next_["rows"]), times=times, **told)
    made = {
        "labels": model.labels_.tolist(),
        "novelty": model.novelty_.tolist(),
        "table_ids": model.table_ids_.tolist(),
        "resolved": model.resolve(np.arange(model.n_opened_)).tolist(),
        "names": {str(table): name for table, name in model.names_.items()},
        "learned": model.learned_,
        "numbers": [model.log_evidence_, model.alpha_, *model.occupancies_.tolist()],
    }
    if model.alarm_rate is not None:
        made["p"] = model.novelty_p_.tolist()
    if model.surge_rate is not None:
        told = [event for event in model.events_ if event.kind in ("surge", "growing", "fading")]
        made["surges"] = [[event.kind, event.row, event.table, event.what["count"]] for event in told]
    if model.n_examples:
        made["examples"] = [model.examples(table).typical.numbers.tolist() for table in model.table_ids_.tolist()]
    if model.keep_clusters:
        made["clusters"] = model.resolve(np.arange(model.n_opened_), level="cluster").tolist()
    return made


def drawn(family, n, D=3, seed=0, digits=3):
    """Return rows of four clusters that come in runs, rounded, and their times, some of them tied."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(rng.integers(4, size=n // 4 + 1), 4)[:n]
    X = family.sample(family.sample_parameters(4, D, rng)[clusters], rng)
    return np.round(X, digits), np.round(np.cumsum(rng.exponential(1.0, n) * rng.integers(0, 2, n)), 2)


def with_holes(X, seed=5):
    """Return a copy in which one cell in six is missing."""
    return np.where(np.random.default_rng(seed).random(X.shape) < 1 / 6, np.nan, X)


def simple(model, family=None, n=60, n_next=12, D=3, seed=0, digits=3, change=None):
    """Return a model that has learned a stream of a family, and what comes next."""
    X, times = drawn(family or model.family, n + n_next, D, seed, digits)
    X = X if change is None else change(X)
    model.partial_fit(X[:n], times=times[:n])
    rows = [[None if np.isnan(x) else x for x in row] for row in X[n:].tolist()]
    return model, {"kind": "array", "rows": rows, "times": times[n:].tolist()}


def surging():
    """A stream in which one of four clusters surges in the rows that come next."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(4, size=8750)
    clusters[8500:] = 2
    X = np.round(20.0 * clusters + rng.normal(size=8750), 1)[:, None]
    model = DynamicalMixture(Gaussian(1.0, 900.0), surge_rate=0.002).partial_fit(X[:8500])
    return model, {"kind": "array", "rows": X[8500:].tolist(), "times": None}


def with_unit_length(X):
    """Return rows of length 1, as long as rounding allows."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def counts():
    """Counts of words in columns, without the words."""
    rng = np.random.default_rng(8)
    rates = np.repeat(np.eye(3), 4, axis=1) * 2.0 + 0.05
    X = rng.poisson(rates[rng.integers(3, size=52)])
    model = DynamicalMixture(Multinomial(0.2, 12), Exponential(30.0)).partial_fit(csr_array(X[:40]))
    return model, {"kind": "counts", "rows": X[40:].tolist(), "times": None}


def texts():
    """Texts at dates, with a vocabulary; words are new in what comes next."""
    rng = np.random.default_rng(9)
    said = [" ".join(rng.choice(WORDS[k].split(), 5)) for k in rng.integers(3, size=48)]
    said[42] += ", and Hail. Hail!"
    days = 86400 * np.arange(48)
    model = DynamicalMixture(Multinomial(0.1), 0.9 * Exponential(864000.0) + 0.1 * Stationary(), 0.5)
    model.partial_fit(said[:36], times=days[:36].astype("datetime64[s]"))
    return model, {"kind": "texts", "rows": said[36:], "times": days[36:].tolist(), "dates": True}


def masks():
    """Texts with numbers and URLs, which are no words."""
    rng = np.random.default_rng(19)
    said = [f"{' '.join(rng.choice(WORDS[k].split(), 4))} {k}.5 http://a.b/{k}" for k in rng.integers(3, size=36)]
    model = DynamicalMixture(Multinomial(0.1), Stationary(), 0.5).partial_fit(said[:30])
    return model, {"kind": "texts", "rows": said[30:], "times": None}


def examples_of_texts():
    """Texts of which some are kept."""
    rng = np.random.default_rng(18)
    said = [" ".join(rng.choice(WORDS[k].split(), 4)) for k in rng.integers(3, size=36)]
    model = DynamicalMixture(Multinomial(0.1), n_examples=1).partial_fit(said[:30])
    return model, {"kind": "texts", "rows": said[30:], "times": None}


def frame():
    """Columns of several kinds, whose hyperparameters were learned; a new category and missing cells come next."""
    rng = np.random.default_rng(10)
    which = np.repeat(rng.integers(3, size=25), 4)
    columns = {
        "length": np.round(rng.normal(np.array([0.0, 8.0, 3.0])[which], 1.0), 3).tolist(),
        "price": np.round(np.exp(rng.normal(np.array([0.0, 4.0, 2.0])[which], 0.5)), 2).tolist(),
        "colour": np.array(["red", "blue", "green"])[(which + (rng.random(100) < 0.1)) % 3].tolist(),
        "sold": [["no", "yes"][int(x)] for x in rng.random(100) < np.array([0.1, 0.9, 0.5])[which]],
        "unit": ["kg"] * 100,
    }
    columns["colour"][90], columns["length"][93], columns["sold"][95] = "violet", None, None
    df = pd.DataFrame(columns)
    model = DynamicalMixture().fit(df[:80])
    model.learn_unknown()
    return model, {"kind": "frame", "rows": {name: cells[80:] for name, cells in columns.items()}, "times": None}


def given_columns():
    """Columns by position, with cells missing before and after."""
    family = Columns([([0, 1], Gaussian(1.0, 50.0)), ([2], Bernoulli(0.5, 0.5)), ([3], Poisson(1.0, 0.2))])
    return simple(DynamicalMixture(family, STICKY), D=4, seed=11, change=with_holes)


def named():
    """Tables that have names, and ids that stand for others."""
    model, next_ = simple(DynamicalMixture(ROUND, STICKY), seed=12)
    model.rename(0, "Tür 3")
    model.merge(model.table_ids_[-1], model.table_ids_[-2])
    return model, next_ | {"labels": ["Tür 3", *[None] * 10, "new"]}


def cannot_link():
    """Rows that came just before cannot share a table with the next."""
    model, next_ = simple(DynamicalMixture(ROUND, STICKY), n=58, n_next=12, seed=13)
    rows, times = next_["rows"], next_["times"]
    model.partial_fit(np.array(rows[:2]), times=times[:2], cannot_link=["noon", "noon"])
    return model, next_ | {"rows": rows[2:], "times": times[2:], "apart": ["noon", "noon", *[None] * 8]}


def beginning(**options):
    """A model that still learns its hyperparameters: from 32 rows, of 40; what comes next is not yet the 64th."""
    return simple(DynamicalMixture(alpha=1.0, warmup=200, **options), ROUND, n=40, D=2, seed=14)


def weighed_beginning():
    """The same, where rows have weights, and some teach nothing."""
    X, times = drawn(ROUND, 52, 2, seed=16)
    weights = np.append(1.0, np.random.default_rng(16).choice([0.0, 0.5, 1.0, 3.0], 51))
    model = DynamicalMixture(alpha=1.0, warmup=200)
    model.partial_fit(X[:40], times=times[:40], sample_weight=weights[:40])
    next_ = {"kind": "array", "rows": X[40:].tolist(), "times": times[40:].tolist()}
    return model, next_ | {"sample_weight": weights[40:].tolist()}


def weighed_counts():
    """Counts of words in rows with weights."""
    rng = np.random.default_rng(17)
    rates = np.repeat(np.eye(3), 4, axis=1) * 2.0 + 0.05
    X, weights = rng.poisson(rates[rng.integers(3, size=52)]), rng.choice([0.25, 1.0, 2.5], 52)
    model = DynamicalMixture(Multinomial(0.2, 12), Exponential(30.0))
    model.partial_fit(csr_array(X[:40]), sample_weight=weights[:40])
    next_ = {"kind": "counts", "rows": X[40:].tolist(), "times": None}
    return model, next_ | {"sample_weight": weights[40:].tolist()}


def told_beginning():
    """The same, where it was told something of the rows."""
    X, times = drawn(ROUND, 52, 2, seed=15)
    model = DynamicalMixture(warmup=200)
    labels = ["left" if x < -4 else None for x in X[:, 0]]
    marks = [7, 7, *[None] * 38]
    model.partial_fit(X[:40], times=times[:40], labels=labels[:40], cannot_link=marks)
    next_ = {"kind": "array", "rows": X[40:].tolist(), "times": times[40:].tolist(), "labels": labels[40:]}
    return model, next_


def beginning_of_texts():
    """Texts whose hyperparameters are unknown, so that the words of each are kept."""
    rng = np.random.default_rng(17)
    said = [" ".join(rng.choice(WORDS[k].split(), 6)) for k in np.repeat(rng.integers(3, size=13), 4)]
    model = DynamicalMixture(Multinomial()).partial_fit(said[:40])
    return model, {"kind": "texts", "rows": said[40:], "times": None}


def with_names():
    """A DataFrame of numbers, at dates."""
    X, _ = drawn(ROUND, 52, 2, seed=16)
    df = pd.DataFrame({"x": X[:, 0], "länge": X[:, 1]})
    seconds = 1_700_000_000 + 60 * np.arange(52)
    model = DynamicalMixture(ROUND, Exponential(1800.0)).fit(df[:40], times=seconds[:40].astype("datetime64[s]"))
    return model, {"kind": "frame", "rows": df[40:].to_dict("list"), "times": seconds[40:].tolist(), "dates": True}


def wide():
    """Hyperparameters that are arrays of their own."""
    family = Gaussian(np.linspace(0.5, 1.5, 101), 9.0, np.linspace(-1.0, 1.0, 101))
    return simple(DynamicalMixture(family), n=30, n_next=4, D=101, digits=2)


CASES = {
    "gaussian": lambda: simple(DynamicalMixture(ROUND, STICKY, 0.83)),
    "gaussian-diagonal": lambda: simple(
        DynamicalMixture(Gaussian([0.5, 1.0, 2.0], [4.0, 60.0, 30.0], [0.5, 1.0, 2.0]), Oscillatory(23.0)), seed=1
    ),
    "gaussian-directions": lambda: simple(DynamicalMixture(FULL, Hyperbolic(5.0, n_modes=12, horizon=100.0)), seed=2),
    "gaussian-9-features": lambda: simple(DynamicalMixture(ROUND, Exponential(9.0)), D=9, digits=2),
    "gaussian-101-features": wide,
    "normal-gamma": lambda: simple(DynamicalMixture(NormalGamma(1.3, 40.0, 6.0, 0.5), STICKY), seed=3),
    "normal-gamma-missing": lambda: simple(
        DynamicalMixture(NormalGamma(1.3, 40.0, 6.0, 0.5), STICKY), seed=3, change=with_holes
    ),
    "normal-wishart": lambda: simple(DynamicalMixture(NormalWishart(1.3, 40.0, 6.0, 0.5), STICKY), seed=3),
    "bernoulli": lambda: simple(DynamicalMixture(Bernoulli(0.3, 0.45), LinearODE([0.2, 0.1, 1.0])), D=8, seed=4),
    "poisson": lambda: simple(DynamicalMixture(Poisson(0.5, 0.1), STICKY), seed=5),
    "categorical": lambda: simple(DynamicalMixture(Categorical(0.3, 4), STICKY), D=4, seed=6),
    "von-mises-fisher": lambda: simple(
        DynamicalMixture(VonMisesFisher(40.0), STICKY * Exponential(50.0)), seed=7, change=with_unit_length
    ),
    "multinomial-counts": counts,
    "multinomial-texts": texts,
    "columns": given_columns,
    "columns-encoding": frame,
    "feature-names-and-dates": with_names,
    "learn-alpha": lambda: simple(DynamicalMixture(ROUND, STICKY, learn_alpha=True), n=90, n_next=20, D=2),
    "memory": lambda: simple(DynamicalMixture(ROUND, STICKY, memory=20.0)),
    "memory-normal-gamma": lambda: simple(DynamicalMixture(NormalGamma(1.3, 40.0), STICKY, memory=20.0)),
    "alarm-rate": lambda: simple(DynamicalMixture(ROUND, STICKY, alarm_rate=0.01), n=120, n_next=40, D=2, digits=2),
    "surge-rate": surging,
    "examples-texts": examples_of_texts,
    "masks": masks,
    "examples": lambda: simple(DynamicalMixture(ROUND, STICKY, n_examples=1), D=2),
    "keep-clusters": lambda: simple(
        DynamicalMixture(Gaussian(0.3, 40.0), STICKY, prune_below=0.02, keep_clusters=True),
        ROUND,
        n=150,
        n_next=60,
        D=2,
    ),
    "posterior": lambda: simple(DynamicalMixture(ROUND, STICKY, assignment="variational", table_count="posterior")),
    "closing": lambda: simple(DynamicalMixture(ROUND, STICKY, max_tables=3, prune_below=0.05)),
    "resolution": lambda: simple(DynamicalMixture(ROUND, STICKY, resolution=2.0)),
    "names-and-merges": named,
    "apart": cannot_link,
    "warm-up": beginning,
    "warm-up-memory": lambda: beginning(memory=None, dynamics=[Stationary(), Exponential()]),
    "warm-up-told": told_beginning,
    "warm-up-texts": beginning_of_texts,
    "weights-warm-up": weighed_beginning,
    "weights-counts": weighed_counts,
}

if __name__ == "__main__":
    for name, case in CASES.items():
        file = FOLDER / f"{name}.npz"
        if not file.exists():
            model, next_ = case()
            model.save(file)
            made = learn(DynamicalMixture.load(file), next_)
            text = json.dumps({"next": next_, "made": made}, ensure_ascii=False, allow_nan=False)
            file.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
            print(f"{file}: {file.stat().st_size + len(text):,} bytes, {len(made['table_ids'])} tables")
