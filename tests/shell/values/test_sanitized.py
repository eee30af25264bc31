"""The native part as Python loads it, under AddressSanitizer and UndefinedBehaviorSanitizer, fed with the corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import sanitized

FRESH = """
from tests.kit.sanitized import READERS, Traced
traced = Traced()
print([traced.attempt(READERS["json"], data) for data in (b"\\0{}", b"\\0{}", b'\\0{"a": 1.5}')])
"""


DIES = """
import ctypes
from tests.kit.sanitized import READERS, feed_here
from dataclasses import replace
feed_here(replace(READERS["bearer"], check=lambda _: ctypes.string_at(1), seeds=lambda: [b"an input"]), 9, 1)
"""

pytestmark = [pytest.mark.thorough("built with sanitizers"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native part with sanitizers."""
    return sanitized.build(tmp_path_factory.mktemp("sanitized"))


def test_the_corpora_do_no_harm(folder: Path) -> None:
    """By them and some relatives, with every allocation failing once, no byte outside is touched, no rule of C broken."""
    lines = sanitized.run(folder, "-m", "tests.kit.sanitized").splitlines()
    assert [line.partition(":")[0] for line in lines] == list(sanitized.READERS)


def test_what_reaches_new_code_is_fresh(folder: Path) -> None:
    """Once."""
    assert sanitized.run(folder, "-c", FRESH) == "[True, False, True]\n"


def test_an_input_that_ends_the_process_is_told(folder: Path) -> None:
    """Read from the file in which it stood before it was fed."""
    with pytest.raises(AssertionError, match=r"AddressSanitizer(?s:.*)input: .+$"):
        sanitized.run(folder, "-c", DIES)
