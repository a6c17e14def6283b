"""Datasets: samplers of streams with known clusters."""

from dyncrp.datasets.mixtures import Mixture, sample_mixture
from dyncrp.datasets.sightings import Rooms, rooms

__all__ = ["Mixture", "Rooms", "rooms", "sample_mixture"]
