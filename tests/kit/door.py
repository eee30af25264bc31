"""A process with a group's port and few descriptors.

    python -m tests.kit.door DESCRIPTORS

Writes its port and a member's credentials as JSON to standard output, and serves until it is ended.
"""

from __future__ import annotations

import json
import queue
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sparkcohort.runtime.shell.rpc.flight import EventQueue, GroupServer
from sparkcohort.runtime.shell.rpc.tls import Credentials, new_authority


def main(descriptors: str) -> None:
    """Serve."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), int(descriptors)))
    events: EventQueue = queue.SimpleQueue()
    authority = new_authority()
    handlers = dict.fromkeys(("Echo", "Heartbeat"), bytes)
    server = GroupServer(authority, handlers, lambda _: events, lambda _: None)
    member = authority.client
    texts = [blob.decode() for blob in (member.authority, member.certificate, member.key)]
    sys.stdout.write(json.dumps([server.port, *texts, member.token]) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


@contextmanager
def serving(descriptors: int) -> Iterator[tuple[int, Credentials]]:
    """The process, with its port and credentials; killed at the end."""
    command = [sys.executable, "-m", "tests.kit.door", str(descriptors)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            port, authority, certificate, key, token = json.loads(process.stdout.readline())
            yield port, Credentials(authority.encode(), certificate.encode(), key.encode(), token)
        finally:
            process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
