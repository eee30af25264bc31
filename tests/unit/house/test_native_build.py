"""The native part as it was built: what a compiler and a linker can do against mistakes in C is done."""

from __future__ import annotations

import ast
import platform
import re
import subprocess
from pathlib import Path

from sparkcohort.native import _native

SETUP = Path(__file__).resolve().parents[3] / "setup.py"


def output(*command: str | Path) -> str:
    """What a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def lacking(module: Path) -> list[str]:
    """What of the usual hardening a built module has not, as binutils show it."""
    shown = output("readelf", "--wide", "--segments", "--dynamic", "--dyn-syms", module)
    offered = re.findall(r"(?:GLOBAL|WEAK) +DEFAULT +(?!UND)\w+ (\S+)", shown)
    entry = output("objdump", f"--disassemble={offered[0]}", module)
    has = {
        "-z relro": "GNU_RELRO" in shown,
        "-z now": "BIND_NOW" in shown or re.search(r"FLAGS_1.*NOW", shown),
        "-z noexecstack": re.search(r"GNU_STACK .* RW +0x", shown),
        "-fstack-protector-strong": "__stack_chk_fail" in shown,
        "-D_FORTIFY_SOURCE": re.search(r"\w_chk\b", shown),
        "-fcf-protection": platform.machine() != "x86_64" or "endbr64" in entry,
        "-fvisibility=hidden": [name[:7] for name in offered] == ["PyInit_"],
    }
    return [flag for flag, there in has.items() if not there]


def test_it_is_hardened() -> None:
    """Guards on the stack, checked copies, a table of addresses that is read-only from the start, no code on the stack.

    On x86 jumps land where they may, and nothing but the module's own entry can be linked to.
    """
    assert lacking(Path(str(_native.__file__))) == []


def test_it_is_built_to_touch_pages_of_the_stack_one_by_one() -> None:
    """That can't be seen in a module without large frames."""
    given = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(SETUP.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and "HARDENED" in node.targets[0].id
    }
    assert "-fstack-clash-protection" in [*given["HARDENED"], *given["HARDENED_WHERE_KNOWN"]]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Of a library that is built without any of it."""
    built = tmp_path / "bare.so"
    flags = ["-fno-stack-protector", "-fcf-protection=none", "-Wl,-z,norelro,-z,lazy,-z,execstack"]
    command = ["cc", "-shared", "-fPIC", *flags, "-x", "c", "-o", str(built), "-"]
    source = b"int entry(int number) { return number; }"
    subprocess.run(command, input=source, check=True, capture_output=True, timeout=60)
    assert len(lacking(built)) == 7
