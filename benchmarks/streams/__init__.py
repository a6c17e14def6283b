"""A benchmark of stream clustering: streams with drift, return and noise, and systems that label each row as it comes.

``python -m benchmarks.streams`` runs it. A system is one file in ``systems/``, a stream one function in ``shipped.py``
or ``made.py``; ``base.py`` says what each has to offer.
"""
