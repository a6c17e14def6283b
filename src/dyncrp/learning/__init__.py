"""What is unknown: hyperparameters by the evidence of the first rows, and an alpha that keeps learning."""

from dyncrp.learning.alpha import AlphaPosterior
from dyncrp.learning.candidate import Candidate, Found
from dyncrp.learning.search import Search, learn

__all__ = ["AlphaPosterior", "Candidate", "Found", "Search", "learn"]
