"""Secrets that are looked up where and when a client is made, and not before (``kafka.config.providers``).

The driver looks everything up once, to check it.  What is secret stays out of the settings that travel: they carry what the
user wrote, ``${provider:path:key}``, and each process reads the values from its own files when it makes a client.  So Spark's
plan, its event log and its local files never have them, and a renewed password counts with the next client.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from itertools import count
from operator import itemgetter
from typing import Any, Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import config_providers
from sparkcohort.runtime.shell.options.kafka_settings.rows import SETTINGS
from sparkcohort.runtime.shell.options.security_settings import REMEMBERED, WRITTEN, is_sensitive

_log = logging.getLogger("sparkcohort.kafka")
_WITH_SECRETS: Final = ("sasl.username", "sasl.oauthbearer.client.id", "ssl.ca.pem", "ssl.certificate.pem")
"""What is renewed together with a secret, and is none."""
_KINDS_OF_LOGIN: Final = ("sasl.oauthbearer.method", "sasl.oauthbearer.provider")
"""Read before secrets are: a login's options say which, and no value of them gets there."""
_MADE_OF_SECRETS: Final = frozenset(name for row in SETTINGS if is_sensitive(row.name) for name in row.becomes)
_last: dict[str, tuple[int, dict[str, str]]] = {}
"""By what is written: what was found, by the latest look of those that could read it all, with that look's number."""
_told: dict[str, str] = {}
_looks = count()
_lock = threading.Lock()


def _is_late(name: str) -> bool:
    return is_sensitive(name) or name in _WITH_SECRETS or (name in _MADE_OF_SECRETS and name not in _KINDS_OF_LOGIN)


def kept_out(conf: Mapping[str, str], java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings without what is looked up late; ``java`` are the options that they were made of."""
    known = config_providers.providers(java)
    if not any(config_providers.refers(value, known) for value in config_providers.without_providers(java).values()):
        return dict(conf)
    return {name: value for name, value in conf.items() if not _is_late(name)} | {WRITTEN: json.dumps(dict(java))}


def with_values(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with their secrets as this process finds them now; as it found them last where it can't any more.

    Raises OptionError, a ValueError, where it never could.
    """
    out = dict(conf)
    written = out.pop(WRITTEN, None)
    return out if written is None else out | _late(written)


def are_read(conf: Mapping[str, Any]) -> bool:
    """Whether all values can be read now; from then on ``with_values`` has these, or later ones.

    Whoever writes down of which state of the files something is made asks this after it has seen that state: a file that
    can be read only a moment later gives the values of before, and is the same file then.
    """
    written = conf.get(WRITTEN)
    if written is None:
        return True
    try:
        _read(written)
    except OptionError as error:
        _before(written, error)
        return False
    return True


def _late(written: str) -> dict[str, str]:
    try:
        return _read(written)
    except OptionError as error:
        before = _before(written, error)
        if before is None:
            raise
        return before


def _before(written: str, error: OptionError) -> dict[str, str] | None:
    """What was found last, now that this is in the way, which is told once; None where nothing ever was."""
    with _lock:
        (_, before), told = _last.get(written, (0, None)), _told.get(written)
        _told[written] = str(error)
    if before is not None and told != str(error):
        _log.warning("changed files are not taken up: %s", error)
    return before


def _read(written: str) -> dict[str, str]:
    """The values as they are now.  Raises OptionError."""
    from sparkcohort.runtime.shell.options.kafka_settings.translate import in_librdkafkas_words  # noqa: PLC0415  few need it

    found: config_providers.Found = {}
    look = next(_looks)
    here = config_providers.looked_up(json.loads(written), found)
    with config_providers.unquoted(found):
        words, _ = in_librdkafkas_words(here)
    late = {name: value for name, value in words.items() if _is_late(name)}
    with _lock:
        _told.pop(written, None)
        _last[written] = max(_last.get(written, (-1, late)), (look, late), key=itemgetter(0))
        REMEMBERED.keep(written, _secrets(late, found))
    return late


def _secrets(late: Mapping[str, str], found: config_providers.Found) -> list[str]:
    """What may not be shown: the secret settings, and of an option with secrets all that is not known to be none."""
    shown = {late[name] for name in _WITH_SECRETS if name in late}
    parts = [value for name, values in found.items() if is_sensitive(name) for value in values if value not in shown]
    return [*(value for name, value in late.items() if is_sensitive(name)), *parts]
