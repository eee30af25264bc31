"""Proto2's defaults, which a descriptor has as texts, as the bits or the bytes that a step has."""

from __future__ import annotations

import re
import struct

from sparkcohort.runtime.values.protobuf.descriptor import DescriptorError, FieldDescriptor, FieldType

_FLOATS = {FieldType.FLOAT: ("<f", "<I"), FieldType.DOUBLE: ("<d", "<q")}
_INT, _LONG = (1 << 32) - 1, (1 << 64) - 1
_NARROW = (FieldType.INT32, FieldType.UINT32, FieldType.SINT32, FieldType.FIXED32, FieldType.SFIXED32, FieldType.ENUM)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def bits(field: FieldDescriptor) -> int:
    """A number's default by its bits, as a signed one of 64.

    >>> bits(FieldDescriptor("f", 1, FieldType.FLOAT, default="1.5")) == 0x3FC00000, bits(FieldDescriptor("b", 1, FieldType.BOOL, default="true"))
    (True, 1)
    """
    text = field.default or ""
    try:
        if field.kind in _FLOATS:
            number, as_bits = _FLOATS[field.kind]
            return int(struct.unpack(as_bits, struct.pack(number, float(text)))[0])
        if field.kind is FieldType.BOOL:
            return {"true": 1, "false": 0}[text]
        value = _enum_number(field, text) if field.enum else int(text)
    except (ValueError, KeyError, OverflowError):
        raise DescriptorError(f"the default of {field.name} is none of its type: {text[:40]!r}") from None
    return value & _INT if field.kind in _NARROW else (value & _LONG ^ 1 << 63) - (1 << 63)


def _enum_number(field: FieldDescriptor, name: str) -> int:
    values = field.enum.values if field.enum else {}
    return {each: number for number, each in values.items()}[name]


def text(field: FieldDescriptor) -> bytes:
    r"""The default of a string, or of bytes, which are written with escapes.

    >>> text(FieldDescriptor("b", 1, FieldType.BYTES, default=r"a\000\xff\n"))
    b'a\x00\xff\n'
    """
    default = (field.default or "").encode()
    return _ESCAPE.sub(_unescape, default) if field.kind is FieldType.BYTES else default


def _unescape(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, letter = match.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    return bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF])
