"""Compiled in C: what the parts of Fetch responses hold, as Arrow's columns, and columns of Avro's and Protobuf's records."""

from collections.abc import Callable, Sequence
from typing import Any

RECORDS: int
ERROR: int
BAD_TIMESTAMP: int
BAD_HEADER: int
TOO_LARGE: int
UNPACKING: int

class Decoder:
    """What the parts of all Fetch responses share; for one thread at a time, else RuntimeError.

    ``fields`` is what of a record becomes columns, in order, by the numbers of
    ``sparkcohort.runtime.values.columns.Field``.  ``take`` is called with the address of an ArrowArray (C data interface)
    per run of records and with the offsets of its rows (``sparkcohort.runtime.batches.offset_runs``), and returns what the
    run's event is to hold.  ``unpack`` is called with a codec's number, the bytes of a batch's records, and
    ``largest``.  It returns these decompressed (any buffer), or what has a ``readinto`` that gives them piece by piece,
    less than asked for only at their end, or a number of bytes that could only be unpacked as one and are too many;
    both may raise OSError or ValueError where that can't be done.  ``largest`` is what a record may have, ``window``
    how many bytes a piece has, unless a record has more.
    """

    def __init__(
        self,
        fields: bytes,
        take: Callable[[int, bytes], Any],
        unpack: Callable[[int, memoryview, int], Any],
        largest: int,
        window: int,
    ) -> None: ...
    def part(
        self,
        data: Any,
        start: int,
        stop: int,
        topic: str,
        partition: int,
        position: int,
        end: int,
        high_watermark: int,
        aborted: Sequence[tuple[int, int]] | None,
    ) -> Part:
        """The record batches in bytes [start, stop) of ``data``, of which the records [position, end) are wanted.

        ``aborted`` are (producer id, first offset), where those are not to be seen.  Raises ValueError for
        bytes outside ``data``, which must not change until the last ``take``.
        """

class Part:
    """One partition's share of one Fetch response."""

    def ahead(self) -> tuple[int, int]:
        """Where the next fetch starts, and the leader epoch of the last batch (-1: no batch), unchecked."""

    def begun(self) -> tuple[int, int]:
        """The records of the batches that were begun so far, and the bytes of these batches as they came."""

    def take(self, records: int, nbytes: int) -> tuple[int, str, int, int, int, Any] | None:
        """The next event; None after the last.  After a fault it comes again each time.

        An event is (kind, topic, partition, offset, number, what):

        =============  =======================  ===================  =================================
        kind           offset                   number               what
        =============  =======================  ===================  =================================
        RECORDS        behind the last record   bytes of the batch   what ``take`` gave, or None
        ERROR          of the batch             librdkafka's code    its words
        BAD_TIMESTAMP  of the record            the milliseconds     None
        BAD_HEADER     of the record            0                    None
        TOO_LARGE      of the record            its bytes            None
        UNPACKING      as before                0                    None
        =============  =======================  ===================  =================================

        TOO_LARGE: a record, or what can only be unpacked as one, is larger than allowed.  UNPACKING: much has been
        unpacked, and no record that is wanted was in it yet.
        """

def crc32c(data: Any, by_tables: bool) -> int:
    """CRC-32C, by the processor's instruction where there is one, or by tables."""

class AvroDecoder:
    """Reads columns of Avro's records into a tree of columns; for one thread at a time, else RuntimeError.

    ``columns`` has two 32-bit numbers for each column, parents first: its kind, and how many columns are inside of it.
    ``most``: bytes or items of a column, as many as 32-bit offsets can tell.
    """

    def __init__(self, columns: bytes, most: int = ...) -> None: ...
    def add(self, schema_id: int, steps: bytes, table: bytes, constants: tuple[bytes, ...]) -> None:
        """The steps for records of a writer's schema, or those for records without a frame (id -1).

        Steps are four 64-bit numbers each.  ValueError where they can't be run on these columns.
        """

    def drop(self, schema_id: int) -> None:
        """Forget the steps of an id."""

    def decode(
        self,
        validity: Any,
        offsets: Any,
        data: Any,
        first: int,
        rows: int,
        framed: bool,
        take: Callable[[int], Any],
    ) -> tuple[Any, list[tuple[int, int, int, int, int]], list[int]]:
        """Read ``rows`` rows, from the ``first`` on, of a binary array's buffers, without the interpreter's lock.

        ``take`` is called with the address of an ArrowArray (C data interface).  Returns what that gives, the bad rows
        as (row, reason, bytes read, schema's id, constant that says more or -1), and nothing; or, before anything is
        read, None, None and ids for which there are no steps yet.  A bad row and a null one are null.  OverflowError where
        a column would have more than ``most``.
        """

