"""Kafka's primitive types, with the bounds of every value from outside (Kafka: ``common.protocol.types.Type``).

msgspec checks the bounds in the annotations when it decodes; values that our own code makes are not checked.

Decoders are made at import, by one thread.  msgspec stores what it compiles of a type on the type, before it is complete.
Compiling runs Python, so another thread may use the incomplete half: it reads pointers that aren't set, and the process dies.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

MAX_TEXT: Final = 0x7FFF
"""The longest text, in characters: Kafka writes the length of one into 16 bits."""

Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
String: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]

_ENCODER: Final = msgspec.json.Encoder()


def to_json(value: object) -> bytes:
    """The value as JSON; half of a surrogate pair, which a path or a host's name may have, becomes a question mark."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")
