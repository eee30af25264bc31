"""Builds the sdist and the wheels into ``dist``, looks them through and lists them."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tools.wheels.build import ROOT, BuildError, epoch, make_sdist, make_wheel, unpacked
from tools.wheels.checks import check_wheel
from tools.wheels.pack import info_of, read_wheel, write_wheel
from tools.wheels.sbom import NAME, make_sbom
from tools.wheels.targets import TARGETS, Target

HEADINGS = ("file", "KiB", "platform", "glibc", "SHA-256", "checked by")


def main(arguments: list[str] | None = None) -> int:
    """Build what is asked for; exit status 1 where something is wrong with it."""
    said = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    said.add_argument("--only", choices=sorted(TARGETS), action="append", help="this wheel, and no sdist in the list")
    said.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder that they come into (dist)")
    said.add_argument("--no-load", action="store_true", help="check them without loading them")
    chosen = said.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    rows, wrong = [], []
    try:
        time = epoch()
        with tempfile.TemporaryDirectory() as made:
            sdist = make_sdist(Path(made), time)
            if not chosen.only:
                rows.append(_row(_kept(sdist, chosen.out), "any", "", "the wheels are built from it"))
            for name in chosen.only or TARGETS:
                target = TARGETS[name]
                print(f"building {target.tag}", file=sys.stderr, flush=True)
                wheel = _kept(_finished(sdist, target, Path(made, name), time), chosen.out)
                verdict = check_wheel(wheel, target, load=not chosen.no_load)
                rows.append(_row(wheel, target.tag, verdict.glibc, ", ".join(verdict.by)))
                wrong += [f"{wheel.name}: {each}" for each in verdict.wrong]
    except BuildError as error:
        wrong.append(str(error))
    _show(rows)
    for each in wrong:
        print(f"wheels: {each}", file=sys.stderr)
    return bool(wrong)


def _finished(sdist: Path, target: Target, folder: Path, time: int) -> Path:
    """A wheel with its bill of materials."""
    folder.mkdir()
    tree = unpacked(sdist, folder / "source")
    wheel = make_wheel(target, tree, folder, time)
    files = read_wheel(wheel)
    files[f"{info_of(files)}/sboms/{NAME}"] = make_sbom(tree, ROOT / "uv.lock", target.tag, time)
    write_wheel(wheel, files, time)
    return wheel


def _kept(file: Path, folder: Path) -> Path:
    return Path(shutil.copyfile(file, folder / file.name))


def _row(file: Path, tag: str, glibc: str, by: str) -> tuple[str, ...]:
    size, digest = file.stat().st_size >> 10, hashlib.sha256(file.read_bytes()).hexdigest()
    return (file.name, f"{size}", tag, glibc, digest[:12], by)


def _show(rows: list[tuple[str, ...]]) -> None:
    if rows:
        widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
        for row in (HEADINGS, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
