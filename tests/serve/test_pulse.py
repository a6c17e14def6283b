"""How often rows come, by a clock that the test moves."""

from dyncrp.serve.pulse import Pulse


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_what_is_older_than_ten_seconds_or_an_hour_is_forgotten():
    clock = Clock()
    pulse = Pulse(clock)
    assert pulse.tell() == {"age": None, "rows_a_second": 0.0, "hour": {"seconds": 0.0, "rows": 0, "alarms": 0}}
    for _ in range(2 * 3600):
        pulse.add(5, 1)
        clock.now += 1.0
    told = pulse.tell()
    assert told["age"] == 1.0
    assert 4.5 <= told["rows_a_second"] <= 5.0
    assert told["hour"]["seconds"] == 3600.0
    assert abs(told["hour"]["rows"] - 5 * 3600) <= 5 * 60  # buckets of a minute
    assert told["hour"]["alarms"] * 5 == told["hour"]["rows"]
    clock.now += 11.0
    assert pulse.tell()["rows_a_second"] == 0.0
    clock.now += 3600.0
    assert pulse.tell()["hour"]["rows"] == 0


def test_alarms_that_are_told_after_their_rows_are_counted():
    clock = Clock()
    pulse = Pulse(clock)
    pulse.add(1000, 0)
    clock.now += 2.0
    pulse.add(0, 3)  # the warm-up has ended in the background
    told = pulse.tell()
    assert (told["hour"]["rows"], told["hour"]["alarms"]) == (1000, 3)
    assert told["age"] == 2.0  # no row came with them


def test_what_is_kept_is_bounded():
    clock = Clock()
    pulse = Pulse(clock)
    for _ in range(10_000):
        pulse.add(1, 0)
        clock.now += 7.0
    assert sum(len(counter) for counter in pulse.counters) <= 10 + 61


def test_a_request_without_rows_is_no_row():
    clock = Clock()
    pulse = Pulse(clock)
    pulse.add(0, 0)
    assert pulse.tell()["age"] is None
