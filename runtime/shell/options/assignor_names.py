"""The names in ``partition.assignment.strategy``: our assignors, Kafka's classes, and users' own."""

from __future__ import annotations

import difflib
import re

from sparkcohort.runtime.errors import OptionError

DOTTED_NAME = r"[^\W\d]\w*(\.[^\W\d]\w*)*([.:][^\W\d]\w*)(\.[^\W\d]\w*)*"
KAFKAS_PACKAGE = "org.apache.kafka.clients.consumer."
_KAFKA_CLASSES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def assignor_names(text: str) -> tuple[str, ...]:
    """The names in a list, Kafka's classes translated; the assignors themselves are loaded when the query starts."""
    names = tuple(dict.fromkeys(assignor_name(part.strip()) for part in text.split(",") if part.strip()))
    if not names:
        raise OptionError("option partition.assignment.strategy is empty: name at least one assignor")
    return names


def assignor_name(name: str) -> str:
    """The name of one assignor, a Kafka class translated.  Raises OptionError for a text that can't be a name."""
    short = name.removeprefix(KAFKAS_PACKAGE)
    if short in _KAFKA_CLASSES:
        return _KAFKA_CLASSES[short]
    if short != name:
        near = difflib.get_close_matches(short, _KAFKA_CLASSES, n=1, cutoff=0)[0]
        raise OptionError(f"option partition.assignment.strategy: Kafka has no {name}; did you mean {near}?")
    if not re.fullmatch(rf"[\w-][\w.-]*|{DOTTED_NAME}", name):
        raise OptionError(
            f"option partition.assignment.strategy={name!r}: expected the name of an assignor, package.module.Class or "
            "package.module:object"
        )
    return name
