"""``cohort reset-offsets``: moves a group's committed offsets in Kafka; by default it only shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from sparkcohort.cli import printing, views
from sparkcohort.cli.kafka_group import KafkaGroup, Offsets, open_group
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import latest
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition

Committed = Mapping[TopicPartition, tuple[int, str]]
COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET")
MOST_NAMED: Final = 4
MOST_OFFSET: Final = 2**63 - 1

WINS: Final = (
    "a checkpoint wins: a query starts at the group's offsets only with startingOffsets=committed and a checkpointLocation "
    "that has no offsets"
)
DRY_RUN: Final = "nothing is changed; --execute does it"
PLANNED: Final = "a checkpoint has a first batch that is planned and not committed: after a reset it can't go on"

_EPILOG: Final = """\b
Examples:
  cohort reset-offsets --group billing --topic orders --to-earliest \\
      --bootstrap-server broker:9092            what would be done
  cohort reset-offsets --group billing --topic orders:0,1 --shift-by -100 \\
      --bootstrap-server broker:9092 --execute
  cohort reset-offsets --group billing --all-topics --to-datetime 2026-11-01T00:00:00 \\
      --bootstrap-server broker:9092
"""


def _mistake(text: str) -> click.UsageError:
    return click.UsageError(text, click.get_current_context())


def time_ms(text: str) -> int:
    """A point in time in milliseconds since 1970; UTC if it names no zone.  Raises UsageError.

    >>> time_ms("2026-01-01T00:00:00.000"), time_ms("2026-01-01T01:00:00+01:00"), time_ms("1969-12-31T23:59:59.999")
    (1767225600000, 1767225600000, 0)
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _mistake(
            f"--to-datetime {text!r} is no time; write YYYY-MM-DDTHH:MM:SS.sss, in UTC unless it ends with an offset such as +02:00"
        ) from None
    # To Kafka -1 is the end of a log; no record is older than 1970.
    return max(round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000), 0)


def _as_ms(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    return None if text is None else time_ms(text)


@click.command("reset-offsets", epilog=_EPILOG)
@click.option("--group", "group_id", metavar="GROUP", required=True, help="The group.id.")
@printing.servers
@printing.config
@click.option("--topic", "topics", metavar="T[:0,1]", multiple=True, help="A topic, or some partitions; repeatable.")
@click.option("--all-topics", is_flag=True, help="Every topic of which the group has committed offsets.")
@click.option("--to-earliest", is_flag=True, default=None, help="To the start of each log.")
@click.option("--to-latest", is_flag=True, default=None, help="To the end of each log.")
@click.option("--to-offset", type=click.IntRange(min=0, max=MOST_OFFSET), metavar="N", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=_as_ms,
    help="To the first record from YYYY-MM-DDTHH:MM:SS.sss on, in UTC.",
)
@click.option("--shift-by", type=int, metavar="N", help="N records forward; back if N is negative.")
@click.option("--execute", is_flag=True, help="Move the offsets; without it they are only shown.")
@printing.output
def reset_command(
    group_id: str,
    servers: str | None,
    config: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    output: str,
    **targets: Any,
) -> None:
    """Move the committed offsets of a group in Kafka that has no members.

    It shows what would be done; --execute does it. Offsets outside a log are moved to its nearest end.
    """
    chosen = [(name, value) for name, value in targets.items() if value is not None]
    if len(chosen) != 1:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise _mistake(f"say where to by exactly one of {words}.")
    if bool(topics) == all_topics:
        raise _mistake("name what to move: --topic or --all-topics, one of them.")
    group = open_group(group_id, servers, config)
    committed = group.committed()
    if all_topics and not committed:
        raise CohortError("the group has no committed offsets: name the topics by --topic")
    names = sorted({tp.topic for tp in committed}) if all_topics else topics
    offsets = _new_offsets(group, *chosen[0], topic_partitions(names, group.sizes), committed)
    _refuse_members(group)  # a plan that can't be carried out is none, as with Kafka's own tool
    if execute:
        group.reset(offsets, committed)
    notes = [*([] if execute else [DRY_RUN]), WINS]
    notes += [PLANNED] if latest(text for _, text in committed.values()).plan else []
    rows = tuple((group_id, *tp, committed.get(tp, (None, ""))[0], new) for tp, new in sorted(offsets.items()))
    printing.print_view(views.View(COLUMNS, rows, notes=tuple(notes)), output)


def _new_offsets(
    group: KafkaGroup, target: str, value: Any, partitions: list[TopicPartition], committed: Committed
) -> Offsets:
    match target:
        case "to_earliest":
            return group.offsets(partitions, EARLIEST)
        case "to_latest":
            return group.offsets(partitions, LATEST)
        case "to_datetime":
            offsets = group.offsets(partitions, value)
            ends = group.offsets([tp for tp, offset in offsets.items() if offset < 0], LATEST)
            return {**offsets, **ends}
        case "to_offset":
            return _clamp_offsets(group, dict.fromkeys(partitions, value))
    if missing := [f"{tp.topic}-{tp.partition}" for tp in partitions if tp not in committed]:
        names = views.first_names(missing, MOST_NAMED)
        raise CohortError(f"--shift-by moves from committed offsets, and there is none of {names}: use --to-offset")
    return _clamp_offsets(group, {tp: committed[tp][0] + value for tp in partitions})


def _clamp_offsets(group: KafkaGroup, offsets: Offsets) -> Offsets:
    """Each offset, or the nearest one that its log has (Kafka: ``checkOffsetsRange``)."""
    starts, ends = group.offsets(offsets, EARLIEST), group.offsets(offsets, LATEST)
    return {tp: max(starts[tp], min(offset, ends[tp])) for tp, offset in offsets.items()}


def topic_partitions(texts: Iterable[str], sizes: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions that ``--topic T`` and ``--topic T:0,1`` name.  Raises UsageError for one that doesn't exist."""
    partitions: set[TopicPartition] = set()
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if topic not in sizes:
            raise _mistake(f"--topic {topic}: there is no such topic, or this login may not see it")
        # No partition is not all of them: a variable of the shell that is empty would move the whole topic.
        requested = numbers.split(",") if colon else list(map(str, range(sizes[topic])))
        if not all(number.isascii() and number.isdigit() and len(number) < 11 for number in requested):
            raise _mistake(f"--topic {text}: partitions are numbers, such as {topic}:0,1; {topic} alone is all of it")
        if missing := [number for number in requested if int(number) >= sizes[topic]]:
            raise _mistake(f"--topic {text}: {topic} has {sizes[topic]} partitions, there is no {missing[0]}")
        partitions |= {TopicPartition(topic, int(number)) for number in requested}
    return sorted(partitions)


def _refuse_members(group: KafkaGroup) -> None:
    """Raise CohortError while the group has members: their next commits would undo the reset."""
    names = [
        f"{each.group_instance_id or each.member_id} ({each.client_id} on {each.host})" for each in group.members()
    ]
    if names:
        raise CohortError(
            f"group {group.name} has members, and offsets move only without any: {views.first_names(names, MOST_NAMED)}; stop them, and "
            "wait until the session of a driver that has just ended is over (kafka.session.timeout.ms, 45 s)"
        )
