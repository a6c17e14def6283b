"""What tests of engines share."""

import pytest

from dyncrp.engine import reference


@pytest.fixture(scope="module")
def no_lower_bounds():
    """Spare the reference its lower bounds, which take most of its time and which no other engine reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "lower_bound", lambda *_: 0.0)
        yield
