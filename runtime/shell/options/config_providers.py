"""Values that stand elsewhere (``kafka.config.providers``, KIP-297): in files, folders of secrets, and the environment.

``${provider:path:key}`` in a value is replaced as Kafka's ``ConfigTransformer`` does it.  Kafka's three providers are known
by their classes; others are Java classes, and are refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import properties_file, redaction
from sparkcohort.runtime.shell.options.security_settings import is_sensitive

PROVIDERS: Final = "config.providers"
_FILE, _FOLDER, _ENVIRONMENT = "FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider"
_KINDS: Final = (_FILE, _FOLDER, _ENVIRONMENT)
_PARAMETERS: Final = {_FILE: "allowed.paths", _FOLDER: "allowed.paths", _ENVIRONMENT: "allowlist.pattern"}
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_SEPARATORS: Final = re.compile(r"[\s,:]+")
_PIECE: Final = 4  # characters of a part of a value that tells something of it
_LIST: Final = 256  # characters of a value that may be a list of names, and is taken apart
Found: TypeAlias = dict[str, list[str]]
"""The values that were looked up, by the option that refers to them."""
_MOST: Final = 1 << 20
"""Bytes of a file: a key store's password and its like are short, and PEM is not long."""


@dataclass(frozen=True)
class Provider:
    """One of ``config.providers``: ``bound`` is what its parameter allows, "" for everything."""

    name: str
    kind: str
    bound: str


def without_providers(java: Mapping[str, str]) -> dict[str, str]:
    """The same settings less those of providers."""
    return {name: value for name, value in java.items() if name != PROVIDERS and not name.startswith(f"{PROVIDERS}.")}


def providers(java: Mapping[str, str]) -> dict[str, Provider]:
    """Who looks values up, by name.  Raises OptionError for what is none of Kafka's own, and for what nobody has named."""
    names = [name.strip() for name in java.get(PROVIDERS, "").split(",") if name.strip()]
    own = {name.lower(): value for name, value in java.items() if name.startswith(f"{PROVIDERS}.")}
    stray = [each for each in own if not any(each.startswith(f"{PROVIDERS}.{name.lower()}.") for name in names)]
    if stray:
        raise OptionError(f"option kafka.{stray[0]} is of no provider that kafka.{PROVIDERS} names: name it there")
    return {name: _provider(name, own) for name in names}


def _provider(name: str, java: Mapping[str, str]) -> Provider:
    begin = f"{PROVIDERS}.{name.lower()}."  # names of options are in lower case
    given = java.get(f"{begin}class", "").strip()
    kind = given.removeprefix("class ").rpartition(".")[2]
    if kind not in _KINDS:
        what = f"={given} is not supported: it is a Java class" if given else " is missing"
        raise OptionError(
            f"option kafka.{begin}class{what}; there are {', '.join(_KINDS)} of org.apache.kafka.common.config.provider: "
            "use one of them, or give the values themselves"
        )
    parameter = f"{begin}param.{_PARAMETERS[kind]}"
    others = [each for each in java if each.startswith(begin) and each not in (f"{begin}class", parameter)]
    if others:
        raise OptionError(f"option kafka.{others[0]} is unknown: {kind} has kafka.{parameter} alone")
    return Provider(name, kind, java.get(parameter, "").strip())


def refers(value: str, known: Mapping[str, Provider]) -> bool:
    """Whether a value has something to look up."""
    return bool(known) and _REFERENCE.search(value) is not None


def files(java: Mapping[str, str]) -> tuple[str, ...]:
    """The paths that the values refer to, in order."""
    known = providers(java)
    found = {
        path if known[name].kind == _FILE else str(Path(path) / key)
        for value in without_providers(java).values()
        for name, path, key in _REFERENCE.findall(value)
        if name in known and known[name].kind != _ENVIRONMENT
    }
    return tuple(sorted(found))


def looked_up(java: Mapping[str, str], found: Found | None = None) -> dict[str, str]:
    """The settings with all values as they are here and now, without those of providers; ``found`` gets the values.

    Raises OptionError that names the option, the place and what to do; never a value.
    """
    known = providers(java)
    plain = without_providers(java)
    if not known:
        return plain
    values: Found = {} if found is None else found

    def of(name: str, match: re.Match[str]) -> str:
        value = _value(name, known, match)
        values.setdefault(name, []).append(value)
        return value

    return {name: _REFERENCE.sub(partial(of, name), value) for name, value in plain.items()}


