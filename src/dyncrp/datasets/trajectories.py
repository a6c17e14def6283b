"""Trajectories: smooth walks through a floor plan, from room to room, never through a wall."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.sparse.csgraph import dijkstra

from dyncrp.datasets.floor_plans import FloorPlan, between

Float = NDArray[np.float64]

CLEARANCE = 0.4  # metres kept from walls, and walked straight before and after a door
NEW_ROOM_PROBABILITY = 0.5  # that the next room is one not visited before, if there are any
TURNS_PER_SQUARE_METRE = 0.15  # turns of a visit per square metre of the room
POINTS_PER_CONTROL = 8  # points on the curve for each control point


def walk(plan: FloorPlan, n: int, step: float, rng: np.random.Generator) -> Float:
    """Return n positions (n, 2), about ``step`` metres apart. A longer walk begins like a shorter one.

    The path is a quadratic B-spline, which lies in the triangles of successive control points. Every such triangle lies
    in one space, which is convex, or on the straight line through a door, so the path crosses no wall.
    """
    for_path, for_paces = rng.spawn(2)
    paces = np.convolve(0.5 + for_paces.random(n + 9), np.full(10, 0.1), "valid")  # the speed varies
    at = step * np.concatenate([[0.0], np.cumsum(paces[1:])])
    path = _control_points(plan, for_path)
    start = next(path)
    control = [start, start, start]
    while True:
        control += islice(path, len(control))
        spline = BSpline(np.arange(len(control) + 3.0), np.array(control), 2)
        curve = spline(np.arange(2 * POINTS_PER_CONTROL, POINTS_PER_CONTROL * len(control) + 1) / POINTS_PER_CONTROL)
        walked = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(curve, axis=0).T))])
        if walked[-1] >= at[-1]:
            return np.stack([np.interp(at, walked, curve[:, d]) for d in (0, 1)], axis=1)


def _control_points(plan: FloorPlan, rng: np.random.Generator) -> Iterator[Float]:
    """Yield an endless sequence of points: from a hallway to a room, around in it, and on to another."""
    rooms = range(plan.n_hallways, len(plan.spaces))
    destinations = rooms if len(rooms) > 1 else range(len(plan.spaces))
    unseen = set(rooms)
    space, here = 0, _somewhere(plan, 0, rng)
    yield here
    while True:
        others = [other for other in destinations if other != space]
        if rng.random() < NEW_ROOM_PROBABILITY:
            others = [other for other in others if other in unseen] or others
        goal = others[int(rng.random() * len(others))]
        unseen.discard(goal)
        yield from _route(plan, space, here, goal, _somewhere(plan, goal, rng))
        left, lower, right, upper = plan.spaces[goal]
        for _ in range(1 + int(TURNS_PER_SQUARE_METRE * (right - left) * (upper - lower) * between(0.5, 1.5, rng))):
            here = _somewhere(plan, goal, rng)
            yield here
        space = goal


def _somewhere(plan: FloorPlan, space: int, rng: np.random.Generator) -> Float:
    left, lower, right, upper = plan.spaces[space]
    x = between(left + CLEARANCE, right - CLEARANCE, rng)
    return np.array([x, between(lower + CLEARANCE, upper - CLEARANCE, rng)])


def _route(plan: FloorPlan, space: int, here: Float, goal: int, there: Float) -> Iterator[Float]:
    """Yield the control points of the shortest way from a point in a space to one in another, without the first."""
    stops = [here, *(portal.center for portal in plan.portals), there]
    touched = [{space}, *(set(portal.spaces) for portal in plan.portals), {goal}]
    lengths = np.zeros((len(stops), len(stops)))
    for i, j in combinations(range(len(stops)), 2):
        if touched[i] & touched[j]:  # spaces are convex, so a straight line stays inside
            # A small cost for each stop, so that the shortest way has no stops on a straight line within a space.
            lengths[i, j] = np.hypot(*(stops[i] - stops[j])) + 1e-3
    _, before = dijkstra(lengths, directed=False, indices=0, return_predecessors=True)
    way = [len(stops) - 1]
    while way[-1]:
        way.append(int(before[way[-1]]))
    for i in way[-2:0:-1]:
        portal = plan.portals[i - 1]
        first, second = portal.spaces
        straight = CLEARANCE * (portal.normal if space == first else -portal.normal)
        yield portal.center - straight
        yield portal.center
        yield portal.center + straight
        space = second if space == first else first
    yield there
