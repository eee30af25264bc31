"""The protocol's values as bytes: JSON of a value's type and fields, bytes as base64.

One codec serves every frozen value of ``runtime.protocol.messages``; it follows the annotations, so a value that
does not fit its type is refused here and never reaches the core.
"""

from __future__ import annotations

import base64
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from sparkcohort.runtime.protocol import messages
from sparkcohort.runtime.protocol.error_codes import ErrorCode

MAX_BYTES = 16 * 1024 * 1024
"""The largest message read, in bytes: an assignment of a million partitions fits, a flood does not."""
REPEATED, REPEATED_BYTES = 4096, 256
"""How many short messages are remembered with their values, and how short (bytes): a member's heartbeats are the same
from one rebalance to the next.  Values are frozen; what can't be decoded is not remembered."""

MAX_TEXT = 0x7FFF
"""The longest text, in characters: Kafka writes the length of one into 16 bits."""

Decoder = Callable[[Any], Any]
_JSON = json.JSONEncoder(separators=(",", ":"))
_SCALARS = frozenset({str, int, bool, float, type(None)})


class WireError(ValueError):
    """A message that is not a value of the protocol."""


def encode(value: object) -> bytes:
    """The value as bytes; ``value`` is one of the protocol's frozen values."""
    return _heartbeat_reply(value) if type(value) is messages.HeartbeatReply else _encode(value)


def _encode(value: object) -> bytes:
    return _JSON.encode([type(value).__name__, _plain(value)]).encode()


@lru_cache(maxsize=64)
def _heartbeat_reply(value: messages.HeartbeatReply) -> bytes:
    """Nearly all that a coordinator ever answers is the same few of these."""
    return _encode(value)


def decode(data: bytes) -> object:
    """The value that ``encode`` made these bytes of.

    Raises WireError for anything else: unknown type, missing or surplus field, wrong type of a field.
    """
    if len(data) > MAX_BYTES:
        raise WireError(f"message of {len(data)} bytes is over the limit of {MAX_BYTES}")
    return _decode_again(data) if len(data) <= REPEATED_BYTES else _decode(data)


def _decode(data: bytes) -> object:
    try:
        name, body = json.loads(data.decode())  # given bytes, json guesses their encoding first
        kind = _kinds()[name]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"not a message of the group protocol: {type(error).__name__}") from None
    try:
        return _decoder(kind)(body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WireError(f"{name}: {error}") from None


_decode_again = lru_cache(maxsize=REPEATED)(_decode)


@cache
def _kinds() -> Mapping[str, type]:
    return {name: kind for name, kind in vars(messages).items() if isinstance(kind, type) and is_dataclass(kind)}


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def _plain(value: object) -> object:
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    names = _field_names(kind)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, ErrorCode):
        return int(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


@cache
def _decoder(hint: Any) -> Decoder:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(hint)
    if origin is tuple:
        return _tuple(hint)
    if isinstance(hint, type):
        if issubclass(hint, tuple) and hasattr(hint, "_fields"):
            return _named_tuple(hint)
        if is_dataclass(hint):
            return _dataclass(hint)
        if issubclass(hint, ErrorCode):
            return ErrorCode
        if hint is bytes:
            return lambda data: base64.b64decode(data, validate=True)
    if hint is int:
        return _integer
    if hint is str:
        return _text
    return _scalar(hint)


def _integer(data: Any) -> int:
    if type(data) is not int:
        raise TypeError(f"expected int, got {type(data).__name__}")
    if not -(2**63) <= data < 2**63:
        raise ValueError("an integer of more than 64 bits")
    return data


def _text(data: Any) -> str:
    if type(data) is not str:
        raise TypeError(f"expected str, got {type(data).__name__}")
    if len(data) > MAX_TEXT:
        raise ValueError(f"a text of {len(data)} characters, {MAX_TEXT} are the most")
    data.encode()  # half a surrogate pair is JSON, but no text: UnicodeEncodeError
    return data


def _scalar(hint: type) -> Decoder:
    def decoder(data: Any) -> Any:
        if type(data) is not hint:
            raise TypeError(f"expected {hint.__name__}, got {type(data).__name__}")
        return data

    return decoder


def _optional(hint: Any) -> Decoder:
    inner = _decoder(next(arg for arg in get_args(hint) if arg is not type(None)))
    return lambda data: None if data is None else inner(data)


def _tuple(hint: Any) -> Decoder:
    args = get_args(hint)
    if args[-1] is Ellipsis:
        inner = _decoder(args[0])
        return lambda data: tuple([inner(item) for item in _list(data)])
    inners = [_decoder(arg) for arg in args]
    return lambda data: tuple([inner(item) for inner, item in zip(inners, _list(data), strict=True)])


def _named_tuple(hint: Any) -> Decoder:
    inners = [_decoder(get_type_hints(hint)[name]) for name in hint._fields]
    return lambda data: hint(*[inner(item) for inner, item in zip(inners, _list(data), strict=True)])


def _dataclass(hint: Any) -> Decoder:
    hints = get_type_hints(hint)
    names = tuple(field.name for field in fields(hint))
    inners = {name: _decoder(hints[name]) for name in names}
    in_order = tuple(inners.values())

    def decoder(data: Any) -> Any:
        if tuple(data) == names:  # as ``encode`` writes it
            return hint(*[inner(item) for inner, item in zip(in_order, data.values(), strict=True)])
        return hint(**{name: inners[name](item) for name, item in data.items()})

    return decoder


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {type(data).__name__}")
    return data