@contextmanager
def unquoted(found: Found) -> Iterator[None]:
    """What is said within of options is said without the values that were looked up: a reference may be to a wrong key."""
    try:
        yield
    except OptionError as error:
        raise OptionError(without_values(str(error), found)) from None


def without_values(text: str, found: Found) -> str:
    """What is said of options, without the values that were looked up, as they are or as their readers leave them."""
    shown = redaction.without(text, {form for values in found.values() for value in values for form in _forms(value)})
    if shown != redaction.WITHHELD:
        return shown
    names = [f"kafka.{name}" for name in sorted(found)]
    about = [name for name in names if name in text] or names
    return (
        f"option {', '.join(about)} refers to a value that is not fit for it {shown}: see that the reference names the right "
        "place"
    )


def _forms(value: str) -> set[str]:
    """What options' readers may quote of a value: in one case, without spaces, as a number, or an element of a list."""
    bare = value.strip()
    forms = {value, bare, bare.lower(), bare.upper(), bare.upper().replace("#", ""), repr(value)[1:-1]}
    if re.fullmatch(r"[+-]?[0-9]{1,100}", bare):
        forms.add(str(int(bare)))
    if len(bare) <= _LIST and "-----" not in bare:
        forms |= {piece for form in tuple(forms) for piece in _SEPARATORS.split(form) if len(piece) >= _PIECE}
    return forms - {""}


def _value(setting: str, known: Mapping[str, Provider], match: re.Match[str]) -> str:
    option = f"option kafka.{setting}"
    name, path, key = match[1], match[2] or "", match[3]
    if name not in known:
        # A password may have ${ and } in it: what stands between them is no name then.
        stranger = "a provider" if is_sensitive(setting) else f"a provider {name}"
        raise OptionError(
            f"{option} refers to {stranger} that option kafka.{PROVIDERS}={','.join(known)} does not name: name it there"
        )
    provider = known[name]
    if provider.kind == _ENVIRONMENT:
        return _from_environment(option, provider, key)
    if provider.kind == _FILE:
        found = properties_file.parse(_text(option, provider, Path(path))).get(key)
        if found is None:
            raise OptionError(f"{option}: {path} has no {key}: add it there, or correct the reference to {name}")
        return found
    if not key or "/" in key or key in (".", ".."):
        raise OptionError(f"{option}: what follows {path} names no file of a folder: write ${{{name}:FOLDER:FILE}}")
    return _text(option, provider, Path(path) / key)


def _text(option: str, provider: Provider, path: Path) -> str:
    allowed = [Path(each.strip()).resolve() for each in provider.bound.split(",") if each.strip()]
    if allowed and not any(path.resolve().is_relative_to(each) for each in allowed):
        raise OptionError(
            f"{option}: {path} is not within kafka.{PROVIDERS}.{provider.name}.param.allowed.paths={provider.bound}"
        )
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
        text = data.decode() if len(data) <= _MOST else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise OptionError(
            f"{option}: {path} can't be read here ({reason}): it has to be on the driver's host and on those of executors"
        ) from None
    if text is None:
        raise OptionError(
            f"{option}: {path} has more than {_MOST} bytes, the most that are read: name the value's own file"
        )
    return text


def _from_environment(option: str, provider: Provider, key: str) -> str:
    if provider.bound and not _allowed(provider, key):
        raise OptionError(
            f"{option}: {key} is not among kafka.{PROVIDERS}.{provider.name}.param.allowlist.pattern={provider.bound}"
        )
    if key not in os.environ:
        raise OptionError(
            f"{option}: the environment here has no {key}: set it for the driver, and for executors with "
            f"spark.executorEnv.{key}"
        )
    return os.environ[key]


def _allowed(provider: Provider, key: str) -> bool:
    """Whether the whole name matches Java's expression."""
    from sparkcohort.runtime.kafka.java_patterns import PatternError  # noqa: PLC0415  few need expressions
    from sparkcohort.runtime.shell.options.topic_pattern import topic_pattern  # noqa: PLC0415

    try:
        return topic_pattern(f"^(?:{provider.bound})$").finds(key)
    except PatternError as error:
        raise OptionError(
            f"option kafka.{PROVIDERS}.{provider.name}.param.allowlist.pattern can't be used here: {error}"
        ) from None
