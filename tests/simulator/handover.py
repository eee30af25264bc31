"""Drawn hand-overs: a running driver, two that ask, one record and one group in Kafka, deaths and lost answers anywhere.

What is real: ``step_asking`` and ``step_running``.  Simulated: time, Kafka's two groups, Spark's commit log, a plain sink
that keeps each record that is written to it, and the watching thread, whose actions come late, with an error though
they were done, or are refused.  The laws: whoever is told that the driver before has parked begins exactly where the sink ends, while that one
lives, is dead or is told nothing more; and after that it plans nothing.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from sparkcohort.runtime.kafka import handover as h
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata

STEP_MS = 250
MOST_STEPS = 400
_BUSY = h.RunningState.BATCH


class DrawnHandover:
    """One run; ``hasty`` breaks the rule that commits come before the answer, ``careless`` plans after its answer."""

    def __init__(self, seed: int, *, hasty: bool, careless: bool) -> None:
        self.random, self.hasty, self.careless, self.now = Random(seed), hasty, careless, 0
        self.newest = CommitMetadata(7, 7000, "seven")
        self.record: h.HandoverRecord | None = None
        self.group = self.log = self.sink = 0  # offsets: in Kafka's group, in Spark's commit log, written
        self.running = h.RunningSide(h.RunningState.CLEAN)
        self.alive, self.renewals = True, 0
        self.written = False  # ``parked``, and the driver knows
        self.asking = [self._asker(name) for name in ("a", "b")]
        self.starts_at = 0
        self.dead: set[int] = set()
        self.deadly = self.random.random() < 0.5
        self.slow = self.random.random()
        self.refused = self.random.choice((0.0, 0.2))
        self.looks = (
            0.2 if careless else 0.9
        )  # that come through: one right after the answer hides what the other does then

    def _asker(self, name: str) -> h.AskingSide:
        return h.AskingSide(name, name, self.random.randrange(20) * STEP_MS, 60_000)

    def _feed(self, event: h.HandoverRecord | h.RunningEvent) -> None:
        parked = self.running.state is h.RunningState.PARKED
        self.running = h.step_running(self.running, event)
        assert not parked or self.running.state is h.RunningState.PARKED

    def run_driver(self) -> None:
        """One moment of the driver that runs: its query, or its watching thread."""
        if self.random.random() < self.slow:
            return
        match self.random.randrange(6):
            case 0 if self.running.state is _BUSY and self.sink == self.log:
                self.sink += 1  # the batch is in the sink; a death from here on is one that a plain sink sees
            case 1 if self.running.state is _BUSY:
                self.log = self.sink
                self._feed(h.RunningEvent.CLEAN_POINT)
            case 2:
                self._feed(h.RunningEvent.PLANNED)
            case 3 if self.running.may_park and self.random.random() < 0.8:
                if not self.hasty:
                    self.group = self.log
                self._feed(h.RunningEvent.COMMITS_TAKEN)
            case 4 if self.running.state is h.RunningState.PARKED and not self.written:
                self.written = self._write(self.running.request, h.HandoverAnswer.PARKED)
                if self.careless:
                    self.running = replace(self.running, state=_BUSY)
            case 5 if self.record is not None and self.record.run == self.newest.run:
                request = self.record
                waits = request.answer in (h.HandoverAnswer.REQUESTED, h.HandoverAnswer.CONFIRMED)
                if (
                    waits
                    and self.running.state is not h.RunningState.PARKED
                    and self._write(request, h.HandoverAnswer.CONFIRMED)
                ):
                    self._feed(request)

    def _write(self, request: h.HandoverRecord | None, answer: h.HandoverAnswer) -> bool:
        """Whether the driver is told that its record arrived; it may have arrived all the same, or be refused."""
        assert request is not None
        if self.random.random() < self.refused:
            return False
        self.renewals += 1
        record = replace(request, answer=answer, renewal=self.renewals)
        if self.random.random() < 0.8:
            self.record = record
        return self.random.random() < 0.5 and self.record == record

    def ask(self, number: int) -> bool:
        """One look of one that asks; whether it may start.  The law is checked here."""
        asking = self.asking[number]
        if number in self.dead or asking.state in h.ENDS or self.now < asking.since_ms:
            return False
        records = () if self.record is None else (self.record,)
        event = h.HandoverView(self.newest, records) if self.random.random() < self.looks else None
        self.asking[number], written = h.step_asking(asking, event, self.now)
        if written is not None and self.random.random() < 0.9:
            self.record = written
        if self.asking[number].state is not h.AskingState.GRANTED:
            return False
        assert self.group == self.log == self.sink, "the next driver begins where the one before ended"
        before = self.running.state
        self._feed(h.RunningEvent.PLANNED)
        assert self.running.state is before is not _BUSY, "never two that plan"
        self.starts_at = self.now + self.random.randrange(h.SIGN_MS // STEP_MS) * STEP_MS
        if self.deadly and self.random.random() < 0.5:
            self.dead.add(number)
            return False
        return True

    def start(self) -> None:
        """Who was told that it may start reserves its run in less than ten seconds, and is the newest."""
        if self.now >= self.starts_at:
            self.newest = CommitMetadata(8, 8000, "eight")

    def maybe_die(self) -> None:
        """Either side, at any moment."""
        if self.deadly and self.random.random() < 0.02:
            victim = self.random.randrange(3)
            if victim == 2:
                self.alive = False
            else:
                self.dead.add(victim)


def play(seed: int, *, hasty: bool = False, careless: bool = False) -> bool:
    """One drawn run; whether it was handed over.  Raises AssertionError for a broken law."""
    drawn, granted = DrawnHandover(seed, hasty=hasty, careless=careless), 0
    for _ in range(MOST_STEPS):
        drawn.now += STEP_MS
        drawn.maybe_die()
        if drawn.alive:
            drawn.run_driver()
        granted += sum([drawn.ask(number) for number in (0, 1)])
        assert granted <= 1, "one of those that ask starts"
        if granted:
            drawn.start()
    return granted == 1
