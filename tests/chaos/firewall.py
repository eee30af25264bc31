"""Cuts between sides, by rules in a network namespace of our own: nothing outside it is ever touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

INSIDE = "COHORT_CHAOS_INSIDE"
NEED = "the campaign makes a network namespace of its own: it wants root (CAP_SYS_ADMIN, CAP_NET_ADMIN), unshare, ip and iptables"
REQUESTS, ANSWERS = "--dport", "--sport"


def enter() -> None:
    """Go on as the same command in a namespace that has a loopback interface and nothing else.  Raises OSError: not permitted."""
    if os.environ.get(INSIDE):
        return
    missing = [name for name in ("unshare", "ip", "iptables") if shutil.which(name) is None]
    probe = [] if missing else ["unshare", "--net", "--mount", "true"]
    if missing or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        raise OSError(NEED + (f"; there is no {', '.join(missing)}" if missing else ""))
    again = [sys.executable, "-P", "-m", "tests.chaos", *sys.argv[1:]]
    shell = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", *again]
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", *shell])  # noqa: S606  the same command, elsewhere


def cut(ports: Iterable[int], ways: Sequence[str] = (REQUESTS, ANSWERS)) -> None:
    """Drop what goes to these ports, what comes from them, or both: no answer, no refusal."""
    _rules("-A", ports, ways)


def heal(ports: Iterable[int], ways: Sequence[str] = (REQUESTS, ANSWERS)) -> None:
    """Let it pass again."""
    _rules("-D", ports, ways)


def _rules(what: str, ports: Iterable[int], ways: Sequence[str]) -> None:
    for port in ports:
        for way in ways:
            command = ["iptables", "-w", "10", what, "INPUT", "-p", "tcp", way, str(port), "-j", "DROP"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            if done.returncode != 0:
                raise OSError(f"`{' '.join(command)}` said: {done.stderr.strip()}")
