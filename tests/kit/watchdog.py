"""Ends the process of a test that takes longer than its limit, and says in the test's report where every thread was.

In place of pytest-timeout's timers, by the hooks that it has for this.  Its thread needs the interpreter's lock, which some of librdkafka's bindings
keep while they wait (``Consumer.assignment``), and what it prints is lost: pytest-xdist has closed the standard output of its workers.
"""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pytest

STACKS = "COHORT_TEST_STACKS"  # the environment variable that tells the workers their folder
LIBRARY = "/lib/python"  # where Python's own modules are, and those that are installed
OUTPUT = pytest.StashKey[int]()
LIMIT_S = pytest.StashKey[float]()


class Settings(Protocol):
    """The part of pytest-timeout's settings that counts here."""

    timeout: float  # seconds for one test with its fixtures


def stacks_file(worker: str) -> Path:
    """What the watchdog of a worker writes to."""
    return Path(os.environ[STACKS], worker)


def pytest_configure(config: pytest.Config) -> None:
    """Open what the watchdog writes to: a worker's file, else the standard error, which is not captured yet."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        folder = TemporaryDirectory(prefix="cohort-stacks-")
        config.add_cleanup(folder.cleanup)
        os.environ[STACKS] = folder.name
        config.stash[OUTPUT] = os.dup(2)
    else:
        config.stash[OUTPUT] = os.open(stacks_file(worker), os.O_WRONLY | os.O_CREAT, 0o600)


def watch(item: pytest.Item) -> None:
    """Give the test its limit from now on."""
    faulthandler.dump_traceback_later(item.stash[LIMIT_S], exit=True, file=item.config.stash[OUTPUT])


def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    """The test begins."""
    item.stash[LIMIT_S] = settings.timeout
    watch(item)
    return True


def pytest_timeout_cancel_timer() -> bool:
    """The test is over."""
    faulthandler.cancel_dump_traceback_later()
    return True


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watch the end of a test's fixtures too where the test failed: there pytest and pytest-timeout stop their timers."""
    if isinstance(node, pytest.Item) and LIMIT_S in node.stash and not node.config.getoption("usepdb"):
        watch(node)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the stacks to the report of a test whose worker died.  Its last line says where the test was."""
    node = getattr(report, "node", None)
    if str(report.when) != "???" or node is None:  # how pytest-xdist marks such a report
        return
    file = stacks_file(node.gateway.id)
    stacks = file.read_text(errors="replace") if file.exists() else ""
    main = stacks.rpartition("(most recent call first):\n")[2]  # the main thread comes last
    place = next((line.strip() for line in main.splitlines() if LIBRARY not in line), "")
    if place:
        report.longrepr = f"{report.longrepr}\n{stacks}\nover its limit: {place}"
