"""``cohort reset-offsets``: moves a group's committed offsets in Kafka, as Kafka's own tool does; by default it only shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from sparkcohort.cli import printing, reset_plan, views
from sparkcohort.cli.client_config import client_config
from sparkcohort.cli.kafka_group import KafkaGroup
from sparkcohort.cli.local_folder import LocalFolder
from sparkcohort.cli.simulate.live_case import CaseRequest
from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition

Committed = Mapping[TopicPartition, tuple[int, str]]
COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET")
MOST_NAMED: Final = 4
MOST_BYTES: Final = 64 << 20

WINS: Final = (
    "a checkpoint wins: a query starts at the group's offsets only with startingOffsets=committed and a checkpointLocation "
    "that has no offsets"
)
DRY_RUN: Final = "nothing is changed; --execute does it"

_EPILOG: Final = """\b
Examples:
  cohort reset-offsets --group billing --topic orders --to-earliest \\
      --bootstrap-server broker:9092            what would be done
  cohort reset-offsets --group billing --topic orders:0,1 --shift-by -100 \\
      --bootstrap-server broker:9092 --execute
  cohort reset-offsets --group billing --all-topics --to-current \\
      --bootstrap-server broker:9092 --export > offsets.csv
  cohort reset-offsets --group billing --from-file offsets.csv \\
      --bootstrap-server broker:9092 --execute
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Where offsets are moved to: the option's name and its value."""

    name: str
    value: Any


