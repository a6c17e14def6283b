"""Figures. Needs matplotlib: ``pip install 'dyncrp[cli]'``."""

from dyncrp.plots.candidates import evidence
from dyncrp.plots.odds import explain
from dyncrp.plots.overview import clusters, report
from dyncrp.plots.rooms import building, buildings
from dyncrp.plots.streams import stream
from dyncrp.plots.style import COLORS as COLORS
from dyncrp.plots.style import MARKERS as MARKERS
from dyncrp.plots.style import NEW_TABLE_COLOR as NEW_TABLE_COLOR
from dyncrp.plots.style import table_style
from dyncrp.plots.timelines import timeline, topics
from dyncrp.plots.trees import tree

__all__ = [
    "building",
    "buildings",
    "clusters",
    "evidence",
    "explain",
    "report",
    "stream",
    "table_style",
    "timeline",
    "topics",
    "tree",
]
