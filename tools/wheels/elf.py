"""What a native part asks of the system, read out of its file: works for every processor and libc."""

from __future__ import annotations

import io
from typing import NamedTuple

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from tools.wheels.targets import MACHINES, OLDEST_GLIBC, Target

NOW, NOW_1, EXECUTABLE = 8, 1, 1
X86_64, IBT_AND_SHADOW_STACK = "EM_X86_64", 3
PYTHON = ("Py", "_Py")


class Part(NamedTuple):
    """One shared library."""

    machine: str
    needed: frozenset[str]
    paths: tuple[str, ...]
    wanted: frozenset[str]
    """Symbols of others."""
    offered: frozenset[str]
    """Symbols for others."""
    versions: frozenset[str]
    """Versions of symbols, as ``GLIBC_2.17``."""
    hardened: bool
    lands: bool
    """Whether jumps and returns land where they may; the linker says so of a library if the compiler does of all its parts."""

    def highest_glibc(self) -> tuple[int, ...]:
        """The newest version of glibc that a symbol asks for; nothing where none does."""
        numbers = [name.removeprefix("GLIBC_").split(".") for name in self.versions if name.startswith("GLIBC_")]
        return max((tuple(map(int, each)) for each in numbers), default=())


def read_part(data: bytes) -> Part:
    """Read a library."""
    file = ELFFile(io.BytesIO(data))
    dynamic = next(each for each in file.iter_sections() if isinstance(each, DynamicSection))
    symbols = file.get_section_by_name(".dynsym")
    if not isinstance(symbols, SymbolTableSection):
        raise TypeError("no dynamic symbols")
    tags = list(dynamic.iter_tags())
    segments = {each.header.p_type: each.header.p_flags for each in file.iter_segments()}
    flags = {each.entry.d_tag: each.entry.d_val for each in tags if each.entry.d_tag in ("DT_FLAGS", "DT_FLAGS_1")}
    bound = flags.get("DT_FLAGS", 0) & NOW or flags.get("DT_FLAGS_1", 0) & NOW_1
    relocated = "PT_GNU_RELRO" in segments
    no_code = not segments.get("PT_GNU_STACK", EXECUTABLE) & EXECUTABLE
    named = [each for each in symbols.iter_symbols() if each.name]
    return Part(
        machine=str(file.header.e_machine),
        needed=frozenset(each.needed for each in tags if each.entry.d_tag == "DT_NEEDED"),
        paths=tuple(str(each.entry.d_tag) for each in tags if each.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")),
        wanted=frozenset(each.name for each in named if each.entry.st_shndx == "SHN_UNDEF"),
        offered=frozenset(each.name for each in named if each.entry.st_shndx != "SHN_UNDEF"),
        versions=_versions(file),
        hardened=bool(bound and relocated and no_code),
        lands=str(file.header.e_machine) != X86_64 or _features(file) & IBT_AND_SHADOW_STACK == IBT_AND_SHADOW_STACK,
    )


def _features(file: ELFFile) -> int:
    """What the processor may be asked to look after (``-fcf-protection``), as bits; 0 where nothing is said."""
    notes = (
        note for section in file.iter_sections() if isinstance(section, NoteSection) for note in section.iter_notes()
    )
    properties = (each for note in notes if note.n_type == "NT_GNU_PROPERTY_TYPE_0" for each in note.n_desc)
    return next((each.pr_data for each in properties if each.pr_type == "GNU_PROPERTY_X86_FEATURE_1_AND"), 0)


def _versions(file: ELFFile) -> frozenset[str]:
    found: set[str] = set()
    for section in file.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            found.update(one.name for _, versions in section.iter_versions() for one in versions)
    return frozenset(found)


def wrong_in_part(name: str, part: Part, target: Target, libc: frozenset[str]) -> list[str]:
    """What keeps it from being loaded wherever the wheel can be installed; ``libc``: the names that musl has."""
    module = name.rpartition("/")[2].partition(".")[0]
    wrong = []
    if part.machine != MACHINES[target.machine]:
        wrong.append(f"is for {part.machine}")
    if part.needed - target.libraries or not part.needed:
        wrong.append(f"is linked with {', '.join(sorted(part.needed)) or 'no libc'}")
    if part.paths:
        wrong.append(f"has {', '.join(part.paths)}")
    if part.offered != {f"PyInit_{module}"}:
        wrong.append(f"offers {', '.join(sorted(part.offered))}")
    if part.highest_glibc() > OLDEST_GLIBC:
        wrong.append(f"asks for glibc {'.'.join(map(str, part.highest_glibc()))}")
    if not part.hardened or "__stack_chk_fail" not in part.wanted:
        wrong.append("is not hardened")
    if not part.lands:
        wrong.append("lets jumps land anywhere")
    if target.libc == "gnu" and not any(symbol.endswith("_chk") for symbol in part.wanted):
        wrong.append("copies unchecked")
    # The compiler's own library has one that is slower than libc's; who links it gets all of it.
    if "memcpy" not in part.wanted:
        wrong.append("brings its own memcpy()")
    theirs = {symbol for symbol in part.wanted if not symbol.startswith(PYTHON)}
    if target.libc == "musl" and theirs - libc:
        wrong.append(f"asks musl for {', '.join(sorted(theirs - libc))}")
    return [f"{name} {each}" for each in wrong]
