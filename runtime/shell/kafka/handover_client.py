"""What two drivers that hand a group over tell each other through Kafka (``runtime.kafka.handover``), and the one that asks."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import handover as machine
from sparkcohort.runtime.kafka.handover import AskingSide, AskingState, HandoverRecord, HandoverView
from sparkcohort.runtime.kafka.run_epoch import decode, latest
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.kafka.token_provider import NoToken
from sparkcohort.runtime.shell.options.certificate_files import ChangedFiles
from sparkcohort.runtime.shell.rpc.clock import now_ms

log = clients.log

SUFFIX = ".handover"
REQUEST_S = 5.0
LOOK_S = 0.25
_DENIED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class HandoverDenied(CohortError):
    """The group in which hand-overs are asked for may not be used."""


class HandoverDelayed(CohortError):
    """The brokers did not answer in time, or there was no client to ask with; what was written may have arrived or not."""


class HandoverClient:
    """The records of one group's hand-overs; for one thread at a time."""

    def __init__(
        self, conf: Mapping[str, str], group_id: str, places: Callable[[], Collection[TopicPartition]] | None = None
    ) -> None:
        """``conf``: as for ``clients.new_admin``.  Nothing is connected yet.

        ``places`` tells the partitions of which the run has commits; left out, all of the cluster are looked at.
        """
        self._conf = conf
        self.group_id = group_id
        self._places = places
        self._cluster: list[TopicPartition] = []
        self._admin: AdminClient | None = None
        self._groups: dict[str, GroupOffsets] = {}
        self._files = ChangedFiles(conf)
        self._place: TopicPartition | None = None
        self._records: dict[TopicPartition, HandoverRecord] = {}

    def close(self) -> None:
        """Let go of the clients."""
        self._admin = None
        while self._groups:
            self._groups.popitem()[1].close()

    def records(self) -> tuple[HandoverRecord, ...]:
        """What was written last, where it was written.  Raises HandoverDenied, HandoverDelayed, NoToken."""
        records = {
            tp: record
            for tp, (_, text) in self._offsets(self.group_id + SUFFIX).items()
            if (record := machine.decode_handover(text)) is not None
        }
        self._records = records
        if records:
            self._place = max(records, key=lambda tp: (records[tp].run, tp))
        elif self._places is not None:
            self._place = min(self._places(), default=None)
        return tuple(records.values())

    def look(self) -> HandoverView:
        """The newest run and all records of hand-overs.  Raises HandoverDenied, HandoverDelayed, NoToken."""
        committed = self._offsets(self.group_id)
        newest = latest(text for _, text in committed.values())
        records = self.records()
        places = [tp for tp, (_, text) in committed.items() if (entry := decode(text)).run == newest.run and entry.run]
        self._place = min(places, default=None)  # the same for all drivers that ask this run
        return HandoverView(newest, records)

    def write(self, record: HandoverRecord) -> None:
        """Write where the last look has found this request, else beside the newest.  Raises HandoverDenied, HandoverDelayed, NoToken."""
        key = record.request, record.target
        place = next((tp for tp, each in self._records.items() if (each.request, each.target) == key), self._place)
        assert place is not None  # noqa: S101  a write follows a read
        position = Position(*place, 0, machine.encode_handover(record))
        group = self.group_id + SUFFIX
        try:
            self._renew()
            if self._admin is None:
                self._admin = clients.new_admin(self._conf)
            answer = group_requests.commit_offsets(self._admin, group, [position]).result(REQUEST_S)
        except KafkaException as error:
            raise self._failure(error) from None
        except TimeoutError as error:
            self._admin = None  # and its request: what is written late must not come after what is written next
            raise HandoverDelayed(f"hand-over of group {self.group_id}: {clients.text_of(error)}") from None
        for position in answer.topic_partitions or ():
            if position.error is not None:
                raise self._failure(KafkaException(position.error))

    def _offsets(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        try:
            self._renew()
            offsets = self._group(group)
            if self._places is None and not self._cluster:
                self._cluster = offsets.partitions(REQUEST_S)
            return offsets.committed(self._cluster if self._places is None else self._places(), REQUEST_S)
        except KafkaException as error:
            if clients.code_of(error) < 0:  # no broker has answered: the client may be stuck, see RenewedClient
                self.close()
            raise self._failure(error) from None

    def _group(self, group: str) -> GroupOffsets:
        if group not in self._groups:
            try:
                self._groups[group] = GroupOffsets(self._conf, group)
            except CohortError as error:
                # No descriptors, a file that is being replaced, a provider that fails: the next try may well have a client.
                if isinstance(error, NoToken) and not error.retryable:
                    raise
                raise HandoverDelayed(f"hand-over of group {self.group_id}: {error}") from None
        return self._groups[group]

    def _renew(self) -> None:
        if self._files.have_changed():
            self.close()

    def _failure(self, error: KafkaException) -> CohortError:
        text = clients.text_of(error)
        if clients.code_of(error) not in _DENIED:
            return HandoverDelayed(f"hand-over of group {self.group_id}: {text}")
        return HandoverDenied(
            f"hand-over of group {self.group_id}: {text}: drivers ask each other in the group {self.group_id}{SUFFIX}, on which, "
            f"as on the group itself, each needs READ and DESCRIBE: kafka-acls --add --allow-principal USER --operation Read "
            f"--group {self.group_id} --resource-pattern-type prefixed",
            "GROUP_AUTHORIZATION_FAILED",
        )


def ask(client: HandoverClient, timeout_ms: int, pause: Callable[[float], None]) -> AskingSide:
    """Ask the driver that runs to stop after its batch, and wait for what comes of it.

    Raises HandoverDenied; NoToken, where no try will have one; what ``pause`` raises.  Brokers that do not answer are asked until the
    time is over.
    """
    level = logging.WARNING
    side = AskingSide(secrets.token_hex(8), socket.gethostname(), now_ms(), timeout_ms)
    while side.state not in machine.ENDS:
        old_state = side.state
        try:
            side, written = machine.step_asking(side, client.look(), now_ms())
            if written is not None:
                client.write(written)
        except HandoverDelayed as error:
            log.log(level, "%s; it is tried again", error)
            level = logging.DEBUG
            side, _ = machine.step_asking(side, None, now_ms())
        if side.state is not old_state:
            log.info("group %s: hand-over: %s -> %s", client.group_id, old_state, side.state)
        if side.state not in machine.ENDS:
            pause(LOOK_S)
    return side


def describe(side: AskingSide, group_id: str) -> str:
    """How a hand-over came out, for people."""
    words = {
        AskingState.GRANTED: "the driver before has committed its last batch and stopped",
        AskingState.ABSENT: "no driver has read in this group yet",
        AskingState.SILENT: "the driver before gives no sign: it has ended, tracks its progress asynchronously, or its version "
        "knows no hand-over",
        AskingState.TIMED_OUT: f"the driver before did not finish its batch within {side.timeout_ms} ms",
        AskingState.OVERTAKEN: "another driver has asked for the group since",
    }
    return f"hand-over of group {group_id}: {words[side.state]}"
