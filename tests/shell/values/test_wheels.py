"""A wheel from the sdist has all that is compiled, with the notices; a tree that lacks something builds none, and says what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BOOTSTRAP = ROOT / "tools" / "bootstrap.sh"
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pyspark_cohort.py")
ROOMS = ["sparkcohort", *sorted(path.name for path in (ROOT / "sparkcohort").iterdir() if path.is_symlink())]
YYJSON = (ROOT / "native" / "yyjson.txt").read_text().split()[0].replace("==", "-")
USER = """
import json
import pyarrow as pa
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.types import INT, struct

rows = []
for values, record in (JsonValues(struct({"n": INT})), b'{"n":7}'), (AvroValues(parse_schema('"int"')), b"\\x0e"):
    decoded, bad = values.decode(pa.array([record, b"\\xff"], pa.binary()))
    rows.append([decoded.to_pylist(), len(bad)])
print(json.dumps(rows))
"""

pytestmark = pytest.mark.timeout(600)


def build(folder: Path, *, parser: bool, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the sdist, and the wheel from it, of a tree with nothing in it but what ships; ``parser``: and yyjson's source."""
    tree = folder / "tree"
    tree.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, tree)
    for name in ROOMS:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    if parser:
        shutil.copytree(ROOT / ".cache" / "sources", tree / ".cache" / "sources")
    command = [str(BOOTSTRAP), "uv", "build", "--out-dir", str(folder / "dist"), str(tree)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)


def test_a_wheel_from_the_sdist_is_whole(tmp_path: Path) -> None:
    """The sdist carries yyjson; the wheel carries what is compiled of it, no source, and the notices of both; it decodes."""
    done = build(tmp_path, parser=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next((tmp_path / "dist").glob("*.tar.gz"))) as packed:
        parser = {name.rpartition("/")[2] for name in packed.getnames() if "/yyjson-" in name}
    assert parser - {YYJSON} == {"LICENSE", "yyjson.c", "yyjson.h"}
    wheel = tmp_path / "wheel"
    shutil.unpack_archive(next((tmp_path / "dist").glob("*.whl")), wheel, "zip")
    files = {path.name for path in (wheel / "sparkcohort" / "native").iterdir() if path.suffix not in (".py", ".pyi")}
    assert files == {"_native.abi3.so", "py.typed"}
    ours, theirs = notices(wheel)
    assert "Apache License" in ours
    assert "yyjson.c and yyjson.h are used under the following license" in theirs
    assert "YaoYuan" in theirs
    command, environment = [sys.executable, "-P", "-c", USER], {**os.environ, "PYTHONPATH": str(wheel)}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True).stdout
    assert json.loads(printed) == [[[{"n": 7}, None], 1], [[7, None], 1]]


def notices(wheel: Path) -> list[str]:
    """The licence files that its metadata names, read."""
    (info,) = wheel.glob("*.dist-info")
    lines = (info / "METADATA").read_text().partition("\n\n")[0].splitlines()
    return [(info / "licenses" / line.split(": ")[1]).read_text() for line in lines if line.startswith("License-File:")]


@pytest.mark.thorough("a build without a source")
def test_without_the_source_of_yyjson(tmp_path: Path) -> None:
    """No wheel; one sentence says which command fetches it."""
    done = build(tmp_path, parser=False)
    assert done.returncode
    assert [line for line in done.stderr.splitlines() if line.startswith("sparkcohort: ")] == [
        f"sparkcohort: the source of yyjson is not in .cache/sources/{YYJSON}: run tools/bootstrap.sh yyjson"
    ]
