"""DynamicalMixture as a citizen of scikit-learn: its own checks, its tools, its frames, and those who build on it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dyncrp import (
    Bernoulli,
    DynamicalMixture,
    Exponential,
    Gaussian,
    Hyperbolic,
    Oscillatory,
    Stationary,
    VonMisesFisher,
)

rng = np.random.default_rng(0)
X = np.round(rng.normal(rng.choice([-8.0, 0.0, 8.0], size=(60, 1)), 1.0, size=(60, 3)))  # whole, exact in every type
times = np.cumsum(rng.exponential(1.0, 60))
names = ["a", "b", "c"]


def model(**params):
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0)).set_params(**params)


def same(one, other):
    """Whether two models are in the same state, to the bit."""
    for fitted in (one, other):
        fitted.stream_.input = replace(fitted.stream_.input, names=None)
    return one.to_bytes() == other.to_bytes() and one.labels_.tolist() == other.labels_.tolist()


def expected_to_fail(estimator):
    """A stream is learned in order: equal rows in other places, or at other indices, are another stream."""
    why = "rows are learned in order, and unknown hyperparameters from rows without weights"
    return {} if estimator.family is not None else {"check_sample_weight_equivalence_on_dense_data": why}


@parametrize_with_checks(
    [DynamicalMixture(), DynamicalMixture(Gaussian(0.1, 1.0), Exponential(100.0))],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_sample_weight_is_routed():
    weights = np.append(1.0, np.random.default_rng(4).choice([0.0, 0.5, 3.0], 59))
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model().set_fit_request(sample_weight=True)).fit(X, sample_weight=weights)
    alone = model().fit(StandardScaler().fit_transform(X), sample_weight=weights)
    assert same(pipeline[-1], alone)
    assert (
        model().fit_predict(X, sample_weight=weights).tolist() == model().fit(X, sample_weight=weights).labels_.tolist()
    )


# --- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name", "change"),
    [
        (Gaussian(1.0, 100.0), "family__variance", 2.0),
        (Gaussian(1.0, 100.0), "family__prior_mean", [1.0, 2.0]),
        (Gaussian(), "family__prior_variance", 9.0),
        (Bernoulli(1.0, 1.0), "family__a", 0.5),
        (VonMisesFisher(9.0), "family__concentration", 3.0),
        (Exponential(20.0), "dynamics__timescale", 5.0),
        (Oscillatory(20.0), "dynamics__period", 5.0),
        (Hyperbolic(20.0), "dynamics__horizon", 1e3),
        (0.5 * Exponential(20.0), "dynamics__dynamics__timescale", 5.0),
        (Exponential(20.0) * Oscillatory(3.0), "dynamics__right__period", 5.0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fields_of_family_and_dynamics_are_parameters(value, name, change):
    first, *path = name.split("__")
    estimator = DynamicalMixture(**{first: value})
    untouched = {key: entry for key, entry in estimator.get_params().items() if not name.startswith(key)}
    before = estimator.get_params()[name]
    assert estimator.set_params(**{name: change}) is estimator
    assert estimator.get_params()[name] == change != before
    assert {key: entry for key, entry in estimator.get_params().items() if key in untouched} == untouched
    assert getattr(value, path[0]) == before or len(path) > 1  # families are frozen: the one given is as it was
    again = estimator.set_params(**clone(estimator).get_params())
    assert again.get_params()[name] == change


def test_a_part_and_its_fields_may_be_set_in_one_call():
    estimator = DynamicalMixture().set_params(
        family__variance=2.0, family=Gaussian(1.0, 9.0), family__prior_variance=8.0
    )
    assert estimator.family == Gaussian(2.0, 8.0)
    assert model(dynamics__timescale=timedelta(minutes=2)).dynamics == Exponential(120.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"colour": 1}, "'colour' for DynamicalMixture. Valid parameters are: .*'alpha', .*'family'"),
        ({"family__colour": 1}, r"'colour' for family = Gaussian\(.*'prior_mean', 'prior_variance'"),
        ({"dynamics__period": 1}, r"'period' for dynamics = Exponential\(.*\['timescale'\]"),
        ({"dynamics__timescale__x": 1}, "'x' for timescale = 20.0. Valid parameters are: none"),
        ({"colour__variance": 1}, "'colour' for DynamicalMixture"),
        ({"family": None, "family__variance": 1.0}, "'variance' for family = None"),
        ({"family": Gaussian, "family__variance": 1.0}, "'variance' for family = <class"),
        ({"family__": 1.0}, "'' for family"),
        ({"family__variance": -1.0}, "variance must be"),
        ({"dynamics__timescale": 0}, "timescale must be"),
    ],
)
def test_bad_names_and_values_are_refused_and_change_nothing(params, message):
    estimator = model()
    before = estimator.get_params()
    for order in ({"alpha": 7.0, **params}, {**params, "alpha": 7.0}):
        with pytest.raises(ValueError, match=message):
            estimator.set_params(**order)
        assert estimator.get_params() == before


def test_fields_set_later_count_from_the_next_fit():
    fitted = model().fit(X)
    fitted.set_params(family__variance=50.0)
    assert fitted.family_.variance == 1.0
    assert fitted.partial_fit(X).family_.variance == 1.0
    assert fitted.fit(X).family_.variance == 50.0


@pytest.mark.parametrize("n_jobs", [0, 1.0, "2", True, -0.5])
def test_n_jobs_is_checked(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        model(n_jobs=n_jobs).fit(X)
    assert same(model(n_jobs=-1).fit(X), model(n_jobs=-1).fit(X))


@pytest.mark.parametrize("family", [None, Gaussian(1.0, 100.0)])
@pytest.mark.parametrize("resolution", [1e-7, 1e7, 1e200])
def test_extreme_resolutions_are_refused_before_anything_is_tried(family, resolution, monkeypatch):
    monkeypatch.setattr("dyncrp.stream.warmup.learn", None)
    with pytest.raises(ValueError, match=r"resolution must be a number from 1e-06 to 1e\+06"):
        DynamicalMixture(family, resolution=resolution).fit(X)
    with pytest.raises(ValueError, match=r"resolution = 10000.0 does not suit VonMisesFisher.*at most 1e\+09"):
        DynamicalMixture(VonMisesFisher(1e6), None, resolution=1e4).fit(np.eye(3))
    with pytest.raises(ValueError, match=r"resolution = 1000000\.0 does not suit"):
        DynamicalMixture(Gaussian(1e-98, 1.0), None, resolution=1e6).fit(X)


# --- scores, searches, pipelines, routing ---------------------------------------------------------------------------


def test_score_is_the_mean_log_density_now():
    fitted = model().fit(X, times=times)
    later = times[-1] + np.arange(60.0)
    assert fitted.score(X) == np.mean(fitted.score_samples(X))
    assert fitted.score(X, None, later) == np.mean(fitted.score_samples(X, later)) != fitted.score(X)
    assert isinstance(fitted.score(X), float)


def test_a_grid_search_finds_the_variance():
    search = GridSearchCV(model(), {"family__variance": [0.01, 1.0, 300.0]}, cv=TimeSeriesSplit(3)).fit(X)
    assert search.best_params_ == {"family__variance": 1.0}
    assert search.predict(X[:3]).tolist() == search.best_estimator_.predict(X[:3]).tolist()
    grid = {"dynamics": [Stationary(), Exponential(5.0)], "alpha": [0.1, 1.0]}
    assert set(GridSearchCV(model(), grid, cv=TimeSeriesSplit(2)).fit(X).best_params_) == {"alpha", "dynamics"}


def test_a_pipeline_is_its_steps():
    pipeline = make_pipeline(StandardScaler(), PCA(2), model(family__variance=0.05))
    labels = pipeline.fit_predict(X)
    Z = pipeline[:-1].transform(X)
    alone = model(family__variance=0.05).fit(Z)
    assert labels.tolist() == alone.labels_.tolist()
    assert pipeline.predict(X).tolist() == alone.predict(Z).tolist()
    assert pipeline.score(X) == alone.score(Z)
    assert pipeline.score_samples(X).tolist() == alone.score_samples(Z).tolist()
    pipeline.set_params(dynamicalmixture__family__variance=7.0)
    assert pipeline[-1].family.variance == 7.0
    assert clone(pipeline)[-1].family.variance == 7.0


def test_times_reach_the_last_step_by_prefix():
    pipeline = make_pipeline(StandardScaler(), model()).fit(X, dynamicalmixture__times=times)
    assert same(pipeline[-1], model().fit(StandardScaler().fit_transform(X), times=times))


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_times_are_routed_through_a_pipeline(routing):
    estimator = model().set_fit_request(times=True).set_predict_request(times=True)
    pipeline = make_pipeline(StandardScaler(), estimator)
    Z = StandardScaler().fit_transform(X)
    alone = model().fit(Z, times=times)
    later = times[-1] + 3.0 + np.arange(60.0)
    assert pipeline.fit_predict(X, times=times).tolist() == alone.labels_.tolist()
    assert same(pipeline.fit(X, times=times)[-1], alone)
    assert pipeline.predict(X, times=later).tolist() == alone.predict(Z, later).tolist()
    away = np.linspace(1.0, 20.0, 60)[:, None] * X[:1]  # from a certain distance on, a row is new; later from a shorter
    assert pipeline.predict(away, times=later).tolist() != pipeline.predict(away, times=later + 1e3).tolist()


def test_times_are_routed_through_a_grid_search(routing):
    estimator = model().set_fit_request(times=True).set_score_request(times=True)
    grid = {"dynamics__timescale": [0.1, 20.0]}
    search = GridSearchCV(estimator, grid, cv=TimeSeriesSplit(3)).fit(X, times=times)
    scores = []
    for timescale in grid["dynamics__timescale"]:
        scores.append(
            np.mean(
                [
                    model(dynamics__timescale=timescale).fit(X[a], times=times[a]).score(X[b], None, times[b])
                    for a, b in TimeSeriesSplit(3).split(X)
                ]
            )
        )
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(scores)


# --- tables ---------------------------------------------------------------------------------------------------------


def nullable(table):
    frame = pd.DataFrame(table, columns=names).convert_dtypes()
    assert all(pd.api.types.is_extension_array_dtype(dtype) for dtype in frame.dtypes)
    return frame


def mixed(table):
    return pd.DataFrame(table, columns=names).astype({"a": "int8", "b": "float32", "c": "Int64"})


def memory_mapped(table):
    table = np.repeat(table, 2, axis=1)[:, ::2]
    table.flags.writeable = False
    return table


TABLES = {
    "pandas": lambda table: pd.DataFrame(table, columns=names),
    "pandas nullable": nullable,
    "pandas mixed": mixed,
    "pandas arrow": lambda table: pd.DataFrame(table, columns=names).convert_dtypes(dtype_backend="pyarrow"),
    "pandas float32": lambda table: pd.DataFrame(table.astype(np.float32), columns=names),
    "polars": lambda table: pl.DataFrame(table, schema=names),
    "polars mixed": lambda table: pl.DataFrame(table, schema=names).cast({"a": pl.Int16, "b": pl.Float32}),
    "float32": lambda table: table.astype(np.float32),
    "integers": lambda table: table.astype(np.int64),
    "objects": lambda table: table.astype(object),
    "read-only and strided": memory_mapped,
    "by columns": np.asfortranarray,
    "big-endian": lambda table: table.astype(">f8"),
}


@pytest.mark.parametrize("convert", TABLES.values(), ids=TABLES)
def test_any_dense_table_of_numbers_will_do(convert):
    fitted, plain = model().fit(convert(X[:40])), model().fit(X[:40])
    assert fitted.predict(convert(X[40:])).tolist() == plain.predict(X[40:]).tolist()
    assert fitted.score(convert(X[40:])) == plain.score(X[40:])
    assert same(fitted.partial_fit(convert(X[40:])), plain.partial_fit(X[40:]))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)], ids=["pandas", "polars"]
)
def test_feature_names_are_held_to(frame):
    fitted = model().fit(frame)
    assert fitted.feature_names_in_.tolist() == names
    before = fitted.to_bytes()
    for method in (fitted.partial_fit, fitted.predict, fitted.predict_proba, fitted.score_samples, fitted.score):
        with pytest.raises(ValueError, match="in the same order"):
            method(frame[["b", "a", "c"]])
        with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*- d"):
            method(frame.rename(columns={"a": "d"}) if isinstance(frame, pd.DataFrame) else frame.rename({"a": "d"}))
        with pytest.warns(UserWarning, match="does not have valid feature names, but DynamicalMixture was fitted with"):
            fitted.predict(X)
    assert fitted.to_bytes() == before
    with pytest.warns(UserWarning, match="DynamicalMixture was fitted without feature names"):
        model().fit(X).predict(frame)
    assert not hasattr(fitted.fit(X), "feature_names_in_")


def test_names_of_a_fit_that_failed_are_not_kept():
    fitted = model().fit(pd.DataFrame(X, columns=names))
    with pytest.raises(ValueError, match="inf"):
        fitted.fit(pd.DataFrame(X + np.inf, columns=["d", "e", "f"]))
    assert fitted.feature_names_in_.tolist() == names


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "'b' holds categories, and Gaussian takes numbers"),
        (pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])}), r"no columns to cluster; left out: a \(times\)"),
        (pl.DataFrame({"a": [1.0], "b": ["x"]}), "'b' holds categories, and Gaussian takes numbers"),
        (sparse.csr_array(X), "sparse.*toarray"),
        (sparse.coo_matrix(X), "sparse.*toarray"),
    ],
    ids=["text", "dates", "polars text", "sparse array", "sparse matrix"],
)
def test_other_tables_are_refused_by_place(table, message):
    for error in (ValueError, TypeError) if "sparse" in message else (ValueError,):
        with pytest.raises(error, match=message):
            model().fit(table)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0, None, 2.0], "b": [1.0, 2.0, 3.0]}),
        pd.DataFrame({"a": [1, None, 2], "b": [1, 2, 3]}, dtype="Int64"),
        pl.DataFrame({"a": [1.0, None, 2.0], "b": [1.0, 2.0, 3.0]}),
        np.array([[1.0, 1.0], [None, 2.0], [2.0, 3.0]], dtype=object),
        np.ma.masked_invalid([[1.0, 1.0], [np.nan, 2.0], [2.0, 3.0]]),
    ],
    ids=["pandas", "nullable", "polars", "objects", "masked"],
)
def test_missing_cells_are_nan(table):
    expected = model().fit(np.array([[1.0, 1.0], [np.nan, 2.0], [2.0, 3.0]]))
    found = model().fit(table)
    assert found.log_evidence_ == expected.log_evidence_
    assert found.centers_.tolist() == expected.centers_.tolist()


# --- times ----------------------------------------------------------------------------------------------------------

ATHENS = ZoneInfo("Europe/Athens")
# Across the night in which the clocks go forward, and the one in which an hour comes twice.
NIGHTS = [datetime(2024, 3, 31, 0, tzinfo=UTC), datetime(2024, 10, 27, 0, tzinfo=UTC)]
DATES = [NIGHTS[k // 30] + timedelta(minutes=7 * k) for k in range(60)]
STAMPS = pd.DatetimeIndex(DATES)
CLOCKS = {
    "datetime": DATES,
    "datetime in Athens": [date.astimezone(ATHENS) for date in DATES],
    "datetime of many offsets": [d.astimezone(timezone(timedelta(hours=k % 5))) for k, d in enumerate(DATES)],
    "naive datetime": [date.replace(tzinfo=None) for date in DATES],
    "pandas index": STAMPS,
    "pandas index in Athens": STAMPS.tz_convert("Europe/Athens"),
    "pandas series in Athens": pd.Series(STAMPS.tz_convert("Europe/Athens"), index=range(100, 160)),
    "pandas naive": STAMPS.tz_localize(None),
    "pandas objects": pd.Series(list(STAMPS), dtype=object),
    "list of stamps": list(STAMPS.tz_convert("Europe/Athens")),
    "pandas arrow": pd.Series(STAMPS).astype("timestamp[us, tz=UTC][pyarrow]"),
    "polars": pl.Series([date.replace(tzinfo=None) for date in DATES]),
    "polars in Athens": pl.Series(DATES).dt.convert_time_zone("Europe/Athens"),
    "polars ms": pl.Series(DATES).dt.cast_time_unit("ms"),
} | {f"datetime64[{unit}]": STAMPS.tz_localize(None).to_numpy(f"M8[{unit}]") for unit in ("m", "s", "ms", "us", "ns")}
CLOCKS |= {f"pandas {unit}": STAMPS.as_unit(unit).tz_convert("Europe/Athens") for unit in ("s", "ms", "us", "ns")}
TIMESCALES = [
    timedelta(hours=2),
    np.timedelta64(2, "h"),
    pd.Timedelta("2h"),
    np.timedelta64(7200 * 10**9, "ns"),
    7200.0,
]


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_dates_of_any_kind_are_seconds_in_utc(clock):
    seconds = np.array([date.timestamp() for date in DATES])
    plain = model(dynamics__timescale=7200.0).fit(X, times=seconds)
    dated = model(dynamics__timescale=timedelta(hours=2)).fit(X[:30], times=clock[:30])
    later = clock[30:]
    assert dated.predict(X[30:], later).shape == (30,)
    dated.partial_fit(X[30:], times=later)
    assert dated.log_evidence_ == plain.log_evidence_
    assert dated.occupancies_.tolist() == plain.occupancies_.tolist()
    with pytest.raises(ValueError, match="times are numbers, earlier ones were dates"):
        dated.partial_fit(X[:1], times=[2e9])


@pytest.mark.parametrize("timescale", TIMESCALES, ids=repr)
def test_a_timescale_may_be_any_timedelta(timescale):
    assert Exponential(timescale) == Exponential(7200.0) == Exponential(1.0).__class__(timescale)
    assert Oscillatory(timescale).period == Hyperbolic(timescale).timescale == 7200.0


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(60),
        range(60),
        np.arange(60, dtype=np.float32),
        np.arange(60).astype(object),
        pd.Series(range(60), dtype="Int64"),
        pd.Series(range(60), dtype="Float64", index=range(7, 67)),
        pl.Series(range(60)),
    ],
    ids=["int", "range", "float32", "objects", "pandas Int64", "pandas Float64", "polars"],
)
def test_numbers_of_any_kind_are_times(numbers):
    fitted = model().fit(X, times=numbers)
    assert same(fitted, model().fit(X, times=np.arange(60.0)))
    fitted.partial_fit(X[:1], times=[61.0])


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        (
            [DATES[0], DATES[1].replace(tzinfo=None)],
            r"either all times or none must have a time zone.*times\[0\].*times\[1\]",
        ),
        (
            [pd.NaT, DATES[1], DATES[2].replace(tzinfo=None)],
            r"either all times or none must have a time zone.*times\[1\].*times\[2\]",
        ),
        (
            pd.Series([STAMPS[0], STAMPS[1].tz_localize(None)], dtype=object),
            "either all times or none must have a time zone",
        ),
        ([DATES[0], 5.0], "times must be numbers or dates"),
        ([5.0, DATES[0]], "times must be numbers or dates"),
        (["soon"], "not an ISO 8601 date"),
        (pd.Series([STAMPS[0], pd.NaT]), "NaT, at row 1"),
        (pl.Series([DATES[0], None]), "NaT, at row 1"),
        (pd.Series([1, None], dtype="Int64"), "times must be"),
        (pl.Series([1, None]), "finite.*row 1"),
        (STAMPS[[0, 0]].as_unit("ns") + pd.to_timedelta([1, 0], unit="ns"), "backwards: .* at row 1"),
        (STAMPS[[1, 0]], "backwards: 2024-03-31T00:00:00.* at row 1"),
        # 03:30 comes twice: the second one first is an hour too early
        ([datetime(2024, 10, 27, 3, 30, tzinfo=ATHENS, fold=fold) for fold in (1, 0)], "backwards"),
    ],
)
def test_bad_times_are_refused(clock, message):
    with pytest.raises(ValueError, match=message):
        model().fit(X[: len(clock)], times=clock)


# --- BERTopic -------------------------------------------------------------------------------------------------------


class TopicModel:
    """What BERTopic 0.17 does with its cluster model, call for call, and with nothing else."""

    def __init__(self, hdbscan_model):
        self.hdbscan_model = hdbscan_model
        self.mappings = {}

    def partial_fit(self, embeddings):
        if not hasattr(self.hdbscan_model, "partial_fit"):
            raise ValueError("the cluster model should have a partial_fit")
        self.hdbscan_model = self.hdbscan_model.partial_fit(embeddings)
        labels = self.hdbscan_model.labels_
        documents = pd.DataFrame({"Document": "", "ID": range(len(embeddings)), "Topic": None})
        documents["Topic"] = labels
        topics = documents.Topic.to_list()
        if not self.mappings:
            self.mappings = {topic: topic for topic in sorted(set(topics))}
        new = set(topics).difference(self.mappings)
        self.mappings |= {topic: max(self.mappings.values()) + i + 1 for i, topic in enumerate(new)}
        documents["Topic"] = [self.mappings[topic] for topic in topics]
        self.topics_ = documents.Topic.astype(int).tolist()
        return self

    def fit(self, embeddings, y=None):
        self.hdbscan_model.fit(embeddings, y=y)
        self.topics_ = self.hdbscan_model.labels_
        self.mappings = {topic: topic for topic in sorted(set(self.topics_))}
        self.probabilities_ = None
        if hasattr(self.hdbscan_model, "probabilities_"):
            self.probabilities_ = self.hdbscan_model.probabilities_
        return self

    def transform(self, embeddings):
        predictions = self.hdbscan_model.predict(embeddings)
        return [self.mappings.get(prediction, -1) for prediction in predictions]


def embeddings(topics, seed):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(0.0, 3.0, (7, 5))
    return (centers[topics] + rng.normal(0.0, 0.2, (len(topics), 5))).astype(np.float32)


def test_bertopic_takes_it_as_its_online_cluster_model():
    batches = [[0, 1, 0, 1, 1], [1, 2, 2, 0], [3, 3], [2, 4, 0, 5, 1, 3]]
    topic_model = TopicModel(DynamicalMixture(Gaussian(0.04, 9.0)))
    found = []
    for seed, batch in enumerate(batches):
        topic_model.partial_fit(embeddings(batch, seed))
        assert len(topic_model.topics_) == len(batch)
        found.extend(topic_model.topics_)
    truth = [topic for batch in batches for topic in batch]
    assert len(set(zip(truth, found, strict=True))) == len(set(truth)) == len(set(found)) == 6
    named = dict(zip(truth, found, strict=True))
    assert sorted(named.values()) == list(range(6))  # topics are the rows of BERTopic's matrices
    assert topic_model.transform(embeddings([2, 5, 6, 0], 50)) == [named[2], named[5], -1, named[0]]
    assert len(topic_model.topics_) == 6  # predict leaves labels_ alone


def test_bertopic_takes_it_offline_too():
    batch = [0, 1, 0, 1, 2, 2]
    topic_model = TopicModel(DynamicalMixture(Gaussian(0.04, 9.0))).fit(embeddings(batch, 0), y=np.array(batch))
    assert topic_model.topics_.tolist() == [0, 1, 0, 1, 2, 2]
    assert topic_model.probabilities_ is None


def test_labels_handed_to_bertopic_do_not_change_later():
    fitted = model().partial_fit(X[:20])
    labels = fitted.labels_
    before = labels.tolist()
    fitted.partial_fit(X[20:])
    assert labels.tolist() == before
    assert isinstance(labels, np.ndarray)
    assert labels.dtype == MiniBatchKMeans(2, n_init=1).fit(X).predict(X).astype(np.int64).dtype


def test_a_lazy_frame_is_told_to_collect():
    with pytest.raises(ValueError, match=r"X is a LazyFrame, whose rows are not loaded yet: pass X.collect\(\)"):
        DynamicalMixture(Gaussian(1.0, 9.0)).fit(pl.DataFrame({"a": [1.0]}).lazy())
