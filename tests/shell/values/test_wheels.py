"""Wheels as they are built where something is missing: what they say then, what they can do, and whose notices they carry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BOOTSTRAP = ROOT / "tools" / "bootstrap.sh"
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pyspark_cohort.py")
ROOMS = ["sparkcohort", *sorted(path.name for path in (ROOT / "sparkcohort").iterdir() if path.is_symlink())]
NO_INDEX = {"PIP_NO_INDEX": "1"}
NO_COMPILER = {"CC": "false"}
USER = """
import json, logging, sys
import pyarrow as pa
logging.basicConfig(stream=sys.stderr, format="%(message)s")
from sparkcohort import native
from sparkcohort.runtime.shell.kafka.consumer.new_source import native as native_source
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.avro.schema import parse_schema
from sparkcohort.runtime.values.types import INT, struct

native_source()
rows = []
for _ in range(2):
    for values, record in (JsonValues(struct({"n": INT})), b'{"n":7}'), (AvroValues(parse_schema('"int"')), b"\\x0e"):
        what, bad = values.decode(pa.array([record, b"\\xff"], pa.binary()))
        rows.append([what.to_pylist(), len(bad)])
print(json.dumps({"missing": sorted(native.missing()), "rows": rows}))
"""

pytestmark = pytest.mark.timeout(600)


class Wheel:
    """A wheel of this tree, built in a folder with nothing in it but the sources."""

    def __init__(self, folder: Path, kept: bool, **environment: str) -> None:
        self.folder, tree = folder / "wheel", folder / "tree"
        tree.mkdir()
        for name in SOURCES:
            shutil.copy(ROOT / name, tree)
        for name in ROOMS:
            shutil.copytree(
                ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("*.so", "__pycache__")
            )
        if kept:
            shutil.copytree(ROOT / ".cache" / "sources", tree / ".cache" / "sources")
        command = [str(BOOTSTRAP), "uv", "build", "--wheel", "--out-dir", str(folder / "dist"), str(tree)]
        built = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=500, check=False
        )
        assert built.returncode == 0, built.stderr
        self.said = [line for line in built.stderr.splitlines() if line.startswith("sparkcohort:")]
        with zipfile.ZipFile(next((folder / "dist").glob("*.whl"))) as packed:
            packed.extractall(self.folder)

    def notices(self) -> list[str]:
        """The licence files that its metadata names, read."""
        (info,) = self.folder.glob("*.dist-info")
        lines = (info / "METADATA").read_text().partition("\n\n")[0].splitlines()
        return [
            (info / "licenses" / line.split(": ")[1]).read_text() for line in lines if line.startswith("License-File:")
        ]

    def use(self) -> tuple[dict[str, Any], list[str]]:
        """What a program that decodes with it prints, and what is logged."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-P", "-c", USER],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr.splitlines()


ROWS = [[[{"n": 7}, None], 1], [[7, None], 1]] * 2


def test_a_whole_wheel_carries_the_notices(tmp_path: Path) -> None:
    """Ours and yyjson's, whose code is in it; nothing is said, while it is built or used."""
    wheel = Wheel(tmp_path, kept=True, **NO_INDEX)
    ours, theirs = wheel.notices()
    assert "Apache License" in ours
    assert "yyjson.c and yyjson.h are used under the following license" in theirs
    assert "YaoYuan" in theirs
    assert wheel.said == []
    assert wheel.use() == ({"missing": [], "rows": ROWS}, [])


@pytest.mark.thorough("a wheel without yyjson")
def test_without_the_source_of_yyjson(tmp_path: Path) -> None:
    """One sentence while it is built, one warning where it is used; Kafka and Avro are read natively, JSON as well as ever."""
    wheel = Wheel(tmp_path, kept=False, **NO_INDEX)
    (sentence,) = wheel.said
    assert "no source of yyjson" in sentence
    assert "JSON in Python" in sentence
    assert len(wheel.notices()) == 1
    used, (warning,) = wheel.use()
    assert used == {"missing": ["_json"], "rows": ROWS}
    assert warning.startswith("the native part _json can't be loaded")
    assert "_drain" not in warning
    assert "JSON is read in Python" in warning


@pytest.mark.thorough("a wheel without a compiler")
def test_without_a_compiler(tmp_path: Path) -> None:
    """All of it in Python, which one warning tells of both parts."""
    used, (warning,) = Wheel(tmp_path, kept=True, **NO_COMPILER).use()
    assert used == {"missing": ["_drain", "_json"], "rows": ROWS}
    assert "_drain and the native part _json can't be loaded" in warning
    assert "Kafka's records and Avro and JSON are read in Python" in warning
