"""
BERTopic online: topics that open when they appear
==================================================

BERTopic names clusters of documents by their words. Its online mode, ``partial_fit``,
takes any cluster model that has a ``partial_fit`` itself. Its documentation uses
``MiniBatchKMeans``, which must be told the number of topics, and places them all in the
first batch; or a clusterer of river in a small wrapper. ``DynamicalMixture`` takes
their place without a wrapper. A topic opens in the batch in which it first appears, and
has the same number when it comes back.

This page needs BERTopic in its light installation, without torch, UMAP and HDBSCAN,
since the vectors are given:

.. code-block:: console

$ pip install --no-deps bertopic $ pip install pandas tqdm pyyaml
"""

# sphinx_gallery_start_ignore
from importlib.util import find_spec

if find_spec("bertopic") is None:
    raise SystemExit(
        "This recipe needs BERTopic: pip install --no-deps bertopic && pip "
        "install pandas tqdm pyyaml"
    )
# sphinx_gallery_end_ignore
import matplotlib.pyplot as plt
import numpy as np
from bertopic import BERTopic
from bertopic.dimensionality import BaseDimensionalityReduction
from bertopic.vectorizers import ClassTfidfTransformer, OnlineCountVectorizer
from river import cluster, stream
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import adjusted_mutual_info_score

import dyncrp
from dyncrp import VonMisesFisher

# %%
# Twelve weeks of headlines
# -------------------------
#
# The headlines are made up: five words of their topic and two that are common to all.
# Football is always in the news, the others come and go, and the storm comes back in
# week 9. A week brings 120 headlines, and is one batch.

COMMON = (
    "new report city week today says people year local plans major early "
    "national after first"
)
TOPICS = {  # the weeks in which each is in the news, and its words
    "football": (
        range(12),
        "goal league cup striker keeper penalty final coach derby stadium "
        "transfer champions score",
    ),
    "storm": (
        (0, 1, 2, 9, 10),
        "storm gale coast harbour flood ferry wind surge evacuated rain damage "
        "warning roof",
    ),
    "election": (
        range(1, 6),
        "election voters poll candidate debate ballot campaign minister "
        "coalition tax party vote",
    ),
    "outage": (
        range(2, 4),
        "outage power grid blackout transformer cable households engineers "
        "voltage generator",
    ),
    "strike": (
        range(3, 7),
        "strike union railway drivers pay walkout commuters trains talks dispute "
        "stations workers",
    ),
    "bank": (
        range(5, 12),
        "bank rates inflation markets bonds shares investors mortgage loans "
        "profit regulator merger",
    ),
    "film": (
        range(7, 10),
        "film festival director actor premiere award screen jury drama studio "
        "script cinema",
    ),
    "comet": (
        range(8, 12),
        "comet telescope astronomers tail orbit sky observatory brightness "
        "sunset planet probe",
    ),
}
WEEKS = 12


def headlines(seed):
    """Return headlines, their topics and their weeks."""
    rng = np.random.default_rng(seed)
    weeks = np.repeat(np.arange(WEEKS), 120)
    truth = np.array(
        [
            rng.choice([topic for topic, (when, _) in TOPICS.items() if week in when])
            for week in weeks
        ]
    )
    texts = []
    for topic in truth:
        words = [
            *rng.choice(TOPICS[topic][1].split(), 5, replace=False),
            *rng.choice(COMMON.split(), 2, replace=False),
        ]
        texts.append(" ".join(rng.permutation(words)))
    return texts, truth, weeks


# %%
# A sentence encoder would give better vectors, but it is a download. Hashed words do
# for headlines: they are unit vectors, 256 numbers each, and depend on nothing but the
# text.

encoder = HashingVectorizer(n_features=256, stop_words="english")


def encode(texts):
    """Return a unit vector (256,) for each text."""
    return encoder.transform(texts).toarray()


# %%
# The cluster model
# -----------------
#
# Unit vectors are for ``VonMisesFisher``. Its concentration, the dynamics and alpha are
# learned, without labels, from the headlines of another quarter.
# ``DynamicalMixture(VonMisesFisher())`` would learn them from its first 1,000
# documents, but labels are provisional until then, and BERTopic does not expect a label
# to change its meaning. So either tune before, as here, or make the first batch 1,000
# documents long.

