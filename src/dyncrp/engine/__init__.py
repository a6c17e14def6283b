"""Engines: streaming inference on arrays. ``reference`` is the law; whatever is faster must agree with it."""
