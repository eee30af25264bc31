"""A provider of tokens for tests, as a user would write one: unsecured tokens, which ``Broker(tokens=True)`` takes.

Usage::

    desk = Desk(tmp_path, lifetime_s=10)          # the folder by which test and provider talk, in whatever process it runs
    options = token_options(broker, desk)         # kafka.* options; the provider is tests.kit.tokens:unsecured
    desk.fails = "the identity provider is away"  # from now on it raises this; "" ends it
    desk.calls()                                  # (pid, subject, end) of each call that returned, in order

The file needs nothing of the tests, so that it can be shipped by itself (--py-files).
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def token(subject: str, ends: float, began: float | None = None) -> str:
    """An unsecured JSON web token (RFC 7515, A.5)."""
    claims = {"sub": subject, "iat": began or time.time(), "exp": ends}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def unsecured(settings: Mapping[str, str]) -> tuple[str, float]:
    """The provider: ``sasl.oauthbearer.config`` is the desk's folder."""
    folder = Path(settings["sasl.oauthbearer.config"])
    asked = json.loads((folder / "desk.json").read_text())
    if asked["fails"]:
        with (folder / "failures").open("a") as failures:
            failures.write(f"{os.getpid()} {time.time()}\n")
        raise ConnectionError(asked["fails"])
    ends = time.time() + asked["lifetime_s"]
    with (folder / "calls").open("a") as calls:
        calls.write(f"{os.getpid()} {asked['subject'] or '?'} {ends}\n")
    return token(asked["subject"], ends), ends


class Desk:
    """What the provider is to do, and what it has done."""

    def __init__(self, folder: Path, *, lifetime_s: float = 300, subject: str = "alice") -> None:
        """``folder`` exists."""
        self.folder = folder
        self._asked: dict[str, Any] = {"fails": "", "lifetime_s": lifetime_s, "subject": subject}
        self._write()

    @property
    def fails(self) -> str:
        """What it raises; nothing where that is empty."""
        return str(self._asked["fails"])

    @fails.setter
    def fails(self, words: str) -> None:
        """Raise this from now on; "" makes tokens again."""
        self._asked["fails"] = words
        self._write()

    def become(self, subject: str, lifetime_s: float | None = None) -> None:
        """Make tokens of this subject from now on."""
        self._asked |= {"subject": subject} | ({} if lifetime_s is None else {"lifetime_s": lifetime_s})
        self._write()

    def calls(self) -> list[tuple[int, str, float]]:
        """Process, subject and end of each token that was made."""
        lines = self._lines("calls")
        return [(int(pid), subject, float(ends)) for pid, subject, ends in lines]

    def failures(self) -> list[tuple[int, float]]:
        """Process and time of each call that failed."""
        return [(int(pid), float(at)) for pid, at in self._lines("failures")]

    def _lines(self, name: str) -> list[list[str]]:
        file = self.folder / name
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def _write(self) -> None:
        new = self.folder / "desk.new"
        new.write_text(json.dumps(self._asked))
        new.rename(self.folder / "desk.json")


def token_conf(bootstrap: str, desk: Desk, provider: str = "tests.kit.tokens:unsecured") -> dict[str, str]:
    """librdkafka's settings of a client that logs in with the desk's tokens."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.provider": provider,
        "sasl.oauthbearer.config": str(desk.folder),
    }


def token_options(bootstrap: str, desk: Desk, provider: str = "tests.kit.tokens:unsecured") -> dict[str, str]:
    """The same as options of the source."""
    conf = token_conf(bootstrap, desk, provider)
    return {f"kafka.{name}": value for name, value in conf.items() if name != "sasl.mechanisms"}
