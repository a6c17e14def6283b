"""Draw the figure of the page on automatic hyperparameters: what tune tries on digits in a sticky order."""

from __future__ import annotations

from benchmarks import speed
from benchmarks.streams.shipped import of_scikit_learn


def main() -> None:
    """Tune on the first order of arrival and write docs/images/evidence.png."""
    import dyncrp
    from dyncrp import plots

    _, candidates = dyncrp.tune(of_scikit_learn()["digits, in runs"](0).X)
    plots.evidence(candidates).savefig(speed.HERE.parent / "docs" / "images" / "evidence.png", dpi=110)


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.evidence")
    main()
