"""A second group, as plain as can be: what Kafka's documents say of the classic protocol, written down once more.

It shares no code with the core but the values that come and go: one class with lists and fields that change, no table, no
records, nothing remembered that could be looked up.  Slow, and meant to be: the tests hold the core against it.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from sparkcohort.runtime.group.state import EmbeddedProtocol, GroupConfig
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode as E
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.plain_owners import Person, PlainOwners, Refuse, names, refusal


class PlainGroup(PlainOwners):
    """One group; ``handle`` an event, and read ``answers``."""

    def __init__(self, config: GroupConfig, embedded: EmbeddedProtocol) -> None:
        super().__init__(embedded)
        self.config = config
        self.generation = config.first_generation
        self.type = self.leader = ""
        self.issued: dict[str, int] = {}
        self.serial = 0
        self.deadline = self.sync_deadline = 0
        self.left: int | None = None  # of the initial delay
        self.newcomer = False
        self.offsets: dict[TopicPartition, tuple[int, str, str]] = {}
        self.now = 0
        self.answers: dict[int, p.Reply] = {}

    # --- who is there -----------------------------------------------------------------------------

    def person(self, member_id: str) -> Person | None:
        """The member with that id."""
        return next((x for x in self.people if x.id == member_id), None)

    def holder(self, instance: str | None) -> Person | None:
        """The member with that instance id."""
        return next((x for x in self.people if x.instance == instance), None) if instance is not None else None

    def waiting(self) -> list[Person]:
        """Those whose join is parked."""
        return [x for x in self.people if x.join is not None]

    def patience(self) -> int:
        """The rebalance timeout."""
        return max((x.patience for x in self.people), default=0)

    def known(self, instance: str | None, member_id: str, generation: int | None = None) -> Person:
        """Fence, member, generation, in this order."""
        if instance is not None:
            holder = self.holder(instance)
            if holder is None:
                raise Refuse(E.UNKNOWN_MEMBER_ID)
            if holder.id != member_id:
                raise Refuse(E.FENCED_INSTANCE_ID)
        person = self.person(member_id)
        if person is None:
            raise Refuse(E.UNKNOWN_MEMBER_ID)
        if generation is not None and generation != self.generation:
            raise Refuse(E.ILLEGAL_GENERATION)
        return person

    def hear(self, person: Person) -> None:
        """A sign of life; who waits needs none."""
        if person.join is None and person.sync is None:
            person.until = self.now + person.asked.session_timeout_ms

    # --- events -----------------------------------------------------------------------------------

    def handle(self, event: p.Event, now: int) -> None:
        """Let it happen; what is answered is in ``answers`` after it."""
        self.now, self.answers = now, {}
        match event:
            case p.Received(number, request):
                try:
                    self.request(number, request)
                except Refuse as refused:
                    self.answers[number] = refusal(request, refused.error)
            case p.Tick():
                self.time()
            case p.Trigger():
                self.rebalance_if_settled()
            case p.Unload():
                self.unload()
            case p.Resume(first_generation, salt):
                self.resume(first_generation, salt)

    def request(self, number: int, request: p.Request) -> None:
        """One request."""
        if self.state == "Dead" and not isinstance(request, p.OffsetFetch | p.DescribeGroup | p.ListGroups):
            raise Refuse(E.COORDINATOR_NOT_AVAILABLE)
        match request:
            case p.JoinGroup():
                self.join(number, request)
            case p.SyncGroup():
                self.sync(number, request)
            case p.Heartbeat(member_id, instance, generation):
                self.hear(self.known(instance, member_id, generation))
                joining = self.state == "PreparingRebalance"
                self.answers[number] = p.HeartbeatReply(E.REBALANCE_IN_PROGRESS if joining else E.NONE)
            case p.LeaveGroup():
                self.leave(number, request)
            case p.OffsetCommit():
                self.commit(number, request)
            case p.OffsetFetch(partitions):
                asked = partitions or tuple(sorted(self.offsets))
                found = tuple((tp, self.offsets[tp][0] if tp in self.offsets else -1) for tp in asked)
                self.answers[number] = p.OffsetFetchReply(E.NONE, found)
            case p.DescribeGroup():
                self.answers[number] = p.DescribeGroupReply(E.NONE, self.state)
            case p.ListGroups(states, types):
                fits = not states or self.state.lower() in [s.lower() for s in states]
                fits = fits and (not types or "classic" in [t.lower() for t in types]) and self.state != "Dead"
                listed = p.ListedGroup(self.config.group_id, self.type, self.state)
                self.answers[number] = p.ListGroupsReply(E.NONE, (listed,) if fits else ())

    # --- JoinGroup --------------------------------------------------------------------------------

    def join(self, number: int, asked: p.JoinGroup) -> None:
        """Session timeout, size, protocols, then who it is."""
        low, high = self.config.min_session_timeout_ms, self.config.max_session_timeout_ms
        if asked.session_timeout_ms < low or asked.session_timeout_ms > high:
            raise Refuse(E.INVALID_SESSION_TIMEOUT)
        if not self.has_room(asked):
            self.answers[number] = refusal(asked, E.GROUP_MAX_SIZE_REACHED)
            self.drop_surplus(asked)
            return
        self.same_protocols(asked)
        if asked.member_id == "" and asked.group_instance_id is None:
            new_id = self.new_id(asked)
            self.issued[new_id] = self.now + asked.session_timeout_ms
            self.answers[number] = p.JoinGroupReply(E.MEMBER_ID_REQUIRED, member_id=new_id)
        elif asked.member_id == "":
            holder = self.holder(asked.group_instance_id)
            self.replace(number, asked, holder) if holder else self.enter(number, asked, self.new_id(asked))
        elif asked.member_id in self.issued and asked.group_instance_id is None:
            self.enter(number, asked, asked.member_id)
        else:
            self.rejoin(number, asked, self.known(asked.group_instance_id, asked.member_id))

    def has_room(self, asked: p.JoinGroup) -> bool:
        """Whether the group can take whoever asks."""
        holder = self.holder(asked.group_instance_id)
        itself = self.person(asked.member_id) if asked.member_id else holder
        if self.state == "PreparingRebalance":
            return (itself is not None and itself.join is not None) or len(self.waiting()) < self.config.max_size
        return not self.people or bool(itself or holder) or len(self.people) < self.config.max_size

    def drop_surplus(self, asked: p.JoinGroup) -> None:
        """One too many: forgotten, whoever it is."""
        if asked.member_id in self.issued and asked.group_instance_id is None:
            del self.issued[asked.member_id]
            self.maybe_end_join_phase()
            return
        try:
            person = self.known(asked.group_instance_id, asked.member_id)
        except Refuse:
            return
        self.remove(person)
        self.members_gone()

    def same_protocols(self, asked: p.JoinGroup) -> None:
        """A type and a protocol in common with everybody."""
        kind = self.type if self.people else self.config.protocol_type
        shared = [x.name for x in asked.protocols if all(x.name in names(y) for y in self.people)]
        if not asked.protocol_type or asked.protocol_type != kind or not shared:
            raise Refuse(E.INCONSISTENT_GROUP_PROTOCOL)

    def new_id(self, asked: p.JoinGroup) -> str:
        """Name, salt and number."""
        self.serial += 1
        name = asked.group_instance_id or asked.client_id or "member"
        return "-".join(x for x in (name, self.config.member_id_salt, str(self.serial)) if x)

    def enter(self, number: int, asked: p.JoinGroup, member_id: str) -> None:
        """A newcomer."""
        if not self.people:
            self.type = asked.protocol_type
        limit = self.now + self.config.new_member_join_timeout_ms
        self.people.append(Person(member_id, asked, asked.group_instance_id, limit, join=number))
        self.issued.pop(member_id, None)
        self.leader = self.leader or member_id
        if self.state == "PreparingRebalance":
            self.newcomer = True
            self.maybe_end_join_phase()
        else:
            self.rebalance()

    def rejoin(self, number: int, asked: p.JoinGroup, person: Person) -> None:
        """A member."""
        if 0 < asked.attempt <= person.asked.attempt:
            raise Refuse(E.REBALANCE_IN_PROGRESS)
        same = asked.protocols == person.asked.protocols and not self.lost(person)
        if same and (self.state == "CompletingRebalance" or (self.state == "Stable" and person.id != self.leader)):
            if person.sync is None:
                self.hear(person)
            person.asked = structs.replace(person.asked, attempt=asked.attempt or person.asked.attempt)
            self.answers[number] = self.joined(person)
            return
        if person.join is not None:
            self.answers[person.join] = refusal(asked, E.REBALANCE_IN_PROGRESS)
        else:
            person.until = None
        person.asked, person.join = asked, number
        self.give_up_unclaimed(person)
        if self.state == "PreparingRebalance":
            self.maybe_end_join_phase()
        else:
            self.rebalance()

    def replace(self, number: int, asked: p.JoinGroup, old: Person) -> None:
        """A static member without its id: its predecessor is fenced."""
        before, chosen = old.asked, self.protocol
        old.asked = asked
        same = self.vote() == chosen and self.subscription(old) == self.subscription(
            Person(old.id, before, old.instance)
        )
        old.asked = before
        new = Person(self.new_id(asked), asked, old.instance, owes_sync=old.owes_sync, assignment=old.assignment)
        self.dismiss(old, E.FENCED_INSTANCE_ID)
        self.people[self.people.index(old)] = new
        if self.leader == old.id:
            self.leader = new.id
        if self.state == "Stable" and same:
            for tp in sorted(self.assigned(new)):
                (new.owned if self.owner(tp) is None else new.promised)[tp] = self.generation
            self.assign_pending(old.owned)
            self.hear(new)
            self.answers[number] = self.joined(new, skip=new.id == self.leader)
            if any(self.owner(tp) is None for tp in old.owned):
                self.rebalance()
            return
        self.assign_pending(old.owned)
        new.join = number
        if self.state == "PreparingRebalance":
            self.maybe_end_join_phase()
        else:
            self.rebalance()

    def joined(self, person: Person, *, skip: bool = False) -> p.JoinGroupReply:
        """The answer to a join."""
        listed = [p.JoinedMember(x.id, x.instance, x.metadata(self.protocol)) for x in self.people]
        members = tuple(listed) if person.id == self.leader else ()
        head = (E.NONE, self.generation, self.type, self.protocol, self.leader, person.id)
        return p.JoinGroupReply(*head, members, skip)

    # --- the join phase ---------------------------------------------------------------------------

    def rebalance_if_settled(self) -> None:
        """Something changed that only matters to a generation."""
        if self.state in {"CompletingRebalance", "Stable"}:
            self.rebalance()

    def members_gone(self) -> None:
        """Members left or were put out."""
        if self.state == "PreparingRebalance":
            self.maybe_end_join_phase()
        else:
            self.rebalance_if_settled()

    def rebalance(self) -> None:
        """The join phase begins."""
        for person in self.people:
            if person.sync is not None:
                self.answers[person.sync] = p.SyncGroupReply(E.REBALANCE_IN_PROGRESS)
                person.sync = None
                self.hear(person)
            person.owes_sync = False
            if self.state == "CompletingRebalance":
                person.assignment = None
        delay, patience = self.config.initial_rebalance_delay_ms, self.patience()
        initial = self.state == "Empty"
        self.left = max(patience - delay, 0) if initial and delay else None
        self.deadline = self.now + (delay if initial else patience)
        self.newcomer = False
        self.state = "PreparingRebalance"
        self.maybe_end_join_phase()

    def maybe_end_join_phase(self) -> None:
        """All are here, or it is too late for the others; the initial delay ends by time alone."""
        if self.state != "PreparingRebalance" or self.left is not None:
            return
        if (len(self.waiting()) == len(self.people) and not self.issued) or self.deadline <= self.now:
            self.end_join_phase()

    def end_join_phase(self) -> None:
        """Those who are missing go, unless they are static; the others are a generation."""
        for person in list(self.people):
            if person.join is None and person.instance is None:
                self.remove(person)
        if not self.people:
            self.state, self.generation, self.protocol, self.leader = "Empty", self.next(), "", ""
            return
        if not self.waiting():
            self.deadline, self.left = self.now + self.patience(), None
            return
        if self.leader not in [x.id for x in self.waiting()]:
            self.leader = self.waiting()[0].id
        self.state, self.generation, self.protocol = "CompletingRebalance", self.next(), self.vote()
        self.sync_deadline = self.now + self.patience()
        for person in self.people:
            number, person.join, person.owes_sync = person.join, None, True
            if number is not None:
                self.hear(person)
                self.answers[number] = self.joined(person)

    def next(self) -> int:
        """The generation that comes."""
        return max(self.generation, self.config.first_generation) + 1

    def vote(self) -> str:
        """Each for its first that all have; most votes, then first voted for."""
        votes = [next(n for n in names(x) if all(n in names(y) for y in self.people)) for x in self.people]
        return max(votes, key=lambda name: (votes.count(name), -votes.index(name)))

    def dismiss(self, person: Person, error: E) -> None:
        """Whatever it waits for, this is the answer."""
        if person.join is not None:
            self.answers[person.join] = p.JoinGroupReply(error, member_id=person.id)
        if person.sync is not None:
            self.answers[person.sync] = p.SyncGroupReply(error)

    def remove(self, person: Person) -> None:
        """A member is out."""
        self.dismiss(person, E.UNKNOWN_MEMBER_ID)
        self.people.remove(person)
        if self.leader == person.id:
            self.leader = self.people[0].id if self.people else ""
        self.assign_pending(person.owned)

    # --- SyncGroup, LeaveGroup, OffsetCommit ------------------------------------------------------

    def sync(self, number: int, asked: p.SyncGroup) -> None:
        """The leader's ends the rebalance."""
        person = self.known(asked.group_instance_id, asked.member_id, asked.generation)
        if asked.protocol_type not in {None, self.type} or (
            self.protocol and asked.protocol_name not in {None, self.protocol}
        ):
            raise Refuse(E.INCONSISTENT_GROUP_PROTOCOL)
        leads = person.id == self.leader
        if self.state == "PreparingRebalance" and (leads or person.join is not None or person.assignment is None):
            raise Refuse(E.REBALANCE_IN_PROGRESS)
        person.owes_sync = False
        if self.state != "CompletingRebalance":
            self.hear(person)
            self.answers[number] = p.SyncGroupReply(E.NONE, self.type, self.protocol, person.assignment or b"")
            return
        if person.sync is not None:
            self.answers[person.sync] = p.SyncGroupReply(E.REBALANCE_IN_PROGRESS)
        person.sync, person.until = number, None
        if leads:
            self.store(dict(asked.assignments))

    def store(self, plan: dict[str, bytes]) -> None:
        """The plan is in force, and everybody who waits is told."""
        self.state = "Stable"
        for person in self.people:
            person.assignment = plan.get(person.id, b"")
        self.own()
        for person in self.people:
            if person.sync is not None:
                self.answers[person.sync] = p.SyncGroupReply(E.NONE, self.type, self.protocol, person.assignment or b"")
                person.sync = None
                self.hear(person)

    def leave(self, number: int, asked: p.LeaveGroup) -> None:
        """One by one, then one rebalance."""
        errors, people, issued = [], list(self.people), dict(self.issued)
        for leaving in asked.members:
            try:
                self.leave_one(leaving)
                errors.append((leaving, E.NONE))
            except Refuse as refused:
                errors.append((leaving, refused.error))
        self.answers[number] = p.LeaveGroupReply(E.NONE, tuple(errors))
        if self.people != people:
            self.members_gone()
        elif self.issued != issued:
            self.maybe_end_join_phase()

    def leave_one(self, leaving: p.LeavingMember) -> None:
        """An issued id, a member, or whoever has an instance id."""
        if leaving.member_id in self.issued:
            del self.issued[leaving.member_id]
            return
        holder = self.holder(leaving.group_instance_id)
        by_operator = leaving.member_id == "" and holder is not None
        who = holder.id if by_operator and holder else leaving.member_id
        self.remove(self.known(leaving.group_instance_id, who))

    def commit(self, number: int, asked: p.OffsetCommit) -> None:
        """Partition by partition; of nobody only into an empty group."""
        simple = asked.member_id == "" and asked.group_instance_id is None and asked.generation < 0
        if simple and self.state != "Empty":
            raise Refuse(E.UNKNOWN_MEMBER_ID)
        person = None if simple else self.known(asked.group_instance_id, asked.member_id)
        verdicts = []
        for topic, partition, offset, since, metadata in asked.offsets:
            tp, error = TopicPartition(topic, partition), E.NONE
            if person is not None and person.owned.get(tp) != since:
                error = E.ILLEGAL_GENERATION
            elif len(metadata.encode()) > self.config.offset_metadata_max_bytes:
                error = E.OFFSET_METADATA_TOO_LARGE
            if error is E.NONE:
                self.offsets[tp] = (offset, metadata, asked.member_id)
                if person is not None:
                    self.hear(person)
            verdicts.append((tp, error))
        self.answers[number] = p.OffsetCommitReply(tuple(verdicts))

    # --- time, and the coordinator ----------------------------------------------------------------

    def time(self) -> None:
        """Whatever is due: issued ids, sessions, the join phase, syncs."""
        expired = [x for x, until in self.issued.items() if until <= self.now]
        for member_id in expired:
            del self.issued[member_id]
        if expired:
            self.maybe_end_join_phase()
        dead = [x for x in self.people if x.until is not None and x.until <= self.now]
        for person in dead:
            self.remove(person)
        if dead:
            self.members_gone()
        if self.state == "PreparingRebalance" and self.deadline <= self.now:
            self.join_phase_due()
        late = [x for x in self.people if x.owes_sync]
        if late and self.sync_deadline <= self.now:
            for person in late:
                self.remove(person)
            self.members_gone()

    def join_phase_due(self) -> None:
        """The initial delay is longer if somebody came."""
        if self.newcomer and self.left:
            more = min(self.config.initial_rebalance_delay_ms, self.left)
            self.deadline, self.left, self.newcomer = self.now + more, self.left - more, False
        else:
            self.end_join_phase()

    def unload(self) -> None:
        """Everybody is sent away."""
        for person in self.people if self.state != "Dead" else ():
            self.dismiss(person, E.NOT_COORDINATOR)
        self.state, self.people, self.issued = "Dead", [], {}
        self.type = self.protocol = self.leader = ""

    def resume(self, first_generation: int, salt: str) -> None:
        """A new coordinator: nobody waits any more, everybody is to rejoin."""
        self.config = structs.replace(self.config, first_generation=first_generation, member_id_salt=salt)
        self.issued = {}
        self.state = "PreparingRebalance" if self.people else "Empty"
        self.deadline, self.left = self.now + self.patience(), None
        for person in self.people:
            person.join = person.sync = person.assignment = None
            person.owes_sync = False
            self.hear(person)

    def view(self) -> dict[str, Any]:
        """What can be compared with the core's group."""
        return {
            "head": (self.state, self.generation, self.type, self.protocol, self.leader),
            "members": [(x.id, x.instance, x.asked.protocols, x.join, x.sync, x.until) for x in self.people],
            "timeouts": [(x.asked.session_timeout_ms, x.patience) for x in self.people],
            "issued": self.issued,
            "owe a sync": {x.id for x in self.people if x.owes_sync},
            "assignments": {x.id: x.assignment for x in self.people if x.assignment is not None},
            "owned": {x.id: x.owned for x in self.people if x.owned},
            "promised": {x.id: x.promised for x in self.people if x.promised},
            "offsets": self.offsets,
            "join phase": (self.deadline, self.left) if self.state == "PreparingRebalance" else None,
            "serial": self.serial,
        }
