"""Errors as Spark shows them: the message before the traceback."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sparkcohort.runtime.errors import CohortError

P = ParamSpec("P")
R = TypeVar("R")


def error_for_spark(error: CohortError) -> CohortError:
    """The copy of an error to raise in its place, so that Spark shows the message early.

    PySpark passes an exception on as Python prints it: the message after the traceback.  The copy has a short traceback, and
    is its own cause: where Spark does not simplify tracebacks, causes are printed first.  It is a copy since several threads
    may raise the error that ended a membership.
    """
    fresh = copy.copy(error)
    fresh.__cause__ = copy.copy(error)
    return fresh


def message_first(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap one of Spark's calls: a CohortError is raised as ``error_for_spark`` makes it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set

    return call
