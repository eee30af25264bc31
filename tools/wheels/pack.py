"""A wheel packed anew: with one file more, in one order and at one time."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import time
import zipfile
from pathlib import Path

MODE = 0o100644 << 16
EARLIEST = 315532800  # 1980: a zip file knows nothing older


def read_wheel(path: Path) -> dict[str, bytes]:
    """Its files by name."""
    with zipfile.ZipFile(path) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def info_of(files: dict[str, bytes]) -> str:
    """The name of its folder of metadata."""
    return next(name.partition("/")[0] for name in files if name.endswith(".dist-info/WHEEL"))


def write_wheel(path: Path, files: dict[str, bytes], at: int) -> None:
    """Write them, with their list (``RECORD``), which comes last as in all wheels."""
    record = f"{info_of(files)}/RECORD"
    files = {name: data for name, data in sorted(files.items()) if name != record}
    files[record] = _record(files, record)
    when = time.gmtime(max(at, EARLIEST))[:6]
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr, entry.create_system, entry.compress_type = MODE, 3, zipfile.ZIP_DEFLATED
            packed.writestr(entry, data, compresslevel=9)


def wrong_in_record(files: dict[str, bytes]) -> list[str]:
    """What the list doesn't name, names and has not, or has another hash of."""
    record = f"{info_of(files)}/RECORD"
    said = list(csv.reader(io.StringIO(files[record].decode())))
    real = list(csv.reader(io.StringIO(_record({k: v for k, v in files.items() if k != record}, record).decode())))
    return sorted({row[0] for row in real if row not in said} | {row[0] for row in said if row not in real})


def _record(files: dict[str, bytes], record: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([record, "", ""])
    return text.getvalue().encode()
