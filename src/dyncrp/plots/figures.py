"""New figures, which are pyplot's current figure: ``plt.savefig`` and ``plt.show`` work after any of ours."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_OPEN = 10  # figures that pyplot keeps for us; it warns from 20 on, and never drops one by itself
_opened: deque[ref[Figure]] = deque()


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of so many inches that is pyplot's current one.

    Pyplot keeps only the last ten of our figures. Earlier ones live as long as somebody holds them.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    try:
        figure = plt.figure(figsize=(width, height), layout="constrained")
    except ImportError:  # pyplot was told to open windows, and there is no display
        return Figure(figsize=(width, height), layout="constrained")
    figure._ipython_display_ = partial(show_once, figure)  # type: ignore[attr-defined]
    _opened.append(ref(figure))
    if len(_opened) > MOST_OPEN:
        oldest = _opened.popleft()()
        if oldest is not None:
            plt.close(oldest)
    return figure


def show_once(figure: Figure) -> None:
    """Let a notebook show a figure once, though its cell returns the figure and leaves it to pyplot as well.

    IPython calls this for the figure that a cell returns. After ``NotImplementedError`` it shows the figure as usual.
    """
    import matplotlib.pyplot as plt

    if "inline" in plt.get_backend().lower() and plt.get_fignums():
        current = plt.gcf()
        left = any(plt.figure(number) is figure for number in plt.get_fignums())
        plt.figure(current)
        if left:
            return  # pyplot shows it when the cell has ended
    raise NotImplementedError
