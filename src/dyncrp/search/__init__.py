"""Learning of unknowns: hyperparameters by the evidence of the first rows, and an alpha that is updated throughout."""

from dyncrp.search.alpha import AlphaPosterior
from dyncrp.search.candidate import Candidate, Found
from dyncrp.search.search import Search, learn

__all__ = ["AlphaPosterior", "Candidate", "Found", "Search", "learn"]
