"""How long a run may take: the full run, the quick one, and a toy for the smoke test."""

from __future__ import annotations

from dataclasses import dataclass

SIZES = ((10, 2), (100, 16), (100, 128), (1000, 128), (1000, 768))


@dataclass(frozen=True)
class Settings:
    """Seconds are limits on one system; ``rounds`` is how often each measurement is repeated, interleaved."""

    rounds: int = 5
    seconds: float = 0.5  # of one timing
    slow_rounds: int = 2  # of the systems that learn one observation at a time
    slow_seconds: float = 2.0
    warm_up_seconds: float = 5.0
    label_seconds: float = 3.0
    pool_bytes: int = 256 << 20  # of the rows that are cycled through
    pool_rows: int = 1 << 20
    labelled: int = 4096
    sizes: tuple[tuple[int, int], ...] = SIZES
    embedding: tuple[int, int] = (1000, 384)
    table_counts: tuple[int, ...] = (10, 100, 1000, 10_000)
    stretch: int = 1_000_000  # observations in "a million"
    stretches: int = 5
    processes: int = 7


FULL = Settings()
QUICK = Settings(
    rounds=3,
    seconds=0.12,
    slow_rounds=1,
    slow_seconds=0.3,
    warm_up_seconds=0.5,
    label_seconds=0.2,
    pool_bytes=48 << 20,
    pool_rows=1 << 17,
    labelled=2048,
    stretch=200_000,
    processes=3,
)
TOY = Settings(
    rounds=1,
    seconds=0.01,
    slow_rounds=1,
    slow_seconds=0.02,
    warm_up_seconds=0.1,
    label_seconds=0.05,
    pool_bytes=1 << 20,
    pool_rows=1 << 11,
    labelled=200,
    sizes=((4, 2),),
    embedding=(5, 8),
    table_counts=(3,),
    stretch=2000,
    stretches=2,
    processes=1,
)
