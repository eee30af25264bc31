"""The records of a dead letter topic: each bad record once, as it came, with Kafka Connect's headers behind its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.dead_letters import RawRecord, RecordFault, dead_letter, first_faults
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.values.columns import Field

TP = TopicPartition("orders", 3)
PARTS = (Field.KEY, Field.VALUE)
BYTES = st.none() | st.binary(max_size=20)
RECORDS = st.builds(
    RawRecord,
    BYTES,
    BYTES,
    st.lists(st.tuples(st.sampled_from(["trace", "__connect.errors.topic", ""]), BYTES), max_size=4),
    st.integers(-(2**53), 2**53),
)
FAULTS = st.lists(
    st.builds(RecordFault, st.integers(0, 2), st.sampled_from(PARTS), st.sampled_from(["syntax", "utf8"]), st.text()),
    unique_by=lambda fault: fault[:2],
)


@given(st.lists(RECORDS, min_size=3, max_size=3), FAULTS)
def test_each_bad_row_once_and_as_it_came(records: list[RawRecord], faults: list[RecordFault]) -> None:
    """Of a record whose key and value are bad it is the key's fault, as with Connect."""
    firsts = first_faults(faults)
    assert [fault.row for fault in firsts] == sorted({fault.row for fault in faults})
    for fault in firsts:
        assert fault in faults
        assert fault.field is Field.KEY or (fault.row, Field.KEY) not in [each[:2] for each in faults]
        record = records[fault.row]
        letter = dead_letter(record, TP, 100 + fault.row, fault)
        own = len(record.headers)
        assert (letter.key, letter.value, list(letter.headers[:own])) == (record.key, record.value, record.headers)
        # A producer takes no time below 0; -1 is that of formats that know none.
        assert letter.timestamp == (record.timestamp if (record.timestamp or 0) >= 0 else None)
        assert letter.headers[own:] == (
            ("__connect.errors.topic", b"orders"),
            ("__connect.errors.partition", b"3"),
            ("__connect.errors.offset", b"%d" % (100 + fault.row)),
            ("__connect.errors.stage", b"KEY_CONVERTER" if fault.field is Field.KEY else b"VALUE_CONVERTER"),
            ("__connect.errors.exception.class.name", fault.reason.encode()),
            ("__connect.errors.exception.message", fault.message.encode()),
        )
