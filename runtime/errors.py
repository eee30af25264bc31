"""What users catch: every error of ours is a ``CohortError``."""

from __future__ import annotations

from sparkcohort.runtime.text import printable

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
