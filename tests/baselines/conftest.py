"""What the tests of the samplers share."""

import numpy as np
import pytest


@pytest.fixture
def worst_deviation():
    """How far a chain of states (numbered) is from their exact probabilities, at worst, in standard errors."""

    def measure(chain, exact):
        n_blocks = 80  # the states of a chain are not independent, but means of long blocks of them nearly are
        blocks = np.array([np.bincount(block, minlength=len(exact)) for block in np.array_split(chain, n_blocks)])
        shares = blocks / blocks.sum(axis=1, keepdims=True)
        error = np.std(shares, axis=0, ddof=1) / np.sqrt(n_blocks)
        error = np.maximum(error, np.sqrt(exact / len(chain)))  # a state that is never seen shows no error
        assert error.max() < 0.01, "the test has no power"
        assert exact.max() < 0.9, "there is nothing to test"
        return float(np.max(np.abs(shares.mean(axis=0) - exact) / error))

    return measure