earlier, earlier_truth, earlier_weeks = headlines(seed=100)
tuned, _ = dyncrp.tune(encode(earlier), family=VonMisesFisher())
print(f"{tuned.fit(encode(earlier)).n_tables_} tables in the earlier headlines")

# %%
# A look at these showed football twice. A lower ``resolution`` makes tables wider:

tuned, _ = dyncrp.tune(encode(earlier), family=VonMisesFisher(), resolution=0.7)
print(f"{tuned.fit(encode(earlier)).n_tables_} tables")
print(tuned)

# %%
# In BERTopic it is one argument. The empty ``BaseDimensionalityReduction`` leaves the
# vectors as they are. BERTopic's example has ``IncrementalPCA`` there, whose axes turn
# as it learns, so that a cluster of last week is elsewhere today.


def online(cluster_model, reduction, texts, weeks):
    """Learn a week at a time; return the topic model, and the topic of each text as it
    was found."""
    topic_model = BERTopic(
        umap_model=reduction,
        hdbscan_model=cluster_model,
        vectorizer_model=OnlineCountVectorizer(stop_words="english"),
        ctfidf_model=ClassTfidfTransformer(),
    )
    vectors, topics = encode(texts), []
    for week in range(WEEKS):
        (rows,) = np.nonzero(weeks == week)
        topic_model.partial_fit([texts[row] for row in rows], vectors[rows])
        topics.extend(topic_model.topics_)  # those of the last batch only
    topic_model.topics_ = topics  # for topics_over_time
    return topic_model, np.array(topics)


texts, truth, weeks = headlines(seed=2000)
cluster_model = clone(tuned)
ours, found = online(cluster_model, BaseDimensionalityReduction(), texts, weeks)
for topic in np.unique(found):
    words = ", ".join(word for word, _ in ours.get_topic(topic)[:4])
    of_topic = found == topic
    seen = np.unique(weeks[of_topic])
    print(
        f"topic {topic:2d}, {np.sum(of_topic):3d} headlines, weeks {seen[0]:2d} "
        f"to {seen[-1]:2d}: {words}"
    )

# %%
# The cluster model is still yours. ``predict`` asks without learning, and −1 is none of
# the topics so far; ``novelty_`` is high where a topic begins. BERTopic's numbers of
# topics are those of the tables if both count from 0, as here, and ``topic_mapper_``
# keeps the mapping. (BERTopic's own ``transform`` calls ``predict`` too. In version
# 0.17.4 it needs HDBSCAN to be installed, whatever the cluster model is.)

mapping = ours.topic_mapper_.get_mappings()
questions = [
    "gale and flood on the coast",
    "probe near the comet tail",
    "chess club elects new chair",
]
for question, table in zip(
    questions, cluster_model.predict(encode(questions)), strict=True
):
    print(f"{mapping.get(table, -1):2d}  {question}")

# %%
# Beside other cluster models
# ---------------------------
#
# ``MiniBatchKMeans`` is told that there will be 8 topics. It is run with
# ``IncrementalPCA``, as in BERTopic's example, and on the vectors themselves.
# ``DBSTREAM`` of river is in the kind of wrapper that BERTopic's documentation shows.
# Its radius is the one that finds the topics of the earlier headlines best, for which
# it is told these. Ours is told no topic and no number; the resolution above came from
# a look at its tables. The last row is no stream: k-means has all headlines at once.


class River:
    """A clusterer of river with the interface of scikit-learn."""

    def __init__(self, model):
        self.model = model

    def partial_fit(self, X):
        """Learn all rows, then label them."""
        for x, _ in stream.iter_array(X):
            self.model.learn_one(x)
        self.labels_ = [self.model.predict_one(x) for x, _ in stream.iter_array(X)]
        return self


def dbstream(radius):
    """Return a new DBSTREAM."""
    return River(cluster.DBSTREAM(clustering_threshold=radius))


def score_earlier(radius):
    """Return how well DBSTREAM does on the earlier headlines."""
    model, vectors = dbstream(radius), encode(earlier)
    labels = [
        model.partial_fit(vectors[earlier_weeks == week]).labels_
        for week in range(WEEKS)
    ]
    return adjusted_mutual_info_score(earlier_truth, np.concatenate(labels))


