"""What wheels there are, and what each may ask of the system that it is installed on."""

from __future__ import annotations

from typing import NamedTuple

OLDEST_GLIBC = (2, 17)
"""The ``manylinux_2_17`` of the tag, also called manylinux2014: every distribution that has Python 3.11."""

MUSL = (1, 2)
"""The ``musllinux_1_2`` of the tag: Alpine 3.13 and newer."""

MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
"""How ELF calls them."""

GLIBC_PARTS = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2")


class Target(NamedTuple):
    """One wheel."""

    name: str
    machine: str
    libc: str

    @property
    def triple(self) -> str:
        """As zig calls it: with the oldest glibc whose symbols may be used."""
        version = f".{OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]}" if self.libc == "gnu" else ""
        return f"{self.machine}-linux-{self.libc}{version}"

    @property
    def tag(self) -> str:
        """The platform in the wheel's name."""
        kind, (major, minor) = ("manylinux", OLDEST_GLIBC) if self.libc == "gnu" else ("musllinux", MUSL)
        return f"{kind}_{major}_{minor}_{self.machine}"

    @property
    def musl(self) -> str:
        """The file name of musl's libc, as musllinux has it."""
        return f"libc.musl-{self.machine}.so.1"

    @property
    def libraries(self) -> frozenset[str]:
        """What its native part may be linked with; all else is found at run time, in what pip installs beside it."""
        if self.libc == "musl":
            return frozenset({self.musl})
        loader = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}[self.machine]
        return frozenset({*GLIBC_PARTS, loader})


TARGETS = {
    each.name: each
    for each in (
        Target("manylinux-x86-64", "x86_64", "gnu"),
        Target("manylinux-aarch64", "aarch64", "gnu"),
        Target("musllinux-x86-64", "x86_64", "musl"),
        Target("musllinux-aarch64", "aarch64", "musl"),
    )
}
