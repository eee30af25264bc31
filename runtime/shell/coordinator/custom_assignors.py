"""The assignors that ``partition.assignment.strategy`` names: the built-in ones, and users' own wherever they are.

Everything here happens once, when a query starts, in the process that leads its group: executors only hear the names.
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

    Raises OptionError for one that isn't there, can't be imported or made, is no assignor, or has a name that is taken.
    """
    found: dict[str, Assignor] = {}
    called: dict[str, str] = {}
    for word in words:
        assignor = ASSIGNORS[word] if word in ASSIGNORS else _own(word)
        if assignor.name in found:
            raise _refused(
                word, f"its name is {assignor.name!r}, and so is that of {called[assignor.name]}: rename one"
            )
        found[assignor.name], called[assignor.name] = assignor, word
    return found


def _own(word: str) -> Assignor:
    points = {point.value: point for point in metadata.entry_points(group=ENTRY_POINTS, name=word)}
    if len(points) > 1:
        raise _refused(word, f"{' and '.join(sorted(points))} both have this name: uninstall one")
    if points:
        (point,) = points.values()
        assignor = _made(word, point.load)
        if assignor.name != word:
            raise _refused(word, f"the entry point's name and the assignor's, {assignor.name!r}, must be the same")
        return assignor
    if "." in word or ":" in word:
        return _made(word, partial(listener_runner.find, word))
    raise _refused(word, f"no assignor has this name{_hint(word)}")


def _made(word: str, find: Callable[[], Any]) -> Assignor:
    """What ``find`` imports, made if it is a class, and seen to be an assignor."""
    try:
        thing = find()
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's module may raise anything
        why = f"cannot be imported on the driver ({type(error).__name__}: {error}){_near(word, _beside(word))}; {SHIP}"
        raise _refused(word, why) from None
    try:
        made: Any = thing() if inspect.isclass(thing) else thing
        problem = _problem(made)
    except (Exception, SystemExit) as error:  # noqa: BLE001  so may its constructor
        why = f"cannot be made ({type(error).__name__}: {error}); a class is called without arguments"
        raise _refused(word, why) from None
    if problem:
        raise _refused(word, f"{problem} (see sparkcohort.assignors.Assignor)")
    assignor: Assignor = made
    return assignor


def _problem(made: Any) -> str:
    """What keeps a thing from being an assignor, in words; empty when nothing does."""
    lacks = [part for part in ("name", "cooperative", "assign") if not hasattr(made, part)]
    if lacks:
        return f"it lacks {' and '.join(lacks)}"
    if not isinstance(made.name, str) or not re.fullmatch(r"[^\s,]{1,100}", made.name):
        return f"its name, {made.name!r:.40}, must be a word without commas"
    if made.name in ASSIGNORS:
        return f"its name, {made.name!r}, is that of a built-in assignor: give it one of its own"
    if not isinstance(made.cooperative, bool):
        return f"its cooperative, {made.cooperative!r:.40}, must be True or False"
    if not callable(made.assign):
        return "its assign can't be called"
    try:
        inspect.signature(made.assign).bind({}, {}, {})
    except TypeError as error:
        return f"its assign must take (topics, members, racks): {error}"
    except ValueError:  # one that doesn't tell
        return ""
    return ""


def _beside(word: str) -> list[str]:
    """The public names of the module that was meant, if it could be imported, written as the word is."""
    mark = ":" if ":" in word else "."
    module = word.rpartition(mark)[0]
    return [f"{module}{mark}{name}" for name in vars(sys.modules.get(module, object)) if not name.startswith("_")]


def _hint(word: str) -> str:
    known = sorted({*ASSIGNORS, *(point.name for point in metadata.entry_points(group=ENTRY_POINTS))})
    return (
        f"{_near(word, known) or '.'} There are {', '.join(known)}; your own is named by an entry point of the group "
        f"{ENTRY_POINTS}, or as package.module.Class or package.module:object"
    )


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _refused(word: str, why: str) -> OptionError:
    return OptionError(f"option {OPTION}={word!r}: {why}")
