"""The members that are agents: who each is, and the stream of events to it; all methods need the coordinator's lock."""

from __future__ import annotations

import logging
import queue
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Final

from msgspec.structs import replace

from sparkcohort.runtime.group import validation
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.messages import JoinGroup
from sparkcohort.runtime.shell.coordinator.history import History
from sparkcohort.runtime.shell.rpc.flight import EventQueue

log = logging.getLogger("sparkcohort.coordinator")

AGAIN_MS: Final = 60_000
MOST_LOG_KEYS: Final = 1_000  # complaints and refusals whose last log line is remembered


class LogLimit:
    """A complaint or refusal is logged once a minute: a broken member must not flood the log."""

    def __init__(self) -> None:
        self._log_times: OrderedDict[Hashable, int] = OrderedDict()

    def is_new(self, *key: Hashable, now_ms: int) -> bool:
        """Whether no such line was logged within the last minute."""
        last = self._log_times.get(key)
        if last is not None and now_ms - last < AGAIN_MS:
            return False
        self._log_times[key] = now_ms
        self._log_times.move_to_end(key)
        if len(self._log_times) > MOST_LOG_KEYS:
            self._log_times.popitem(last=False)
        return True


class MemberDirectory:
    """The agents of one group; each event to them has the topics that ``subscribed`` returns."""

    def __init__(self, group_id: str, history: History, subscribed: Callable[[], tuple[str, ...]]) -> None:
        self.limit = LogLimit()
        self._subscribed = subscribed
        self._streams: dict[EventQueue, str] = {}  # by queue the address of its agent
        self._group_id = group_id
        self._history = history
        self._infos: dict[str, MemberInfo] = {}

    def store(self, member: JoinGroup, group: Group, waited_for: Collection[str], now_ms: int) -> None:
        """Store what a member that has joined states of itself."""
        member_id = member.member_id
        info = validation.member_info(member)
        if info.address in {info.address for other_id, info in self.present(group).items() if other_id != member_id}:
            name, complaint = (
                f"{member.group_instance_id} on {member.client_host}",
                f"another member has its address, {info.address}",
            )
            if self.limit.is_new(name, complaint, now_ms=now_ms):
                log.warning("group %s: %s is not believed: %s", self._group_id, name, complaint)
            info = replace(info, address="")
        # Members that left since the last rebalance keep their names for the log line of the next one.
        named_ids = {*group.members, *group.previous_assignment, *waited_for}
        self._infos = {name: member_info for name, member_info in self._infos.items() if name in named_ids} | {
            member_id: info
        }
        self._history.name_member(member_id, info.executor_id, info.host)

    def present(self, group: Group) -> dict[str, MemberInfo]:
        """The agents that are in the group, by member id; for any thread."""
        infos = self._infos
        return {name: infos[name] for name in group.members if name in infos}

    def name(self, member_id: str) -> str:
        """A member as a log line has it."""
        info = self._infos.get(member_id)
        return f"{info.client_id} on {info.host}" if info else member_id

    def add_stream(self, address: str) -> EventQueue:
        """The queue of the events for the agent at this address; the first one has the topics."""
        events: EventQueue = queue.SimpleQueue()
        for earlier in [queued for queued, listens in self._streams.items() if listens == address]:
            self._streams.pop(earlier)  # an agent has one stream: it connected again before the old one broke
            earlier.put(None)
        self._streams[events] = address
        events.put(self._event("subscription"))
        return events

    def remove_stream(self, events: EventQueue) -> None:
        """Forget a queue."""
        self._streams.pop(events, None)

    def push_rejoin(self, member_id: str, reason: str, generation: int) -> None:
        """Push to an agent that it is to rejoin, if its generation is this one."""
        info = self._infos.get(member_id)
        for events, listens in self._streams.items():
            if info is not None and listens == info.address:
                events.put(self._event("rejoin", reason, generation))

    def push_topics(self) -> None:
        """Push the topics to all agents."""
        for events in self._streams:
            events.put(self._event("subscription"))

    def end_streams(self, event: str) -> None:
        """Push the end of this run to all agents; ``event`` is "stop" or "restart"."""
        for events in self._streams:
            events.put(self._event(event))
            events.put(None)

    def _event(self, kind: str, reason: str = "", generation: int = -1) -> bytes:
        return calls.encode(calls.PushEvent(kind, self._subscribed(), reason, generation))

    def member_at(self, address: str) -> str:
        """The id of the agent at this address, "" if there is none."""
        infos: Mapping[str, MemberInfo] = self._infos
        return next((name for name, info in infos.items() if info.address == address), "")
