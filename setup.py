"""The native part of the wheel; everything else about it stands in pyproject.toml."""

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from setuptools import Extension, setup

# One wheel for this Python and all newer ones.
ABI, VERSION = "cp311", "0x030B0000"

# gcc leaves them out at -O2, zig keeps them: a register and three instructions of every small function.
FAST = ["-fomit-frame-pointer"]
# It reads bytes from the network: a mistake in it is to end the process, not to be used.
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
# The same, where the compiler has it for this processor: pages of the stack are touched one by one, jumps land where they may.
HARDENED_WHERE_KNOWN = ["-fstack-clash-protection", "-fcf-protection=full"]

# The release of yyjson that a package brings with it, its notice, and nothing else of that package.
PACKAGE, RELEASE = "yyjson", "4.0.6"
SHA256 = "fcd4dc15c1e39a30bf9fa85d56903029111506860fc3080ab0d81c6c6dacaa8c"
KEPT = Path(".cache/sources")
NOTICE = "LICENSE"
FILES = {NOTICE, f"{PACKAGE}/yyjson.c", f"{PACKAGE}/yyjson.h"}


def _files(folder: str, pattern: str) -> list[str]:
    return sorted(map(str, Path("native", folder).rglob(pattern)))


def _is_it(archive: Path) -> bool:
    return archive.is_file() and hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256


def _download(archive: Path) -> None:
    """By pip, from the index that it is set up for; it checks the hash as well."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"{PACKAGE}=={RELEASE} --hash=sha256:{SHA256}\n")
        options = [
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--require-hashes",
            "--retries",
            "1",
            "--dest",
            folder,
        ]
        command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            raise OSError(lines[-1].removeprefix("ERROR: ") if lines else "pip could not download it")
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(Path(folder, archive.name).read_bytes())
    if not _is_it(archive):
        raise OSError("what came has another hash")


def _unpack(archive: Path) -> Path:
    folder = KEPT / f"{PACKAGE}-{RELEASE}"
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for name in sorted(FILES):
            found = packed.extractfile(f"{PACKAGE}-{RELEASE}/{name}")
            if found is None:
                raise OSError(f"{name} is no file")
            (folder / Path(name).name).write_bytes(found.read())
    return folder


def _yyjson() -> Path | None:
    """The folder with yyjson's two files and its notice, or nothing: then the wheel goes without JSON's native part."""
    archive = KEPT / f"{PACKAGE}-{RELEASE}.tar.gz"
    try:
        if not _is_it(archive):
            _download(archive)
        return _unpack(archive)
    except (OSError, KeyError, subprocess.SubprocessError, tarfile.TarError) as error:
        print(  # noqa: T201  # a build's log
            f"sparkcohort: no source of {PACKAGE} {RELEASE} ({error}), so this wheel reads JSON in Python, many times slower;"
            f" build it where pip reaches its index, or put {archive} there",
            file=sys.stderr,
        )
        return None


def _knows(flag: str) -> bool:
    """Whether the compiler takes a flag."""
    command = [*shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"), "-Werror", flag]
    try:
        done = subprocess.run(
            [*command, "-x", "c", "-c", "-o", os.devnull, "-"], input=b"", capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


# Others' functions are not for others to link to, nor to be taken from another library that has functions of these names.
HIDDEN = [("yyjson_api", "")]


def _extension(name: str, sources: list[str], include_dirs: list[str]) -> Extension:
    return Extension(
        f"sparkcohort.native.{name}",
        sources=sources,
        depends=_files("", "*.h"),
        include_dirs=include_dirs,
        define_macros=[("Py_LIMITED_API", VERSION), ("_GNU_SOURCE", None), *HIDDEN],
        extra_compile_args=["-std=c11", "-fvisibility=hidden", "-g0", *FAST, *HARDENED, *KNOWN],
        extra_link_args=["-Wl,-z,relro,-z,now,-z,noexecstack"],
        py_limited_api=True,
        # Without a compiler or Python's headers the wheel does without it, and records take the slower path.
        optional=True,
    )


# A front end asks for the requirements first: for that nothing is fetched.
ASKED_ONLY = sys.argv[1:2] == ["egg_info"]
YYJSON = None if ASKED_ONLY else _yyjson()
KNOWN = [flag for flag in HARDENED_WHERE_KNOWN if not ASKED_ONLY and _knows(flag)]
JSON = _files("json", "*.c")
EXTENSIONS = [_extension("_drain", sorted(set(_files("", "*.c")) - set(JSON)), ["native"])]
if YYJSON:
    SHARED = ["native/arrow/blocks.c", "native/values/records.c", "native/values/tree.c", "native/values/tree_export.c"]
    SOURCES = [*JSON, *SHARED, str(YYJSON / "yyjson.c")]
    # Its functions are for this module alone: offered, they could be those of another library with a yyjson in it.
    EXTENSIONS.append(_extension("_json", SOURCES, ["native", str(YYJSON)]))


# Whoever gets the wheel gets the notices of all that is compiled into it.
NOTICES = ["LICENSE", *([str(YYJSON / NOTICE)] if YYJSON else [])]

setup(ext_modules=EXTENSIONS, license_files=NOTICES, options={"bdist_wheel": {"py_limited_api": ABI}})
