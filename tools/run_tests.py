"""Runs the suite: ``make test`` the first tier, ``make test-all`` both.

    tools/run_tests.py [--tier all] [pytest options]      exit status 0: all passed

Lint and type check run beside all else, and the pure tests beside what the others need besides jars (archives of classes,
environments); then come the tests with Spark or a broker, by three workers.  A test of these that fails runs once more at the end, alone; if it passes then, the run is
green and says so in its last lines (``ran again: …``), with the first failure kept in .cache/tests.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "tests"
PYTHON = str(Path(sys.executable).parent / "python")  # the environment's own, whatever it links to
PYTEST = [PYTHON, "-P", "-m", "pytest"]
WORKERS = 3  # tests without Spark wait for most of their time: three keep two cores busy
PATIENT = ["nice", "-n", "5"]  # a third of the others' share; with nice's usual tenth they end last on a busy machine
NEEDED_BY_ALL = ["jdk", "jars"]
NEEDED_BESIDES = {"test": [], "all": ["prometheus", "chromium", "hosts", "wheels", "oldest"]}
LINT = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], ["lint-imports"]]
NO_TESTS = 5  # pytest's status when the options have chosen none
FAILED = 1  # pytest's status when tests failed, and nothing else went wrong
LIMIT_S = {"test": 3600, "all": 3 * 3600}
AGAIN_LIMIT_S = 1200
SHOW_EVERY_S = 0.5
COUNTED = re.compile(r"(\d+) (passed|failed|errors?)\b")


@dataclass
class Step:
    """What one command came to."""

    name: str
    status: int
    seconds: float
    output: str = ""
    to_run_again: int = 0  # tests whose failure here is not the last word

    @property
    def counts(self) -> tuple[int, int]:
        """Tests that passed and that failed, by pytest's last line."""
        last = self.output.strip().rpartition("\n")[2]
        found = {what.rstrip("s"): int(number) for number, what in COUNTED.findall(last)}
        return found.get("passed", 0), max(found.get("failed", 0) + found.get("error", 0) - self.to_run_again, 0)

    @property
    def passed(self) -> bool:
        """Whether all is well, or there was nothing to do."""
        return self.status in (0, NO_TESTS)


def run(name: str, command: list[str], limit_s: float, *, show: bool = False, patient: bool = False) -> Step:
    """Run a command to its end, at most ``limit_s``; ``show`` prints what it says as it comes, ``patient`` yields to all others."""
    began = time.monotonic()
    log = LOGS / f"{name.replace(' ', '-')}.log"
    command = ["timeout", "--foreground", "-k", "10", str(int(limit_s)), *(PATIENT if patient else []), *command]
    with log.open("wb") as into, log.open("rb") as output:
        # Into a file: of a pipe, a process that outlives the command would hold the other end.
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=into, stderr=subprocess.STDOUT)
        ended = False
        while not ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SHOW_EVERY_S)
                ended = True
            if show:
                sys.stdout.buffer.write(output.read())
                sys.stdout.flush()
    return Step(name, process.wait(), time.monotonic() - began, log.read_text(errors="replace"))


def lint(limit_s: float) -> Step:
    """Ruff, mypy and the contracts of imports, to the first that complains."""
    began = time.monotonic()
    for tool, *arguments in LINT:
        step = run(f"lint {tool}", [str(Path(PYTHON).parent / tool), *arguments], limit_s, patient=True)
        if not step.passed:
            break
    return Step("lint", step.status, time.monotonic() - began, step.output)


def environment(tier: str, limit_s: float) -> Step:
    """What the tests with Spark or a broker need besides, made where it is missing."""
    if parts := NEEDED_BESIDES[tier]:
        step = run("environment", ["tools/bootstrap.sh", *parts], limit_s)
        if not step.passed:
            return step
    return run("class archives", [PYTHON, "-m", "tests.kit.class_archives"], limit_s)


def failures(file: Path) -> dict[str, str]:
    """The first failure of each test that failed, by its name."""
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["test"]: line["text"] for line in reversed(lines)}


