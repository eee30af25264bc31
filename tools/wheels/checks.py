"""Whether a wheel is what its name says: by ``auditwheel``, ``abi3audit``, what its files ask for, and loading it where that can be done here."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tools.wheels.build import ROOT, musl_symbols
from tools.wheels.elf import read_part, wrong_in_part
from tools.wheels.pack import info_of, read_wheel, wrong_in_record
from tools.wheels.sbom import NAME
from tools.wheels.targets import Target

NATIVE = "sparkcohort/native/_native.abi3.so"
FOREIGN = ROOT / ".cache" / "foreign"
TOOL_S, INSTALL_S, LOAD_S = 300, 600, 300
LOADED = "loaded"


class Verdict(NamedTuple):
    """What was found."""

    wrong: list[str]
    by: list[str]
    glibc: str


def check_wheel(path: Path, target: Target, *, load: bool) -> Verdict:
    """Look at a wheel in every way there is here."""
    files = read_wheel(path)
    wrong = [f"{each} is not as RECORD says" for each in wrong_in_record(files)]
    wanted = [NATIVE, f"{info_of(files)}/sboms/{NAME}"]
    wrong += [f"{each} is missing" for each in wanted if each not in files]
    if wrong:
        return Verdict(wrong, [], "?")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        libc, known = frozenset[str](), folder / "libc"
        known.mkdir()
        if target.libc == "musl":
            libc = read_part(musl_symbols(target, known).read_bytes()).offered
        part = read_part(files[NATIVE])
        wrong += wrong_in_part(NATIVE, part, target, libc)
        wrong += _audited(path, target, known)
        by = ["auditwheel", "abi3audit", "its ELF"]
        if load:
            found, how = _loaded(path, target, folder)
            wrong += found
            by.append(how)
    return Verdict(wrong, by, ".".join(map(str, part.highest_glibc())) or "none")


def _tool(command: list[str], timeout: int = TOOL_S, **more: str) -> tuple[bool, str]:
    """Whether it ended well, and its words in one line."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return not done.returncode, " ".join((done.stdout + done.stderr).split())


def _audited(path: Path, target: Target, known: Path) -> list[str]:
    """What the two auditors of PyPA and Trail of Bits say against it."""
    wrong = []
    _, words = _tool(["auditwheel", "show", "--ldpaths", str(known), str(path)])
    if f'is consistent with the following platform tag: "{target.tag}"' not in words:
        wrong.append(f"auditwheel: {words[-500:]}")
    well, words = _tool(["abi3audit", "--strict", "--assume-minimum-abi3", "3.11", str(path)])
    if not well:
        wrong.append(f"abi3audit: {words[-500:]}")
    return wrong


def _loaded(path: Path, target: Target, folder: Path) -> tuple[list[str], str]:
    """Load it, by the best that there is here; says how, or that it could not be."""
    if target.libc == "musl":
        return _by_musl(path, target, folder)
    if target.machine == platform.machine():
        return _by_python(path, target, folder, [sys.executable])
    emulator, root = FOREIGN / f"qemu-{target.machine}", FOREIGN / target.machine
    python = root / "usr" / "bin" / "python3.11"
    if not (emulator.exists() and python.exists()):
        return [], f"not loaded: no Python for {target.machine} here"
    return _by_python(path, target, folder, [str(emulator), "-L", str(root), str(python)])


def _by_python(path: Path, target: Target, folder: Path, python: list[str]) -> tuple[list[str], str]:
    """Installed with what it needs, by wheels alone, and two records decoded."""
    there = folder / "there"
    system = f"{target.machine}-manylinux_2_28"
    options = ["--python-platform", system, "--python-version", "3.11", "--only-binary", ":all:", "--target"]
    install = ["tools/bootstrap.sh", "uv", "pip", "install", "--quiet", "--no-config", *options, str(there)]
    well, words = _tool([*install, str(path)], INSTALL_S, UV_COMPILE_BYTECODE="0")
    if well:
        program = str(ROOT / "tools" / "wheels" / "decode_one.py")
        well, words = _tool([*python, program], LOAD_S, PYTHONPATH=str(there), PYTHONHOME="")
    by = f"a Python on {target.machine}" + (" (qemu)" if len(python) > 1 else "")
    return [] if well and words.endswith(LOADED) else [f"{by}: {words[-500:]}"], f"{LOADED} by {by}"


def _by_musl(path: Path, target: Target, folder: Path) -> tuple[list[str], str]:
    """Musl's own loader finds all symbols, but those that a Python would have: there is none for musl here."""
    loader = FOREIGN / f"musl-{target.machine}" / "lib" / f"{target.machine}-linux-musl" / "libc.so"
    emulator = FOREIGN / f"qemu-{target.machine}"
    before = [] if target.machine == platform.machine() else [str(emulator)]
    if not loader.exists() or (before and not emulator.exists()):
        return [], "not loaded: no musl here"
    part = folder / Path(NATIVE).name
    part.write_bytes(read_wheel(path)[NATIVE])
    _, words = _tool([*before, str(loader), "--list", str(part)], LOAD_S)
    # "Error relocating FILE: NAME: symbol not found", one after the other
    unknown = [each.split(": ")[-1] for each in words.split(": symbol not found")[:-1]]
    foreign = [each for each in unknown if not each.startswith(("Py", "_Py"))]
    wrong = [f"musl's loader: {words[-500:]}"] if foreign or not unknown else []
    return wrong, f"resolved by musl's loader on {target.machine}" + (" (qemu)" if before else "")
