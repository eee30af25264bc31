"""Errors and log lines that quote others: one line each, and a code stands there once."""

from __future__ import annotations

import logging
import pickle

import pytest

from sparkcohort.runtime.errors import CohortError, OptionError, named
from sparkcohort.runtime.protocol.calls import ClaimReply
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.shell.rpc.log_lines import OneLine
from sparkcohort.runtime.text import printable
from sparkcohort.streaming.task import _accepted

FORGED = "no such user\n22/11/26 10:00:00 INFO sparkcohort: all is well\x1b[2J"


@pytest.mark.parametrize("kind", [CohortError, OptionError])
def test_an_error_is_one_line(kind: type[CohortError]) -> None:
    """Whoever is quoted in it, however long; also when it has crossed to another process."""
    error = kind(f"the broker said {FORGED}", "SASL_AUTHENTICATION_FAILED")
    assert str(error) == r"the broker said no such user\n22/11/26 10:00:00 INFO sparkcohort: all is well\x1b[2J"
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (str(again), again.error, type(again)) == (str(error), error.error, kind)
    assert len(str(kind("x" * 1_000_000))) == 10_000


def test_a_secret_is_found_however_it_is_written() -> None:
    """An escape in what was quoted doesn't hide it from being taken out."""
    conf = {"sasl.password": "hun\tter\x1b2", "ssl.key.pem": "-----BEGIN\nKEY"}
    for quoted in conf.values():
        for said in (quoted, printable(quoted)):
            assert redact_text(f"what is {said}?", conf) == "what is [redacted]?"


@pytest.mark.parametrize(
    ("error", "message", "shown"),
    [
        (
            "FENCED_INSTANCE_ID",
            "FENCED_INSTANCE_ID: a newer driver reads it",
            "FENCED_INSTANCE_ID: a newer driver reads it",
        ),
        ("KAFKA_DATA_LOSS.GONE", "[KAFKA_DATA_LOSS.GONE] it is gone", "[KAFKA_DATA_LOSS.GONE] it is gone"),
        ("GROUP_FAILED", "nobody knows", "GROUP_FAILED: nobody knows"),
        ("", "nobody knows", "nobody knows"),
    ],
)
def test_a_code_stands_in_a_message_once(error: str, message: str, shown: str) -> None:
    """Some messages begin with it, since they are shown without it elsewhere."""
    assert named(error, message) == shown


def test_a_claim_that_is_refused_says_why_once() -> None:
    """The coordinator answers with its error's name beside a message that begins with it."""
    why = "FENCED_INSTANCE_ID: a newer driver reads it"
    with pytest.raises(CohortError) as caught:
        _accepted(ClaimReply(error="FENCED_INSTANCE_ID", message=why))
    assert (str(caught.value), caught.value.error) == (why, "FENCED_INSTANCE_ID")


def test_a_log_line_is_one_line() -> None:
    """A traceback stands under it, indented: nothing in it passes for a line of its own."""
    formatter = OneLine("%(levelname)s %(name)s: %(message)s")
    try:
        int(FORGED)
    except ValueError as error:
        about = (ValueError, ValueError(FORGED), error.__traceback__)
    record = logging.LogRecord("sparkcohort.agent", logging.WARNING, __file__, 1, "broker: %s", (FORGED,), about)
    first, *rest = formatter.format(record).split("\n")
    assert (
        first
        == r"WARNING sparkcohort.agent: broker: no such user\n22/11/26 10:00:00 INFO sparkcohort: all is well\x1b[2J"
    )
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in rest)
