"""The options of keys and values: their formats and schemas."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.values import Values
from sparkcohort.runtime.values.encodings import LOOKUP, Encoding
from sparkcohort.runtime.values.formats import ANY_INDEX, OF_STRUCTS, Decoding, Format, Mode, decoding

REGISTRY: Final = "schema.registry."
DEAD_LETTER_TOPIC: Final = "dead.letter.topic"
FIRST_OF_SET: Final = b"\n"
"""The first byte of a descriptor set: the tag of ``FileDescriptorSet.file``."""
_OPENS_TEXT: Final = ("{", "[", '"')


def read_decodings(value: Values, texts: Mapping[str, str]) -> tuple[Decoding, Decoding]:
    """The decodings of keys and of values.  Raises OptionError."""
    registry = _registry(texts)
    key, records = _decoding(value, "key", registry), _decoding(value, "value", registry)
    topic = value.text(DEAD_LETTER_TOPIC)
    if topic and not (key.of_structs or records.of_structs):
        raise OptionError(
            f"option {DEAD_LETTER_TOPIC} has no effect with key.format={key.format} and value.format={records.format}: set one to "
            f"json, avro or protobuf, or leave {DEAD_LETTER_TOPIC} out"
        )
    return _with_dead_letters("key", key, topic), _with_dead_letters("value", records, topic)


def _with_dead_letters(part: str, decoding: Decoding, topic: str) -> Decoding:
    if topic and decoding.mode is Mode.FAILFAST:
        raise OptionError(
            f"option {DEAD_LETTER_TOPIC} does not go with {part}.mode=failfast, which ends the query at such a record: set "
            f"{part}.mode to permissive or dropmalformed, or leave {DEAD_LETTER_TOPIC} out"
        )
    return decoding._replace(dead_letter_topic=topic) if decoding.of_structs else decoding


def read_encodings(value: Values, texts: Mapping[str, str]) -> tuple[Encoding, Encoding]:
    """The encodings of keys and of values, before their columns are known.  Raises OptionError."""
    registry = _registry(texts)
    return _encoding(value, "key", registry), _encoding(value, "value", registry)


def _registry(texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, text) for key, text in sorted(texts.items()) if key.startswith(REGISTRY))


def idle_registry(texts: Mapping[str, str], key: Decoding, value: Decoding) -> list[str]:
    """A warning where no format uses the named registry; no error, since several queries may share the options."""
    if f"{REGISTRY}url" not in texts or key.registry or value.registry:
        return []
    formats = f"key.format={key.format} and value.format={value.format}"
    return [f"option {REGISTRY}url has no effect with {formats}: records of avro and protobuf have schemas there"]


def _decoding(value: Values, part: str, registry: tuple[tuple[str, str], ...]) -> Decoding:
    parsed, texts = _parsed(value, part)
    if parsed.format is not Format.AVRO:
        _check_unused(part, parsed.format, texts)
        return parsed._replace(registry=registry) if parsed.format is Format.PROTOBUF else parsed
    if not registry and not parsed.schema:
        raise OptionError(
            f"option {part}.format=avro needs the schema that records are read with: set {part}.schema to its text or "
            "file, or schema.registry.url"
        )
    if not registry:
        _check_unused(part, "avro without schema.registry.url", texts)
    return parsed._replace(registry=registry)


def _encoding(value: Values, part: str, registry: tuple[tuple[str, str], ...]) -> Encoding:
    parsed, texts = _parsed(value, part)
    lookup = value.choice(f"{part}.schema.registration") == LOOKUP
    if parsed.format is Format.JSON and "schema" in texts:
        raise OptionError(
            f"option {part}.schema has no effect on a write of json, which has the column's fields: leave it out"
        )
    if parsed.format not in (Format.AVRO, Format.PROTOBUF):
        _check_unused(part, parsed.format, texts)
        return Encoding(part, parsed)
    if not registry:
        _check_unused(part, f"{parsed.format} without schema.registry.url", texts)
    elif "schema.version" in texts and (parsed.schema or not lookup):
        raise OptionError(
            f"option {part}.schema.version has no effect on this write: set {part}.schema.registration to lookup and leave "
            f"{part}.schema out, or leave {part}.schema.version out"
        )
    return Encoding(part, parsed._replace(registry=registry), lookup)


def _parsed(value: Values, part: str) -> tuple[Decoding, dict[str, str]]:
    """What the options say of one format, and the options' texts."""
    texts = {name: value.text(f"{part}.{name}") for name in OF_STRUCTS if value.has_value(f"{part}.{name}")}
    if texts.pop("mode", "") and (mode := value.choice(f"{part}.mode")) != Mode.PERMISSIVE:
        texts["mode"] = mode
    if texts.pop("message.index", "") and (index := value.choice(f"{part}.message.index")) == ANY_INDEX:
        texts["message.index"] = index
    kind = value.choice(f"{part}.format")
    if kind == Format.AVRO and "schema" in texts and not texts["schema"].startswith(_OPENS_TEXT):
        texts["schema"] = _text_of(f"{part}.schema", texts["schema"])
    if kind == Format.PROTOBUF and "schema" in texts:
        texts["schema"] = _descriptor_set(f"{part}.schema", texts["schema"])
    return decoding(part, {**texts, "format": kind}), texts


def _check_unused(part: str, kind: str, texts: Mapping[str, str]) -> None:
    for name in ("subject", "schema.version", "schema.registration"):
        if name in texts:
            raise OptionError(f"option {part}.{name} has no effect with {part}.format={kind}: leave it out")


def _text_of(option: str, name: str) -> str:
    """The text in a schema's file."""
    otherwise = "the schema's text, which begins with a brace"
    try:
        return _file(option, name, otherwise).decode()
    except UnicodeDecodeError:
        raise OptionError(_unreadable(option, name, "it is not UTF-8", otherwise)) from None


def _descriptor_set(option: str, text: str) -> str:
    """A descriptor set in base64, from the option itself or from a file."""
    try:
        if b64decode(text, validate=True).startswith(FIRST_OF_SET):
            return text
    except ValueError:
        pass
    return b64encode(_file(option, text, "its bytes in base64")).decode()


def _file(option: str, name: str, otherwise: str) -> bytes:
    """The bytes of a schema's file on the driver."""
    try:
        return Path(name).expanduser().read_bytes()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
        reason = error.strerror if isinstance(error, OSError) else "it is no file's name"
        raise OptionError(_unreadable(option, name, reason or "it is no file", otherwise)) from None


def _unreadable(option: str, name: str, reason: str, otherwise: str) -> str:
    return (
        f"option {option}: the file {name[:200]!r} can't be read on the driver ({reason}): give the path of a file there, or "
        f"{otherwise}"
    )
