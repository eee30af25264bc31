"""Which lines of the installed product a run of tests reaches, counted in every process, killed ones included.

    make reached TIER=all             runs the tests of a tier in an environment that counts, then prints the table
    python tools/reached.py prepare   each module of .venv marks its lines as they run, in one file that all processes share
    python tools/reached.py report    the share of lines reached, by room; ``--lines`` lists those that were not
    python tools/reached.py restore   the environment as it was

Coverage tools write their data when a process ends, and the tests here kill processes: what an agent did before it was
killed would be missing.  So ``prepare`` compiles each module with a mark before each statement, into its ``.pyc`` alone;
sources, line numbers and tracebacks stay.  Python only: C is counted by gcov.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "reached"
HELPER = "sparkcohort/_reached.py"  # where the package is, for interpreters that see nothing else of an environment
SITES = [site for name in (".venv", ".venv-oldest") for site in (ROOT / name).glob("lib/python*/site-packages")]
# Compiled code that is never compared with its source (PEP 552).
HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")
MARKS = """import mmap

class Marks(mmap.mmap):
    def __reduce__(self):  # what is pickled by value has them as a global
        return "marks"

with open({path!r}, "r+b") as file:
    marks = Marks(file.fileno(), 0)
"""


class Marker(ast.NodeTransformer):
    """Puts a mark before each statement that runs, and notes its line."""

    def __init__(self, offset: int) -> None:
        """``offset``: where this module's lines begin in the shared file."""
        self.offset, self.lines = offset, set[int]()

    def _mark(self, line: int) -> ast.stmt:
        self.lines.add(line)
        return ast.parse(f"__marks__[{self.offset + line}] = 1").body[0]

    def _marked(self, body: list[ast.stmt]) -> list[ast.stmt]:
        marked: list[ast.stmt] = []
        for position, statement in enumerate(body):
            docstring = position == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not (docstring or isinstance(statement, ast.Global | ast.Nonlocal)):
                marked.append(ast.fix_missing_locations(ast.copy_location(self._mark(statement.lineno), statement)))
            marked.append(statement)
        return marked

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Every list of statements, at any depth."""
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                setattr(node, field, self._marked(body))
        return node


def modules(site: Path) -> list[Path]:
    """The product's modules in an environment."""
    ours = [*site.glob("sparkcohort/**/*.py"), site / "pyspark_cohort.py"]
    return sorted(path for path in ours if path != site / HELPER)


def marked(source: bytes, path: Path, offset: int) -> tuple[CodeType, set[int]]:
    """The module's code with marks, and the lines that have one."""
    tree = ast.parse(source)
    marker = Marker(offset)
    body = tree.body
    head = next((i for i, s in enumerate(body) if not _before_imports(s)), len(body))
    rest = ast.Module(body[head:], [])
    marker.visit(rest)
    opening = ast.parse("from sparkcohort._reached import marks as __marks__").body
    tree.body = [*body[:head], *opening, *rest.body]
    code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec")
    return code, marker.lines


def _before_imports(statement: ast.stmt) -> bool:
    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return future or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def prepare() -> None:
    """Compile every module with its marks."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index: dict[str, dict[str, object]] = {}
    size = 0
    for site in SITES:
        (site / HELPER).write_text(MARKS.format(path=str(FOLDER / "marks")))
        for path in modules(site):
            source = path.read_bytes()
            name = str(path.relative_to(site))
            offset = int(str(index[name]["offset"])) if name in index else size
            code, lines = marked(source, path, offset)
            pyc = Path(importlib.util.cache_from_source(str(path)))
            pyc.parent.mkdir(exist_ok=True)
            pyc.write_bytes(HEAD + importlib.util.source_hash(source) + marshal.dumps(code))
            if name not in index:
                index[name] = {"offset": offset, "lines": sorted(lines)}
                size += source.count(b"\n") + 2
    (FOLDER / "index.json").write_text(json.dumps(index))
    (FOLDER / "marks").write_bytes(bytes(size))


def restore() -> None:
    """Take the marked code away; Python compiles the sources again."""
    for site in SITES:
        (site / HELPER).unlink(missing_ok=True)
        for path in modules(site):
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def report(*options: str) -> None:
    """Print the share of lines that were reached: by room, and in whole."""
    index = json.loads((FOLDER / "index.json").read_text())
    marks = (FOLDER / "marks").read_bytes()
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, module in index.items():
        missed = [line for line in module["lines"] if not marks[module["offset"] + line]]
        for room in (str(Path(name).parent), "all"):
            rooms[room][0] += len(module["lines"]) - len(missed)
            rooms[room][1] += len(module["lines"])
        if "--lines" in options and missed:
            print(f"{name}: {' '.join(map(str, missed))}")
    for room, (reached, lines) in sorted(rooms.items(), key=lambda row: row[0] == "all"):
        print(f"{100 * reached / max(lines, 1):6.2f} %  {reached:6d} of {lines:6d}  {room}")


if __name__ == "__main__":
    {"prepare": prepare, "report": report, "restore": restore}[sys.argv[1]](*sys.argv[2:])
