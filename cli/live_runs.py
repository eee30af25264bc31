"""The live runs of this host, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.connection_file import Connection
from sparkcohort.runtime.text import printable

T = TypeVar("T")
MOST_TEXT: Final = 400

NO_COORDINATOR: Final = (
    "no live coordinator on this host; run this on the driver's host, as the driver's user, while a query with "
    "format('cohort') runs; cohort lag --bootstrap-server and kafka-consumer-groups ask Kafka instead"
)


def ask_runs(group_id: str | None, ask: Callable[[Connection], T]) -> tuple[list[T], list[str]]:
    """The answers of the live runs (of one group, if it is named), and the errors of those that failed."""
    answers: list[T] = []
    failures: list[str] = []
    for run in connection_file.find(group_id) if group_id is not None else find_runs():
        try:
            answers.append(ask(run))
        except CohortError as error:
            failures.append(str(error))
        except (KeyError, TypeError) as error:  # another version answers in another shape
            if run.version == connection_file.our_version():
                raise
            failures.append(_of_another_version(run, error))
    return answers, failures


def _of_another_version(run: Connection, error: Exception) -> str:
    return printable(
        f"group {run.group_id}: its query runs sparkcohort {run.version or 'of an older version'}, and this command is of "
        f"{connection_file.our_version() or 'another one'}: use the command of the Python that the query runs in ({type(error).__name__}: {error})",
        MOST_TEXT,
    )


def find_runs() -> list[Connection]:
    """The live runs of this host.  Raises CohortError if there is none, and names those of other hosts."""
    runs = list(connection_file.live())
    if not runs:
        hint = connection_file.name_others(list(connection_file.elsewhere()))
        raise CohortError(f"{NO_COORDINATOR}{hint}")
    return runs


def status_of(run: Connection) -> dict[str, Any]:
    """The status of a run.  Raises CohortError: it does not answer, or is ending."""
    status = connection_file.fetch_status(run)
    if not status:
        raise CohortError(f"group {run.group_id}: the query is ending")
    return status
