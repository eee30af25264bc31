"""Kafka's primitive types, with the bounds that every value from outside is held to (Kafka: ``common.protocol.types.Type``).

msgspec reads the bounds off the annotations when it decodes; code that makes values itself is not held to them.

Decoders are made at import, by one thread.  What msgspec compiles of a type it keeps on the type, and puts it there before it is
complete; compiling runs Python, so another thread can come in between.  One that finds such a half reads pointers that
aren't set, and the process is gone.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

MAX_TEXT: Final = 0x7FFF
"""The longest text, in characters: Kafka writes the length of one into 16 bits."""

Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
String: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]

_ENCODER: Final = msgspec.json.Encoder()


def to_json(value: object) -> bytes:
    """The value as JSON; half a surrogate pair, which a path or a host's name may hold, becomes a question mark."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")
