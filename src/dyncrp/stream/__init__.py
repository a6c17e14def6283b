"""A model at work on one stream."""

from dyncrp.stream.stream import Stream

__all__ = ["Stream"]
