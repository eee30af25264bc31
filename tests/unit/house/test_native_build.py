"""The native part as it was built: what a compiler and a linker can do against mistakes in C is done."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from sparkcohort.native import _drain, _json

SEGMENT, DYNAMIC = struct.Struct("<IIQQQQQQ"), struct.Struct("<qQ")  # of 64 bits, little endian
PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
DT_FLAGS, DT_FLAGS_1 = 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW = 8, 1
EXECUTABLE = 1


class Segment(NamedTuple):
    """A part of the file as the loader sees it."""

    kind: int
    flags: int
    at: int
    size: int


def segments(data: bytes) -> Iterator[Segment]:
    """The program headers."""
    assert data[:6] == b"\x7fELF\2\1"
    (at,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, flags, offset, _, _, in_file, _, _ = SEGMENT.unpack_from(data, at + number * size)
        yield Segment(kind, flags, offset, in_file)


@pytest.mark.parametrize("module", [_drain, _json])
def test_it_is_hardened(module: ModuleType) -> None:
    """Stack protector, checked copies (FORTIFY), a table of addresses that is read-only from the start, no code on the stack."""
    data = Path(str(module.__file__)).read_bytes()
    found = {segment.kind: segment for segment in segments(data)}
    assert PT_GNU_RELRO in found
    assert not found[PT_GNU_STACK].flags & EXECUTABLE
    dynamic = found[PT_DYNAMIC]
    tags = dict(DYNAMIC.iter_unpack(data[dynamic.at : dynamic.at + dynamic.size]))
    assert tags.get(DT_FLAGS, 0) & DF_BIND_NOW or tags.get(DT_FLAGS_1, 0) & DF_1_NOW
    assert b"\0__stack_chk_fail\0" in data
    assert b"_chk\0" in data


@pytest.mark.parametrize("module", [_drain, _json])
def test_it_offers_itself_and_nothing_else(module: ModuleType) -> None:
    """What is compiled in is for this module: a function that others can see could be taken from, or given to, another library."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(module.__file__)], capture_output=True, text=True, timeout=60, check=True
    )
    offered = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert offered == {f"PyInit_{module.__name__.rpartition('.')[2]}"}
