"""What labels say is taken, refused and reported in the same way, however a stream is cut into calls."""

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian
from dyncrp.arrays.checks import BadLabel
from dyncrp.input import constraints
from dyncrp.input.constraints import Names

X = np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [9.2], [30.0], [30.1]])


def make(**params):
    return DynamicalMixture(Gaussian(1.0, 100.0), **params)


def feed(model, X, labels, cuts):
    found, heard = [], []
    model.on_event = lambda event: heard.append(event)
    for begin, end in zip([0, *cuts], [*cuts, len(X)], strict=True):
        found += model.partial_fit(X[begin:end], labels=labels[begin:end]).labels_.tolist()
    return found, heard


@pytest.mark.parametrize("cuts", [[], [2], [1, 3, 4], list(range(1, 8))])
def test_an_id_is_taken_from_the_row_on_that_opens_its_table(cuts):
    labels = [None, None, 1, None, None, 0, None, 2]
    whole, cut = make(), make()
    expected = feed(whole, X, labels, [])
    assert [expected[0][row] for row in (2, 5, 7)] == [1, 0, 2]
    assert feed(cut, X, labels, cuts) == expected
    assert cut.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(("row", "table"), [(0, 0), (1, 1), (2, 2), (6, 2), (7, 3), (3, 10**9)])
@pytest.mark.parametrize("before", [0, 1])
def test_an_id_that_no_table_has_yet_is_refused_and_nothing_is_learned(row, table, before):
    if before:
        row, table = row - 1, table
        if row < 0:
            pytest.skip("it is the row before")
    model = make(learn_alpha=True, n_examples=1)
    if before:
        model.partial_fit(X[:1])
    content = model.to_bytes() if before else b""
    labels: list[object] = [None] * (8 - before)
    labels[row] = table
    with pytest.raises(BadLabel, match=rf"labels says table {table}, but ids of tables are below .* at row {row}$"):
        model.partial_fit(X[before:], labels=labels)
    assert (model.to_bytes() if before else b"") == content


@pytest.mark.parametrize("cuts", [[], [30], [10, 20], [5, 12, 19, 20, 33]])
def test_ids_are_final_from_the_end_of_the_warm_up_on(cuts):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2)) + 20.0 * (np.arange(40)[:, None] % 2)
    labels = [None] * 20 + [0, None, 1] + [None] * 17
    whole, cut = (DynamicalMixture(Gaussian(), warmup=20) for _ in range(2))
    expected, found = (feed(model, rows, labels, at)[0] for model, at in ((whole, []), (cut, cuts)))
    assert expected[20:] == found[20:]
    assert whole.to_bytes() == cut.to_bytes()
    labels[19] = 0
    with pytest.raises(BadLabel, match="provisional"):
        feed(DynamicalMixture(Gaussian(), warmup=20), rows, labels, cuts)


@pytest.mark.parametrize("cuts", [[], [1], [7, 9, 30], list(range(1, 60))])
def test_events_have_the_names_of_their_moment(cuts):
    doors = ["left", "right", "top"]
    labels = [doors[i % 3] if i % 2 else None for i in range(60)]
    rows = np.array([[10.0 * (i % 3)] for i in range(60)])
    whole, cut = (make(dynamics=Exponential(20.0), alpha=1.0, max_tables=2) for _ in range(2))
    labels_, heard = feed(whole, rows, labels, [])
    assert {event.name for event in heard if event.kind == "closed"} > {"left", "right"}
    assert (labels_, heard) == feed(cut, rows, labels, cuts)
    assert whole.to_bytes() == cut.to_bytes()
    whole, cut = (DynamicalMixture(Gaussian(), Exponential(20.0), 1.0, max_tables=2, warmup=40) for _ in range(2))
    assert feed(whole, rows, labels, [])[1] == feed(cut, rows, labels, cuts)[1]


def test_ids_that_stand_for_others_are_bounded_and_found_in_few_steps(monkeypatch):
    monkeypatch.setattr(constraints, "MOST_FORWARDED", 50)
    names = Names()
    names.give(0, "door")
    for table in range(200):
        names.forward(table, table + 1)
    assert [names.find(table) for table in (149, 150, 199)] == [149, 200, 200]
    plain = names.to_plain()
    assert plain == {"names": [[200, "door"]], "merged": [[table, 200] for table in range(150, 200)]}
    assert Names.from_plain(plain, 201).to_plain() == plain
