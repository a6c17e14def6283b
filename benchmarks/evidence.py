"""Draw the figure of the page on automatic hyperparameters: what tune tries on digits in a sticky order."""

from __future__ import annotations

from benchmarks import real_data, speed


def main() -> None:
    """Tune on the first order of arrival and write docs/images/evidence.png."""
    import dyncrp
    from dyncrp import plots

    arrivals = real_data.streams(None, None)["digits-sticky"](0)
    _, candidates = dyncrp.tune(arrivals.X)
    plots.evidence(candidates).savefig(speed.HERE.parent / "docs" / "images" / "evidence.png", dpi=110)


if __name__ == "__main__":
    speed.on_one_thread("benchmarks.evidence")
    main()
