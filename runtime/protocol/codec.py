"""The protocol's requests and replies as bytes: JSON of a value's type and its fields, bytes as base64.

msgspec decodes by the annotations of ``runtime.protocol.messages``: a value that does not fit its type, or its bounds
(``wire_types``), is refused here and never reaches the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from sparkcohort.runtime.protocol import messages
from sparkcohort.runtime.protocol.wire_types import to_json

MAX_BYTES = 16 * 1024 * 1024
"""The largest message read, in bytes: an assignment of a million partitions fits, a flood does not."""

_KINDS = {kind.__name__: kind for kind in get_args(messages.Request) + get_args(messages.Reply)}
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in _KINDS.items()}
"""Made at import: see ``wire_types``."""
_ENVELOPE = msgspec.json.Decoder(tuple[str, msgspec.Raw])


class WireError(ValueError):
    """A message that is not a value of the protocol."""


def encode(value: object) -> bytes:
    """The value as bytes; ``value`` is a request or a reply.

    Half of a surrogate pair, which a host's name may have, becomes a question mark.
    """
    return to_json((type(value).__name__, value))


def decode(data: bytes) -> object:
    """The value of bytes that ``encode`` made.

    Raises WireError for all other bytes: unknown type, missing or surplus field, wrong type of a field.
    """
    if len(data) > MAX_BYTES:
        raise WireError(f"message of {len(data)} bytes is over the limit of {MAX_BYTES}")
    try:
        name, body = _ENVELOPE.decode(data)
        decoder = _DECODERS[name]
    except (ValueError, KeyError, RecursionError) as error:
        raise WireError(f"not a message of the group protocol: {type(error).__name__}") from None
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors, as is text that is not UTF-8
        raise WireError(f"{name}: {error}") from None
