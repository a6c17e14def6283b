"""Whatever a request brings, it is learned or refused; a refusal changes nothing, and nothing else ever happens."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON, Roles, read_batch, read_object
from dyncrp.serve.limits import Limits, RequestError
from dyncrp.serve.plain import dump
from dyncrp.serve.settings import KEYS, check_limits
from dyncrp.serve.streams import ServedStream
from serving import KNOWN

LIMITS = Limits(rows=100, cells=1000, features=50)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**310),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "y", "1", "nan", "2024-01-01", "0001-01-01T00:00:00+14:00", "\x00", "é", "-1"]),
)
cells = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from("xy"), scalars, max_size=2))
rows = st.one_of(
    st.lists(st.lists(st.floats(-10, 10), min_size=2, max_size=2), min_size=1, max_size=4),
    st.lists(st.lists(cells, max_size=3), max_size=4),
    st.lists(st.dictionaries(st.sampled_from(["x", "y", "z", ""]), scalars, max_size=3), max_size=4),
    cells,
)
beside = st.one_of(st.lists(scalars, max_size=4), scalars)


def learn(stream, body):
    """Learn from a body, or see that it is refused and that the stream is as it was."""
    before = stream.stream.to_bytes() if stream.n_rows else None
    try:
        batch = read_batch(body, JSON, Roles(), LIMITS)
        _, outcome = stream.learn(batch)
        json.loads(dump(outcome.content))
    except (RequestError, ValueError):
        assert (stream.stream.to_bytes() if stream.n_rows else None) == before
        return False
    return True


@given(
    st.lists(
        st.fixed_dictionaries(
            {"rows": rows}, optional={"times": beside, "labels": beside, "cannot_link": beside, "sample_weight": beside}
        )
    )
)
def test_any_json_is_learned_or_refused(bodies):
    stream = ServedStream("s", KNOWN, {})
    learn(stream, b'{"rows": [[0.5, 1.5]]}')
    for body in bodies:
        learn(stream, json.dumps(body).encode())
    assert learn(stream, b'{"rows": [[0.5, 1.5]]}')


@given(rows, beside)
def test_any_first_rows(first, times):
    stream = ServedStream("s", {}, {})
    learn(stream, json.dumps({"rows": first, "times": times}).encode())
    learn(stream, json.dumps({"rows": first}).encode())


@pytest.mark.parametrize("kind", [JSON, NDJSON, CSV, ARROW])
@given(st.one_of(st.binary(max_size=200), st.text(alphabet='[]{}",:.x1\n\\e-é', max_size=60).map(str.encode)))
def test_any_bytes(kind, content):
    with suppress(RequestError):
        assert 0 < read_batch(content, kind, Roles(), LIMITS).n <= LIMITS.rows


@given(st.dictionaries(st.sampled_from([*KEYS, "else"]), st.one_of(cells, st.just({"variance": [1, "x"]})), max_size=4))
def test_any_settings(settings):
    with suppress(RequestError):
        told = read_object(json.dumps(settings).encode(), KEYS)
        check_limits(told, LIMITS)
        assert ServedStream("s", told, {}).n_rows == 0