@click.command("reset-offsets", epilog=_EPILOG)
@click.option("--group", "group_id", metavar="GROUP", required=True, help="The group.id.")
@printing.servers
@printing.config
@click.option("--topic", "topics", metavar="T[:0,1]", multiple=True, help="A topic, or some partitions; repeatable.")
@click.option("--all-topics", is_flag=True, help="Every topic of which the group has committed offsets.")
@click.option("--to-earliest", is_flag=True, help="To the start of each log.")
@click.option("--to-latest", is_flag=True, help="To the end of each log.")
@click.option("--to-current", is_flag=True, help="To the committed offset; without one, to the end.")
@click.option(
    "--to-offset", type=click.IntRange(min=0, max=reset_plan.MOST_OFFSET), metavar="N", help="To this offset."
)
@click.option("--to-datetime", metavar="TIME", help="To the first record from YYYY-MM-DDTHH:MM:SS.sss on, in UTC.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="As --to-datetime, this long ago.")
@click.option("--shift-by", type=int, metavar="N", help="N records forward; back if N is negative.")
@click.option("--from-file", metavar="FILE", help="To the offsets in a file of topic,partition,offset.")
@click.option(
    "--checkpoint",
    type=LocalFolder(),
    metavar="DIR",
    help="Say whether this checkpointLocation (a local directory) has offsets.",
)
@click.option("--execute", is_flag=True, help="Move the offsets; without it they are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show the new offsets, which is the default.")
@click.option("--export", is_flag=True, help="Print topic,partition,offset lines for --from-file.")
@printing.output
def reset_command(
    group_id: str, servers: str | None, config: str | None, topics: tuple[str, ...], all_topics: bool, **options: Any
) -> None:
    """Move the committed offsets of a group in Kafka that has no members.

    It shows what would be done; --execute does it. Offsets outside a log are moved to its nearest end.
    """
    context = click.get_current_context()
    target = _target(options)
    if servers is None:
        raise click.UsageError("--bootstrap-server is needed: offsets are moved in Kafka.", context)
    if options["execute"] and options["dry_run"]:
        raise click.UsageError("--execute and --dry-run exclude each other.", context)
    if (bool(topics) + all_topics) != (target.name != "from_file"):
        raise click.UsageError(
            "name what to move: --topic or --all-topics, one of them; with --from-file neither.", context
        )
    try:
        _check(target)
        note = _about_checkpoint(options["checkpoint"])  # before anything is moved: a failure means that nothing was
        request = CaseRequest(group_id, client_config(servers, config))
        plan = _read_plan(target, group_id)
        group = KafkaGroup(request)
        committed = group.committed()
        partitions = _scope(group, committed, plan, topics, all_topics)
        offsets = _new_offsets(group, target, partitions, committed, plan)
    except OptionError as error:
        raise click.UsageError(str(error), context) from None
    _refuse_members(group, group_id)  # a plan that can't be carried out is none, as with Kafka's own tool
    if options["execute"]:
        group.reset(offsets, committed)
    if options["export"]:
        click.echo(reset_plan.format_plan(offsets), nl=False)
        return
    planned = "a checkpoint has a first batch that is planned and not committed: after a reset it can't go on"
    notes = [*([] if options["execute"] else [DRY_RUN]), note]
    notes += [planned] if group.has_plan(committed) else []
    rows = tuple((group_id, *tp, committed.get(tp, (None, ""))[0], new) for tp, new in sorted(offsets.items()))
    printing.print_view(views.View(COLUMNS, rows, notes=tuple(notes)), options["output"])


def _target(options: Mapping[str, Any]) -> Target:
    names = (
        "to_earliest",
        "to_latest",
        "to_current",
        "to_offset",
        "to_datetime",
        "by_duration",
        "shift_by",
        "from_file",
    )
    targets = [Target(name, options[name]) for name in names if options[name] not in (None, False)]
    # ``0 in (None, False)`` is true: an offset or a shift of nothing is a target, too.
    targets += [Target(n, 0) for n in ("to_offset", "shift_by") if options[n] is not None and options[n] == 0]
    if len(targets) != 1:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise click.UsageError(f"say where to by exactly one of {words}.", click.get_current_context())
    return targets[0]


def _check(target: Target) -> None:
    """Raise OptionError for a bad time, before Kafka is asked."""
    if target.name == "to_datetime":
        reset_plan.time_ms(target.value)
    if target.name == "by_duration":
        reset_plan.duration_ms(target.value)


def _read_plan(target: Target, group_id: str) -> dict[TopicPartition, int]:
    if target.name != "from_file":
        return {}
    try:
        with Path(target.value).open(encoding="utf-8", newline="") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise OptionError(f"--from-file {target.value} can't be read: {reason}") from None
    if len(text) > MOST_BYTES:
        raise OptionError(f"--from-file {target.value} is larger than {MOST_BYTES >> 20} MiB")
    return reset_plan.parse_plan(text, group_id)


def _scope(
    group: KafkaGroup,
    committed: Committed,
    plan: Mapping[TopicPartition, int],
    topics: tuple[str, ...],
    all_topics: bool,
) -> list[TopicPartition]:
    """The partitions whose offsets are moved.  Raises OptionError, CohortError."""
    if plan:
        return reset_plan.topic_partitions([f"{tp.topic}:{tp.partition}" for tp in plan], group.sizes)
    if not all_topics:
        return reset_plan.topic_partitions(topics, group.sizes)
    if not committed:
        raise CohortError("the group has no committed offsets: name the topics by --topic")
    return reset_plan.topic_partitions(sorted({tp.topic for tp in committed}), group.sizes)


def _new_offsets(
    group: KafkaGroup,
    target: Target,
    partitions: list[TopicPartition],
    committed: Committed,
    plan: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The new offset of each partition.  Raises CohortError, OptionError."""
    if target.name == "to_earliest":
        return group.start_offsets(partitions)
    if target.name == "to_latest":
        return group.end_offsets(partitions)
    if target.name == "to_datetime":
        return group.offsets_at_time(partitions, reset_plan.time_ms(target.value))
    if target.name == "by_duration":
        return group.offsets_at_time(partitions, int(time.time() * 1000) - reset_plan.duration_ms(target.value))
    ends = group.end_offsets(partitions)
    if target.name == "to_current":
        return {tp: committed[tp][0] if tp in committed else ends[tp] for tp in partitions}
    if target.name == "shift_by":
        missing = [f"{tp.topic}-{tp.partition}" for tp in partitions if tp not in committed]
        if missing:
            raise CohortError(
                f"--shift-by moves from committed offsets, and there is none of {', '.join(missing[:MOST_NAMED])}: use --to-offset"
            )
        new_offsets = {tp: committed[tp][0] + target.value for tp in partitions}
    else:
        new_offsets = {tp: plan.get(tp, target.value) for tp in partitions}
    return reset_plan.clamp_offsets(new_offsets, group.start_offsets(partitions), ends)


def _refuse_members(group: KafkaGroup, group_id: str) -> None:
    """Raise CohortError while the group has members: their next commits would undo the reset."""
    members = group.members()
    if members:
        names = "; ".join(f"{name} ({client} on {host})" for name, client, host in members[:MOST_NAMED])
        more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
        raise CohortError(
            f"group {group_id} has members, and offsets move only without any: {names}{more}; stop them, and wait until the "
            "session of a driver that has just ended is over (kafka.session.timeout.ms, 45 s)"
        )


def _about_checkpoint(folder: Path | None) -> str:
    """The note whether a query with this checkpoint starts at the group's offsets; without one, the rule."""
    if folder is None:
        return WINS
    try:
        names = [file.name for file in (folder / "offsets").iterdir()]
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise CohortError(f"--checkpoint {folder} can't be read: {error.strerror}") from None
    batches = [int(name) for name in names if name.isascii() and name.isdigit()]
    if not batches:
        return f"{folder} has no offsets: a query with it and startingOffsets=committed starts at the group's"
    return f"{folder} has offsets up to batch {max(batches)} and wins: a query with it does not start at the group's"
