"""What a robot sees on a walk through a building: the landmarks in sight at every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyncrp.arrays.checks import Seed, integer, positive, real
from dyncrp.datasets.floor_plans import DOOR_WIDTH, LEAST_ROOM_SIDE, FloorPlan, draw_floor_plan
from dyncrp.datasets.trajectories import walk

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

DOOR_OPENS_WITHIN = 0.5  # metres; a door opens when the robot is this close, and closes behind it
LANDMARK_TO_WALL = 0.2  # the distance of landmarks from walls
LONGEST_STEP = 1.0
LARGEST_ROOM = 1000.0
PLACES_PER_LANDMARK = 5  # places that are tried for each landmark


class Rooms(NamedTuple):
    """A walk through a building, and the building.

    Attributes:
        visibility: (N, L), 1 where a landmark was seen.
        positions: (N, 2), metres.
        rooms: (N,), 0 in a hallway, else the number of the room, from 1.
        walls: (W, 2 ends, 2), with gaps where the doors are.
        landmarks: (L, 2).
    """

    visibility: NDArray[np.int64]
    positions: Float
    rooms: NDArray[np.int64]
    walls: Float
    landmarks: Float


def rooms(
    n: int = 3000,
    *,
    n_rooms: int = 6,
    room_size: float = 8.0,
    n_landmarks: float = 15.0,
    sight: float = 5.0,
    field_of_view: float = 180.0,
    missed: float = 0.0,
    false: float = 0.0,
    step: float = 0.2,
    seed: Seed = None,
) -> Rooms:
    """Draw a building, a walk through it, and what is seen on the way.

    Rooms of different sizes lie along hallways. Doors lead from one to the other, and close behind the robot. Landmarks
    are only in rooms, so all hallways look alike. The robot walks from room to room, wanders about in each, and comes
    back to some. It looks ahead, and sees a landmark that is near enough, in the field of view, and not behind a wall
    or a closed door.

    Args:
        n: N, how many steps.
        n_rooms: how many rooms.
        room_size: approximately the square root of the average area of a room; metres.
        n_landmarks: how many landmarks a room of that size has on average.
        sight: how far the robot can see; metres.
        field_of_view: the angle in which it can see; degrees, up to 360.
        missed: the probability that a landmark in sight is not seen.
        false: the probability that a landmark out of sight is seen.
        step: the average length of a step along the path; metres, up to 1.
        seed: an integer or a ``numpy.random.Generator``, which spawns others. The same seed gives the same building and
            walk, for any length and whatever is seen on the way.

    >>> house = rooms(500, n_rooms=4, seed=1)
    >>> house.visibility.shape, house.landmarks.shape, np.unique(house.rooms)
    ((500, 62), (62, 2), array([0, 2, 4]))
    >>> rooms(200, n_rooms=4, missed=0.2, seed=1).rooms.tolist() == house.rooms[:200].tolist()
    True
    """
    n, n_rooms = integer("n", n, 1), integer("n_rooms", n_rooms, 1)
    room_size, n_landmarks = positive("room_size", room_size), positive("n_landmarks", n_landmarks)
    sight, step = positive("sight", sight), positive("step", step)
    field_of_view = positive("field_of_view", field_of_view)
    if not 2 * LEAST_ROOM_SIDE <= room_size <= LARGEST_ROOM:
        raise ValueError(f"room_size must be from {2 * LEAST_ROOM_SIDE} to {LARGEST_ROOM:g} (metres), got {room_size}")
    if field_of_view > 360:
        raise ValueError(f"field_of_view must be at most 360 (degrees), got {field_of_view}")
    if step > LONGEST_STEP:
        raise ValueError(f"step must be at most {LONGEST_STEP:g} (metres), so that no wall is skipped, got {step}")
    missed, false = _probability("missed", missed), _probability("false", false)
    for_plan, for_landmarks, for_walk, for_noise = np.random.default_rng(seed).spawn(4)
    plan = draw_floor_plan(n_rooms, room_size, for_plan)
    landmarks = _scatter(plan, n_landmarks / room_size**2, for_landmarks)
    path = walk(plan, n + 1, step, for_walk)  # the last step looks towards one more
    positions = path[:-1]
    seen = is_near(positions, landmarks, sight) & is_ahead(path, landmarks, field_of_view)
    for wall in plan.walls:
        seen &= ~is_blocked(positions, landmarks, wall)
    for portal in plan.portals:
        if portal.width == DOOR_WIDTH:
            shut = np.hypot(*(positions - portal.center).T) > DOOR_OPENS_WITHIN
            seen[shut] &= ~is_blocked(positions[shut], landmarks, portal.ends)
    chance = for_noise.random(seen.shape)
    visibility = np.where(seen, chance >= missed, chance < false)
    numbers = np.maximum(plan.space_of(positions) - plan.n_hallways + 1, 0)
    return Rooms(visibility.astype(np.int64), positions, numbers, plan.walls, landmarks)


def _probability(name: str, value: float) -> float:
    number = real(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{name} must be a probability, from 0 to 1, got {value!r}")
    return number


def _scatter(plan: FloorPlan, density: float, rng: np.random.Generator) -> Float:
    """Return landmarks (L, 2) in the rooms: ``density`` per square metre, give or take a half.

    Each takes the place, out of a few, that is furthest from the landmarks already in its room, so that they spread.
    """
    found = []
    for room in plan.spaces[plan.n_hallways :]:
        corner, size = np.array(room[:2]), np.array(room[2:]) - room[:2]
        number = max(1, round((0.5 + rng.random()) * density * float(np.prod(size))))
        placed = np.empty((0, 2))
        for places in (
            corner + LANDMARK_TO_WALL + rng.random((number, PLACES_PER_LANDMARK, 2)) * (size - 2 * LANDMARK_TO_WALL)
        ):
            away = places[:, None] - placed
            gaps = np.min(np.hypot(away[..., 0], away[..., 1]), axis=1, initial=np.inf)
            placed = np.append(placed, places[[np.argmax(gaps)]], axis=0)
        found.append(placed)
    return np.concatenate(found)


def is_near(positions: Float, landmarks: Float, sight: float) -> Bool:
    """Return which landmarks (L, 2) are no further than ``sight`` from positions (N, 2): (N, L)."""
    away = landmarks - positions[:, None]
    return np.hypot(away[..., 0], away[..., 1]) <= sight


def is_ahead(path: Float, landmarks: Float, field_of_view: float) -> Bool:
    """Return which landmarks (L, 2) are within the field of view along a path (N + 1, 2): (N, L)."""
    heading = np.diff(path, axis=0)
    away = landmarks - path[:-1, None]
    along = np.einsum("nld,nd->nl", away, heading)
    lengths = np.hypot(away[..., 0], away[..., 1]) * np.hypot(*heading.T)[:, None]
    least = np.cos(np.radians(field_of_view / 2))
    return along >= least * lengths - 1e-12 * lengths  # rounding must not hide a landmark at 360 degrees


def is_blocked(positions: Float, landmarks: Float, wall: Float) -> Bool:
    """Return whether a wall (2 ends, 2), parallel to an axis, hides landmarks (L, 2) from positions (N, 2): (N, L)."""
    across = int(np.argmin(np.abs(wall[1] - wall[0])))  # the axis across the wall
    begin, end = np.sort(wall[:, 1 - across])
    here, there = positions[:, None, across] - wall[0, across], landmarks[:, across] - wall[0, across]
    opposite = here * there < 0
    share = np.divide(here, here - there, out=np.zeros(opposite.shape), where=opposite)  # of the way to the landmark
    crossing = positions[:, None, 1 - across] + share * (landmarks[:, 1 - across] - positions[:, None, 1 - across])
    return opposite & (begin <= crossing) & (crossing <= end)
