"""The journal's bytes: a group as it was, then the records of every step since, a frame each.

A new coordinator replays them (``GroupRecord.apply``) and resumes.  A step's frame is written before any request of the step is
answered, so a frame that is cut off is of an unanswered step: it is left out (Kafka: ``LogSegment.recover``).

>>> from sparkcohort.runtime.group import new_group
>>> from sparkcohort.runtime.group.records import Emptied, GroupUnloaded
>>> from sparkcohort.runtime.group.state import GroupConfig
>>> data = group_frame(new_group(GroupConfig("g"))) + frame((GroupUnloaded("ended"),)) + frame((Emptied(1),))[:-1]
>>> restore_group(data).state.value
'Dead'
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from sparkcohort.runtime.group.records import GroupRecord, IllegalTransitionError
from sparkcohort.runtime.group.state import Group

_LENGTH: Final = struct.Struct("!I")
# Compiled at import, by one thread (see ``wire_types``).
_GROUP: Final = msgspec.msgpack.Decoder(Group)
_STEP: Final[Any] = msgspec.msgpack.Decoder(list[reduce(or_, GroupRecord.__subclasses__())])  # type: ignore[misc]


class MalformedJournal(ValueError):
    """No group can be made of these bytes; the message quotes none of them."""


def _plain(value: Any) -> Any:
    """The empty mapping of a group is of a kind that msgspec doesn't know."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)


def group_frame(group: Group) -> bytes:
    """The first frame: the group as it stands."""
    return frame_body(_ENCODER.encode(group))


def frame(records: tuple[GroupRecord, ...]) -> bytes:
    """The frame of one step."""
    return frame_body(_ENCODER.encode(records))


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


def restore_group(data: bytes) -> Group:
    """The group that these frames tell of.  Raises MalformedJournal."""
    bodies = frames(data)
    try:
        group: Group = _GROUP.decode(next(bodies))
        for body in bodies:
            for record in _STEP.decode(body):
                group = record.apply(group)
    except StopIteration:
        raise MalformedJournal("it has no whole frame") from None
    except (msgspec.DecodeError, IllegalTransitionError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise MalformedJournal(f"a frame of it is none ({type(error).__name__})") from None
    return group
