"""The assignors of ``partition.assignment.strategy``: built-in ones and users' own.

They are loaded once, when a query starts, on the driver; executors get the names only.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from typing import Any, Final

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.agent import listener_runner

ENTRY_POINTS: Final = "sparkcohort.assignors"
OPTION: Final = "partition.assignment.strategy"
SHIP: Final = "install it where the driver runs, or ship its file with --py-files"


def load(words: Iterable[str]) -> dict[str, Assignor]:
    """The assignors by name, in the order given: a built-in's name, an entry point's, or a dotted name.

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
    points = {point.value: point for point in metadata.entry_points(group=ENTRY_POINTS, name=word)}
    if len(points) > 1:
        raise _refused(word, f"{' and '.join(sorted(points))} both have this name: uninstall one")
    if points:
        (point,) = points.values()
        assignor = _make_assignor(word, point.load)
        if assignor.name != word:
            raise _refused(word, f"the entry point's name and the assignor's, {assignor.name!r}, must be the same")
        return assignor
    if "." in word or ":" in word:
        return _make_assignor(word, partial(listener_runner.find_object, word))
    raise _refused(word, f"no assignor has this name{_hint(word)}")


def _make_assignor(word: str, find: Callable[[], Any]) -> Assignor:
    """The assignor that ``find_object`` imports, an instance if it is a class.  Raises OptionError."""
    try:
        thing = find()
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's module may raise anything
        problem_words = f"cannot be imported on the driver ({type(error).__name__}: {error}){_near(word, _sibling_names(word))}; {SHIP}"
        raise _refused(word, problem_words) from None
    try:
        candidate: Any = thing() if inspect.isclass(thing) else thing
        problem = _problem(candidate)
    except (Exception, SystemExit) as error:  # noqa: BLE001  so may its constructor
        problem_words = f"cannot be made ({type(error).__name__}: {error}); a class is called without arguments"
        raise _refused(word, problem_words) from None
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


def _sibling_names(word: str) -> list[str]:
    """The public names of the word's module, if it is imported, each written in the form of the word."""
    mark = ":" if ":" in word else "."
    module = word.rpartition(mark)[0]
    return [f"{module}{mark}{name}" for name in vars(sys.modules.get(module, object)) if not name.startswith("_")]


def _hint(word: str) -> str:
    names = sorted({*ASSIGNORS, *(point.name for point in metadata.entry_points(group=ENTRY_POINTS))})
    return (
        f"{_near(word, names) or '.'} There are {', '.join(names)}; your own is named by an entry point of the group "
        f"{ENTRY_POINTS}, or as package.module.Class or package.module:object"
    )


def _near(word: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _refused(word: str, problem: str) -> OptionError:
    return OptionError(f"option {OPTION}={word!r}: {problem}")
