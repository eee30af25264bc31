"""The query under test, and what starts it again: in the same application while that lives, else in a new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from tests.chaos import clock
from tests.chaos.endings import DRIVER, QUERY, STOPPED
from tests.kit import processes
from tests.kit.application import HOME, Application
from tests.kit.ports import free_port
from tests.kit.spark import Driver
from tests.kit.waiting import wait_until

EXECUTORS: Final = 5
FIRST: Final = 3
DAEMON: Final = "pyspark.daemon"
DISK_MB: Final = 512
HOME_MB: Final = 16
AGAIN_S: Final = 5.0


@dataclass
class QueryUnderTest:
    """One group, one checkpoint, one sink; applications and runs of it come and go."""

    folder: Path
    options: Mapping[str, str]
    excused: Callable[[str, str], bool]
    """Whether an end is excused: whose, and its reason."""
    say: Callable[[str], None]
    sink: Mapping[str, str] = field(default_factory=dict)
    """The options of a write to Kafka; without them a batch is written to ``out``."""
    application: Application | None = None
    applications: int = 0
    starts: int = 0
    unexcused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = 0
        self.executors, self._scaled_at = FIRST, 0.0
        self._closing = threading.Event()
        self._lock = threading.RLock()
        self._written: list[float] = []
        self.checkpoint, self.out = self.folder / "disk" / "checkpoint", self.folder / "out"
        self.home = self.folder / "home"
        self.port = free_port()
        library = clock.build(self.folder)
        self.driver_clock = clock.Clock(library, self.folder / "clock-of-driver")
        self.executors_clock = clock.Clock(library, self.folder / "clock-of-executors")

    # --- its life -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Have a disk of its own for the checkpoint, and start."""
        for disk, size_mb in ((self.checkpoint.parent, DISK_MB), (self.home, HOME_MB)):
            disk.mkdir(parents=True)
            disk.chmod(0o700)
            mount = f"size={size_mb}m,mode=700"
            subprocess.run(["mount", "-t", "tmpfs", "-o", mount, "tmpfs", str(disk)], check=True)
        self.out.mkdir()
        (self.out / "_gate").write_text(str(1 << 60))
        self._start_application()

    def _start_application(self) -> None:
        self.applications += 1
        self._seen = 0
        conf = {
            "spark.driver.port": str(self.port),
            "spark.network.timeout": "20s",
            "spark.network.timeoutInterval": "5s",
            "spark.task.maxFailures": "8",
        }
        conf |= {"spark.cores.max": str(EXECUTORS), "spark.sql.streaming.minBatchesToRetain": "1000000"}
        conf |= {f"spark.executorEnv.{name}": value for name, value in self.executors_clock.environment().items()}
        conf |= {"spark.deploy.maxExecutorRetries": "-1", "spark.rpc.askTimeout": "20s"}
        self.application = Application(
            self.folder / f"application-{self.applications}",
            master=f"local-cluster[{EXECUTORS},1,768]",
            conf=conf,
            env={HOME: str(self.home), **self.driver_clock.environment()},
            zipped=True,
        ).__enter__()
        self.scale(self.executors)
        self._start_query()

    def _start_query(self) -> None:
        self.starts += 1
        self._command(
            do="start",
            name=f"{QUERY}.{self.starts}",
            options=dict(self.options),
            trigger={"processingTime": "0 seconds"},
            sink=dict(self.sink),
            out=str(self.out),
            gate=str(self.out / "_gate"),
            checkpoint=str(self.checkpoint),
        )

    def look(self) -> None:
        """Start again what has ended; remember an end that nothing excuses."""
        with self._lock:
            if (driver := self.driver) is None or self._closing.is_set():
                return
            if driver.returncode is not None:
                self._ended(DRIVER, f"the driver ended with {driver.returncode}: {driver.log_tail(800)}")
                self._collect()
                driver.__exit__(None, None, None)
                self._start_application()
                return
            if time.monotonic() - self._scaled_at > AGAIN_S:
                self.scale(self.executors)
            ended = driver.events("ended")
            if len(ended) > self._seen:
                fresh, self._seen = ended[self._seen :], len(ended)
                for event in fresh:
                    self._ended(QUERY, STOPPED if event["error"] is None else str(event["error"]))
                    self._start_query()

    def _ended(self, what: str, why: str) -> None:
        words = " ".join(why.partition("=== Streaming Query ===")[0].split())
        line = words[-400:]  # a traceback's reason is its last line
        if self.excused(what, why):
            self.say(f"the {what} ended, and is started again: {line[-160:]}")
        else:
            self.unexcused.append(f"{what}: {line}")
            self.say(f"THE {what.upper()} ENDED WITHOUT A REASON, and is started again: {line}")

    def close(self) -> None:
        """End it all; raises nothing that hides a verdict."""
        self._closing.set()
        with self._lock:
            if self.application is not None:
                with suppress(AssertionError):
                    self.application.__exit__(None, None, None)
                self._collect()

    def kill(self) -> None:
        """SIGKILL whatever is left of it."""
        if (driver := self.driver) is not None:
            processes.kill_run(driver.run_id)
        for disk in (self.checkpoint.parent, self.home):
            subprocess.run(["umount", "-l", str(disk)], capture_output=True, check=False)

    # --- what it is told ----------------------------------------------------------------------------

    @property
    def driver(self) -> Driver | None:
        """The driver of the application at hand."""
        return None if self.application is None else self.application.driver

    def _command(self, **said: Any) -> None:
        assert self.application is not None
        self.application.command(**said)

    def scale(self, executors: int) -> None:
        """Have so many executors; as dynamic allocation does, it is asked for again and again (``look``)."""
        self.executors, self._scaled_at = executors, time.monotonic()
        self._command(do="scale", executors=executors)

    def stop(self) -> None:
        """Stop the query, which is started again."""
        self._command(do="stop", name=f"{QUERY}.{self.starts}")

    def fail(self) -> None:
        """Have the sink throw at its next batch."""
        (self.out / "_throw").touch()

    # --- its parts ----------------------------------------------------------------------------------

    def parts(self, target: str) -> list[psutil.Process]:
        """The living processes of a kind, in an order that does not depend on their numbers."""
        driver = self.driver
        if driver is None or driver.returncode is not None:
            return []
        if target == "executor":
            return [psutil.Process(each.pid) for each in driver.executors()]
        if target == "agent":
            return driver.agents()
        if target == "worker":
            forks = processes.matching(DAEMON, driver.processes())
            return [child for fork in forks for child in processes.descendants(fork.pid)]
        if target == "runner":
            found = self.live()
            return [] if found is None else [psutil.Process(found.pid)]
        return [driver.jvm()] if target == "driver" else []

    def live(self) -> connection_file.Connection | None:
        """The live coordinator run."""
        os.environ[HOME] = str(self.home)
        return next(iter(connection_file.live()), None)

    def kill_driver(self) -> None:
        """As when its machine dies."""
        if (driver := self.driver) is not None and driver.returncode is None:
            driver.kill()

    def status(self) -> dict[str, Any] | None:
        """The group as its coordinator sees it; None while there is none."""
        with suppress(CohortError):
            if (found := self.live()) is not None:
                return dict(connection_file.fetch_status(found))
        return None

    def written_at(self) -> list[float]:
        """When batches were written, over all applications."""
        with self._lock:
            return self._logged() if self.sink else [*self._written, *self._batches()]

    def _logged(self) -> list[float]:
        """When Spark has logged each batch, by the monotonic clock."""
        ago_s = time.time() - time.monotonic()
        logs = self.checkpoint / "commits"
        numbered = [path for path in logs.glob("[0-9]*") if path.name.isdigit()] if logs.exists() else []
        return sorted(path.stat().st_mtime - ago_s for path in numbered)

    def _batches(self) -> list[float]:
        events = [] if self.driver is None else self.driver.events("batch")
        return [event["at"] for event in events]

    def _collect(self) -> None:
        self._written += self._batches()

    def ranges(self) -> list[dict[str, int]]:
        """The ends of all batches, as the offset log has them."""
        logs = self.checkpoint / "offsets"
        numbers = sorted(int(path.name) for path in logs.iterdir() if path.name.isdigit())
        return [_ends(logs / str(number)) for number in numbers]

    def wait_for_batches(self, timeout_s: float) -> None:
        """Wait until it reads.  Raises AssertionError."""

        def reads() -> bool:
            self.look()
            return len(self.written_at()) >= 3

        wait_until(reads, timeout_s, "the first batches", every_s=0.5)

    def wait_until_read(self, timeout_s: float) -> None:
        """Wait until everything is committed to Kafka, starting it again where it ends.  Raises AssertionError."""

        def read() -> bool:
            self.look()
            return _has_read(self.status())

        wait_until(read, timeout_s, "everything to be read", every_s=0.5)


def _has_read(status: dict[str, Any] | None) -> bool:
    return status is not None and bool(status["partitions"]) and all(p["lag"] == 0 for p in status["partitions"])


def _ends(log: Path) -> dict[str, int]:
    (said,) = [line for line in log.read_text().splitlines()[2:] if line not in ("-", "")]
    return {f"{topic}-{number}": at for topic, ends in json.loads(said).items() for number, at in ends.items()}


def pause(process: psutil.Process) -> None:
    """SIGSTOP, where it still is."""
    with suppress(psutil.Error):
        process.send_signal(signal.SIGSTOP)


def resume(process: psutil.Process) -> None:
    """SIGCONT, where it still is."""
    with suppress(psutil.Error):
        process.send_signal(signal.SIGCONT)


def kill(process: psutil.Process) -> None:
    """SIGKILL, where it still is."""
    with suppress(psutil.Error):
        process.send_signal(signal.SIGKILL)
