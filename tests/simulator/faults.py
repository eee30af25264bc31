"""What happens to a world: drawn beforehand (who, which topics, what weather), and as it goes (faults and work)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sparkcohort.runtime.group import GroupConfig
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason, requested
from tests.simulator.coordinator import CRASHES
from tests.simulator.network import Weather
from tests.simulator.process import Process
from tests.simulator.world import World

MOST_PROCESSES = 7
ASSIGNORS = (("cooperative-sticky", "range"), ("cooperative-sticky",), ("range", "cooperative-sticky"))
SUBSCRIPTIONS = (("orders",), ("items", "orders"), ("items", "orders"), ("items", "orders"))


class Faults:
    """Draws a world from a seed and what happens in it from the world's own source of chance."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.world = _drawn(random)
        self._gap_ms = random.choice((60, 250, 900))
        self._mixed = random.random() < 0.3  # subscriptions differ
        self._assignors = random.choice((ASSIGNORS[:1], ASSIGNORS[:1], ASSIGNORS))
        self._started = 0
        self._calm = False
        self._acts = self._draw_acts()
        self._weather()
        self.world.start_driver()
        for _ in range(random.randint(1, 4)):
            self._start()
        self.world.schedule.later(random.randint(0, 3_000), self._act)

    def _draw_acts(self) -> list[Callable[[], None]]:
        """Kinds of acts with their weights; each run leaves some out, so that the others get deeper."""
        weights: dict[Callable[[], None], int] = {
            self._work: 12,
            self._start: 3,
            self._kill: 2,
            self._freeze: 3,
            self._thaw: 4,
            self._stop: 2,
            self._return_static: 3,
            self._weather: 2,
            self._cut: 2,
            self._heal: 3,
            self._grow: 1,
            self._topic: 1,
            self._trigger: 2,
            self._crash: 2,
            self._freeze_coordinator: 1,
            self._unload: 1,
            self._zombie: 2,
            self._spoil_assignor: 2,
            self._mend_assignor: 2,
        }
        kept = [act for act in weights if act in (self._work, self._start) or self._random.random() < 0.6]
        return [act for act in kept for _ in range(weights[act])]

    def _act(self) -> None:
        if self._calm:
            return
        act = self._random.choice(self._acts)
        self.world.events += 1
        act()
        self.world.schedule.later(self._random.randint(1, self._gap_ms), self._act)

    # --- choosing -------------------------------------------------------------------------------------

    def _members(self, *, frozen: bool | None = None) -> list[Process]:
        return [x for x in self.world.processes if x.up and not x.local and (frozen is None or x.frozen is frozen)]

    def _one(self, processes: list[Process]) -> Process | None:
        return self._random.choice(processes) if processes else None

    # --- members --------------------------------------------------------------------------------------

    def _start(self) -> None:
        if len(self._members()) >= MOST_PROCESSES:
            return
        self._started += 1
        shared = self._random.random() < 0.35  # an instance id that another process may have
        name = f"s{self._random.randint(0, 2)}" if shared else f"m{self._started}"
        topics = self._random.choice(SUBSCRIPTIONS) if self._mixed else ("items", "orders")
        assignors = self._random.choice(self._assignors)
        self.world.start(name, self._existing(topics), assignors)
        self.world.say("a process starts", name)

    def _existing(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted({*topics, *(t for t in self.world.topics if t.startswith("new"))}))

    def _kill(self) -> None:
        if (process := self._one(self._members())) is not None:
            self.world.say("a process dies", process.name)
            self.world.count("processes killed")
            self.world.forget(process)

    def _freeze(self) -> None:
        if (process := self._one(self._members(frozen=False))) is not None:
            self.world.say("a process freezes", process.name)
            process.frozen = True

    def _thaw(self) -> None:
        if (process := self._one(self._members(frozen=True))) is not None:
            self.world.say("a process thaws", process.name)
            process.thaw()

    def _stop(self) -> None:
        if (process := self._one(self._members(frozen=False))) is not None:
            self.world.say("a process stops", process.name)
            process.step(ms.Stop("asked to"))

    def _return_static(self) -> None:
        """The process of an instance id is replaced; the old one is dead, or doesn't know yet."""
        old = self._one(self._members())
        if old is None or len(self._members()) > MOST_PROCESSES:
            return
        config = old.member.config
        if self._random.random() < 0.7:
            self.world.forget(old)
        self.world.say("a static process returns", old.name)
        self.world.start(old.name, config.topics, config.assignors)

    # --- the network ----------------------------------------------------------------------------------

    def _weather(self) -> None:
        random = self._random
        weather = Weather(
            drop=random.choice((0.0, 0.0, 0.02, 0.2)),
            duplicate=random.choice((0.0, 0.0, 0.05, 0.3)),
            slow=random.choice((0.0, 0.0, 0.05)),
            noticed=random.choice((0.5, 1.0)),
            latency_ms=random.choice((2, 20, 200)),
        )
        self.world.network.weather = weather
        self.world.say("the weather is", weather)

    def _cut(self) -> None:
        if (process := self._one(self._members())) is not None:
            self.world.say("a process is cut off", process.name)
            self.world.network.cut[process] = None

    def _heal(self) -> None:
        if (process := self._one(list(self.world.network.cut))) is not None:
            self.world.say("a process is reachable again", process.name)
            del self.world.network.cut[process]

    # --- topics and triggers --------------------------------------------------------------------------

    def _grow(self) -> None:
        topic = self._random.choice(sorted(self.world.topics))
        if self.world.topics[topic] < 12:
            self.world.topics = {**self.world.topics, topic: self.world.topics[topic] + self._random.randint(1, 3)}
            self.world.say("partitions are added", topic)
            self._topics_changed()

    def _topic(self) -> None:
        """A topic comes or goes; everybody's pattern matches it."""
        topics = dict(self.world.topics)
        if topics.pop("new", None) is None:
            topics["new"] = self._random.randint(1, 3)
        self.world.topics = topics
        self.world.say("the topics are", sorted(topics))
        for process in self._members():
            wanted = tuple(sorted({*process.member.config.topics} - {"new"} | ({"new"} & topics.keys())))
            delay_ms = self._random.randint(1, 500)
            self.world.schedule.after(delay_ms, process.reach, process.step, ms.Resubscribe(wanted))
        self._topics_changed()

    def _topics_changed(self) -> None:
        """The coordinator finds out; one that is down or frozen, when it is back."""
        coordinator = self.world.coordinator
        if coordinator.frozen:
            self.world.schedule.after(500, self._topics_changed)
        elif coordinator.up:
            coordinator.step(p.Trigger(Reason(Cause.TOPICS_CHANGED)))

    def _trigger(self) -> None:
        coordinator = self.world.coordinator
        if coordinator.up and not coordinator.frozen:
            coordinator.step(p.Trigger(requested("asked to")))

    def _spoil_assignor(self) -> None:
        self.world.say("the driver's assignor fails")
        self.world.assignor_fails = True

    def _mend_assignor(self) -> None:
        self.world.say("the driver's assignor is well")
        self.world.assignor_fails = False

    # --- the coordinator ------------------------------------------------------------------------------

    def _crash(self) -> None:
        """Now, or in the middle of the next step that does a certain thing."""
        coordinator = self.world.coordinator
        if not coordinator.up or coordinator.crash_on is not None:
            return
        if self._random.random() < 0.25:
            self.world.say("the coordinator goes down", coordinator.group.state)
            self.world.count(f"crash between steps, {coordinator.group.state}")
            coordinator.crash()
        else:
            coordinator.crash_on = self._random.choice(sorted(CRASHES))

    def _freeze_coordinator(self) -> None:
        coordinator = self.world.coordinator
        if coordinator.up and not coordinator.frozen:
            self.world.say("the coordinator freezes")
            coordinator.freeze()
            for process in self.world.processes:
                process.frozen |= process.local
            self.world.schedule.after(self._random.randint(100, 15_000), self._thaw_coordinator, coordinator.run)

    def _thaw_coordinator(self, run: int) -> None:
        coordinator = self.world.coordinator
        if not coordinator.frozen or coordinator.run != run:
            return
        self.world.say("the coordinator thaws")
        coordinator.thaw()
        for process in [x for x in self.world.processes if x.local]:
            process.thaw()

    def _unload(self) -> None:
        """The coordinator gives up in good order; nobody is a member with the next one."""
        coordinator = self.world.coordinator
        if coordinator.up and not coordinator.frozen and self._random.random() < 0.3:
            self.world.say("the coordinator unloads")
            self.world.count("unloads")
            coordinator.crash_on = None
            coordinator.step(p.Unload("shutting down"))
            coordinator.crash()

    # --- work -----------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Somebody reads on and commits; now and then somebody states what isn't so."""
        process = self._one(self._members(frozen=False))
        if process is None:
            return
        if self._random.random() < 0.1:
            every = [TopicPartition(t, n) for t, count in self.world.topics.items() for n in range(count)]
            lie = self._random.randint(0, max(self.world.coordinator.group.generation, 1))
            process.commit(self._random.sample(every, min(2, len(every))), lie=lie)
        else:
            process.read_on(self._random.randint(1, 50))
            process.commit(process.member.owned)

    def _zombie(self) -> None:
        """The last commit of somebody comes once more, whatever has become of it."""
        process = self._one([x for x in self._members() if x.last_commit is not None])
        if process is not None and process.last_commit is not None:
            self.world.schedule.after(
                self._random.randint(1, 4_000), self.world.coordinator.receive, process, -1, process.last_commit
            )

    # --- the end of all faults ------------------------------------------------------------------------

    def end(self) -> None:
        """The network is well, the frozen thaw or die, of an instance id's processes the newest lives, assignors work."""
        self._calm = True
        world = self.world
        world.assignor_fails = False
        world.say("the faults end")
        world.calm = True
        world.network.weather = Weather()
        world.network.cut.clear()
        world.coordinator.crash_on = None
        if world.coordinator.frozen:
            self._thaw_coordinator(world.coordinator.run)
        newest = {x.member.config.group_instance_id: x for x in self._members()}
        for process in self._members():
            instance = process.member.config.group_instance_id
            if newest[instance] is not process:
                world.forget(process)
            elif process.frozen:
                process.thaw()

    def change(self) -> None:
        """One clean change, for a settled group: a member comes or goes, or partitions are added."""
        alive = self._members()
        change = self._random.choice((self._newcomer, self._stop, self._grow) if len(alive) > 1 else (self._newcomer,))
        change()

    def _newcomer(self) -> None:
        self._started += 1
        topics = self._existing(("items", "orders"))
        self.world.start(f"m{self._started}", topics, ASSIGNORS[0])
        self.world.say("a process starts", f"m{self._started}")


def _drawn(random: Random) -> World:
    """A world without anybody in it."""
    topics = {"orders": random.randint(1, 6), "items": random.randint(1, 4)}
    size = random.choice((100, 100, 100, 5))
    config = GroupConfig("billing", max_size=size, member_id_salt="run1")
    world = World(random, topics, config)
    world.max_delay_ms = random.choice((0, 0, 1_500, 20_000))
    return world
