"""A model at work on one stream."""
