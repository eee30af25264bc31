"""A dashboard as Grafana reads it: its queries with the variables put in, and what Grafana's own types say to it."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

VARIABLES: Final = {"$__rate_interval": "30s", "$job": ".*", "$instance": ".*", "$group": ".*"}


def queries(dashboard: dict[str, Any]) -> list[tuple[str, str]]:
    """(title of the panel, expression) of each query."""
    return [(panel["title"], each["expr"]) for panel in dashboard["panels"] for each in panel.get("targets", ())]


def interpolated(expression: str) -> str:
    """The expression as Grafana sends it, with *All* chosen everywhere."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def faults(dashboard: dict[str, Any]) -> list[str]:
    """Where a dashboard is not what Grafana's published types (of grafana-foundation-sdk) allow.

    Its reader leaves out what the types don't have, so that is what doesn't come back; values are compared with the types.
    """
    register_default_plugins()
    read = Dashboard.from_json(dashboard)
    back = json.loads(JSONEncoder().encode(read))
    return [*_lost(dashboard, back, "dashboard"), *_mistyped(read, "dashboard")]


def _lost(given: Any, back: Any, at: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(back, dict):
        for key, value in given.items():
            if key not in back and value is not None:
                yield f"{at}.{key}: not in Grafana's types"
            else:
                yield from _lost(value, back.get(key), f"{at}.{key}")
    elif isinstance(given, list) and isinstance(back, list):
        for index, (one, other) in enumerate(zip(given, back, strict=True)):
            yield from _lost(one, other, f"{at}[{index}]")
    elif given != back:
        yield f"{at}: {given!r} came back as {back!r}"


def _mistyped(value: Any, at: str) -> Iterator[str]:
    """The attributes whose values are not of the types that the class declares."""
    hints = typing.get_type_hints(type(value))
    for name, inner in vars(value).items():
        if name in hints:
            yield from _compare(inner, hints[name], f"{at}.{name}")


def _compare(value: Any, hint: Any, at: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):  # what a plugin has: the options of a panel, a query
        if hasattr(value, "to_json"):
            yield from _mistyped(value, at)
        return
    if origin in (typing.Union, types.UnionType):
        found = [list(_compare(value, each, at)) for each in arguments]
        if all(found):  # the type that was meant is the one whose fault lies deepest
            yield from max(found, key=lambda faults: len(faults[0].partition(":")[0]))
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{at}: {value!r} is none of {arguments}"
    elif origin is list:
        yield from [f"{at}: {value!r} is no list"] if not isinstance(value, list) else ()
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from _compare(each, arguments[0], f"{at}[{index}]")
    elif origin is dict:
        yield from [f"{at}: {value!r} is no object"] if not isinstance(value, dict) else ()
    elif isinstance(hint, type) and issubclass(hint, Enum):
        if value not in {each.value for each in hint}:
            yield f"{at}: {value!r} is none of {[each.value for each in hint]}"
    elif isinstance(hint, type):
        wanted = (int, float) if hint is float else (hint,)
        if not isinstance(value, wanted):
            yield f"{at}: {value!r} is no {hint.__name__}"
        elif hasattr(value, "to_json"):
            yield from _mistyped(value, at)
