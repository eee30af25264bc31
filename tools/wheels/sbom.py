"""What is in a wheel and what is installed beside it, as CycloneDX (PEP 770): from ``uv.lock``, ``native/yyjson.txt`` and yyjson's header."""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

NAME = "sparkcohort.cdx.json"
SPEC = "1.6"
SPACE = uuid.UUID("5b0a6b0e-9b1c-5a62-8f0e-6a1f6f3d2c11")
IN_WHEEL, BESIDE = (
    "compiled into sparkcohort/native/_native.abi3.so",
    "not in the wheel: pip installs it beside; tested with",
)


def make_sbom(tree: Path, lock: Path, tag: str, time: int) -> bytes:
    """The bill of a wheel that was built from this tree for this platform."""
    locked = tomllib.loads(lock.read_text())["package"]
    ours = next(each for each in locked if each["name"] == "sparkcohort")
    needed, extra = _closure(locked, ours["dependencies"]), []
    for asked in ours.get("optional-dependencies", {}).values():
        extra += [each for each in _closure(locked, asked) if each not in needed and each not in extra]
    parser = _yyjson(tree)
    beside = [_beside(each, "required") for each in needed] + [_beside(each, "optional") for each in extra]
    root = f"pkg:pypi/sparkcohort@{ours['version']}"
    bill: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {
            "timestamp": dt.datetime.fromtimestamp(time, dt.UTC).isoformat().replace("+00:00", "Z"),
            "tools": {
                "components": [{"type": "application", "name": name, "version": version(name)} for name in _TOOLS]
            },
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": "sparkcohort",
                "version": ours["version"],
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [_said("platform", tag)],
            },
        },
        "components": sorted([parser, *beside], key=lambda each: str(each["bom-ref"])),
        "dependencies": _graph(locked, root, ours, [*needed, *extra], parser),
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(SPACE, json.dumps(bill, sort_keys=True))}"
    return json.dumps(bill, indent=1, sort_keys=True).encode() + b"\n"


_TOOLS = ("setuptools", "ziglang")


def _said(name: str, value: str) -> dict[str, str]:
    return {"name": f"sparkcohort:{name}", "value": value}


def _purl(package: dict[str, Any]) -> str:
    return f"pkg:pypi/{package['name']}@{package['version']}"


def _beside(package: dict[str, Any], scope: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _purl(package),
        "scope": scope,
        "properties": [_said("where", f"{BESIDE} {package['version']}")],
    }


def _yyjson(tree: Path) -> dict[str, Any]:
    """The one thing of somebody else's that is in the wheel itself."""
    pin = re.fullmatch(r"(\w+)==([0-9.]+) --hash=sha256:(\w+)\n", (tree / "native" / "yyjson.txt").read_text())
    if pin is None:
        raise ValueError("native/yyjson.txt names no release and its hash")
    package, release, digest = pin.groups()
    header = (tree / ".cache" / "sources" / f"{package}-{release}" / f"{package}.h").read_text()
    found = re.search(r'#define YYJSON_VERSION_STRING "([0-9.]+)"', header)
    if found is None:
        raise ValueError(f"the header of {package} {release} names no version")
    purl = f"pkg:github/ibireme/yyjson@{found[1]}"
    archive = {"alg": "SHA-256", "content": digest}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package,
        "version": found[1],
        "purl": purl,
        "scope": "required",
        "licenses": [{"license": {"id": "MIT"}}],
        "externalReferences": [
            {"type": "source-distribution", "url": f"pkg:pypi/{package}@{release}", "hashes": [archive]}
        ],
        "properties": [_said("where", IN_WHEEL)],
    }


def _closure(locked: list[dict[str, Any]], asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These packages and what they need in turn, on every Python and platform of the lock."""
    found: list[dict[str, Any]] = []
    waiting = [(each, tuple(each.get("extra", ()))) for each in asked]
    seen: set[tuple[str, str | None, tuple[str, ...]]] = set()
    while waiting:
        one, extras = waiting.pop()
        if (key := (one["name"], one.get("version"), extras)) in seen:
            continue
        seen.add(key)
        for package in _named(locked, one):
            if package not in found:
                found.append(package)
            more = [*package.get("dependencies", ())]
            for extra in extras:
                more += package.get("optional-dependencies", {}).get(extra, [])
            waiting += [(each, tuple(each.get("extra", ()))) for each in more]
    return found


def _named(locked: list[dict[str, Any]], asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The locked packages of this name: one, or one for each range of Pythons."""
    versions = (asked["version"],) if "version" in asked else ()
    return [each for each in locked if each["name"] == asked["name"] and (not versions or each["version"] in versions)]


def _graph(
    locked: list[dict[str, Any]],
    root: str,
    ours: dict[str, Any],
    packages: list[dict[str, Any]],
    parser: dict[str, Any],
) -> list[dict[str, Any]]:
    def needs(package: dict[str, Any]) -> list[str]:
        asked = list(package.get("dependencies", ()))
        for extra in package.get("optional-dependencies", {}).values():
            asked += extra
        return sorted({_purl(each) for one in asked for each in _named(locked, one)} & known)

    known = {_purl(each) for each in packages}
    rows = [{"ref": root, "dependsOn": sorted([parser["bom-ref"], *needs(ours)])}]
    return rows + sorted(
        ({"ref": _purl(each), "dependsOn": needs(each)} for each in packages), key=lambda row: str(row["ref"])
    )
