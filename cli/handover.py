"""``cohort handover``: have the query that reads in a group finish its batch, commit and stop; from any host.

With ``--to-checkpoint`` a Spark checkpoint is written or continued, so that the next query begins where that one ended.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click

from sparkcohort.cli import printing
from sparkcohort.cli.checkpoint import logs
from sparkcohort.cli.client_config import client_config
from sparkcohort.cli.local_folder import LocalFolder
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import FREE, AskingState, HandoverAnswer, HandoverRecord, RunName
from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.handover_client import LOOK_S, HandoverClient, HandoverDelayed, ask, describe

Offsets = Mapping[TopicPartition, int]

T = TypeVar("T")
READ_S = 30.0
_MOST = 1 << 20

_EPILOG = """\b
Examples:
  cohort handover --group billing --bootstrap-server broker:9092
                                           stop the query at a clean point
  cohort handover --group billing --bootstrap-server broker:9092 --to-checkpoint /data/billing-2
                                           ... and have the next one, with that checkpoint, begin there

Exit status: 0 the query has stopped and all is written; 1 it has not stopped (nothing is written), or it has and not all is
written, as the error says: then run this again; 2 a mistake on the command line.
"""


@click.command("handover", epilog=_EPILOG)
@click.option("--group", "group_id", metavar="GROUP", required=True, help="The group.id of the running query.")
@click.option("--bootstrap-server", metavar="HOST:PORT", required=True, help="The brokers, as for Kafka's own tools.")
@click.option("--command-config", metavar="FILE", help="Kafka's client settings, as a properties file.")
@click.option("--to-checkpoint", type=LocalFolder(), metavar="DIR", help="A local checkpointLocation.")
@click.option(
    "--timeout-ms", type=click.IntRange(min=1000), default=120_000, show_default=True, help="The longest wait."
)
def handover_command(
    group_id: str, bootstrap_server: str, command_config: str | None, to_checkpoint: Path | None, timeout_ms: int
) -> None:
    """Have the running query of a group finish its batch, commit it and stop, so that the next one goes on from there.

    The query ends with HANDED_OVER.  Start the next one afterwards.
    """
    if to_checkpoint is not None:
        writable(to_checkpoint)  # before the query is stopped
    client = HandoverClient({"client.id": "cohort", **client_config(bootstrap_server, command_config)}, group_id)
    with closing(client):
        _hand_over(client, to_checkpoint, timeout_ms)


def _hand_over(client: HandoverClient, to_checkpoint: Path | None, timeout_ms: int) -> None:
    outcome = ask(client, timeout_ms, _pause)
    if outcome.state is not AskingState.GRANTED:
        raise CohortError(describe(outcome, client.group_id))
    try:
        _write_down(client, to_checkpoint, outcome.target or RunName(0, ""))
    except CohortError as error:
        # The driver's answer stays in Kafka: the next call finds it, and goes on from there.
        raise CohortError(f"the query of group {client.group_id} has stopped, but {error}; run this again") from None
    printing.print_stderr(describe(outcome, client.group_id))


def _write_down(client: HandoverClient, to_checkpoint: Path | None, stopped: RunName) -> None:
    """Write where the query has ended to the checkpoint, if there is one, free the group in Kafka, and print the offsets."""
    ends = {tp: offset for tp, (offset, text) in _answer_of_kafka(client.committed).items() if decode(text).run}
    batch = None if to_checkpoint is None else write_checkpoint(to_checkpoint, ends)
    _answer_of_kafka(lambda: client.write(HandoverRecord(HandoverAnswer.PARKED, FREE, stopped)))
    for tp, offset in sorted(ends.items()):
        click.echo(f"{tp.topic}-{tp.partition} {offset}")
    if to_checkpoint is not None:
        click.echo(f"{to_checkpoint}: batch {batch} ends there; the next query begins after it", err=True)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _answer_of_kafka(ask_kafka: Callable[[], T]) -> T:
    """Kafka's answer, asked for again until ``READ_S`` are over."""
    deadline = time.monotonic() + READ_S
    while True:
        try:
            return ask_kafka()
        except HandoverDelayed:
            if time.monotonic() > deadline:
                raise
            _pause(LOOK_S)  # some failures come without a wait


