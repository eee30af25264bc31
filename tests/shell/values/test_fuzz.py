"""What reads bytes in C, under AddressSanitizer and UndefinedBehaviorSanitizer, with its corpus and with what is like it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.native import _native
from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.avro.steps import AvroReason, Op
from sparkcohort.runtime.values.json_plan import JsonReason
from sparkcohort.runtime.values.protobuf.steps import FieldFlag, ProtobufOp, ProtobufReason
from sparkcohort.runtime.values.types import ColumnType, packed
from tests.kit import avro_fuzz, batches_fuzz, json_fuzz, protobuf_fuzz
from tests.kit.fuzz import DECODERS, Fuzzed, fuzzed
from tests.kit.parts import decoder


@pytest.fixture(scope="module", params=DECODERS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Fuzzed, list[str]]:
    """A harness, and its command."""
    harness = fuzzed(request.param)
    return harness, harness.build(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.thorough("built with sanitizers")
@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(built: tuple[Fuzzed, list[str]]) -> None:
    """No byte outside is touched, by the corpus and some thousand relatives, and with every allocation failing once."""
    harness, program = built
    assert len(harness.run(program, 20_000, 0, 7, 500).kept) > 50


@pytest.mark.thorough("built with sanitizers")
def test_the_program_would_tell(tmp_path: Path, built: tuple[Fuzzed, list[str]]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    harness, program = built
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        harness.run([program[0], str(cut)], 0, 0, 1, 100)


def test_every_operation_is_fed() -> None:
    """The plans have all of them, and all that is known of Protobuf's fields, so nothing goes without."""
    assert {step.op for each in avro_fuzz.plans() for step in each.steps} == set(Op)
    steps = [step for each, _ in protobuf_fuzz.plans() for step in each.steps]
    assert {step.op for step in steps} == set(ProtobufOp)
    assert {flag for step in steps for flag in FieldFlag if step.flags & flag} == set(FieldFlag)
    assert {step.column < 0 for step in steps if step.oneof} == {True, False}


def avro() -> Iterator[tuple[int, object]]:
    """Of each input its plan, and the reason for which it is bad, or None."""
    plans = avro_fuzz.plans()
    for data in avro_fuzz.FUZZED.inputs():
        steps = plans[data[0] % len(plans)]
        decoder = _native.AvroDecoder(packed(steps.target))
        decoder.add(-1, *steps.packed(), steps.constants)
        _, bad, _ = decoder.decode(None, *column(data[1:]), 0, 1, False, dropped(steps.target))
        yield data[0] % len(plans), AvroReason(bad[0][1]) if bad else None


def json() -> Iterator[tuple[int, object]]:
    """The same."""
    values = [JsonValues(target) for target in json_fuzz.TARGETS]
    for data in json_fuzz.FUZZED.inputs():
        number = data[0] % len(values)
        _, bad = values[number].decode(pa.array([data[1:]]))
        yield number, bad[0].reason if bad else None


def protobuf() -> Iterator[tuple[int, object]]:
    """The same."""
    plans = protobuf_fuzz.plans()
    for data in protobuf_fuzz.FUZZED.inputs():
        steps, framed = plans[data[0] % len(plans)]
        decoder = _native.ProtobufDecoder(packed(steps.target), *steps.packed(), steps.constants)
        _, bad = decoder.decode(None, *column(data[1:]), 0, 1, framed, dropped(steps.target))
        yield data[0] % len(plans), ProtobufReason(bad[0][1]) if bad else None


def column(record: bytes) -> tuple[bytes, bytes]:
    """Offsets and data of a column of one row."""
    return struct.pack("=2i", 0, len(record)), record


def dropped(target: ColumnType) -> Callable[[int], Any]:
    """Takes the rows of this type, which nobody looks at."""
    kind = arrow_type(target)
    return lambda address: pa.Array._import_from_c(address, kind)


@pytest.mark.parametrize(
    ("read", "plans", "reasons"),
    [
        (avro, len(avro_fuzz.plans()), set(AvroReason) - {AvroReason.FRAME, AvroReason.NO_SCHEMA, AvroReason.DEPTH}),
        (json, len(json_fuzz.TARGETS), set(JsonReason)),
        # The plans of the fuzzer name no index: test_protobuf_decoder has records of other messages.
        (protobuf, len(protobuf_fuzz.plans()), set(ProtobufReason) - {ProtobufReason.OTHER_MESSAGE}),
    ],
)
def test_the_corpus_has_good_records_and_bad_ones_of_every_kind(
    read: Callable[[], Iterator[tuple[int, object]]], plans: int, reasons: set[object]
) -> None:
    """Good ones for each plan, and every reason that a record itself can be bad for."""
    found = set(read())
    assert {number for number, reason in found if reason is None} == set(range(plans))
    assert {reason for _, reason in found} >= reasons


def end_of(data: bytes) -> tuple[int, str] | None:
    """The event that a part ends with, and its words; None for the end of all batches."""
    what, records = batches_fuzz.plan_of(data), data[1:]
    by = decoder(columns=what.columns, largest=what.largest, by=lambda _codec, packed, _largest: bytes(packed))
    arguments = (what.position, what.stop, what.high_watermark, list(what.aborted))
    part = by.part(records, 0, len(records), "t", 7, *arguments)
    while (event := part.take(what.rows, what.nbytes)) is not None and event[0] == _native.RECORDS:
        continue
    return None if event is None else (event[0], str(event[5]))


DAMAGES = ["checksum", "offsets", "again", "behind the end", "negative", "codec", "contradict", "headers", "older"]


def test_the_corpus_has_good_batches_and_bad_ones_of_every_kind() -> None:
    """Every event that a part can end with, and every word for damage; a good log for every plan but those that mend nothing."""
    ends = [end_of(data) for data in batches_fuzz.FUZZED.inputs()]
    kinds = {kind for kind, _ in filter(None, ends)}
    assert kinds == {_native.ERROR, _native.BAD_TIMESTAMP, _native.BAD_HEADER, _native.TOO_LARGE}
    assert None in ends
    words = " ".join(words for _, words in filter(None, ends))
    assert [each for each in DAMAGES if each not in words] == []
