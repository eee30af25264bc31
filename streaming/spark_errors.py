"""Errors as Spark shows them: the sentence that matters near the front."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sparkcohort.runtime.errors import CohortError

P = ParamSpec("P")
R = TypeVar("R")


def error_for_spark(error: CohortError) -> CohortError:
    """The error to raise in its place.

    PySpark hands an exception on as Python prints it, its message after its traceback.  So this one has none but that
    of its raising, and has itself as its cause: where Spark does not simplify tracebacks, causes are printed first.
    A copy, since what ended a membership is raised in more than one thread.
    """
    fresh = copy.copy(error)
    fresh.__cause__ = copy.copy(error)
    return fresh


def message_first(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap one of Spark's calls: what it raises for the user is ``told``."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set

    return call