class ProtobufDecoder:
    """Reads columns of Protobuf's records into a tree of columns; for one thread at a time, else RuntimeError.

    ``columns`` and ``most`` as for ``AvroDecoder``; steps are seven 64-bit numbers each.  ValueError where they can't be run on
    these columns.
    """

    def __init__(
        self, columns: bytes, steps: bytes, table: bytes, constants: tuple[bytes, ...], most: int = ...
    ) -> None: ...
    def decode(
        self,
        validity: Any,
        offsets: Any,
        data: Any,
        first: int,
        rows: int,
        framed: bool,
        take: Callable[[int], Any],
    ) -> tuple[Any, list[tuple[int, int, int, int]]]:
        """Read ``rows`` rows, from the ``first`` on, of a binary array's buffers, without the interpreter's lock.

        ``take`` is called with the address of an ArrowArray (C data interface).  Returns what that gives, and the bad rows as
        (row, reason, where its field begins, step or -1).  A bad row and a null one are null.  OverflowError where a column
        would have more than ``most``.
        """

class JsonDecoder:
    """Reads columns of JSON objects into a tree of columns; for one thread at a time, else RuntimeError.

    ``fields`` has four 32-bit numbers for each column, parents first: its kind, how many columns are inside of it, and a
    decimal's precision and scale; ``names`` has their names, a zero behind each.  ValueError where these make no struct.
    ``most``: bytes or items of a column, as many as 32-bit offsets can tell.  ``zone``: of texts that name none, pairs of 64-bit
    numbers as in ``runtime.values.json.zone``; none is UTC.
    """

    def __init__(self, fields: bytes, names: bytes, most: int = ..., zone: bytes = ...) -> None: ...
    def decode(
        self, validity: Any, offsets: Any, data: Any, first: int, rows: int, take: Callable[[int], Any]
    ) -> tuple[Any, list[tuple[int, int, int]]]:
        """Read ``rows`` rows, from the ``first`` on, of a binary array's buffers, without the interpreter's lock.

        ``take`` is called with the address of an ArrowArray (C data interface).  Returns what that gives, and the rows
        at fault as (row, reason, byte or column).  OverflowError where a column would have more than ``most``.
        """

BATCH_HEADER: int
"""Bytes of a record batch in front of its records."""
REFUSED_SIZE: int
REFUSED_PARTITION: int
REFUSED_TIMESTAMP: int
REFUSED_HEADER: int
REFUSED_TOPIC: int

def encode(
    rows: tuple[Any, Any], topics: Any, limit: int, largest: int, now: int, room: Any
) -> list[tuple[int, int, int, int]] | int | tuple[int, int, int]:
    """Write rows into ``room`` as Kafka's record batches, one after the other, without the interpreter's lock.

    ``rows`` are the two capsules of a record batch's ``__arrow_c_array__``, its columns being key and value (binary), headers
    (list<struct<string, binary>>), timestamp (int64, ms; null is ``now``), topic and partition (int32).  ``topics`` has four 64-bit
    numbers for each topic: the first of its slots and how many partitions it has, then the partition for rows that have neither
    partition nor key, and how many bytes it has got; these two are written back.  Other rows without partition go where
    Java's default partitioner has their key.

    Returns the batches as (slot, start, end, records), each of at most ``limit`` bytes unless it is one record, of ``largest``; or how
    many bytes of room they want, or (row, reason, number) of a row that is refused: its bytes, partition or timestamp.  Nothing is
    written then.  A batch has no checksum before ``seal``.  ValueError for other columns.
    """

def seal(batch: Any, attributes: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Write a batch's length, attributes, producer and checksum, in place."""

def murmur2(key: Any) -> int:
    """Kafka's ``Utils.murmur2``, as Java's int."""
