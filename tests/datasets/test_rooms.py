"""Buildings, walks and sightings, against slow checks of the obvious."""

from itertools import pairwise

import numpy as np
import pytest

from dyncrp.datasets import rooms
from dyncrp.datasets.floor_plans import DOOR_WIDTH, LEAST_ROOM_SIDE, draw_floor_plan
from dyncrp.datasets.sightings import DOOR_OPENS_WITHIN, LONGEST_STEP
from dyncrp.datasets.trajectories import walk

BUILDINGS = [
    pytest.param(n_rooms, seed, marks=[pytest.mark.slow] if seed else [])
    for n_rooms in (1, 2, 3, 6, 15)
    for seed in range(4)
]


def plan_of(n_rooms, seed, room_size=8.0):
    return draw_floor_plan(n_rooms, room_size, np.random.default_rng(seed))


def side(p, q, r):
    """Return on which side of the line from p to q the point r lies."""
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def cross(p, q, r, s):
    """Return whether the segments from p to q and from r to s cross, by the sides on which their ends lie."""
    return side(p, q, r) * side(p, q, s) <= 0 and side(r, s, p) * side(r, s, q) < 0


@pytest.mark.parametrize(("n_rooms", "seed"), BUILDINGS)
def test_spaces_tile_the_site_and_rooms_are_wide_enough(n_rooms, seed):
    plan = plan_of(n_rooms, seed)
    spaces = np.array(plan.spaces)
    assert len(spaces) - plan.n_hallways == n_rooms
    assert np.all(spaces[plan.n_hallways :, 2:] - spaces[plan.n_hallways :, :2] >= LEAST_ROOM_SIDE)
    (left, lower), (right, upper) = spaces[:, :2].min(axis=0), spaces[:, 2:].max(axis=0)
    areas = np.prod(spaces[:, 2:] - spaces[:, :2], axis=1)
    assert np.sum(areas) == pytest.approx((right - left) * (upper - lower))
    points = [left, lower] + np.random.default_rng(0).random((500, 2)) * [right - left, upper - lower]
    inside = [np.sum((spaces[:, :2] < point).all(axis=1) & (point < spaces[:, 2:]).all(axis=1)) for point in points]
    assert inside == [1] * 500  # together with the areas: no overlap
    assert np.mean(areas[plan.n_hallways :]) == pytest.approx(64.0, rel=0.35)


@pytest.mark.parametrize(("n_rooms", "seed"), BUILDINGS)
def test_every_space_can_be_reached_and_doors_are_gaps_in_walls(n_rooms, seed):
    plan = plan_of(n_rooms, seed)
    reached, before = {0}, set()
    while reached != before:
        before = set(reached)
        reached |= {space for portal in plan.portals if reached & set(portal.spaces) for space in portal.spaces}
    assert reached == set(range(len(plan.spaces)))
    for portal in plan.portals:
        first, second = portal.center - 0.05 * portal.normal, portal.center + 0.05 * portal.normal
        assert plan.space_of(np.array([first, second])).tolist() == list(portal.spaces)
        assert not any(cross(first, second, *wall) for wall in plan.walls)
        for end in portal.ends + 0.05 * np.array([[-1.0], [1.0]]) * np.abs(portal.normal[::-1]):
            beside = any(cross(end - 0.05 * portal.normal, end + 0.05 * portal.normal, *wall) for wall in plan.walls)
            assert beside or portal.width != DOOR_WIDTH


@pytest.mark.parametrize(("n_rooms", "seed"), BUILDINGS)
def test_not_even_the_longest_steps_go_through_a_wall(n_rooms, seed):
    plan = plan_of(n_rooms, seed, room_size=2 * LEAST_ROOM_SIDE)
    path = walk(plan, 500, LONGEST_STEP, np.random.default_rng(seed))
    for wall in plan.walls:
        assert not any(cross(here, there, *wall) for here, there in pairwise(path))


@pytest.mark.parametrize(("n_rooms", "seed"), BUILDINGS)
def test_walks_are_smooth_and_go_through_no_wall(n_rooms, seed):
    plan = plan_of(n_rooms, seed)
    path = walk(plan, 1500, 0.2, np.random.default_rng(seed))
    assert path.shape == (1500, 2)
    steps = np.diff(path, axis=0)
    lengths = np.hypot(*steps.T)
    assert np.max(lengths) < 0.3
    assert np.mean(lengths) == pytest.approx(0.2, rel=0.05)
    for wall in plan.walls:
        assert not any(cross(here, there, *wall) for here, there in pairwise(path))
    angles = np.abs(np.angle(np.exp(1j * np.diff(np.arctan2(steps[:, 1], steps[:, 0])))))
    assert np.quantile(angles, 0.9) < 0.5  # radians: it turns on the spot now and then, but not all the time


def test_walks_enter_every_room_and_come_back():
    house = rooms(6000, seed=0)
    visits = house.rooms[np.append(True, np.diff(house.rooms) != 0)]
    counts = np.bincount(visits, minlength=7)
    assert np.all(counts[1:] >= 1)
    assert np.sum(counts[1:] > 1) >= 3


