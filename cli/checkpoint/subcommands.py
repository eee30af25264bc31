"""The commands ``cohort checkpoint show``, ``diff`` and ``repair``.

Exit status 0: an answer, and a restart goes on; 1: no answer, a restart would fail or lose records, or a repair is refused; 2: a mistake
on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from sparkcohort.cli import printing
from sparkcohort.cli.checkpoint import listing, positions, repairs
from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source, read_offsets, source_of
from sparkcohort.cli.checkpoint.positions import KafkaPositions, RestartPlan, compare
from sparkcohort.cli.checkpoint.repairs import Files, Mend
from sparkcohort.cli.kafka_group import KafkaGroup, open_group
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition

DEFAULT_LAST: Final = 10

_EPILOG: Final = """\b
Examples:
  cohort checkpoint show /checkpoints/billing
  cohort checkpoint diff s3://bucket/billing --bootstrap-server broker:9092 \\
      --command-config client.properties --group billing
  cohort checkpoint repair /checkpoints/billing
                              what would be repaired; nothing is written
  cohort checkpoint repair /checkpoints/billing --execute
                              after a backup, which is printed
"""

_directory = click.argument("directory", metavar="DIR")


@click.group("checkpoint", epilog=_EPILOG, no_args_is_help=False)
def checkpoint_command() -> None:
    """Look at a checkpoint, compare it with Kafka, repair it; without Spark.

    DIR is a folder or a URI: file://, hdfs://, s3:// and what else pyarrow or fsspec opens.
    """


@checkpoint_command.command("show")
@_directory
@click.option(
    "--last", type=click.IntRange(min=1, max=10_000), default=DEFAULT_LAST, show_default=True, help="How many batches."
)
@click.option("--offsets", "partitions", is_flag=True, help="The offsets of the last batch, by source and partition.")
@printing.output
def show_command(directory: str, last: int, partitions: bool, output: str) -> int:
    """Show batches, commits, the batch in flight, and which format wrote them."""
    folder = Folder(directory)
    batches = listing.batches(folder, last)
    view = listing.offsets(batches) if partitions else listing.as_view(batches)
    printing.print_view(replace(view, heading=listing.title(folder)), output)
    broken = [batch for batch in batches if batch.trouble]
    if broken:
        raise CohortError(f"{broken[-1].trouble}; cohort checkpoint repair says what to do")
    return 0


@checkpoint_command.command("diff")
@_directory
@printing.servers
@printing.config
@click.option("--group", metavar="GROUP", help="The query's group.id: its commits are compared too.")
@printing.output
def diff_command(directory: str, servers: str | None, config: str | None, group: str | None, output: str) -> int:
    """Compare a checkpoint with the log and the group: what is lost, what a restart reads.

    Exit status 1 if a restart would fail, or lose records with failOnDataLoss=false.
    """
    kafka = open_group(group or "", servers, config)
    # A running query goes on meanwhile: first the log grows, then the checkpoint, then the group.  So they are read in the
    # opposite order, group, checkpoint, log: then none is ahead of what it follows.
    committed = {tp: offset for tp, (offset, _) in kafka.committed().items()} if kafka.name else None
    plans = _plans(Folder(directory).files())
    brokers = _read_logs(kafka, plans, committed)
    rows = [row for plan in plans for row in compare(plan, brokers)]
    printing.print_view(listing.differences(rows), output)
    failing = [row for row in rows if row.fails]
    if failing:
        printing.print_stderr(f"cohort: a restart would fail: {positions.words(failing)}; {positions.costs(failing)}")
        return 1
    if output == "table":
        click.echo(listing.restart(rows))
    return 0


@checkpoint_command.command("repair")
@_directory
@click.option("--execute", is_flag=True, help="Write the files; without it they are only listed.")
@click.option("--accept-loss", is_flag=True, help="Also repairs that make a state inexact.")
@printing.output
def repair_command(directory: str, execute: bool, accept_loss: bool, output: str) -> int:
    """Repair files that keep Spark from starting.

    A dry run unless --execute. State stores are never touched. Stop the query first.
    """
    folder = Folder(directory)
    files = folder.files()
    mends = repairs.mend_files(files)
    try:
        if mends:
            _check_allowed(mends, accept_loss=accept_loss)
        done = _carry_out(folder, mends) if mends and execute else "nothing was written: add --execute"
    finally:  # after the repair: a closed pipe must not interrupt it
        printing.print_view(listing.mends(mends), output)
    if not mends:
        done = f"nothing to repair in {folder.place}; cohort checkpoint diff compares its offsets with Kafka"
    click.echo(done, err=True)
    return 0


def _check_allowed(mends: Sequence[Mend], *, accept_loss: bool) -> None:
    """Raise CohortError if one of these can't be repaired, or needs --accept-loss."""
    if refused := next((mend for mend in mends if mend.refused), None):
        raise CohortError(f"{refused.path} is not repaired: {refused.refused}")
    if (costly := next((mend for mend in mends if mend.loss), None)) and not accept_loss:
        raise CohortError(f"{costly.path} is not repaired without --accept-loss: {costly.loss}")


def _carry_out(folder: Folder, mends: Sequence[Mend]) -> str:
    backup = folder.back_up()
    try:
        # A commit is removed before its offsets: if this ends half way, the batch is in flight, which Spark can start from.
        for mend in sorted(mends, key=lambda mend: (not mend.path.startswith("commits/"), mend.path)):
            folder.write(mend.path, mend.text)
    except CohortError as error:
        raise CohortError(f"{error}; run this again, or copy {backup} back to undo it") from None
    return (
        f"backup: {backup} (offsets, commits and metadata; copy them back to undo this)\n"
        f"repaired: {', '.join(mend.path for mend in mends)}"
    )


def _plans(files: Files) -> list[RestartPlan]:
    """Where a restart begins, by source.  Raises CohortError: it would fail, or its start is not in the checkpoint."""
    wrong = repairs.mend_files(files)
    if wrong:
        raise CohortError(f"a restart would fail: {wrong[0].fault}; cohort checkpoint repair says what to do")
    if not files.offsets:
        raise CohortError(
            "no batch is planned in this checkpoint: a restart begins at the group's commits, else at startingOffsets"
        )
    last = max(files.offsets)
    done = last in files.commits
    ends, starts = (_read_ends(files, number) if number in files.offsets else {} for number in (last, last - 1))
    plans = [
        RestartPlan(source, end if done else starts.get(source), None if done else end) for source, end in ends.items()
    ]
    if not any(plan.start or plan.planned for plan in plans):
        raise CohortError("no source of this checkpoint reads Kafka")
    return plans


def _read_ends(files: Files, number: int) -> dict[Source, KafkaEnds | None]:
    name = f"offsets/{number}"
    return {source: source_of(line, name) for source, line in read_offsets(files.offsets[number], name).sources.items()}


def _read_logs(
    kafka: KafkaGroup, plans: Sequence[RestartPlan], committed: dict[TopicPartition, int] | None
) -> KafkaPositions:
    topics = {tp.topic for plan in plans for each in (plan.start, plan.planned) if each for tp in each.ends}
    kafka.check_permission(topics)
    partitions = {tp for tp in kafka.partitions() if tp.topic in topics}
    starts, silent = kafka.list_offsets(partitions, EARLIEST)
    ends, silent_ends = kafka.list_offsets(partitions, LATEST)
    return KafkaPositions(starts, ends, kafka.topic_ids, committed, {**silent, **silent_ends})
