"""The native part of the wheel; everything else about it stands in pyproject.toml."""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# One wheel for this Python and all newer ones.
ABI, VERSION = "cp311", "0x030B0000"

PLAIN = ["-std=c11", "-fvisibility=hidden", "-g0"]
# gcc leaves them out at -O2, zig keeps them: a register and three instructions of every small function.
FAST = ["-fomit-frame-pointer"]
# It reads bytes from the network: a mistake in it is to end the process, not to be used.
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
# The same, where the compiler has it for this processor: pages of the stack are touched one by one, jumps land where they may.
HARDENED_WHERE_KNOWN = ["-fstack-clash-protection", "-fcf-protection=full"]

# What is compiled in of others: its pinned release, as tools/bootstrap.sh unpacks it and the sdist carries it.
PIN = Path("native/yyjson.txt")
YYJSON = Path(".cache/sources", PIN.read_text().split()[0].replace("==", "-"))
PARSER, HEADER, NOTICE = (YYJSON / name for name in ("yyjson.c", "yyjson.h", "LICENSE"))
# Its functions are not for others to link to, nor to be taken from another library that has functions of these names.
HIDDEN = [("yyjson_api", "")]


def _accepts(flag: str) -> bool:
    """Whether the compiler takes a flag."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-Werror", flag, "-x", "c", "-c", "-o", os.devnull, "-"]
    try:
        return not subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False).returncode
    except (OSError, subprocess.SubprocessError):
        return False


if not all(path.is_file() for path in (PARSER, HEADER, NOTICE)):
    raise SystemExit(f"sparkcohort: the source of yyjson is not in {YYJSON}: run tools/bootstrap.sh yyjson")
SOURCES, HEADERS = (sorted(map(str, Path("native").rglob(pattern))) for pattern in ("*.c", "*.h"))
NATIVE = Extension(
    "sparkcohort.native._native",
    sources=[*SOURCES, str(PARSER)],
    depends=[*HEADERS, str(HEADER), str(PIN)],
    include_dirs=["native", str(YYJSON)],
    define_macros=[("Py_LIMITED_API", VERSION), ("_GNU_SOURCE", None), *HIDDEN],
    extra_compile_args=[*PLAIN, *FAST, *HARDENED, *filter(_accepts, HARDENED_WHERE_KNOWN)],
    extra_link_args=["-Wl,-z,relro,-z,now,-z,noexecstack"],
    py_limited_api=True,
)
setup(ext_modules=[NATIVE], license_files=["LICENSE", str(NOTICE)], options={"bdist_wheel": {"py_limited_api": ABI}})
