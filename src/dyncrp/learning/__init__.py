"""What is unknown: hyperparameters by the evidence of the first rows, and an alpha that keeps learning."""

from dyncrp.learning.alpha import AlphaPosterior
from dyncrp.learning.search import Candidate, Found, Search, learn

__all__ = ["AlphaPosterior", "Candidate", "Found", "Search", "learn"]
