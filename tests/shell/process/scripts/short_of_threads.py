"""Log ends in a process that is told to be short of threads and descriptors, and to have enough again; for test_exhausted.

Reads one command a line and answers each with one line: what is unreachable and why, and the ends of the others.
"late" instead, where a broker is watched already: its thread and its client need nothing any more.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from pathlib import Path

from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse

NO_LIMIT = resource.RLIM_INFINITY


def no_threads() -> None:
    """No room for another thread's stack (8 MB)."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20), NO_LIMIT))


def no_descriptors() -> None:
    """Not one more."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) - 1, hard))


def restore() -> None:
    """As before."""
    resource.setrlimit(resource.RLIMIT_AS, (NO_LIMIT, NO_LIMIT))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1024), hard))


COMMANDS = {"no threads": no_threads, "no descriptors": no_descriptors, "restore": restore}


def main() -> None:
    """Do what is said."""
    ends = LogEnds(parse(json.loads(sys.argv[1])))
    ends.start()
    for line in sys.stdin:
        if line.startswith("no ") and any(thread.name == "cohort-suspects" for thread in threading.enumerate()):
            sys.stdout.write(json.dumps("late") + "\n")
            sys.stdout.flush()
            continue
        COMMANDS.get(line.strip(), lambda: None)()
        snapshot = ends.refresh(0.5)
        said = {f"{tp.topic}-{tp.partition}": why for tp, why in snapshot.unreachable.items()}
        sys.stdout.write(json.dumps({"unreachable": said, "ends": sorted(snapshot.ends.values())}) + "\n")
        sys.stdout.flush()


main()
