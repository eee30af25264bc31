"""Kafka's error codes, by Kafka's names and numbers (org.apache.kafka.common.protocol.Errors)."""

from __future__ import annotations

from enum import IntEnum

from sparkcohort.runtime.text import printable


class ErrorCode(IntEnum):
    """The subset of Kafka's error codes that a group coordinator answers with."""

    NONE = 0
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_REQUEST = 42
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


UNREACHABLE = "LEADER_NOT_AVAILABLE"  # Kafka's name for what ends by itself when a broker comes back


MOST_MESSAGE = 10_000


def named(error: str, message: str) -> str:
    """``ERROR: message``; a message that begins with its error's name has it once.

    >>> named("FENCED_INSTANCE_ID", "a newer driver reads it"), named("X", "[X] lost"), named("X", "X: lost")
    ('FENCED_INSTANCE_ID: a newer driver reads it', '[X] lost', 'X: lost')
    """
    return message if not error or message.lstrip("[").startswith(error) else f"{error}: {message}"


class CohortError(Exception):
    """An error meant for the user: one message naming the option or resource and what to do; never a secret.

    It is one printable line, whoever is quoted in it.  ``error`` is Kafka's name of the error where it has one ("FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED"), else "".
    """

    def __init__(self, message: str, error: str = "") -> None:
        super().__init__(printable(message, MOST_MESSAGE))
        self.error = error

    def __reduce__(self) -> tuple[type[CohortError], tuple[str, str]]:
        """Pickle with both arguments: the error crosses from the reader's process to Spark's."""
        return type(self), (str(self), self.error)


class OptionError(CohortError, ValueError):
    """An option of the source is missing, unknown, refused or malformed."""
