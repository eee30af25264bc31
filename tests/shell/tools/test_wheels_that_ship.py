"""One of the wheels of ``make wheels``, built as all of them are: it needs no compiler where it is installed, and says what is in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.kit.interpreters import OURS, linked, undisturbed

ROOT = Path(__file__).resolve().parents[3]
BUILDER = ROOT / ".venv-wheels" / "bin" / "python"
UV = ROOT / ".cache" / "uv" / "bin" / "uv"
NATIVE = "sparkcohort/native/_native.abi3.so"
VALID = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""
JUDGE = """
import sys
from pathlib import Path
from tools.wheels.checks import check_wheel
from tools.wheels.targets import TARGETS
print(*check_wheel(Path(sys.argv[1]), TARGETS[sys.argv[2]], load=False).wrong, sep="\\n")
"""
pytestmark = [pytest.mark.thorough("a wheel for another system"), pytest.mark.timeout(900)]


def run(*command: str | Path, stdin: str = "", **environment: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=ROOT,
        env={**undisturbed(), **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manylinux wheel for x86-64, from the sdist, looked through by the auditors."""
    out = tmp_path_factory.mktemp("wheels")
    listed = run(BUILDER, "-P", "tools/wheels", "--only", "manylinux-x86-64", "--no-load", "--out", out)
    assert "manylinux_2_17_x86_64  2.14" in listed
    assert "auditwheel, abi3audit, its ELF" in listed
    (made,) = out.glob("*.whl")
    return made


def bill(wheel: Path) -> dict[str, Any]:
    """Its SBOM."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [each for each in packed.namelist() if ".dist-info/sboms/" in each]
        found: dict[str, Any] = json.loads(packed.read(name))
    return found


def test_it_needs_no_compiler(wheel: Path, tmp_path: Path) -> None:
    """Installed into an environment where no program is found, the native part loads and decodes."""
    python = linked(tmp_path / "env", OURS)
    empty = tmp_path / "bin"
    empty.mkdir()
    alone = {"PATH": str(empty), "CC": "false"}
    assert shutil.which("cc", path=alone["PATH"]) is None
    run(UV, "pip", "install", "--quiet", "--no-deps", "--offline", "--python", python, wheel, **alone)
    assert run(python, "-P", "tools/wheels/decode_one.py", **alone) == "loaded\n"


def test_it_brings_the_jar(wheel: Path) -> None:
    """Which git ignores, being made."""
    with zipfile.ZipFile(wheel) as packed:
        assert "sparkcohort/jars/cohort.jar" in packed.namelist()


def test_its_bill_says_what_is_in_it_and_what_comes_beside(wheel: Path) -> None:
    """CycloneDX by its schema; yyjson with the hash of its pin; each dependency as it was tested, linked from us."""
    found = bill(wheel)
    assert run(BUILDER, "-c", VALID, stdin=json.dumps(found)) == "None\n"
    by_name = {each["name"]: each for each in found["components"]}
    (source,) = by_name["yyjson"]["externalReferences"]
    assert source["hashes"][0]["content"] in (ROOT / "native" / "yyjson.txt").read_text()
    assert "compiled into" in by_name["yyjson"]["properties"][0]["value"]
    assert by_name["confluent-kafka"]["scope"] == "required"
    assert by_name["pyspark"]["scope"] == by_name["py4j"]["scope"] == "optional"
    ours = found["metadata"]["component"]["bom-ref"]
    linked_to = next(each["dependsOn"] for each in found["dependencies"] if each["ref"] == ours)
    assert {by_name["yyjson"]["bom-ref"], by_name["pyarrow"]["bom-ref"]} <= set(linked_to)


def test_what_is_not_as_its_name_says_is_found(wheel: Path, tmp_path: Path) -> None:
    """A wheel without a native part, one for another processor or libc, and one that was changed."""
    with zipfile.ZipFile(wheel) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    broken = {
        "missing": {name: data for name, data in files.items() if name != NATIVE},
        "changed": {**files, "pyspark_cohort.py": b"# nothing\n"},
    }
    wrong = {}
    for what, kept in broken.items():
        path = tmp_path / what / wheel.name
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in kept.items():
                packed.writestr(name, data)
        wrong[what] = judged(path, "manylinux-x86-64")
    assert f"{NATIVE} is missing" in wrong["missing"]
    assert wrong["changed"] == ["pyspark_cohort.py is not as RECORD says"]
    other = judged(wheel, "musllinux-aarch64")
    assert f"{NATIVE} is for EM_X86_64" in other
    assert any("_native.abi3.so is linked with libc.so.6" in each for each in other)
    assert any("_native.abi3.so asks musl for __memcpy_chk" in each for each in other)
    assert any(each.startswith("auditwheel: ") for each in other)


def judged(path: Path, target: str) -> list[str]:
    """What is wrong with a wheel for a target."""
    return run(BUILDER, "-c", JUDGE, path, target, PYTHONPATH=str(ROOT)).splitlines()
