"""Floor plans: a site tiled by hallways and rooms, with doors between them, where the walls have gaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Rectangle = tuple[float, float, float, float]  # left, lower, right, upper; metres

# Lengths are in metres.
HALLWAY_WIDTH = 1.8
DOOR_WIDTH = 0.9
LEAST_WALL_BY_DOOR = 0.25  # on either side of a door
LEAST_ROOM_SIDE = 2.2
EXTRA_DOOR_PROBABILITY = 0.2  # of a door between rooms that can be reached without it
SAME_PLACE = 1e-6  # smaller distances are attributed to rounding
MOST_TRIES = 10_000


class Portal(NamedTuple):
    """A door, or the opening between two hallways: the two spaces it joins, its centre, its direction and its width."""

    spaces: tuple[int, int]
    center: Float
    normal: Float  # a unit vector from the first space to the second
    width: float

    @property
    def ends(self) -> Float:
        """Where the gap in the wall begins and ends, (2, 2)."""
        along = self.width / 2 * np.abs(self.normal[::-1])
        return np.stack([self.center - along, self.center + along])


class FloorPlan(NamedTuple):
    """Rectangles that tile the site, the hallways first; how many hallways there are; portals; walls (W, 2 ends, 2)."""

    spaces: list[Rectangle]
    n_hallways: int
    portals: list[Portal]
    walls: Float

    def space_of(self, positions: Float) -> NDArray[np.int64]:
        """Return the space in which each position (N, 2) lies."""
        left, lower, right, upper = np.array(self.spaces).T
        x, y = positions[:, :1], positions[:, 1:]
        return np.argmax((left <= x) & (x <= right) & (lower <= y) & (y <= upper), axis=1)


class Shared(NamedTuple):
    """The wall that two spaces share: a line segment along an axis, at a constant other coordinate."""

    axis: int  # 0: along x, 1: along y
    sign: float  # 1 if the second space lies further along the other axis, −1 if the first does
    at: float
    begin: float
    end: float

    def piece(self, begin: float, end: float) -> Float:
        """Return the two ends (2, 2) of a part of the wall."""
        along, across = np.array([begin, end]), np.full(2, self.at)
        return np.stack([along, across] if self.axis == 0 else [across, along], axis=1)


def draw_floor_plan(n_rooms: int, room_size: float, rng: np.random.Generator) -> FloorPlan:
    """Return a building of ``n_rooms`` rooms, ``room_size`` metres wide on average, in which every room can be reached.

    A hallway runs along the site. With three rooms or more on one side of it, another may branch off. The rest is
    repeatedly divided in two by walls across the longer side, until every part is a room. A room has a door to a
    hallway that it touches, or else to a neighbour. Some neighbours have an additional door.
    """
    for _ in range(MOST_TRIES):
        hallways, rooms = _divide_site(n_rooms, room_size, rng)
        if all(min(room[2] - room[0], room[3] - room[1]) >= LEAST_ROOM_SIDE for room in rooms):
            spaces = hallways + rooms
            shared = {(i, j): wall for i, j in combinations(range(len(spaces)), 2) if (wall := _wall(spaces, i, j))}
            portals = _join(len(spaces), len(hallways), shared, rng)
            if portals is not None:
                return FloorPlan(spaces, len(hallways), portals, _walls(spaces, shared, portals))
    raise ValueError(f"no floor plan has {n_rooms} rooms of {room_size} m: make room_size larger")  # never seen


def between(low: float, high: float, rng: np.random.Generator) -> float:
    """Draw a number from an interval. Only ``random`` is used, since NumPy may change its other distributions."""
    return low + (high - low) * rng.random()


def _divide_site(n_rooms: int, room_size: float, rng: np.random.Generator) -> tuple[list[Rectangle], list[Rectangle]]:
    """Return the hallways and the rooms."""
    area = n_rooms * room_size**2
    width = np.sqrt(area * between(1.0, 2.0, rng)) + HALLWAY_WIDTH
    depth = area / width + HALLWAY_WIDTH
    above = round(n_rooms * between(1 / 3, 2 / 3, rng))
    share = above / n_rooms if above in (0, n_rooms) else (above / n_rooms + 0.5) / 2
    middle = (1.0 - share) * (depth - HALLWAY_WIDTH)
    hallways: list[Rectangle] = [(0.0, middle, width, middle + HALLWAY_WIDTH)]
    rooms: list[Rectangle] = []
    for n, lower, upper in ((n_rooms - above, 0.0, middle), (above, middle + HALLWAY_WIDTH, depth)):
        if n >= 3 and rng.random() < 0.5:
            left = (width - HALLWAY_WIDTH) * (n // 2) / n
            hallways.append((left, lower, left + HALLWAY_WIDTH, upper))
            rooms += _cut((0.0, lower, left, upper), n // 2, rng)
            rooms += _cut((left + HALLWAY_WIDTH, lower, width, upper), n - n // 2, rng)
        elif n:
            rooms += _cut((0.0, lower, width, upper), n, rng)
    return hallways, rooms


def _cut(space: Rectangle, n: int, rng: np.random.Generator) -> Iterator[Rectangle]:
    """Yield n rooms that tile a rectangle."""
    if n == 1:
        yield space
        return
    left, lower, right, upper = space
    first = (n + (rng.random() < 0.5)) // 2
    share = first / n * between(0.75, 1.25, rng)
    if right - left > upper - lower:
        middle = left + share * (right - left)
        halves: tuple[Rectangle, Rectangle] = (left, lower, middle, upper), (middle, lower, right, upper)
    else:
        middle = lower + share * (upper - lower)
        halves = (left, lower, right, middle), (left, middle, right, upper)
    yield from _cut(halves[0], first, rng)
    yield from _cut(halves[1], n - first, rng)


def _wall(spaces: list[Rectangle], i: int, j: int) -> Shared | None:
    """Return the wall that two spaces share, if any."""
    for axis in (0, 1):
        begin = max(spaces[i][axis], spaces[j][axis])
        end = min(spaces[i][axis + 2], spaces[j][axis + 2])
        across = 1 - axis
        for a, b, sign in ((i, j, 1.0), (j, i, -1.0)):
            if begin < end and abs(spaces[a][across + 2] - spaces[b][across]) < SAME_PLACE:
                return Shared(axis, sign, spaces[b][across], begin, end)
    return None


def _join(
    n_spaces: int, n_hallways: int, shared: dict[tuple[int, int], Shared], rng: np.random.Generator
) -> list[Portal] | None:
    """Return doors and openings through which every space can be reached, or None if that is impossible."""
    portals = [
        _portal((i, j), wall, (wall.begin + wall.end) / 2, wall.end - wall.begin)
        for (i, j), wall in shared.items()
        if j < n_hallways
    ]
    wide_enough = {
        pair: wall for pair, wall in shared.items() if wall.end - wall.begin >= DOOR_WIDTH + 2 * LEAST_WALL_BY_DOOR
    }
    reached = set(range(n_hallways))
    while len(reached) < n_spaces:
        ways = [pair for pair in wide_enough if (pair[0] in reached) != (pair[1] in reached)]
        if not ways:
            return None
        if any(i < n_hallways for i, _ in ways):
            ways = [(i, j) for i, j in ways if i < n_hallways]
        pair = ways[int(rng.random() * len(ways))]
        portals.append(_door(pair, wide_enough[pair], rng))
        reached.update(pair)
    joined = {portal.spaces for portal in portals}
    for pair, wall in wide_enough.items():
        if pair not in joined and pair[0] >= n_hallways and rng.random() < EXTRA_DOOR_PROBABILITY:
            portals.append(_door(pair, wall, rng))
    return portals


def _door(pair: tuple[int, int], wall: Shared, rng: np.random.Generator) -> Portal:
    margin = LEAST_WALL_BY_DOOR + DOOR_WIDTH / 2
    return _portal(pair, wall, between(wall.begin + margin, wall.end - margin, rng), DOOR_WIDTH)


def _portal(pair: tuple[int, int], wall: Shared, center: float, width: float) -> Portal:
    normal = wall.sign * np.array([0.0, 1.0] if wall.axis == 0 else [1.0, 0.0])
    return Portal(pair, wall.piece(center, center)[0], normal, width)


def _walls(spaces: list[Rectangle], shared: dict[tuple[int, int], Shared], portals: list[Portal]) -> Float:
    """Return the walls between spaces, without the gaps of the portals, and the outer walls: (W, 2, 2)."""
    corners = np.array(spaces)
    (left, lower), (right, upper) = corners[:, :2].min(axis=0), corners[:, 2:].max(axis=0)
    around = np.array([[left, lower], [right, lower], [right, upper], [left, upper], [left, lower]])
    pieces = [around[i : i + 2] for i in range(4)]
    gaps = {portal.spaces: portal for portal in portals}
    for pair, wall in shared.items():
        if pair in gaps:
            center, half = float(gaps[pair].center[wall.axis]), gaps[pair].width / 2
            pieces += [wall.piece(wall.begin, center - half), wall.piece(center + half, wall.end)]
        else:
            pieces.append(wall.piece(wall.begin, wall.end))
    return np.array([piece for piece in pieces if np.max(np.abs(piece[0] - piece[1])) > SAME_PLACE])
