"""A member's reports to its coordinator for metrics, loads and slow leaders; one that gets lost does no harm.

Times here are those of the member's own loop, in milliseconds of its monotonic clock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from sparkcohort.runtime.leader import load_report
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.kafka.fetch.first_answers import probe_leaders
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.resources import process_figures
from sparkcohort.runtime.shell.rpc.threads import BlockingCalls

WAITS_MS: Final = 250
"""How often the waits of tasks are reported: the driver has to know a late partition before it plans the next batch."""
TIMES_MS: Final = 1_000
"""How often the timestamps of waiting records are reported; their ages are shown in seconds."""
TRY_MS: Final = 2_000
"""How often leaders that did not answer are tried."""
FIGURES_MS: Final = 10_000
CALL_S: Final = 2.0
FETCHED_S: Final = 5.0
"""How long the coordinator may take to answer: it tries the leader by itself first."""

Report: TypeAlias = Callable[[Prefetcher, str, int], None]


class MemberReports:
    """The reports of one member; ``report_malformed`` may be called from any thread."""

    def __init__(self, config: AgentConfig, link: Link, blocking: BlockingCalls) -> None:
        self._kafka, self._link, self._calls = config.kafka, link, blocking
        self._window_ms = config.load_window_ms
        self._meters: Mapping[TopicPartition, load_report.Meter] = {}
        self._reported: frozenset[calls.FetchedRecord] = frozenset()
        # Of the last reply: late partitions, and those whose leaders don't answer, with the positions from which to try them.
        self._late: frozenset[TopicPartition] = frozenset()
        self._barred: Mapping[TopicPartition, int] = {}
        self._intervals_ms: dict[Report, int] = {
            self._report_waits: WAITS_MS,
            self._report_times: TIMES_MS,
            self._try_leaders: TRY_MS,
            self._report_figures: FIGURES_MS,
        }
        if self._window_ms:
            self._intervals_ms[self._report_loads] = load_report.interval_ms(self._window_ms)
        self._due_ms = dict.fromkeys(self._intervals_ms, 0)

    def report_malformed(self, bad: list[calls.MalformedCount]) -> None:
        """Records could not be decoded."""
        self._submit(calls.MalformedRecords(tuple(bad)))

    def due_ms(self) -> int:
        """When ``report_due`` has to be called next."""
        return min(self._due_ms.values())

    def report_due(self, prefetcher: Prefetcher, member_id: str, now_ms: int) -> None:
        """Send the reports that are due; a member without an id sends none."""
        for report, interval_ms in self._intervals_ms.items():
            if self._due_ms[report] <= now_ms:
                self._due_ms[report] = now_ms + (interval_ms if member_id else min(interval_ms, TIMES_MS))
                if member_id:
                    report(prefetcher, member_id, now_ms)
                else:
                    self._reported = frozenset()

    def _report_loads(self, prefetcher: Prefetcher, member_id: str, now_ms: int) -> None:
        with prefetcher.owned() as owned:
            progress = owned.progress()
        self._meters = load_report.observe(self._meters, progress, now_ms, self._window_ms)
        if loads := load_report.loads(self._meters):
            self._submit(load_report.report(member_id, loads))

    def _report_figures(self, prefetcher: Prefetcher, member_id: str, _now_ms: int) -> None:
        self._submit(calls.AgentFigures(member_id, *process_figures(), prefetcher.throttled_s()))

    def _report_times(self, prefetcher: Prefetcher, member_id: str, _now_ms: int) -> None:
        """Report the timestamps of waiting records, if there are new ones."""
        with prefetcher.owned() as owned:
            times = owned.record_times()
        records = frozenset(calls.FetchedRecord(*tp, *each) for tp, pair in times.items() for each in pair)
        if records - self._reported:
            first = tuple(sorted(records)[: calls.MAX_FETCHED_RECORDS])
            self._submit(calls.RecordTimestamps(member_id, first))
        self._reported = records

    def _report_waits(self, prefetcher: Prefetcher, member_id: str, _now_ms: int) -> None:
        """Report the waits of tasks, if there are any, and the progress of late partitions; the answer names those."""
        with prefetcher.owned() as owned:
            waits, silent = owned.take_waits(self._late, time.monotonic()), owned.silent()
        if waits or silent:
            fetched = tuple(calls.WaitedFor(*tp, *each) for tp, each in sorted(waits.items()))
            unanswered = tuple(calls.Silent(*tp, *each) for tp, each in sorted(silent.items()))
            self._calls.submit(partial(self._report_fetched, calls.Fetched(member_id, fetched, unanswered)))

    def _try_leaders(self, _prefetcher: Prefetcher, member_id: str, _now_ms: int) -> None:
        """Try the leaders that didn't answer, and report those that do now."""
        barred = dict(self._barred)

        def attempt() -> None:
            reached_partitions = probe_leaders(self._kafka, barred, TRY_MS / 2000)
            self._report_fetched(calls.Fetched(member_id, (), (), tuple(sorted(reached_partitions))))

        if barred:
            self._calls.submit(attempt)

    def _report_fetched(self, report: calls.Fetched) -> None:
        with contextlib.suppress(CoordinatorUnreachable, CoordinatorRefused):
            reply = calls.decode(self._link.call("Fetched", calls.encode(report), FETCHED_S), calls.FetchedReply)
            self._late = frozenset(reply.late)
            self._barred = {TopicPartition(each.topic, each.partition): each.position for each in reply.barred}

    def _submit(self, call: calls.Call) -> None:
        self._calls.submit(partial(self._call, type(call).__name__, calls.encode(call)))

    def _call(self, action: str, body: bytes) -> None:
        with contextlib.suppress(CoordinatorUnreachable, CoordinatorRefused):
            self._link.call(action, body, CALL_S)
