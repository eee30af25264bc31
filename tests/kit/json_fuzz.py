"""The JSON reader built with sanitizers, and what is fed to it.

    python -m tests.kit.json_fuzz ROUNDS [SEED]

tries so many inputs and adds to the corpus (``json_corpus.txt``) those that reach new code.  Tests read the corpus.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from sparkcohort.runtime.values.json.plan import packed, plan
from sparkcohort.runtime.values.types import ColumnType, array, mapping
from sparkcohort.runtime.values.types import struct as struct_type
from tests.kit.json_records import MORE_NUMBERS, NUMBERS, PRIMITIVES, TEXTS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORPUS = HERE / "json_corpus.txt"
NATIVE = ROOT / "native"
OURS = ["json/json.c", "json/plan.c", "json/text.c", "values/tree.c", "values/tree_export.c", "arrow/blocks.c"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
TRACED = "-fsanitize-coverage=trace-pc"

INNER = struct_type({"n": ColumnType("int"), "s": ColumnType("string")})
NESTED = {
    "o": INNER,
    "l": array(INNER),
    "m": mapping(INNER),
    "ll": array(array(ColumnType("bigint"))),
    "ml": mapping(array(ColumnType("string"))),
    "e": struct_type({}),
}
TARGETS = [
    struct_type({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES)}),
    struct_type({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES) if kind.kind != "decimal"}),
    struct_type({**NESTED, "d": array(ColumnType("double"))}),
    struct_type({}),
]


def seeds() -> list[str]:
    """Every value for every primitive, and what is nested."""
    whole = [*NUMBERS, *MORE_NUMBERS, "true", "false", "null", "[1]", '{"a": 1.50}', *map(json.dumps, TEXTS)]
    names = "abcdefghijklmnop"[: len(PRIMITIVES)]
    flat = [f"{{{json.dumps(name)}:{value}}}" for value in whole for name in names]  # short, so that a hit hits
    nested = (
        '{"o":{"n":1,"s":"x","n":"y"},"l":[{"n":1},{"n":"x"},null],"m":{"k":{"s":1.50},"k":{}},"ll":[[1],[],[2,3]],'
        '"ml":{"a":["b"]},"e":{"z":[1,{}]},"d":[1e400,NaN],"l":3,"o":{"s":{"a":[true]}}}'
    )
    more = [
        "",
        " ",
        "null",
        "[]",
        '"\\ud83d\\ude00"',
        '{"o":"\\ud800"}',
        '{"ll":[[1],["x"]],"ml":{"a":[[]]}} x',
        nested,
    ]
    return [f"{number:02x}" + each.encode().hex() for number in range(len(TARGETS)) for each in [*flat, *more]]


def yyjson() -> Path:
    """The folder that the wheel was built from."""
    return max((ROOT / ".cache" / "sources").glob("yyjson-*/"))


def build(folder: Path) -> list[str]:
    """The program, and the plans that it reads: the beginning of its command."""
    program, written, parser = folder / "json_fuzz", folder / "plans", folder / "yyjson.o"
    flags = [
        "cc",
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{NATIVE}",
        f"-I{yyjson()}",
    ]
    # What the parser does is its authors' matter: its ways are not traced, what it does to memory is.
    subprocess.run([*flags, *SANITIZED, "-c", "-o", parser, yyjson() / "yyjson.c"], check=True, timeout=300)
    sources = [HERE / "json_fuzz.c", *(NATIVE / source for source in OURS)]
    subprocess.run([*flags, *SANITIZED, TRACED, "-o", program, *sources, parser, "-lm"], check=True, timeout=300)
    parts = [struct.pack("=q", len(TARGETS))]
    for target in TARGETS:
        fields, names = packed(plan(target))
        parts += [struct.pack("=q", len(fields) // 16), fields, struct.pack("=q", len(names)), names]
    written.write_bytes(b"".join(parts))
    return [str(program), str(written)]


def run(command: list[str], rounds: int, seed: int, timeout: float) -> list[str]:
    """The inputs that reach all the code which was reached, in hex; an error when a sanitizer has found something."""
    command = [*command, str(CORPUS), str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise AssertionError(done.stderr[-5000:])
    return done.stdout.split()


def main(rounds: str, seed: str = "1") -> None:
    """Make the corpus better."""
    CORPUS.touch()
    CORPUS.write_text("\n".join(sorted({*seeds(), *CORPUS.read_text().split()})) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        found = {f"{number:02x}" + b"{}".hex() for number in range(len(TARGETS))} | {"00" + b'{"a":"\xff"}'.hex()}
        found |= set(run(build(Path(folder)), int(rounds), int(seed), 36_000))
    CORPUS.write_text("\n".join(sorted(found)) + "\n")
    sys.stdout.write(f"{len(found)} inputs\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
