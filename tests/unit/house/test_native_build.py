"""The native part as it was built: what a compiler and a linker can do against mistakes in C is done."""

from __future__ import annotations

import ast
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sparkcohort.native import _native

SEGMENT, DYNAMIC = struct.Struct("<IIQQQQQQ"), struct.Struct("<qQ")  # of 64 bits, little endian
SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_SYMTAB, DT_FLAGS, DT_FLAGS_1 = 5, 6, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW = 8, 1
EXECUTABLE = 1
X86_64, ENDBR64 = 62, b"\xf3\x0f\x1e\xfa"
SETUP = Path(__file__).resolve().parents[3] / "setup.py"


class Segment(NamedTuple):
    """A part of the file as the loader sees it."""

    kind: int
    flags: int
    at: int
    address: int
    size: int


def segments(data: bytes) -> Iterator[Segment]:
    """The program headers."""
    assert data[:6] == b"\x7fELF\2\1"
    (at,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, flags, offset, address, _, in_file, _, _ = SEGMENT.unpack_from(data, at + number * size)
        yield Segment(kind, flags, offset, address, in_file)


def tags(data: bytes) -> dict[int, int]:
    """What the loader is told."""
    (dynamic,) = (segment for segment in segments(data) if segment.kind == PT_DYNAMIC)
    return dict(DYNAMIC.iter_unpack(data[dynamic.at : dynamic.at + dynamic.size]))


def defined(data: bytes) -> dict[str, int]:
    """What others can link to, and where it is loaded; the table of symbols ends where that of names begins, and both are where they are loaded."""
    told = tags(data)
    names = data[told[DT_STRTAB] :]
    table = data[told[DT_SYMTAB] : told[DT_STRTAB]]
    whole = table[: len(table) // SYMBOL.size * SYMBOL.size]
    return {
        names[name : names.index(b"\0", name)].decode(): address
        for name, _, _, section, address, _ in SYMBOL.iter_unpack(whole)
        if section
    }


def lands(data: bytes, address: int) -> bool:
    """Whether what is loaded to an address begins with x86's mark of a place that may be jumped to."""
    (segment,) = (each for each in segments(data) if each.kind == PT_LOAD and 0 <= address - each.address < each.size)
    return data[segment.at + address - segment.address :].startswith(ENDBR64)


def lacking(data: bytes) -> list[str]:
    """What of the usual hardening a built module has not."""
    found = {segment.kind: segment for segment in segments(data)}
    told, symbols = tags(data), defined(data)
    (machine,) = struct.unpack_from("<H", data, 18)
    has = {
        "-z relro": PT_GNU_RELRO in found,
        "-z now": told.get(DT_FLAGS, 0) & DF_BIND_NOW or told.get(DT_FLAGS_1, 0) & DF_1_NOW,
        "-z noexecstack": not found[PT_GNU_STACK].flags & EXECUTABLE,
        "-fstack-protector-strong": b"\0__stack_chk_fail\0" in data,
        "-D_FORTIFY_SOURCE": b"_chk\0" in data,
        "-fcf-protection": machine != X86_64 or all(lands(data, address) for address in symbols.values()),
        "-fvisibility=hidden": {name[:7] for name in symbols} == {"PyInit_"},
    }
    return [flag for flag, there in has.items() if not there]


def test_it_is_hardened() -> None:
    """Guards on the stack, checked copies, a table of addresses that is read-only from the start, no code on the stack.

    On x86 jumps land where they may, and nothing but the module's own entry can be linked to.
    """
    assert lacking(Path(str(_native.__file__)).read_bytes()) == []


def test_pages_of_the_stack_are_touched_one_by_one() -> None:
    """That can't be seen in a module without large frames: by the flags that it is built with a large one is touched so."""
    given = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(SETUP.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and "HARDENED" in node.targets[0].id
    }
    flags = [*given["HARDENED"], *given["HARDENED_WHERE_KNOWN"]]
    large = b"void take(char *); void large(void) { char all[1 << 16]; take(all); }"

    def compiled(*flags: str) -> bytes:
        command = ["cc", "-O2", *flags, "-x", "c", "-S", "-o", "-", "-"]
        return subprocess.run(command, input=large, check=True, capture_output=True, timeout=60).stdout

    without = [flag for flag in flags if flag != "-fstack-clash-protection"]
    assert len(without) == len(flags) - 1
    assert compiled(*flags) != compiled(*without)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Of a library that is built without any of it."""
    built = tmp_path / "bare.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-Wl,-z,norelro,-z,lazy,-z,execstack",
    ]
    source = b"int entry(int number) { return number; }"
    subprocess.run([*command, "-x", "c", "-o", built, "-"], input=source, check=True, capture_output=True, timeout=60)
    assert len(lacking(built.read_bytes())) == 7
