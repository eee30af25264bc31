"""The runner of driver scripts that the end-to-end tests stand on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.kit import processes
from tests.kit.driver import report
from tests.kit.spark import Driver
from tests.kit.waiting import wait_until


def test_a_script_that_fails_says_why(tmp_path: Path) -> None:
    """The error carries the log's end, whether the test waits for the end or for an event."""
    with Driver("scripts/count.py", tmp_path, {}) as driver:
        with pytest.raises(AssertionError, match="KeyError: 'rows'"):
            driver.wait_for("counted")
        with pytest.raises(AssertionError, match="KeyError: 'rows'"):
            driver.wait()


@pytest.mark.timeout(400)
def test_executors_are_found_killed_and_replaced(tmp_path: Path) -> None:
    """On local-cluster each executor is a JVM with an id and cores; a killed one is replaced; a killed driver takes all."""
    master = "local-cluster[2,1,512]"
    with Driver("scripts/count.py", tmp_path, {"rows": 100, "linger": 240}, master=master) as driver:
        driver.wait_for("counted", 200)
        assert driver.events() == [{"event": "counted", "rows": 100}]
        first, second = driver.executors()
        assert (first.executor_id, second.executor_id, first.cores) == ("0", "1", 1)
        assert driver.jvm().is_running()
        os.kill(first.pid, signal.SIGKILL)
        wait_until(
            lambda: [each.executor_id for each in driver.executors()] == ["1", "2"], 60, "a replacement", every_s=0.25
        )
        driver.kill()
        assert driver.returncode == -signal.SIGKILL
        assert driver.settle(60) == []
        assert "executor 1" in driver.executor_logs()


def test_what_carries_the_mark_is_found(tmp_path: Path) -> None:
    """A process in a session of its own is found by its environment, and killed with its run."""
    script = tmp_path / "stray.py"
    script.write_text(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait(60)'], start_new_session=True)\n"
    )
    with Driver(script, tmp_path / "run") as driver:
        driver.wait()
        assert len(driver.leftovers()) == 1
        processes.kill_run(driver.run_id)
        assert driver.settle() == []


def test_events_go_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """report appends one JSON line."""
    monkeypatch.setenv("COHORT_TEST_EVENTS", str(tmp_path / "events"))
    report("one", n=1)
    report("two")
    assert (tmp_path / "events").read_text() == '{"event": "one", "n": 1}\n{"event": "two"}\n'