def test_landmarks_are_in_rooms_only():
    house = rooms(10, seed=3)
    plan = draw_floor_plan(6, 8.0, np.random.default_rng(3).spawn(4)[0])
    np.testing.assert_array_equal(house.walls, plan.walls)
    spaces = plan.space_of(house.landmarks)
    assert np.all(np.bincount(spaces)[plan.n_hallways :] >= 1)
    assert np.min(spaces) >= plan.n_hallways
    assert len(house.landmarks) == pytest.approx(6 * 15, rel=0.5)


@pytest.mark.parametrize(
    "field_of_view", [90.0, *(pytest.param(angle, marks=pytest.mark.slow) for angle in (180.0, 270.0, 360.0))]
)
def test_what_is_seen_is_near_ahead_and_behind_no_wall_or_closed_door(field_of_view):
    house = rooms(400, n_rooms=4, sight=5.0, field_of_view=field_of_view, seed=5)
    longer = rooms(401, n_rooms=4, seed=5)
    plan = draw_floor_plan(4, 8.0, np.random.default_rng(5).spawn(4)[0])
    doors = [portal for portal in plan.portals if portal.width == DOOR_WIDTH]
    hidden_by_doors = 0
    for n in range(0, 400, 3):
        here, heading = longer.positions[n], longer.positions[n + 1] - longer.positions[n]
        shut = [door for door in doors if np.hypot(*(here - door.center)) > DOOR_OPENS_WITHIN]
        for landmark, seen in zip(house.landmarks, house.visibility[n], strict=True):
            turn = np.degrees(np.abs(np.angle(complex(*(landmark - here)) / complex(*heading))))
            open_view = np.hypot(*(landmark - here)) <= 5.0 and turn <= field_of_view / 2
            open_view = open_view and not any(cross(here, landmark, *wall) for wall in plan.walls)
            closed = any(cross(here, landmark, *door.ends) for door in shut)
            hidden_by_doors += open_view and closed
            assert seen == (open_view and not closed)
    assert hidden_by_doors


def test_noise_changes_what_is_seen_and_nothing_else():
    clean, noisy = rooms(2000, seed=1), rooms(2000, missed=0.2, false=0.05, seed=1)
    for field in ("positions", "rooms", "walls", "landmarks"):
        np.testing.assert_array_equal(getattr(clean, field), getattr(noisy, field))
    in_sight = clean.visibility == 1
    error = 4 * np.sqrt(0.2 * 0.8 / np.sum(in_sight))
    assert np.mean(noisy.visibility[in_sight]) == pytest.approx(0.8, abs=error)
    assert np.mean(noisy.visibility[~in_sight]) == pytest.approx(0.05, abs=0.005)


def test_a_shorter_walk_is_the_beginning_of_a_longer_one():
    short, long = rooms(100, missed=0.1, seed=2), rooms(2500, missed=0.1, seed=2)
    for field in ("visibility", "positions", "rooms"):
        np.testing.assert_array_equal(getattr(short, field), getattr(long, field)[:100])


def test_the_same_seed_gives_the_same_building_for_ever():
    house = rooms(1000, seed=7)
    again = rooms(1000, seed=np.random.default_rng(7))
    for one, other in zip(house, again, strict=True):
        np.testing.assert_array_equal(one, other)
    # Written down on the day it was made: a change here changes everyone's buildings.
    assert house.visibility.shape == (1000, 82)
    assert np.sum(house.visibility) == 3913
    assert np.bincount(house.rooms).tolist() == [284, 107, 242, 0, 80, 0, 287]
    np.testing.assert_allclose(house.positions[[0, 999]], [[3.442588, 8.63199], [22.228188, 4.689611]], atol=1e-5)
    np.testing.assert_allclose(np.sum(house.landmarks, axis=0), [1140.320809, 698.646748], atol=1e-5)
    np.testing.assert_allclose(np.sum(house.walls, axis=(0, 1)), [580.663247, 318.71283], atol=1e-5)


def test_the_smallest_walk():
    house = rooms(1, n_rooms=1, seed=0)
    assert house.visibility.shape[0] == 1
    assert house.positions.shape == (1, 2)
    assert house.rooms.tolist() == [0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 0}, "n must be"),
        ({"n_rooms": 0}, "n_rooms must be"),
        ({"room_size": 2.0}, "room_size must be from 4.4 to 1000"),
        ({"room_size": 2000.0}, "room_size must be from 4.4 to 1000"),
        ({"n_landmarks": 0}, "n_landmarks must be"),
        ({"sight": -1.0}, "sight must be"),
        ({"field_of_view": 0.0}, "field_of_view must be"),
        ({"field_of_view": "180"}, "field_of_view must be"),
        ({"field_of_view": 400.0}, "field_of_view must be at most 360"),
        ({"missed": 1.5}, "missed must be a probability, from 0 to 1, got 1.5"),
        ({"missed": True}, "missed must be a probability"),
        ({"false": float("nan")}, "false must be a probability"),
        ({"false": None}, "false must be a probability"),
        ({"step": 0.0}, "step must be"),
        ({"step": 2.0}, "step must be at most 1"),
    ],
)
def test_bad_options_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        rooms(**wrong)
