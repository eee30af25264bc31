"""The native part of the wheel; everything else about it stands in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

# One wheel for this Python and all newer ones.
ABI, VERSION = "cp311", "0x030B0000"

# It reads bytes from the network: a mistake in it is to end the process, not to be used.
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]


def _files(pattern: str) -> list[str]:
    return sorted(map(str, Path("native").rglob(pattern)))


setup(
    ext_modules=[
        Extension(
            "sparkcohort.native._drain",
            sources=_files("*.c"),
            depends=_files("*.h"),
            include_dirs=["native"],
            define_macros=[("Py_LIMITED_API", VERSION), ("_GNU_SOURCE", None)],
            extra_compile_args=["-std=c11", "-fvisibility=hidden", "-g0", *HARDENED],
            extra_link_args=["-Wl,-z,relro,-z,now,-z,noexecstack"],
            py_limited_api=True,
            # Without a compiler or Python's headers the wheel does without it, and records take the slower path.
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": ABI}},
)