radius = max((1.0, 1.1, 1.2), key=score_earlier)
systems = {
    "DynamicalMixture, tuned without labels": lambda: (
        clone(tuned),
        BaseDimensionalityReduction(),
    ),
    "MiniBatchKMeans(8)": lambda: (
        MiniBatchKMeans(8, random_state=0),
        BaseDimensionalityReduction(),
    ),
    "MiniBatchKMeans(8), IncrementalPCA(5)": lambda: (
        MiniBatchKMeans(8, random_state=0),
        IncrementalPCA(5),
    ),
    f"DBSTREAM({radius})": lambda: (dbstream(radius), BaseDimensionalityReduction()),
}
streams = [headlines(seed) for seed in (2000, 2001, 2002)]
print(f"{'mean of three streams':40s}  AMI  topics")
for name, make in systems.items():
    results = [online(*make(), texts, weeks)[1] for texts, _, weeks in streams]
    scores = [
        adjusted_mutual_info_score(truth, topics)
        for (_, truth, _), topics in zip(streams, results, strict=True)
    ]
    print(
        f"{name:40s} {np.mean(scores):.3f} "
        f"{np.mean([len(set(topics)) for topics in results]):5.1f}"
    )
scores = [
    adjusted_mutual_info_score(
        truth, KMeans(8, n_init=10, random_state=0).fit_predict(encode(texts))
    )
    for texts, truth, _ in streams
]
print(f"{'KMeans(8), all headlines at once':40s} {np.mean(scores):.3f}   8.0")

# %%
# Topics over time
# ----------------
#
# With ``topics_`` of all batches, BERTopic's ``topics_over_time`` works as usual.
# ``MiniBatchKMeans`` placed its eight centres among football and storm, the topics of
# the first week, so that all later topics share a few of them. With
# ``DynamicalMixture`` each has a row of its own (the election has two), and the storm
# of week 9 is in that of week 0.

theirs, _ = online(
    MiniBatchKMeans(8, random_state=0), BaseDimensionalityReduction(), texts, weeks
)


def frequencies(topic_model):
    """Return a name and the headlines of each week, for each topic in order of its
    first week."""
    table = topic_model.topics_over_time(texts, weeks.tolist())
    counts = (
        table.pivot(index="Topic", columns="Timestamp", values="Frequency")
        .fillna(0.0)
        .reindex(columns=range(WEEKS))
    )
    counts = counts.iloc[
        np.argsort(np.argmax(counts.to_numpy() > 5, axis=1), kind="stable")
    ]
    names = [
        ", ".join(word for word, _ in topic_model.get_topic(topic)[:3])
        for topic in counts.index
    ]
    return names, counts.to_numpy()


of_truth = [
    [np.sum((truth == topic) & (weeks == week)) for week in range(WEEKS)]
    for topic in TOPICS
]
panels = {
    "the truth": (list(TOPICS), np.array(of_truth)),
    "BERTopic with DynamicalMixture": frequencies(ours),
    "BERTopic with MiniBatchKMeans(8)": frequencies(theirs),
}
figure, axes = plt.subplots(
    3,
    1,
    figsize=(8.0, 9.0),
    sharex=True,
    layout="constrained",
    height_ratios=[len(names) for names, _ in panels.values()],
)
for axis, (title, (names, counts)) in zip(axes, panels.items(), strict=True):
    image = axis.imshow(counts, aspect="auto", cmap="Blues", vmin=0, vmax=60)
    axis.set_yticks(range(len(names)), names)
    axis.set_title(title, loc="left")
axes[-1].set(xlabel="week", xticks=range(WEEKS))
figure.colorbar(image, ax=axes, label="headlines in a week", extend="max", shrink=0.5)
plt.show()

# %%
# What to know
# ------------
#
# - BERTopic passes no times, so a document is one unit of time: the timescale above
#   counts documents.
# - ``labels_`` has no −1. A headline that fits nowhere opens a topic of its own, and
#   small topics are the outliers. ``alpha`` decides how readily that happens.
# - BERTopic keeps the words of all topics for ever. ``max_tables`` and ``prune_below``
#   bound the cluster model only.
