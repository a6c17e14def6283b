"""Generated examples are the same on every run and on every machine."""

from hypothesis import settings

settings.register_profile("dyncrp", derandomize=True, deadline=None, database=None, max_examples=25)
settings.load_profile("dyncrp")
