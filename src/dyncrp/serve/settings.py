"""The settings of a stream as requests give them, and the stream that they describe."""

from __future__ import annotations

import json
import re
from typing import Any

from dyncrp.arrays.checks import real
from dyncrp.input.entries import quote
from dyncrp.input.input import Input
from dyncrp.input.words import Vocabulary
from dyncrp.jobs.model_text import make_model
from dyncrp.serve.limits import LONGEST_NAME, Limits, RequestError
from dyncrp.serve.warming import SECONDS, read_seconds
from dyncrp.stream.stream import Stream
from dyncrp.stream.warmup import Searching

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Parameters with a key of their own.
OF_MODEL = ("warmup", "max_tables", "prune_below", "alarm_rate", "surge_rate", "n_examples", "keep_clusters")
KEYS = ("family", "dynamics", "alpha", "memory", *OF_MODEL, SECONDS, "set", "features", "text", "stop_words")
TEXTS = "multinomial"  # the family of texts
NOT_SERVED = ("n_jobs",)  # one thread learns all streams
MOST_EXAMPLES = 1_000
MOST_NUMBERS = 100_000  # of a setting, such as the directions of a family, which are solved for
ALARM_RATE = 0.001  # by default; null is no alarms


def check_name(name: str) -> str:
    """Return a name if it is a valid name of a stream.

    >>> check_name("door.3")
    'door.3'
    """
    if not NAME.fullmatch(name):
        wanted = "1 to 100 letters, digits, dots, dashes and underscores, the first a letter or a digit"
        raise RequestError(400, f"the name of a stream has {wanted}, got {quote(name)}")
    return name


def make_stream(settings: dict[str, Any], defaults: dict[str, Any]) -> Stream:
    """Return the stream that settings describe. What is not given is as in defaults, or learned from rows.

    >>> spec = make_stream({"family": "gaussian", "set": {"variance": 1.0}, "warmup": 500}, {"max_tables": 50}).spec
    >>> spec.family, spec.warmup, spec.rules.max_tables
    (Gaussian(variance=1.0), 500, 50)
    """
    family, dynamics, alpha, memory = (settings.get(name) for name in ("family", "dynamics", "alpha", "memory"))
    texts = [dynamics] if isinstance(dynamics, str) else [] if dynamics is None else dynamics
    if family is not None and not isinstance(family, str):
        raise RequestError(400, f"family must be a text such as gaussian, got {quote(family)}")
    text = text_column(settings)
    if text is not None:
        if family is not None and family.lower() != TEXTS:
            raise RequestError(400, f"texts need the family {TEXTS}, got {quote(family)}")
        family = TEXTS
    elif family is not None and family.lower() == TEXTS:
        raise RequestError(400, f'{TEXTS} is for texts: name their column, such as {{"text": "message"}}')
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(
            400, f"dynamics must be a text such as exponential(20), or a list of them, got {quote(dynamics)}"
        )
    try:
        usual = {name: value for name, value in defaults.items() if name != SECONDS}
        spec = make_model(family, texts, alpha, usual | _others(settings), memory)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise RequestError(400, f"these settings make no model: {error}") from None
    vocabulary = None if text is None else Vocabulary(stop_words=settings.get("stop_words") is True)
    stream = Stream(spec, Input(vocabulary=vocabulary))
    # No request waits for a whole search.
    stream.searching = Searching.IN_CALLS if read_seconds(settings, defaults) is None else Searching.ASIDE
    return stream


def text_column(settings: dict[str, Any]) -> str | None:
    """Return the name of the column of texts, None if rows are not texts.

    >>> text_column({"text": "message", "stop_words": True})
    'message'
    """
    name, stop_words = settings.get("text"), settings.get("stop_words")
    if name is not None and (not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME):
        raise RequestError(
            400, f"text must be the name of a column, of up to {LONGEST_NAME} characters, got {quote(name)}"
        )
    if name is not None and settings.get("features") is not None:
        raise RequestError(400, "a stream of texts has no other features: leave out features")
    if stop_words is not None and not isinstance(stop_words, bool):
        raise RequestError(400, f"stop_words must be true or false, got {quote(stop_words)}")
    if stop_words and name is None:
        raise RequestError(400, "stop_words needs text, the name of the column of texts")
    return name


def feature_names(settings: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the columns, if the settings give them."""
    names = settings.get("features")
    if names is None:
        return None
    fits = isinstance(names, list) and all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in names)
    if not fits or not names or len(set(names)) < len(names):
        wanted = f"a list of texts of up to {LONGEST_NAME} characters that differ"
        raise RequestError(400, f"features must be {wanted}, got {quote(names)}")
    return tuple(names)


def check_limits(settings: dict[str, Any], limits: Limits) -> None:
    """Raise if settings exceed the limits of a server."""
    given = _others(settings)
    refused = next((name for name in NOT_SERVED if name in given), None)
    if refused is not None:
        raise RequestError(400, f"{refused} cannot be set on a server")
    for name, most in (("max_tables", limits.tables), ("warmup", limits.warmup), ("n_examples", MOST_EXAMPLES)):
        number = real(given.get(name))
        if number is not None and number > most:
            raise RequestError(413, f"{name} may be {most:,} on this server, got {given[name]}")
    for name, value in given.items():
        n = sum(len(one) if isinstance(one, list) else 1 for one in value) if isinstance(value, list) else 1
        if n > MOST_NUMBERS:
            raise RequestError(413, f"{name} may have {MOST_NUMBERS:,} numbers on this server, got {n:,}")
    if "max_tables" in given and given["max_tables"] is None:
        raise RequestError(413, f"max_tables may be {limits.tables:,} on this server, got null")
    names = feature_names(settings)
    if names is not None and len(names) > limits.features:
        raise RequestError(
            413, f"a stream may have {limits.features:,} features, got {len(names):,}: see --max-features"
        )


def default_settings(limits: Limits, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of a new stream. It keeps them even if the server has other limits later."""
    usual = {"alarm_rate": ALARM_RATE, "max_tables": limits.tables}
    usual["keep_clusters"] = text_column(settings) is None  # texts have none to show, and joining their tables is slow
    return usual | {SECONDS: limits.warmup_seconds}


def _others(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters in "set", and those of ``OF_MODEL``."""
    more = settings.get("set") or {}
    if not isinstance(more, dict):
        raise RequestError(400, f"set must be an object of names and values, got {quote(more)}")
    given = {name: settings[name] for name in OF_MODEL if name in settings}
    twice = next((name for name in given if name in more), None)
    if twice is not None:
        raise RequestError(400, f"{twice} is set twice")
    return given | more


def as_text(settings: dict[str, Any]) -> str:
    """Return settings as a text; equal settings have equal texts.

    >>> as_text({"warmup": 500, "alpha": 1.0}) == as_text({"alpha": 1.0, "warmup": 500})
    True
    """
    return json.dumps(settings, sort_keys=True)
