"""A checkpoint's folder: local, file://, hdfs://, s3://, gs:// and all else that pyarrow opens; else by fsspec."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from sparkcohort.cli.checkpoint.repairs import Files
from sparkcohort.runtime.errors import CohortError

LARGEST: Final = 16 << 20
"""Bytes of one file of a log: a hundred thousand partitions take 2 MB."""
FILES_PER_REPAIR: Final = 4
"""Files of each log, from the last, that a repair looks at."""
MOST_FILES: Final = 1_000_000
_NUMBER: Final = re.compile(r"\d{1,18}")
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_LOGIN: Final = re.compile(r"^([^/]*://)(?=[^/]*[:@]).*@", re.DOTALL)
"""A login ends at the last @, since a secret may contain any character, also / and ?.  A path alone has no login."""
_UNQUOTED: Final = re.compile(r"(?![^/]*hdfs:)[^/]*://[^/@]*:[^@]*/[^@]*@", re.DOTALL)
"""A login with a /, which would end it: the rest would be taken for a path.  In hdfs:// the colon is that of a port."""
_WRONG: Final = (OSError, pa.ArrowException, ValueError, ImportError)


class Folder:
    """The files of one checkpoint.  Every failure is a CohortError of one line that names the place."""

    def __init__(self, place: str) -> None:
        """Open ``place``.  Raises CohortError: it can't be reached, or is no checkpoint."""
        self.place = _without_login(place)
        self._fs, self._root = _open_file_system(place, self.place)
        # Commits are listed first: a query that runs meanwhile must not seem to have committed what it has not planned.
        self.logs: Mapping[str, Mapping[int, fs.FileInfo]] = {
            name: self._list_files(name) for name in ("commits", "offsets")
        }
        self.stateful = bool(self._entries("state"))
        if not self.logs["offsets"] and not self.logs["commits"] and not self.exists("metadata"):
            raise CohortError(f"{self.place} is no checkpoint: it has neither offsets nor commits nor metadata")

    def exists(self, name: str) -> bool:
        """Whether a file of this name exists."""
        with self._one_line(name):
            return bool(self._fs.get_file_info(f"{self._root}/{name}").type == fs.FileType.File)

    def read(self, name: str) -> str:
        """The text of a file; bytes that are no UTF-8 become U+FFFD.  Raises CohortError, also if it is too large."""
        with self._one_line(name), self._fs.open_input_stream(f"{self._root}/{name}") as stream:
            data = bytes(stream.read(LARGEST + 1))
        if len(data) > LARGEST:
            raise CohortError(f"{self.place}/{name} has more than {LARGEST >> 20} MiB: that is no file of Spark's logs")
        return data.decode("utf-8", "replace")

    def files(self) -> Files:
        """The files that a repair reads."""
        texts = {
            log: {number: self.read(f"{log}/{number}") for number in list(numbers)[-FILES_PER_REPAIR:]}
            for log, numbers in self.logs.items()
        }
        metadata = self.read("metadata") if self.exists("metadata") else None
        return Files(texts["offsets"], texts["commits"], metadata, self.stateful, str(uuid.uuid4()))

    def write(self, name: str, text: str | None) -> None:
        """Write a whole file, or remove it (None).  The checksum of its old text is removed first."""
        folder, _, last = f"{self._root}/{name}".rpartition("/")
        half = f"{folder}/.{last}.repair.tmp"  # no number: Spark ignores the file if this ends half way
        with self._one_line(name):
            if self._fs.get_file_info(f"{folder}/.{last}.crc").type == fs.FileType.File:
                self._fs.delete_file(f"{folder}/.{last}.crc")
            if text is None:
                self._fs.delete_file(f"{folder}/{last}")
                return
            with self._fs.open_output_stream(half) as stream:
                stream.write(text.encode())
            self._fs.move(half, f"{folder}/{last}")

    def back_up(self) -> str:
        """Copy both logs and ``metadata``, with their checksums, to a new folder beside this one.  Returns its place."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        target = f"{self._root}.backup-{stamp}"
        for name in (*self.logs, "metadata", ".metadata.crc"):
            with self._one_line(name):
                kind = self._fs.get_file_info(f"{self._root}/{name}").type
                if kind == fs.FileType.Directory:
                    self._fs.create_dir(f"{target}/{name}", recursive=True)
                if kind != fs.FileType.NotFound:
                    fs.copy_files(f"{self._root}/{name}", f"{target}/{name}", self._fs, self._fs)
        return f"{self.place.rstrip('/')}.backup-{stamp}"

    def age_s(self) -> float | None:
        """Seconds since either log was written to; None: the file system doesn't tell."""
        times = [info.mtime_ns for files in self.logs.values() for info in list(files.values())[-1:] if info.mtime_ns]
        return max(time.time() - max(times) / 1e9, 0.0) if times else None

    def _entries(self, name: str) -> list[fs.FileInfo]:
        with self._one_line(name):
            entries: list[fs.FileInfo] = self._fs.get_file_info(
                fs.FileSelector(f"{self._root}/{name}", allow_not_found=True)
            )
        return entries

    def _list_files(self, log: str) -> dict[int, fs.FileInfo]:
        """The files of a log by their batches, sorted."""
        entries = self._entries(log)
        if len(entries) > MOST_FILES:
            raise CohortError(f"{self.place}/{log} has {len(entries)} files: that is no log of Spark's")
        files = [entry for entry in entries if entry.type == fs.FileType.File and _NUMBER.fullmatch(entry.base_name)]
        return dict(sorted((int(entry.base_name), entry) for entry in files))

    @contextmanager
    def _one_line(self, name: str) -> Iterator[None]:
        try:
            yield
        except _WRONG as error:
            raise CohortError(f"{self.place}: {name}: {_reason(error)}") from None


def _open_file_system(place: str, label: str) -> tuple[Any, str]:
    """The file system and the path in it."""
    scheme, colon, tail = place.partition(":")
    local = not colon or "/" in scheme or len(scheme) < 2
    scheme = scheme.lower()
    if not place:
        raise CohortError("DIR is empty; give the folder or URI of a checkpoint")
    if not local and _UNQUOTED.match(place):  # the secret behind the / would be a path, and stand in errors
        raise CohortError(
            f"{label} can't be opened: write / as %2F and @ as %40 in the keys of a URI, or leave them out"
        )
    try:
        if local:
            return fs.LocalFileSystem(), os.path.abspath(place).rstrip("/")  # noqa: PTH100  as a string, for pyarrow
        if scheme == "file":
            return fs.LocalFileSystem(), unquote(urlsplit(place).path).rstrip("/")
        uri = f"{_SCHEMES.get(scheme, scheme)}:{tail}"
        try:
            file_system, path = fs.FileSystem.from_uri(uri)
        except (pa.ArrowException, ValueError):
            core = import_module("fsspec.core")
            fsspec_system, path = core.url_to_fs(f"{scheme}:{tail}")
            file_system = fs.PyFileSystem(fs.FSSpecHandler(fsspec_system))
        return file_system, str(path).rstrip("/")
    except ImportError:
        raise CohortError(
            f"{label}: pyarrow has no file system {scheme}://, and fsspec, which may have one, is not installed (pip install fsspec, and its package for {scheme})"
        ) from None
    except _WRONG as error:
        raise CohortError(f"{label} can't be opened: {_reason(error).replace(tail, '***')}") from None


def _without_login(place: str) -> str:
    """The place as messages show it, without the keys in a URI."""
    if "://" not in place:
        return place
    return _LOGIN.sub(r"\1***@", place).partition("?")[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