def again(failed: dict[str, str], options: list[str], limit_s: float) -> Step:
    """Run those that failed once more, one after the other, until one fails again."""
    print(f"== once more, alone: {len(failed)}", flush=True)
    return run("again", [*PYTEST, *options, "--exitfirst", *failed], limit_s, show=True)


def busy_s() -> float:
    """Seconds that all cores together have worked since boot, for whomever (proc(5))."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, interrupts, soft = map(int, fields[:7])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def keep_first_failures(failed: dict[str, str]) -> list[str]:
    """Write each first failure to a file, and say it in a line."""
    lines = []
    for test, text in failed.items():
        log = LOGS / ("again-" + re.sub(r"\W+", "-", test)[-120:] + ".txt")
        log.write_text(text)
        errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
        reason = errors[0] if errors else (text.strip().splitlines() or ["no reason was given"])[-1]
        lines.append(f"ran again: {test}, first failure: {reason[:200]} ({log.relative_to(ROOT)})")
    return lines


def report(steps: list[Step], lines: list[str], began: tuple[float, float]) -> bool:
    """Say what each step came to, in whole last; whether all passed."""
    passed, failed = (sum(numbers) for numbers in zip(*(step.counts for step in steps), strict=True))
    for step in steps:
        if not step.passed:
            print(f"== {step.name}: failed with status {step.status}\n{step.output[-20_000:]}")
    for step in steps:
        print(f"== {step.name}: {'passed' if step.passed else 'FAILED'} in {step.seconds:.0f} s")
    seconds, cpu_s = time.monotonic() - began[0], busy_s() - began[1]
    print(f"== {seconds / 60:.1f} min, {cpu_s / 60:.1f} CPU-minutes of this machine")
    print("\n".join([*lines, f"{passed} passed, {failed} failed"]), flush=True)
    return all(step.passed for step in steps)


def spark_and_broker(tier: str, options: list[str]) -> tuple[list[Step], list[str]]:
    """The tests with Spark or a broker, and those that failed once more."""
    found = LOGS / "failures.jsonl"
    found.unlink(missing_ok=True)
    command = [*PYTEST, "-n", str(WORKERS), "--dist", "loadgroup", "--no-loadscope-reorder", f"--failures={found}"]
    shared = run("Spark and broker", [*command, "tests/e2e", "tests/shell", *options], LIMIT_S[tier], show=True)
    failed = failures(found)
    if shared.status != FAILED or not failed:
        return [shared], []
    lines = keep_first_failures(failed)
    second = again(failed, [option for option in options if option.startswith("--tier")], AGAIN_LIMIT_S)
    if second.passed:
        shared.status, shared.to_run_again = 0, len(failed)
    return [shared, second], lines


def main() -> int:
    """Everything, and one status for it."""
    parser = argparse.ArgumentParser(description="Run the suite.", allow_abbrev=False)
    parser.add_argument(
        "--tier", choices=sorted(NEEDED_BESIDES), default="test", help="test: what every change needs; all: everything"
    )
    known, options = parser.parse_known_args()
    began = time.monotonic(), busy_s()
    LOGS.mkdir(parents=True, exist_ok=True)
    limit_s = LIMIT_S[known.tier]
    options = [f"--tier={known.tier}", *options]
    with ThreadPoolExecutor() as pool:
        checks: list[Future[Step]] = [pool.submit(lint, limit_s)]
        jars = run("jars", ["tools/bootstrap.sh", *NEEDED_BY_ALL], limit_s)
        # They yield to other processes, so each may take ten times as long as it takes alone.
        pure = [*PYTEST, "-o", "timeout=1200", "tests/unit", *options]
        checks.append(pool.submit(run, "pure tests", pure, limit_s, patient=True))
        ready = environment(known.tier, limit_s) if jars.passed else jars
        steps, lines = spark_and_broker(known.tier, options) if ready.passed else ([], [])
        steps = [ready, *(check.result() for check in checks), *steps]
    return 0 if report(steps, lines, began) else 1


if __name__ == "__main__":
    sys.exit(main())
