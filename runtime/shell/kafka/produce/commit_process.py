"""Commits the batches of one exactly-once stream, and keeps its connections: a process on the driver's host (CommitProcess.java).

``python -m …commit_process FOLDER``, the one of what Spark has shipped (``--py-files``).  The first line of its input is a JSON object,
the options of the write, which may have secrets.  Each line after it is a batch, a JSON array of its tasks' decisions
(``WrittenRows.decision``), and is answered with a line, a JSON object: ``error``, "" or the error's text, and the figures of its commit
(``SinkCommits``).  Nothing is asked before an answer.

The process ends with its input, after an error, and when no batch has come for a minute: the next batch starts another one.  Its exit
status is 0 only if it has answered every batch that it took, so that the JVM knows whether to ask another process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TextIO

from sparkcohort.runtime.errors import CohortError, named
from sparkcohort.runtime.kafka.decision import joined_decision
from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
from sparkcohort.runtime.shell.options.parse_sink import parse_sink
from sparkcohort.runtime.shell.rpc.executor import module_paths
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr

IDLE_S: Final = 60.0
CHUNK: Final = 1 << 16


def main() -> None:
    """Until the input ends, or is idle."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C at the driver: the batch is committed, and then the input ends
    log_to_stderr()
    sys.path += module_paths(Path(sys.argv[1]))  # the user's token provider may be there
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what a library prints is no answer
        commit_batches(read_lines(0), answers)


def read_lines(stream: int) -> Iterator[bytes]:
    """The whole lines of a file descriptor, until its end, or until nothing has come for ``IDLE_S``."""
    buffer = b""
    while select.select([stream], [], [], IDLE_S)[0]:
        chunk = os.read(stream, CHUNK)
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        yield from lines


def commit_batches(lines: Iterator[bytes], answers: TextIO) -> None:
    """Commit and answer each batch, up to the first that can't be committed: the query ends with it."""
    options_line = next(lines, None)
    if options_line is None:
        return
    options = parse_sink(json.loads(options_line))
    with closing(SinkCommitter(options.producer, options.sink_id, options.state_topic)) as committer:
        for line in lines:
            answer = _commit(committer, json.loads(line), options.producer.transaction_ms / 1000)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
            if answer["error"]:
                return


def _commit(committer: SinkCommitter, decisions: list[str], timeout_s: float) -> dict[str, Any]:
    """Commit a batch; the answer to it."""
    began_at, batch = time.monotonic(), joined_decision([each.encode() for each in decisions])
    try:
        commit = committer.commit(batch)
    except CohortError as error:
        return {"error": named(error.error, str(error))}
    return {
        "error": "",
        "committed": len(batch.committables),
        "aborted": len(commit.leftovers),
        "commit_s": time.monotonic() - began_at,
        "open_ratio": 0.0 if commit.left_s is None else 1 - commit.left_s / timeout_s,
    }


if __name__ == "__main__":
    main()
