"""
De-duplicating a stream of embeddings
=====================================

News agencies, forums and crawlers bring the same text again and again, a little
changed. Its embedding is then nearly the same too. A table of a ``VonMisesFisher``
model with a high concentration holds the copies of one text: a row that opens a table
is new, all others are copies. With ``max_tables`` the memory is bounded, and the texts
that are forgotten first are those that were copied least.
"""

import pickle
from itertools import pairwise
from time import process_time

import matplotlib.pyplot as plt
import numpy as np

from dyncrp import DynamicalMixture, Exponential, VonMisesFisher

# %%
# A stream with copies
# --------------------
#
# 20,000 unit vectors of 128 numbers. There are 50 topics, and 3,000 stories in them;
# texts about one story have a cosine of about 0.8. One row in seven is a copy of one of
# the latest 200 rows, and one in ten is a copy of a text that stays popular for ever,
# of which there are more and more. Copies have a cosine between 0.85 and 0.99.

N, D = 20_000, 128


def beside(X, cosine, rng):
    """Return for each unit vector another in a random direction, at this cosine from
    it."""
    away = rng.normal(size=X.shape)
    away -= np.sum(away * X, axis=1, keepdims=True) * X
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    cosine = np.broadcast_to(cosine, len(X))[:, None]
    return cosine * X + np.sqrt(1.0 - cosine**2) * away


def make_stream(seed, n=N):
    """Return unit vectors (n, D), and which text each is a copy of."""
    rng = np.random.default_rng(seed)
    texts, popular, n_texts = [], [], 0
    for chance in rng.random(n):
        if chance < 0.15 and texts:
            texts.append(rng.choice(texts[-200:]))
        elif chance < 0.25 and popular:
            texts.append(rng.choice(popular))
        else:
            popular += [n_texts] if rng.random() < 0.01 else []
            texts.append(n_texts)
            n_texts += 1
    topics = rng.normal(size=(50, D))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    stories = beside(topics[rng.integers(50, size=3000)], 0.75, rng)
    originals = beside(stories[rng.integers(3000, size=n_texts)], 0.91, rng)
    return beside(originals[texts], rng.uniform(0.93, 0.995, n), rng), np.array(texts)


