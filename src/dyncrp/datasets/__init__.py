"""Datasets: samplers of streams whose truth is known."""

from dyncrp.datasets.mixtures import Mixture, sample_mixture

__all__ = ["Mixture", "sample_mixture"]
