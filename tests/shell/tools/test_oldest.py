"""The lower bounds of what is declared hold: each dependency at its oldest does what we ask of it."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.kit.interpreters import undisturbed

ROOT = Path(__file__).resolve().parents[3]
OLDEST = ROOT / ".venv-oldest" / "bin" / "python"
USES = (
    "tests/unit/protocol",  # msgspec
    "tests/shell/rpc/test_flight.py",  # pyarrow's Flight, cryptography's certificates
    "tests/shell/cli/test_columns.py",  # click
    "tests/shell/consumer/test_columns.py",  # confluent-kafka, and our own C
    "tests/unit/options/test_topic_pattern.py",  # regex
    "tests/shell/driver/test_metrics_endpoint.py",  # prometheus-client
    "tests/unit/assignors/test_sticky.py",  # numpy
    "tests/shell/kafka/test_token_provider.py",  # the extra aws: the signer
    "tests/shell/registry/test_registry.py",  # the extra registry: httpx2
)
VERSIONS = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"

pytestmark = [pytest.mark.thorough("the oldest dependencies"), pytest.mark.timeout(900)]


def run(*command: str) -> str:
    """What a program of the oldest environment prints; it has to succeed."""
    done = subprocess.run(
        [str(OLDEST), *command], cwd=ROOT, env=undisturbed(), capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(version: str) -> tuple[int, ...]:
    """A version without the zeros at its end."""
    parts = [int(each) for each in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def declared() -> dict[str, str]:
    """The lower bound of each dependency, those of extras too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return dict(each.partition(",")[0].split(">=") for each in (*project["dependencies"], *extras))


def test_the_environment_has_the_lower_bounds() -> None:
    """Each of them, so that nothing else raises one unnoticed."""
    bounds = declared()
    found = dict(zip(bounds, run("-c", VERSIONS, *bounds).split(), strict=True))
    assert {name: numbers(each) for name, each in found.items()} == {
        name: numbers(each) for name, each in bounds.items()
    }


def test_what_uses_them_works() -> None:
    """A few tests for each; ``make test-oldest`` has more, and a stream."""
    assert " passed" in run("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *USES)