def first_rows(ids):
    """Return for each row the first row with the same id."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return first[inverse]


def precision_and_recall(match, texts):
    """Score ``match``: for each row an earlier row that it is said to be a copy of, or
    −1."""
    is_copy, said = first_rows(texts) < np.arange(len(texts)), match >= 0
    right = said & (texts[match] == texts)
    return np.sum(right) / np.sum(said), np.sum(right) / np.sum(is_copy)


# %%
# Brute force
# -----------
#
# The plain way compares each row with all earlier ones, or with the latest 1,000, and
# calls it a copy of the nearest if their cosine is above a threshold. Products of
# matrices make this fast, but its cost grows with the stream. The threshold is the one
# with the best F1 on a shorter stream, for which it is told which rows are copies.


def brute_force(X, threshold, window=None, batch=500):
    """Return for each row the nearest earlier one, or −1."""
    X, match = X.astype(np.float32), np.full(len(X), -1)
    for begin in range(0, len(X), batch):
        rows = np.arange(begin, min(begin + batch, len(X)))
        earlier = np.arange(
            0 if window is None else max(0, begin - window), rows[-1] + 1
        )
        cosine = X[rows] @ X[earlier].T
        cosine[earlier >= rows[:, None]] = -1.0
        nearest = np.argmax(cosine, axis=1)
        near = cosine[np.arange(len(rows)), nearest] >= threshold
        match[rows[near]] = earlier[nearest[near]]
    return match


def f1(match, texts):
    """Return the harmonic mean of precision and recall."""
    precision, recall = precision_and_recall(match, texts)
    return 2.0 * precision * recall / (precision + recall)


shorter, texts_of_shorter = make_stream(seed=100, n=5000)
thresholds = np.arange(0.80, 0.93, 0.01)
threshold = thresholds[
    np.argmax([f1(brute_force(shorter, each), texts_of_shorter) for each in thresholds])
]
print(f"threshold: {threshold:.2f}")

# %%
# The concentration that does the same
# ------------------------------------
#
# If you know the cosine from which on two texts are copies, you know the concentration.
# A model that has seen one vector says which others would join it:


def joins_from(concentration, n_features=D):
    """Return the lowest cosine at which a vector joins the table of another."""
    cosines = np.linspace(1.0, 0.0, 1001)
    fan = np.zeros((len(cosines), n_features))
    fan[:, 0], fan[:, 1] = cosines, np.sqrt(1.0 - cosines**2)
    model = DynamicalMixture(VonMisesFisher(concentration)).fit(fan[:1])
    return np.min(cosines[model.predict(fan) == 0])


concentrations = np.geomspace(500.0, 8000.0, 41)
lowest = np.array([joins_from(each) for each in concentrations])
concentration = concentrations[np.argmin(np.abs(lowest - threshold))]
for each in (500.0, 2000.0, 8000.0, concentration):
    print(f"concentration {each:5.0f}: joins from a cosine of {joins_from(each):.2f}")

# %%
# The loop
# --------
#
# Each row that opens a table is a new text. Of 1,000 tables the one with the least
# occupancy closes when another opens: the one with the fewest and oldest copies, if a
# copy counts 1/e after 3,000 rows.

X, texts = make_stream(seed=1000)
model = DynamicalMixture(
    VonMisesFisher(concentration), Exponential(3000.0), max_tables=1000
)
start, new, tables = process_time(), [], []
for begin in range(0, N, 500):
    model.partial_fit(X[begin : begin + 500])
    new.extend(event.row for event in model.events_ if event.kind == "opened")
    tables.append(model.labels_)
ours = process_time() - start
print(f"{N:,} rows, {len(new):,} kept; {len(np.unique(texts)):,} texts")

# %%
# Beside brute force
# ------------------
#
# A copy counts as found if it is said to be a copy of the right text. Memory is that of
# the vectors in single precision, or of the pickled model. Speed is of one run, on one
# thread.

first = first_rows(np.concatenate(tables))
matches = {
    "dyncrp, 1,000 tables": (
        np.where(first < np.arange(N), first, -1),
        ours,
        len(pickle.dumps(model)),
    )
}
for name, window in (
    ("brute force, all rows", None),
    ("brute force, latest 1,000", 1000),
):
    start = process_time()
    matches[name] = (
        brute_force(X, threshold, window),
        process_time() - start,
        (window or N) * 4 * D,
    )
print(f"{'':28s}precision  recall  rows a second  memory")
for name, (match, seconds, size) in matches.items():
    precision, recall = precision_and_recall(match, texts)
    print(
        f"{name:28s}{precision:9.3f}{recall:8.3f}"
        f"{N / seconds:15,.0f}{size / 1e6:5.1f} MB"
    )

# %%
# Which copies are found
# ----------------------
#
# Of the latest 1,000 rows brute force finds all copies, and none of older ones. It is
# also faster, so if copies come soon, it is all you need. The model keeps popular
# texts, and finds most of their copies after thousands of rows.

row = np.arange(N)
gap = np.full(N, -1)
order = np.lexsort((row, texts))
follows = texts[order][1:] == texts[order][:-1]
gap[order[1:][follows]] = np.diff(order)[follows]
edges = np.geomspace(10.0, 10_000.0, 13)
middle = np.sqrt(edges[1:] * edges[:-1])
figure, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
for (name, (match, *_)), style in zip(
    matches.items(), ("o-", "s--", "^:"), strict=True
):
    found = (match >= 0) & (texts[match] == texts)
    share = [
        np.mean(found[(gap >= low) & (gap < high)]) for low, high in pairwise(edges)
    ]
    axis.plot(middle, share, style, label=name)
axis.set(
    xscale="log",
    ylim=(-0.03, 1.03),
    xlabel="rows since the last copy",
    ylabel="share of copies found",
)
axis.legend(loc="lower left")
plt.show()
