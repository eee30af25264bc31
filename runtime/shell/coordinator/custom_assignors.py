"""The assignors of ``partition.assignment.strategy``: built-in ones and users' own.

They are loaded once, when a query starts, on the driver; executors get the names only.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.agent import listener_runner

OPTION: Final = "partition.assignment.strategy"
SHIP: Final = "install it where the driver runs, or ship its file with --py-files"


def load(words: Iterable[str]) -> dict[str, Assignor]:
    """The assignors by name, in the order given: a built-in's name, or a dotted name.

    Raises OptionError for one that doesn't exist, can't be imported or made, is no assignor, or has another one's name.
    """
    assignors: dict[str, Assignor] = {}
    words_by_name: dict[str, str] = {}
    for word in words:
        assignor = ASSIGNORS[word] if word in ASSIGNORS else _own(word)
        if assignor.name in assignors:
            raise _refused(
                word, f"its name is {assignor.name!r}, and so is that of {words_by_name[assignor.name]}: rename one"
            )
        assignors[assignor.name], words_by_name[assignor.name] = assignor, word
    return assignors


def _own(word: str) -> Assignor:
    """The assignor that a dotted name names, an instance if it is a class.  Raises OptionError."""
    if "." not in word and ":" not in word:
        names = f"there are {', '.join(ASSIGNORS)}; your own is named as package.module.Class or package.module:object"
        near = difflib.get_close_matches(word, ASSIGNORS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ":"
        raise _refused(word, f"no assignor has this name{hint} {names}")
    try:
        thing = listener_runner.find_object(word)
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's module may raise anything
        raise _refused(word, f"cannot be imported on the driver ({type(error).__name__}: {error}); {SHIP}") from None
    try:
        candidate: Any = thing() if inspect.isclass(thing) else thing
        problem = _problem(candidate)
    except (Exception, SystemExit) as error:  # noqa: BLE001  so may its constructor
        words = f"cannot be made ({type(error).__name__}: {error}); a class is called without arguments"
        raise _refused(word, words) from None
    if problem:
        raise _refused(word, f"{problem} (see sparkcohort.assignors.Assignor)")
    assignor: Assignor = candidate
    return assignor


def _problem(candidate: Any) -> str:
    """Why an object is no assignor, "" if it is one."""
    lacks = [part for part in ("name", "cooperative", "assign") if not hasattr(candidate, part)]
    if lacks:
        return f"it lacks {' and '.join(lacks)}"
    if not isinstance(candidate.name, str) or not re.fullmatch(r"[^\s,]{1,100}", candidate.name):
        return f"its name, {candidate.name!r:.40}, must be a word without commas"
    if candidate.name in ASSIGNORS:
        return f"its name, {candidate.name!r}, is that of a built-in assignor: give it one of its own"
    if not isinstance(candidate.cooperative, bool):
        return f"its cooperative, {candidate.cooperative!r:.40}, must be True or False"
    if not callable(candidate.assign):
        return "its assign can't be called"
    try:
        inspect.signature(candidate.assign).bind({}, {}, {})
    except TypeError as error:
        return f"its assign must take (topics, members, racks): {error}"
    except ValueError:  # a built-in function without a signature
        return ""
    return ""


def _refused(word: str, problem: str) -> OptionError:
    return OptionError(f"option {OPTION}={word!r}: {problem}")
