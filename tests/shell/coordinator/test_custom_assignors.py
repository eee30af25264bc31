"""Users' own assignors, found where they are: by entry point, by dotted name, in an archive; or refused in one sentence."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import pytest

from sparkcohort.assignors import ASSIGNORS, MemberSubscription, Partition
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.coordinator.custom_assignors import load
from tests.kit.pages import block

MODULE = """
from sparkcohort.assignors import ASSIGNORS

class Mine:
    name, cooperative = "mine", False

    def assign(self, topics, members, racks):
        return {}

class Slots(Mine):
    __slots__ = ()
    name = "slots"

class Nameless:
    cooperative = True

    def assign(self, topics, members, racks):
        return {}

class Nothing:
    pass

class Range(Mine):
    name = "range"

class Blank(Mine):
    name = "two words"

class Numbered(Mine):
    name = 5

class Undecided(Mine):
    cooperative = "perhaps"

class Uncallable(Mine):
    assign = {}

class Narrow(Mine):
    def assign(self, topics, members):
        return {}

class Demanding(Mine):
    def __init__(self, database):
        self.database = database

class Broken(Mine):
    def __init__(self):
        raise OSError("no such database")

class Exiting(Mine):
    def __init__(self):
        raise SystemExit(3)

class Shy(Mine):
    @property
    def name(self):
        raise KeyError("nobody")

    cooperative = False

class Outer:
    class Inner(Mine):
        name = "inner"

made = Mine()
made.name = "made"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where modules are found, which are forgotten at the end."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    """Write these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def users(place: Path) -> Path:
    """The folder, with a user's module."""
    write(place, {"users.py": MODULE})
    return place


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("range", "cooperative-sticky"), ["range", "cooperative-sticky"]),
        (("users.Mine",), ["mine"]),
        (("users:Mine",), ["mine"]),
        (("users:Outer.Inner",), ["inner"]),
        (("users.made", "users.Slots", "range", "users.Mine"), ["made", "slots", "range", "mine"]),
    ],
)
def test_assignors_are_found(users: Path, words: tuple[str, ...], names: list[str]) -> None:
    """Built-in ones, classes, classes in classes and objects, in the order given, by their own names."""
    found = load(words)
    assert list(found) == names == [assignor.name for assignor in found.values()]
    assert all(found[name] is ASSIGNORS[name] for name in found.keys() & ASSIGNORS)


def test_an_archive_is_as_good_as_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As --py-files ships it."""
    with zipfile.ZipFile(place / "users.zip", "w") as archive:
        archive.writestr("users.py", MODULE)
    monkeypatch.syspath_prepend(place / "users.zip")
    assert list(load(["users.Mine"])) == ["mine"]


REFUSED = [
    ("rage", "no assignor has this name; did you mean range? there are "),
    ("sometimes", "no assignor has this name: there are"),
    ("no_such_module.Mine", "cannot be imported on the driver (ModuleNotFoundError: No module named 'no_such_module')"),
    ("users.Mein", "; install it where the driver runs, or ship its file with --py-files"),
    ("users.NoSuchClass", "cannot be imported on the driver (AttributeError: "),
    ("failing.Mine", "(RuntimeError: no licence)"),
    ("leaving.Mine", "(SystemExit: 3)"),
    ("users.Nothing", "it lacks name and cooperative and assign (see sparkcohort.assignors.Assignor)"),
    ("users.Nameless", "it lacks name"),
    ("users", "no assignor has this name"),
    ("users.Range", "its name, 'range', is that of a built-in assignor"),
    ("users.Blank", "its name, 'two words', must be a word"),
    ("users.Numbered", "its name, 5, must be a word"),
    ("users.Undecided", "its cooperative, 'perhaps', must be True or False"),
    ("users.Uncallable", "its assign can't be called"),
    ("users.Narrow", "its assign must take (topics, members, racks): too many positional arguments"),
    ("users.Demanding", "cannot be made (TypeError: "),
    ("users.Broken", "cannot be made (OSError: no such database)"),
    ("users.Exiting", "cannot be made (SystemExit: 3)"),
    ("users.Shy", "cannot be made (KeyError: 'nobody')"),
    ("sparkcohort.assignors.range.RangeAssignor", "is that of a built-in assignor"),
]


@pytest.mark.parametrize(("word", "why"), REFUSED, ids=[word for word, _ in REFUSED])
def test_what_is_no_assignor_is_refused(users: Path, word: str, why: str) -> None:
    """One error that names the option, the value, what is wrong and, where there is one, the nearest right name."""
    write(users, {"failing.py": "raise RuntimeError('no licence')\n", "leaving.py": "raise SystemExit(3)\n"})
    with pytest.raises(OptionError, match=re.escape(f"option partition.assignment.strategy={word!r}: ")) as refused:
        load(["range", word])
    assert why in str(refused.value)


def test_two_of_one_name_are_refused(users: Path) -> None:
    """The error has both words."""
    with pytest.raises(
        OptionError, match=r"='users:made': its name is 'made', and so is that of users.made: rename one"
    ):
        load(["users.Mine", "users.made", "users:made"])


def test_the_guides_example(place: Path) -> None:
    """Each topic is one member's as a whole, the loads as even as whole topics allow."""
    write(place, {"whole_topics.py": block("assignor")})
    (assignor,) = load(["whole_topics.WholeTopics"]).values()
    wants: Callable[..., MemberSubscription] = lambda *topics: MemberSubscription(topics)  # noqa: E731
    given: Mapping[str, Collection[Partition]] = assignor.assign(
        {"a": 3, "b": 2, "c": 1, "d": 4}, {"m1": wants("a", "b", "c"), "m2": wants("a", "c", "d"), "m3": wants()}, {}
    )

    topics = {member: {topic for topic, _ in partitions} for member, partitions in given.items()}
    assert topics == {"m1": {"b", "a"}, "m2": {"d", "c"}, "m3": set()}
    assert sorted(partition for partitions in given.values() for partition in partitions) == [
        (topic, number) for topic, count in (("a", 3), ("b", 2), ("c", 1), ("d", 4)) for number in range(count)
    ]
