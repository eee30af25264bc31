"""What PySpark prints of an error: the message comes first, whatever it does with tracebacks."""

from __future__ import annotations

import inspect
import traceback

import pytest

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.streaming.spark_errors import message_first


@message_first
def refuse(option: str) -> int:
    """Raise an error for the user, caused by another one."""
    try:
        return int(dict[str, str]()[option])
    except KeyError as error:
        raise OptionError(f"option {option} is missing", "MISSING") from error


def test_the_message_comes_before_the_traceback() -> None:
    """Printed with its causes, an error begins with its sentence, and stays what it was."""
    with pytest.raises(OptionError, match=r"^option group\.id is missing$") as caught:
        refuse("group.id")
    assert caught.value.error == "MISSING"
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.startswith("sparkcohort.runtime.errors.OptionError: option group.id is missing\n")
    assert "KeyError" not in printed


def test_only_the_raising_is_left_of_the_traceback() -> None:
    """Where Spark shows no causes, at most one frame of ours stands before the message."""
    with pytest.raises(OptionError) as caught:
        refuse("group.id")
    ours = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert ours == ["test_only_the_raising_is_left_of_the_traceback", "call"]


def test_an_error_of_two_threads_is_not_changed() -> None:
    """What ended a membership is kept and raised by others too: a copy is raised, the original stays as it was."""
    kept = CohortError("fenced", "FENCED_INSTANCE_ID")

    @message_first
    def check() -> None:
        raise kept

    with pytest.raises(CohortError) as caught:
        check()
    assert caught.value is not kept
    assert (str(caught.value), caught.value.error) == ("fenced", "FENCED_INSTANCE_ID")
    assert kept.__cause__ is None


def test_calls_keep_their_signature() -> None:
    """PySpark looks at the parameters of ``latestOffset`` to tell what a reader can do."""
    assert list(inspect.signature(refuse).parameters) == ["option"]
