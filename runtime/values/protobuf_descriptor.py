"""Descriptor sets, as ``protoc --include_imports --descriptor_set_out`` writes them, become checked values.

A field's meaning depends on its file's syntax, which is expressed by the features of editions (https://protobuf.dev/editions/features/),
for which proto2 and proto3 are two sets of features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

Features = Mapping[int, int]
PRESENCE, ENUM_TYPE, UTF8, ENCODING = 1, 2, 4, 5  # fields of FeatureSet
EXPLICIT, IMPLICIT, REQUIRED = 1, 2, 3
OPEN, CLOSED = 1, 2
LENGTH_PREFIXED, DELIMITED = 1, 2
PROTO2: Final[Features] = {PRESENCE: EXPLICIT, ENUM_TYPE: CLOSED, ENCODING: LENGTH_PREFIXED}
PROTO3: Final[Features] = {PRESENCE: IMPLICIT, ENUM_TYPE: OPEN, ENCODING: LENGTH_PREFIXED}
EDITION_2023: Final[Features] = {PRESENCE: EXPLICIT, ENUM_TYPE: OPEN, ENCODING: LENGTH_PREFIXED}
NEWEST: Final = 1001  # edition 2024
LABEL_REQUIRED, LABEL_REPEATED = 2, 3
_GOOGLE: Final = "google.protobuf."
MOST_NUMBER: Final = (1 << 29) - 1
VARINT, I64, LEN, I32 = 0, 1, 2, 5  # wire types; native/values/protobuf.c reads records
MOST_VARINT: Final = 10


class FieldType(IntEnum):
    """The types of fields, as FieldDescriptorProto numbers them."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


class DescriptorError(ValueError):
    """A descriptor set that is none, or that lacks something, or has no columns in Spark."""


class UnknownMessageError(DescriptorError):
    """There is no such message in it, or there are several."""


@dataclass(slots=True, eq=False)
class EnumDescriptor:
    """Its values by number, the first name of each."""

    name: str
    closed: bool
    values: dict[int, str]
    first: int = 0  # what it is when nothing is said

    @property
    def short_name(self) -> str:
        """The name without its package."""
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class FieldDescriptor:
    """One field of a message.  ``default`` is proto2's text; ``oneof`` the place of its oneof in the message, or -1."""

    name: str
    number: int
    kind: FieldType
    repeated: bool = False
    required: bool = False
    implicit: bool = False  # its zero is the same as its absence
    delimited: bool = False  # a group
    closed: bool = False  # an enum that has no other numbers
    oneof: int = -1
    default: str | None = None
    type_name: str = ""
    message: MessageDescriptor | None = None
    enum: EnumDescriptor | None = None

    @property
    def inner(self) -> MessageDescriptor:
        """The type of a message's field."""
        if self.message is None:
            raise DescriptorError(f"{self.name} is no message")
        return self.message

    @property
    def is_map(self) -> bool:
        """Whether its items are the entries of a map."""
        return self.repeated and self.message is not None and self.message.map_entry


