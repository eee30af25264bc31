"""What brokers and clients say, as it comes into the log."""

from __future__ import annotations

import logging

import pytest

from sparkcohort.runtime.shell.kafka.client_log import CLIENT_LOG, log
from sparkcohort.runtime.text import printable

THREAD = "FAIL [rdkafka#consumer-1] [thrd:main]: "


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("all is well", "all is well"),
        ("für Ärzte – ok", "für Ärzte – ok"),
        ("no\n2026 INFO root: yes", r"no\n2026 INFO root: yes"),
        ("\r\x1b[2J\x00\x9b", r"\r\x1b[2J\x00\x9b"),
        ("left\u202eright\u2028\ud800", r"left\u202eright\u2028\ud800"),
        ("x" * 200, "x" * 19 + "…"),
        ("\n" * 20, r"\n\n\n\n\n\n\n\n\n" + "\\" + "…"),
        ("", ""),
    ],
)
def test_one_line_of_visible_characters(said: str, shown: str) -> None:
    """Nothing ends the line, moves the cursor or turns the writing round; what is too long is cut."""
    assert printable(said, 20 if len(shown) <= 20 else 1_000) == shown


def test_a_text_of_megabytes_is_cut_first() -> None:
    """Escaping it all would take longer than whoever sent it."""
    assert len(printable("\n" * 10_000_000)) == 1_000


def test_a_line_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of librdkafka by what follows its thread, of our own client by all of it; numbers don't make another line."""
    caplog.set_level(logging.INFO)
    for number in range(50):
        CLIENT_LOG.info("%s", f"broker:9092 said no\nafter {number} ms")
        log.error("%s", f"{THREAD}once: no after {number} ms")
    assert caplog.messages == [r"broker:9092 said no\nafter 0 ms", f"{THREAD}once: no after 0 ms"]
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
    for number in range(1_000):
        CLIENT_LOG.info("%s", f"another {'x' * number}")
    assert len(caplog.messages) == 1_002
    for _ in range(2):
        log.warning("group %s is not there", "g")
    assert caplog.messages[-2:] == ["group g is not there"] * 2
