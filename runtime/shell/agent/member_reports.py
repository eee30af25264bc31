"""A member's reports to its coordinator for metrics and loads; one that gets lost does no harm.

Times here are those of the member's own loop, in milliseconds of its monotonic clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.leader import load_report
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.rpc.figures import process_figures
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.threads import BlockingCalls

TIMES_MS: Final = 1_000
"""How often the timestamps of waiting records are reported; their ages are shown in seconds."""
FIGURES_MS: Final = 10_000
CALL_S: Final = 2.0


class MemberReports:
    """The reports of one member; ``report_listener`` and ``report_malformed`` may be called from any thread."""

    def __init__(self, link: Link, blocking: BlockingCalls, load_window_ms: int) -> None:
        self._link, self._calls = link, blocking
        self._window_ms = load_window_ms
        self._meters: Mapping[TopicPartition, load_report.Meter] = {}
        self._load_due_ms: int | None = 0 if load_window_ms else None
        self._times_due_ms = 0
        self._figures_due_ms = 0
        self._reported: frozenset[calls.FetchedRecord] = frozenset()

    def report_listener(self, event: str, outcome: str, took_ms: int) -> None:
        """A call of the rebalance listener has ended."""
        self._report("Listened", calls.Listened(event, outcome, took_ms))

    def report_malformed(self, bad: list[calls.MalformedCount]) -> None:
        """Records could not be decoded."""
        self._report("MalformedRecords", calls.MalformedRecords(tuple(bad)))

    def due_ms(self) -> int:
        """When ``report_due`` has to be called next."""
        loads = () if self._load_due_ms is None else (self._load_due_ms,)
        return min(self._times_due_ms, self._figures_due_ms, *loads)

    def report_due(self, prefetcher: Prefetcher, member_id: str, now_ms: int) -> None:
        """Send the reports that are due; a member without an id sends none."""
        if self._load_due_ms is not None and self._load_due_ms <= now_ms:
            self._load_due_ms = now_ms + load_report.interval_ms(self._window_ms)
            self._meters = load_report.observe(self._meters, prefetcher.progress(), now_ms, self._window_ms)
            loads = load_report.loads(self._meters)
            if loads and member_id:
                self._submit("Loads", load_report.encode(member_id, loads))
        if self._times_due_ms <= now_ms:
            self._times_due_ms = now_ms + TIMES_MS
            self._report_times(prefetcher, member_id)
        if self._figures_due_ms <= now_ms:
            self._figures_due_ms = now_ms + (FIGURES_MS if member_id else TIMES_MS)
            self._report_figures(member_id, prefetcher.throttled_s())

    def _report_figures(self, member_id: str, throttled_s: float | None) -> None:
        if member_id:
            self._report("AgentFigures", calls.AgentFigures(member_id, *process_figures(), throttled_s))

    def _report_times(self, prefetcher: Prefetcher, member_id: str) -> None:
        """Report the timestamps of waiting records, if there are new ones."""
        times = prefetcher.record_times().items()
        records = frozenset(calls.FetchedRecord(*tp, *each) for tp, pair in times for each in pair)
        if member_id and records - self._reported:
            first = tuple(sorted(records)[: calls.MAX_FETCHED_RECORDS])
            self._report("RecordTimestamps", calls.RecordTimestamps(member_id, first))
        self._reported = records if member_id else frozenset()

    def _report(self, action: str, call: calls.Call) -> None:
        self._submit(action, calls.encode(call))

    def _submit(self, action: str, body: bytes) -> None:
        def report() -> None:
            with contextlib.suppress(CoordinatorUnreachable, CoordinatorRefused):
                self._link.call(action, body, CALL_S)

        self._calls.submit(report)