def writable(folder: Path) -> int | None:
    """The last batch of this checkpoint; None: there is none yet.  Raises CohortError: it can't be continued."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            _free(folder)
            return None
    except OSError as error:
        raise CohortError(f"--to-checkpoint {folder} can't be read: {error.strerror}") from None
    offsets, commits = _batches(folder / "offsets"), _batches(folder / "commits")
    if not offsets:
        raise CohortError(f"--to-checkpoint {folder} is no checkpoint of Spark's, and not empty: name another folder")
    if (folder / "state").exists():
        raise CohortError(
            f"--to-checkpoint {folder} has state, which would miss what was read meanwhile: name a new folder, or start the "
            "next query without a checkpoint"
        )
    last = max(offsets)
    text = _text(folder / "offsets" / str(last))
    sources = len(logs.read_offsets(text, f"--to-checkpoint {folder}: offsets/{last}").sources)
    if sources != 1:
        raise CohortError(f"--to-checkpoint {folder} is of a query with {sources} sources: name a new folder")
    if last not in commits and last - 1 not in commits:
        raise CohortError(f"--to-checkpoint {folder}: batch {last} is planned and not committed, nor is the one before")
    _text(folder / "commits" / str(last if last in commits else last - 1))  # raises before anything is written
    for log in ("offsets", "commits"):
        _open_to_us(folder, folder / log)
    return last


def _free(folder: Path) -> None:
    """Raise CohortError if a new folder can't replace this one, which is empty or missing."""
    if folder.is_mount():
        raise CohortError(f"--to-checkpoint {folder} is a mount, which can't be replaced: name a new folder in it")
    _open_to_us(folder, next(each for each in folder.absolute().parents if each.exists()))


def _open_to_us(folder: Path, place: Path) -> None:
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        reason = os.strerror(errno.EACCES if place.is_dir() else errno.ENOTDIR)
        raise CohortError(f"--to-checkpoint {folder} cannot be written: {reason}: {place}")


def write_checkpoint(folder: Path, ends: Offsets) -> int:
    """Have a query with this checkpoint begin at ``ends``; returns the batch that ends there.  Raises CohortError.

    A new checkpoint appears whole or not at all.  To an old one a batch is added: its offsets, then its commit.  If that
    is interrupted between the two, the next call completes it.
    """
    last, end = writable(folder), json.dumps(_as_json(ends), separators=(",", ":"))
    try:
        if last is None:
            _write_new(folder, end)
            return 0
        old = _text(folder / "offsets" / str(last))
        (source,) = logs.read_offsets(old, f"offsets/{last}").sources
        new = logs.rewrite_source(old, source, end)
        if not (folder / "commits" / str(last)).exists():
            if old != new:
                raise CohortError(
                    f"--to-checkpoint {folder}: batch {last} is planned and not committed: run its query once more until it "
                    "is, with the topics' offsets untouched, or name a new folder"
                )
        elif old != new:
            last += 1
            _write(folder / "offsets" / str(last), new)
        if not (folder / "commits" / str(last)).exists():
            _write(folder / "commits" / str(last), _text(folder / "commits" / str(last - 1)))
    except OSError as error:
        raise CohortError(f"--to-checkpoint {folder} cannot be written: {error.strerror}") from None
    return last


def _write_new(folder: Path, end: str) -> None:
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    for name in ("offsets", "commits"):
        (fresh / name).mkdir(parents=True)
    watermark = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
    (fresh / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (fresh / "offsets" / "0").write_text(f"v1\n{json.dumps(watermark)}\n{end}")
    (fresh / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    fresh.rename(folder)  # it replaces an empty folder, too


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all.  Spark's checksum of an older file of that name would make it unreadable."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    fresh.write_text(text)
    fresh.rename(path)


def _batches(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.glob("*") if path.name.isascii() and path.name.isdigit()}


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        raise CohortError(f"--to-checkpoint: {path} can't be read: {error}") from None
    if len(text) > _MOST:
        raise CohortError(
            f"--to-checkpoint: {path} has more than {_MOST} characters, the most that are read: name a new folder"
        )
    return text.removesuffix("\n")


def _as_json(offsets: Offsets) -> dict[str, Any]:
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value