@dataclass(slots=True, eq=False)
class MessageDescriptor:
    """One message.  It may hold itself, so messages are told apart by identity; nothing changes them once parsed."""

    name: str
    map_entry: bool = False
    index: tuple[int, ...] = ()  # where it stands in its file, from the outermost message inwards
    fields: tuple[FieldDescriptor, ...] = field(default=())

    @property
    def short_name(self) -> str:
        """The name without its package."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"<message {self.name}>"


def parse_message(data: bytes, name: str) -> MessageDescriptor:
    """The message of this name: the full one, or that without a package if there is only one such."""
    messages = _SetParser().parse(data)
    matches = [messages[name]] if name in messages else [each for each in messages.values() if each.short_name == name]
    matches = [each for each in matches if not each.map_entry]
    if not name or not matches:
        names = sorted(m.name for m in messages.values() if not m.map_entry and not m.name.startswith(_GOOGLE))
        raise UnknownMessageError(
            f"there is no message {name!r} in the descriptor set: it has {', '.join(names[:20]) or 'none'}"
        )
    if len(matches) > 1:
        raise UnknownMessageError(f"{name!r} are several: {', '.join(sorted(each.name for each in matches))}")
    return matches[0]


Read = dict[int, list[int | bytes]]


def _read(data: int | bytes) -> Read:
    if isinstance(data, int):
        raise DescriptorError("it is no descriptor set (a number where a message is expected)")
    values: Read = {}
    for number, value in message_fields(data):
        values.setdefault(number, []).append(value)
    return values


def _number(read: Read, number: int, default: int = 0) -> int:
    value = read.get(number, [default])[-1]
    if not isinstance(value, int):
        raise DescriptorError("it is no descriptor set (a text where a number is expected)")
    return value


def _text(read: Read, number: int) -> str:
    value = read.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise DescriptorError("it is no descriptor set (a number where a text is expected)")
    return value.decode()


def _messages(read: Read, number: int) -> Iterable[Read]:
    return map(_read, read.get(number, ()))


def _features(outer: Features, options: Iterable[Read], number: int) -> Features:
    """The features that hold around it, overridden by those of its own options."""
    merged = dict(outer)
    for option in options:
        for features in _messages(option, number):
            merged |= {name: _number(features, name) for name in (PRESENCE, ENUM_TYPE, ENCODING) if name in features}
    return merged


@dataclass(slots=True)
class _FileScope:
    name: str
    package: str
    features: Features
    is_proto2: bool
    dependencies: tuple[str, ...]


class _SetParser:
    """Reads files, then finds what their fields refer to."""

    def __init__(self) -> None:
        self.messages: dict[str, MessageDescriptor] = {}
        self.enums: dict[str, EnumDescriptor] = {}
        self.pending: list[tuple[FieldDescriptor, MessageDescriptor, _FileScope]] = []
        self.files: set[str] = set()

    def parse(self, data: bytes) -> dict[str, MessageDescriptor]:
        """All messages, by their full names."""
        try:
            files = list(_messages(_read(data), 1))
            for read in files:
                self._file(read)
        except DescriptorError:
            raise
        except ValueError as error:
            raise DescriptorError(f"it is no descriptor set ({error})") from None
        if not files:
            raise DescriptorError("it is no descriptor set: it has no file")
        for reference in self.pending:
            self._resolve(*reference)
        return self.messages

    def _file(self, read: Read) -> None:
        syntax, edition = _text(read, 12), _number(read, 14)
        if syntax not in ("", "proto2", "proto3", "editions") or edition > NEWEST:
            raise DescriptorError(f"its file {_text(read, 1)!r} has a syntax that is not known: {syntax} {edition}")
        features = {"proto3": PROTO3, "editions": EDITION_2023}.get(syntax, PROTO2)
        file = _FileScope(
            _text(read, 1),
            _text(read, 2),
            _features(features, _messages(read, 8), 50),
            syntax in ("", "proto2"),
            tuple(each.decode() for each in read.get(3, ()) if isinstance(each, bytes)),
        )
        self.files.add(file.name)
        for number, message in enumerate(_messages(read, 4)):
            self._message(message, file.package, file.features, file, (number,))
        for enum in _messages(read, 5):
            self._enum(enum, file.package, file.features)

    def _message(self, read: Read, scope: str, outer: Features, file: _FileScope, index: tuple[int, ...]) -> None:
        options = list(_messages(read, 7))
        features = _features(outer, options, 12)
        name = _join_names(scope, _text(read, 1))
        message = MessageDescriptor(name, any(_number(each, 7) for each in options), index)
        if not _text(read, 1) or name in self.messages:
            raise DescriptorError(f"a message {name!r} without a name, or one that is there twice")
        self.messages[name] = message
        for number, inner in enumerate(_messages(read, 3)):
            self._message(inner, name, features, file, (*index, number))
        for enum in _messages(read, 4):
            self._enum(enum, name, features)
        oneofs = [_features(features, _messages(each, 2), 1) for each in _messages(read, 8)]
        message.fields = tuple(self._field(each, message, features, oneofs, file) for each in _messages(read, 2))
        numbers = {each.number for each in message.fields}
        if len(numbers) < len(message.fields) or len({each.name for each in message.fields}) < len(message.fields):
            raise DescriptorError(f"message {name!r} has a field's name or number twice")
        if message.map_entry and [(each.name, each.number) for each in message.fields] != [("key", 1), ("value", 2)]:
            raise DescriptorError(f"message {name!r} is no entry of a map")

    def _field(
        self, read: Read, inside: MessageDescriptor, outer: Features, oneofs: list[Features], file: _FileScope
    ) -> FieldDescriptor:
        name, number, kind = _text(read, 1), _number(read, 3), _number(read, 5)
        if not name or not 0 < number <= MOST_NUMBER:
            raise DescriptorError(f"message {inside.name!r} has a field {name!r} without a name or a number ({number})")
        if kind not in list(FieldType):
            raise DescriptorError(f"the type of {inside.name}.{name} is not known ({kind})")
        label, oneof = _number(read, 4), _number(read, 9, -1)
        if not -1 <= oneof < len(oneofs):
            raise DescriptorError(f"the oneof of {inside.name}.{name} is not there")
        features = _features(outer if oneof < 0 else oneofs[oneof], _messages(read, 8), 21)
        repeated, is_message = label == LABEL_REPEATED, kind in (FieldType.MESSAGE, FieldType.GROUP)
        field = FieldDescriptor(
            name,
            number,
            FieldType(kind),
            repeated=repeated,
            required=label == LABEL_REQUIRED or (features[PRESENCE] == REQUIRED and not repeated),
            implicit=features[PRESENCE] == IMPLICIT and oneof < 0 and not repeated and not is_message,
            delimited=kind == FieldType.GROUP or (kind == FieldType.MESSAGE and features[ENCODING] == DELIMITED),
            oneof=oneof,
            default=_text(read, 7) if 7 in read and not repeated and not is_message else None,
            type_name=_text(read, 6),
        )
        self.pending.append((field, inside, file))
        return field

    def _enum(self, read: Read, scope: str, outer: Features) -> None:
        name = _join_names(scope, _text(read, 1))
        features = _features(outer, _messages(read, 3), 7)
        values: dict[int, str] = {}
        for value in _messages(read, 2):
            values.setdefault(_signed(_number(value, 2)), _text(value, 1))
        if not values or name in self.enums:
            raise DescriptorError(f"enum {name!r} has no values, or is there twice")
        self.enums[name] = EnumDescriptor(name, features[ENUM_TYPE] == CLOSED, values, next(iter(values)))

    def _resolve(self, field: FieldDescriptor, inside: MessageDescriptor, file: _FileScope) -> None:
        if field.kind not in (FieldType.MESSAGE, FieldType.GROUP, FieldType.ENUM):
            return
        names = _candidate_names(field.type_name, inside.name)
        if field.kind is FieldType.ENUM:
            field.enum = next((self.enums[each] for each in names if each in self.enums), None)
            # As Java's library: what a proto2 file says about an enum of another file counts, too.
            field.closed = field.enum is not None and (field.enum.closed or file.is_proto2)
        else:
            field.message = next((self.messages[each] for each in names if each in self.messages), None)
            field.delimited = field.delimited and not field.is_map
        if field.enum is None and field.message is None:
            away = ", ".join(sorted(set(file.dependencies) - self.files))
            raise DescriptorError(
                f"the type {field.type_name} of {inside.name}.{field.name} is not in the descriptor set"
                + (f", nor is the file {away} which {file.name} imports" if away else "")
                + ": make it with protoc --include_imports --descriptor_set_out"
            )


def _join_names(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _candidate_names(name: str, scope: str) -> list[str]:
    """The full names that a name may stand for; with a dot in front it is one."""
    if name.startswith("."):
        return [name[1:]]
    parts = scope.split(".")
    return [_join_names(".".join(parts[:most]), name) for most in range(len(parts), -1, -1)]


def _signed(number: int) -> int:
    """A 32-bit number as it is meant."""
    return (number & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def message_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message with their numbers, in their order.  ValueError where it is none.

    >>> list(message_fields(bytes.fromhex("0a0161 109601")))
    [(1, b'a'), (2, 150)]
    """
    position = 0
    while position < len(data):
        tag, position = varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            number, position = varint(data, position)
            yield tag >> 3, number
            continue
        size = {I64: 8, I32: 4}.get(kind, -1)
        if kind == LEN:
            size, position = varint(data, position)
        if size < 0 or size > len(data) - position or not tag >> 3:
            raise ValueError(f"no field at byte {position}")
        value, position = data[position : position + size], position + size
        yield tag >> 3, value


def varint(data: bytes, start: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = 0
    for place in range(MOST_VARINT):
        if start + place >= len(data):
            break
        number |= (data[start + place] & 0x7F) << 7 * place
        if data[start + place] < 0x80:
            return number & (1 << 64) - 1, start + place + 1
    raise ValueError(f"no number at byte {start}")
