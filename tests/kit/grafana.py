"""A dashboard as Grafana reads it: its queries with the variables put in, and what Grafana's own types say to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
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

    Its reader leaves out what the types don't have, so that is what doesn't come back.
    """
    register_default_plugins()
    read = Dashboard.from_json(dashboard)
    back = json.loads(JSONEncoder().encode(read))
    return list(_lost(dashboard, back, "dashboard"))


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
