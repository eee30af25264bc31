"""The metrics that dashboard and rules may name: those of the table, and until it has them, those that it is to get."""

from __future__ import annotations

from typing import Final

from sparkcohort.runtime.shell.observe.metrics import METRICS

_PARTITION: Final = ("topic", "partition")
_PLANNED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("cohort_partition_lag_seconds", "cohort_partition_lead_records"), _PARTITION),
    **dict.fromkeys(("cohort_topic_lag_records", "cohort_topic_lag_seconds", "cohort_topic_lead_records"), ("topic",)),
    **dict.fromkeys(("cohort_group_lag_records", "cohort_group_lag_seconds", "cohort_partition_series_left_out"), ()),
    **dict.fromkeys(("cohort_batch_duration_seconds", "cohort_last_batch_records", "cohort_last_batch_bytes"), ()),
    **dict.fromkeys(("cohort_commit_duration_seconds", "cohort_last_commit_timestamp_seconds"), ()),
    **dict.fromkeys(("cohort_commit_pending_seconds", "cohort_fenced"), ()),
    **dict.fromkeys(("cohort_foreign_members", "cohort_foreign_members_total"), ()),
    "cohort_agent_starts_total": ("executor",),
}
LABELS: Final = {spec.name: spec.labels for spec in METRICS}
if "cohort_group_lag_seconds" not in LABELS:  # once the table has one of them it has to have all
    LABELS.update(_PLANNED)
KNOWN: Final = frozenset(LABELS)
