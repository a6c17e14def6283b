"""Tests of surges: clusters that come more or less often than they did."""

from itertools import pairwise

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Gaussian
from dyncrp.stream.surges import KINDS, LENGTHS, Surges

RATE = 0.001


def changing(seed=0, n=60_000, K=8):
    """Labels of K clusters in which 1 surges at row 30,000, 2 grows from row 40,000 and 3 stops at row 50,000."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    labels[30_000:30_200] = 1
    grows = rng.random(n) < 0.15
    labels[40_000:][grows[40_000:]] = 2
    labels[50_000:][labels[50_000:] == 3] = 4
    return labels


def told(labels, rate=RATE, edges=(), closed=(), closed_rows=()):
    """The events of labels that come in parts, saved and loaded in between."""
    surges, closed, closed_rows = Surges(rate), np.array(closed), np.array(closed_rows)
    found = []
    for begin, end in pairwise([0, *edges, len(labels)]):
        here = (begin <= closed_rows) & (closed_rows < end) if len(closed) else slice(0)
        surges.add(labels[begin:end], closed[here], closed_rows[here] - begin)
        found += surges.told(begin, end)
        surges = Surges.restore(rate, surges.arrays(np.setdiff1d(labels[:end], closed[:0])), end)
    return found


def test_a_surge_a_rise_and_a_fall_are_told():
    found = told(changing(), 0.0001)
    assert len([event for event in found if event.row < 30_000]) < 10  # 3 are expected
    first = {}
    for event in found:
        if event.row >= 30_000:
            first.setdefault((event.kind, event.table), event)
    assert 30_000 <= first["surge", 1].row < 30_000 + 2 * LENGTHS[0]
    assert 40_000 <= first["growing", 2].row < 40_000 + 6 * LENGTHS[0]
    assert 50_000 <= first["fading", 3].row < 50_000 + 6 * LENGTHS[0]
    event = first["fading", 3]
    assert event.count == 0
    assert 40 < event.expected < 80
    assert event.p < 0.001


@pytest.mark.parametrize("edges", [(1, 255, 256, 257, 5000, 16_384, 40_500), range(777, 60_000, 777)])
def test_the_result_does_not_depend_on_parts_nor_on_files(edges):
    labels = changing() * 3 + 5
    labels[20_000:][labels[20_000:] == 8] = 100_000_000  # far from the other ids
    closed, rows = [8, 14], [20_000, 33_000]
    labels[33_000:][labels[33_000:] == 14] = 5
    whole = told(labels, RATE, (), closed, rows)
    assert len(whole) > 20
    assert told(labels, RATE, edges, closed, rows) == whole
    assert all(
        event.table not in closed or event.row < dict(zip(closed, rows, strict=True))[event.table] for event in whole
    )


def test_a_cluster_that_loses_its_oldest_table_does_not_depend_on_parts():
    labels = changing() + 8 * np.random.default_rng(5).integers(2, size=60_000)  # two tables for each cluster
    labels[:30] = np.arange(30) % 16
    closing = {1: 29_900, 2: 33_000, 4: 33_791, 0: 39_936, 6: 41_000}  # rows in, at the end and at the begin of windows
    for table, row in closing.items():
        labels[row:][labels[row:] == table] += 8
    clusters = {table: table % 8 for table in range(16)}

    def learn(edges, one_by_one=False):
        surges, found = Surges(RATE), []
        surges.group(clusters, 300)
        for begin, end in pairwise([0, *edges, 60_000]):
            here = {table: row - begin for table, row in closing.items() if begin <= row < end}
            if one_by_one:
                for n, label in enumerate(labels[begin:end].tolist(), begin + 1):
                    if surges.add_one(label):
                        surges.settle(np.array([table for table in range(16) if closing.get(table, n) >= n]))
            else:
                surges.add(labels[begin:end], [*here], [*here.values()])
            found += surges.told(begin, end)
        return found, surges.arrays(np.setdiff1d(np.arange(16), [*closing]))

    found, arrays = learn(())
    assert {("surge", 1), ("surge", 9)} & {(event.kind, event.table) for event in found if event.row > 30_000}
    for edges, one_by_one in (
        ((29_900, 29_901, 33_500, 33_791, 33_792, 39_937), False),
        (range(300, 60_000, 300), False),
        ((), True),
    ):
        others, its = learn(edges, one_by_one)
        assert others == found
        for name, array in arrays.items():
            np.testing.assert_array_equal(its[name], array, err_msg=name)


@pytest.mark.parametrize("seed", [0, 1])
def test_one_by_one_is_the_same(seed):
    labels = changing(seed)[20_000:52_000]
    whole = told(labels)
    surges = Surges(RATE)
    surges.add(labels[:5000])
    for label in labels[5000:].tolist():
        if surges.add_one(label):
            surges.settle(np.arange(8))
    assert surges.told(0, len(labels)) == whole


@pytest.mark.parametrize("edges", [(), (31_000,)])
def test_what_a_short_window_has_told_a_longer_one_does_not_tell_again(edges):
    found = [(event.row, event.length) for event in told(changing(), edges=edges) if event.table == 1]
    assert (30_207, LENGTHS[0]) in found
    assert (32_767, LENGTHS[1]) not in found


def test_tables_that_close_are_forgotten_and_do_not_fade():
    labels = changing()
    labels[50_000:][labels[50_000:] == 2] = 5
    tables = Surges(RATE)
    tables.add(labels, [2, 3], [50_000, 50_010])
    assert all(event.table not in (2, 3) for event in tables.told(50_000, 60_000))
    assert set(tables.arrays(np.arange(8))["surge_tables"]) == {0, 1, 4, 5, 6, 7}
    one = Surges(RATE)
    one.add(labels[:49_990])
    for label in labels[49_990:].tolist():
        if one.add_one(label):
            one.settle(np.array([0, 1, 4, 5, 6, 7]))
    assert one.told(0, 60_000) == tables.told(0, 60_000)


def test_clusters_are_looked_at_as_one():
    labels = changing()
    parts = np.random.default_rng(5).integers(2, size=len(labels)) * 8 + labels  # two tables for each cluster
    # A takes the place of B within a cluster, which is neither a rise nor a fall of the cluster.
    parts[20_000:][parts[20_000:] == 14] = 6
    surges = Surges(0.0001)
    surges.group({table: 70 + table % 8 for table in range(16)}, 0)
    surges.add(parts)
    found, expected = surges.told(0, 60_000), told(parts % 8, 0.0001)
    assert {("surge", 1), ("growing", 2), ("fading", 3)} <= {(event.kind, event.table) for event in found}
    assert [(one.kind, one.row, one.table, one.length, one.count) for one in found] == [
        (one.kind, one.row, one.table, one.length, one.count) for one in expected
    ]
    assert ("fading", 14) in {(event.kind, event.table) for event in told(parts, 0.0001)}


def test_merged_and_split_tables():
    labels = changing()
    parts = labels.copy()
    parts[:10_000][(labels[:10_000] == 6) & (np.arange(10_000) % 2 == 0)] = 9
    surges, apart = Surges(0.0001), Surges(0.0001)
    for one in (surges, apart):
        one.add(parts[:10_000])
        if one is surges:
            one.merge(6, 9)
        one.add(labels[10_000:])
    assert ("growing", 6) not in {(event.kind, event.table) for event in surges.told(10_000, 15_000)}
    assert ("growing", 6) in {(event.kind, event.table) for event in apart.told(10_000, 15_000)}
    surges.forget(6)
    surges.add(np.where(labels == 6, 7, labels))  # and is gone
    assert not any(event.table == 6 for event in surges.told(60_000, 120_000))
    assert 6 not in surges.arrays(np.arange(8))["surge_tables"]
    alone = Surges(0.0001)
    alone.add(np.array([4, 4, 4]))
    alone.merge(3, 4)
    assert alone.arrays(np.array([3]))["surge_tables"].tolist() == [3]


def test_rows_with_unknown_labels_end_no_window():
    labels, surges = changing(), Surges(RATE)
    surges.add(labels[:20_100])
    before = surges.arrays(np.arange(8))
    surges.skip_to(20_400)
    surges.add(labels[20_400:20_480])
    for name in ("surge_sums", "surge_windows"):
        np.testing.assert_array_equal(surges.arrays(np.arange(8))[name], before[name])
    surges = Surges.restore(RATE, before, 20_100)
    surges.skip_to(20_400)
    surges.add(labels[20_400:])
    assert not surges.told(20_100, 20_400 + 512)
    assert [event.table for event in surges.told(30_000, 30_300)] == [1]


@pytest.mark.parametrize("name", ["stationary", "sticky", "bursty"])
def test_the_rate_is_kept(name):
    rng = np.random.default_rng(1)
    n = 400_000
    labels = rng.integers(12, size=n)
    if name == "sticky":
        labels = labels[np.cumsum(rng.random(n) < 0.02)]
    if name == "bursty":
        for begin in np.cumsum(rng.exponential(4000.0, size=80)).astype(int):
            labels[begin : begin + min(int(50 * (1 + rng.pareto(1.5))), 5000)] = rng.integers(12)
    surges = Surges(RATE)
    surges.add(labels)
    found = surges.told(20_000, n)
    expected = RATE * (n - 20_000)  # 380, with a standard error of 20
    assert 0.8 < len(found) / expected < 1.2
    for kind in ("surge", "growing", "fading"):
        assert 0.6 < sum(event.kind == kind for event in found) / (expected / 3.0) < 1.4


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("surge_rows", lambda a: a + 10_000, "rows .* of 6000"),
        ("surge_rows", lambda a: a + np.array([0, 7000]), "rows"),
        ("surge_sums", lambda a: a - 1000.0, "negative"),
        ("surge_first_rows", lambda a: a + 6000, "not those of its rows"),
        ("surge_windows", lambda a: a + 9000, "not those of its rows"),
        ("surge_sizes", lambda a: a + 1, "sizes|past novelty"),
        ("surge_tables", lambda a: a[::-1].copy(), "surge_tables"),
        ("surge_counts", lambda a: a[:, 1:].copy(), "surge_counts"),
    ],
)
def test_invalid_arrays_are_refused(name, change, error):
    surges = Surges(RATE)
    surges.add(changing()[:6000])
    arrays = surges.arrays(np.arange(8))
    Surges.restore(RATE, arrays, 6000)
    with pytest.raises(ValueError, match=error):
        Surges.restore(RATE, arrays | {name: change(arrays[name])}, 6000)


# The whole model


def rows():
    labels = changing(n=56_000)[24_000:]
    centers = np.array([(10.0 * (k % 3), 10.0 * (k // 3)) for k in range(8)])
    return centers[labels] + np.random.default_rng(0).normal(size=(len(labels), 2))


def model(**more):
    return DynamicalMixture(Gaussian(1.0, 100.0), **{"surge_rate": 0.0005, "alarm_rate": 0.001} | more)


def surged(events):
    return [event for event in events if event.kind in ("surge", "growing", "fading")]


def test_events_of_a_model_parts_files_and_rows_one_by_one():
    X = rows()
    whole = model().fit(X)
    found = surged(whole.events_)
    assert {"surge", "growing", "fading"} == {event.kind for event in found}
    first = next(event for event in found if event.kind == "surge" and event.row >= 6000)
    assert first.table == whole.labels_[6100]
    assert first.time == float(first.row)
    assert first.what.keys() == {"rows", "count", "expected", "p"}
    heard, parts = [], model()
    parts.on_event = heard.append
    for at in range(0, len(X), 5000):
        parts.partial_fit(X[at : at + 5000])
        parts = DynamicalMixture.from_bytes(parts.to_bytes())
        parts.on_event = heard.append
    assert surged(heard) == found
    off = model(surge_rate=None).fit(X)
    assert [event for event in whole.events_ if event not in found] == off.events_
    np.testing.assert_array_equal(off.labels_, whole.labels_)
    assert not any(name.startswith(b"surge") for name in off.to_bytes().split(b"/"))

    one = model().fit(X[:20_000])
    for x in X[20_000:20_300]:
        one.learn_one(x)
    rest = one.partial_fit(X[20_300:]).events_
    assert surged(rest) == [event for event in found if event.row >= 20_300]


def test_a_warm_up_is_counted_as_it_is_seated_in_the_end():
    X = rows()[:12_000]
    heard = []
    learned = DynamicalMixture(Gaussian(1.0), surge_rate=0.002, warmup=4000)
    learned.on_event = heard.append
    for at in range(0, len(X), 500):
        learned.partial_fit(X[at : at + 500])
    found = DynamicalMixture(learned.family_, learned.dynamics_, learned.alpha_, surge_rate=0.002).fit(X)
    assert surged(heard) == surged(found.events_)
    assert surged(heard)


def test_surges_begin_when_the_rate_is_set():
    X = rows()
    stream = model(surge_rate=None).fit(X[:6000]).stream_
    stream.set_surge_rate(0.001)
    stream.learn(X[6000:])
    assert stream.spec.surge_rate == 0.001
    assert surged(stream.events())
    again = DynamicalMixture.from_bytes(stream.to_bytes())
    assert again.surge_rate == 0.001


@pytest.mark.parametrize("rate", [0.0, -1.0, 0.1, "many", True])
def test_a_bad_rate_is_refused(rate):
    with pytest.raises(ValueError, match="surge_rate must be None or a number"):
        DynamicalMixture(surge_rate=rate).fit([[0.0]])


def test_rows_without_a_table_count_for_none():
    rng = np.random.default_rng(3)
    labels = rng.integers(5, size=6_000)
    labels[rng.random(6_000) < 0.1] = -1
    labels[4_096:4_608] = np.where(rng.random(512) < 0.6, 2, labels[4_096:4_608])
    whole, cut = Surges(0.002), Surges(0.002)
    whole.add(labels)
    for part in np.split(labels, [1, 700, 1_500, 5_000]):
        cut.add(part)
    assert all(event.table >= 0 for event in whole.told(0, 6_000))
    assert whole.told(0, 6_000) == cut.told(0, 6_000)
    nobody = Surges(0.001)
    nobody.add(np.full(600, -1))
    assert nobody.told(0, 600) == []


def test_surges_of_clusters_that_are_kept_do_not_depend_on_cuts():
    rng = np.random.default_rng(5)
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [40.0, 0.0], [0.0, 40.0], [40.0, 40.0]])
    truth = rng.integers(5, size=9_000)
    truth[7_168:7_680] = np.where(rng.random(512) < 0.7, rng.integers(2, size=512), truth[7_168:7_680])
    X = centers[truth] + 0.6 * rng.normal(size=(9_000, 2))
    known = {"family": Gaussian(0.3, 900.0), "alpha": 0.05, "surge_rate": 0.002, "keep_clusters": True}
    whole = DynamicalMixture(**known).fit(X)
    found = [event for event in whole.events_ if event.kind in KINDS]
    assert any(event.kind == "surge" and 7_168 <= event.row < 7_700 for event in found)
    assert all(event.table == event.cluster for event in found)
    cut = DynamicalMixture(**known)
    events = []
    for part in np.split(X, [10, 900, 3_333, 7_200, 7_400]):
        cut.partial_fit(part)
        events += [event for event in cut.events_ if event.kind in KINDS]
        cut = DynamicalMixture.from_bytes(cut.to_bytes())
    assert events == found
