"""The journal's bytes: a group as it was, then the records of every step since, a frame each.

A new coordinator replays them (``replay.apply``) and resumes.  A step's frame is written before any request of the step is
answered, so a frame that is cut off is of an unanswered step: it is left out (Kafka: ``LogSegment.recover``).

>>> from sparkcohort.runtime.group import new_group
>>> from sparkcohort.runtime.group.records import SerialTaken
>>> from sparkcohort.runtime.group.state import GroupConfig
>>> from sparkcohort.runtime.protocol.consumer_protocol import ConsumerEmbedded
>>> group = new_group(GroupConfig("g"), ConsumerEmbedded())
>>> data = group_frame(group) + frame((SerialTaken(1),)) + frame((SerialTaken(2),))[:-1]
>>> restore_group(data, ConsumerEmbedded()).serial
1
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec

from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.persistent_map import Layered
from sparkcohort.runtime.group.replay import IllegalTransitionError, apply
from sparkcohort.runtime.group.state import EmbeddedProtocol, Group

_LENGTH: Final = struct.Struct("!I")
_FIELDS: Final = {name: kind for name, kind in get_type_hints(Group).items() if name != "embedded"}
_KINDS: Final = {kind.__name__: kind for kind in get_args(r.Record) if kind is not r.GroupCreated}
# Compiled at import, by one thread (see ``wire_types``).
_STANDING: Final = msgspec.msgpack.Decoder(
    msgspec.defstruct("Standing", [*_FIELDS.items()], forbid_unknown_fields=True)
)
_STEP: Final = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_RECORDS: Final = {name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()}


class MalformedJournal(ValueError):
    """No group can be made of these bytes; the message quotes none of them."""


def _plain(value: Any) -> Any:
    """The mappings of a group are of kinds that msgspec doesn't know."""
    if isinstance(value, Layered):
        return value.flat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)


def group_frame(group: Group) -> bytes:
    """The first frame: the group as it stands."""
    return frame_body(_ENCODER.encode({name: getattr(group, name) for name in _FIELDS}))


def frame(records: tuple[r.Record, ...]) -> bytes:
    """The frame of one step."""
    return frame_body(_ENCODER.encode([(type(record).__name__, record) for record in records]))


def frame_body(body: bytes) -> bytes:
    """A frame of this body: its length, and so much (``frames``)."""
    return _LENGTH.pack(len(body)) + body


def frames(data: bytes) -> Iterator[bytes]:
    """The bodies of the frames that are whole."""
    position = 0
    while position + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size + length
        if position > len(data):
            return
        yield data[position - length : position]


def restore_group(data: bytes, embedded: EmbeddedProtocol) -> Group:
    """The group that these frames tell of.  Raises MalformedJournal."""
    bodies = frames(data)
    try:
        standing = _STANDING.decode(next(bodies))
        group = Group(embedded=embedded, **{name: getattr(standing, name) for name in _FIELDS})
        for body in bodies:
            for name, raw in _STEP.decode(body):
                group = apply(group, _RECORDS[name].decode(raw))
    except StopIteration:
        raise MalformedJournal("it has no whole frame") from None
    except (msgspec.DecodeError, IllegalTransitionError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise MalformedJournal(f"a frame of it is none ({type(error).__name__})") from None
    return group
