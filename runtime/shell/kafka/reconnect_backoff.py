"""How often librdkafka may try to connect where no broker lets it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_MS = 1_000
_LEAST, _MOST = "reconnect.backoff.ms", "reconnect.backoff.max.ms"


def paced(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, with ``reconnect.backoff.ms`` of a second or more.

    When all brokers are down or refuse the login, librdkafka (2.16) begins again with ``bootstrap.servers``, and with no
    memory of how long it has waited: two attempts in each ``reconnect.backoff.ms`` for ever, 20 a second by default, each
    a refused login and a line in the broker's log.  A broker that comes back is seen as soon as before, since
    ``reconnect.backoff.max.ms`` is a second here.
    """
    least = max(_number(conf.get(_LEAST)), LEAST_MS)
    return {**conf, _LEAST: least, _MOST: max(_number(conf.get(_MOST)), least)}


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except ValueError:
        return 0  # which librdkafka has refused when the options were read
