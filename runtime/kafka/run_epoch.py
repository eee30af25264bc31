"""Run numbers, blocks of generations and the pinned start, kept in the metadata text of Kafka's committed offsets.

Every commit of a run carries its record as compact JSON, as ``{"cohort":1,"run":7,"gen":7000,"id":"5f2c81aa"}``, plus
``"topic"``, ``"host"``, and ``"pin"`` and ``"plan"`` while batch 0 is not committed: at most 300 bytes of Kafka's
offset.metadata.max.bytes (4,096).
The record with the highest run number speaks for the group.

- **Run numbers** tell a newer driver from an older one, which Kafka's static membership alone cannot: a driver frozen
  past its session that thaws rejoins with the same instance id and fences the newer one.  A driver that sees
  a higher number than its own stops for good.
- **Generations** are reserved in blocks of 1,000, so that they go up over a restart of the driver (law I4).
- **The pin** names what the start of batch 0 was computed from; the committed offsets next to it are that start.
- **The topic** is the id of the one that the offset is of.  Kafka deletes what is committed with its topic; but a driver
  that has not heard of it yet commits to the new one of that name.
- **The host** is the driver's: the runs that it ends, and the one that ends it, tell it.
- **The plan** names the end that was planned from there, over all partitions.  Spark replays a batch by its end alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.text import printable

FORMAT = 1
GENERATION_BLOCK = 1000
MOST = 2**53  # of a run's number and of generations: no run gets there, so a larger number is not ours
MOST_TEXT = 64  # characters of a text: the name of a host is cut, no other comes near it
MAX_BYTES = 4096  # Kafka: offset.metadata.max.bytes

Offset: TypeAlias = tuple[int | None, str] | tuple[int | None, str, int]
"""As ``Committed``, or without its epoch."""


Number = Annotated[int, Meta(ge=0, lt=MOST)]
Text = Annotated[str, Meta(max_length=MOST_TEXT)]


class CommitMetadata(Struct, frozen=True, order=True, omit_defaults=True, rename={"generation": "gen"}):
    """What one run wrote; ``generation`` is the last one reserved, the texts are empty, hashes or a name; orders by run number."""

    run: Number = 0
    generation: Number = 0
    id: Text = ""
    pin: Text = ""
    plan: Text = ""
    topic: Text = ""
    host: Text = ""  # printable, once it is decoded


NO_RECORD = CommitMetadata()
_DECODER = msgspec.json.Decoder(CommitMetadata)  # made at import: see ``wire_types``


def encode(record: CommitMetadata) -> str:
    """The record as metadata text.  Raises ValueError where Kafka would refuse its size."""
    text = json.dumps({"cohort": FORMAT, **msgspec.to_builtins(record)}, separators=(",", ":"))
    if len(text.encode()) >= MAX_BYTES:
        raise ValueError(f"commit metadata of {len(text)} characters; Kafka takes less than {MAX_BYTES} bytes")
    return text


def decode(text: str) -> CommitMetadata:
    """The record in a metadata text; ``NO_RECORD`` for any other text, and for one with a field that no version writes so."""
    if '"cohort":' not in text or len(text) >= MAX_BYTES:
        return NO_RECORD
    try:
        record = _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return NO_RECORD
    return replace(record, host=printable(record.host, MOST_TEXT))


def with_topic_id(text: str, topic_id: str) -> str:
    """A metadata text of ours, for an offset in the topic with this id; as it is where that isn't known."""
    return encode(replace(decode(text), topic=topic_id)) if topic_id else text


def latest(texts: Iterable[str]) -> CommitMetadata:
    """The record that speaks for the group: of the highest run, with the highest generation that any run reserved."""
    records = [decode(text) for text in texts]
    newest = max(records, default=NO_RECORD)
    return replace(newest, generation=max((record.generation for record in records), default=0))


def starts_beside(
    committed: Mapping[TopicPartition, Offset], *, pin: str = "", plan: str = ""
) -> dict[TopicPartition, int]:
    """The offsets beside this pin, or this plan; empty where there is none, or another."""
    records = {tp: (offset, decode(text)) for tp, (offset, text, *_) in sorted(committed.items())}
    return {
        tp: offset
        for tp, (offset, record) in records.items()
        if offset is not None and (pin or plan)
        if pin in ("", record.pin) and plan in ("", record.plan)
    }


def plan_of(end: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> str:
    """16 hex digits that name the end of a batch: all its partitions with their offsets, and the topics' ids it tells.

    An end that ``format("kafka")`` planned tells none.
    """
    value = [[[*tp, offset] for tp, offset in sorted(end.items())], sorted(ids.items())]
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


class RunEpoch(Struct, frozen=True):
    """One run's place in the order of runs: what it read when it joined, what it reserved, whether a later run came.

    Feed it the group's metadata texts: ``observe`` around the first join, ``next`` for the record to commit, then
    ``confirm`` when Kafka has it.
    """

    id: str  # tells two runs of one number apart
    host: str = ""  # the driver's
    predecessor: CommitMetadata | None = None  # the newest record of others before the first join
    own: CommitMetadata | None = None  # as Kafka has it; its run number stays, its generation goes up only

    def observe(self, texts: Iterable[str]) -> RunEpoch:
        """Remember the newest earlier run: called with what is read before joining, and right after the first join."""
        return replace(self, predecessor=latest(texts))

    def next(self, texts: Iterable[str], pin: str = "", plan: str = "") -> CommitMetadata:
        """The record to commit next: the first run number and block, or this run's further block."""
        newest = latest(texts)
        if self.own is not None:
            generation = max(self.own.generation, newest.generation) + GENERATION_BLOCK
            return replace(self.own, generation=generation, pin=pin, plan=plan)
        prior = self.predecessor or NO_RECORD
        generation = max(newest.generation, prior.generation) + GENERATION_BLOCK
        return CommitMetadata(max(newest.run, prior.run) + 1, generation, self.id, pin, plan, host=self.host)

    def confirm(self, record: CommitMetadata) -> RunEpoch:
        """Kafka has the record."""
        return replace(self, own=replace(record, pin="", plan=""))

    @property
    def first_generation(self) -> int:
        """Generations of the newest block are above this one and up to ``last_generation``."""
        return self.last_generation - GENERATION_BLOCK if self.own is not None else 0

    @property
    def last_generation(self) -> int:
        """The last generation reserved; reserve another block before it is passed."""
        return self.own.generation if self.own is not None else 0

    def metadata(self, pin: str = "", plan: str = "") -> str:
        """The text that every commit of this run carries."""
        return encode(replace(self.own or CommitMetadata(id=self.id, host=self.host), pin=pin, plan=plan))

    def find_successor(self, texts: Iterable[str]) -> CommitMetadata | None:
        """The record of a later run, if there is one: then this run must stop for good."""
        newest = latest(texts)
        own = self.own or self.predecessor
        if own is None or newest.run < own.run or newest.id == self.id:  # ours; its commit's answer may be lost
            return None
        if self.own is None:
            return newest if newest.run > own.run else None
        return newest if (newest.run, newest.id) != (own.run, own.id) else None
