"""Types that come over the wire are compiled before there are threads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.sources import nodes

ROOT = Path(__file__).resolve().parents[3]
HALF_WAY = """
import sys, threading
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.agent import agent_config

half_way, came = threading.Event(), threading.Event()

def stop_half_way(frame, event, _argument):
    # The second type whose annotations are read is a part of the first, which the first one's class has already.
    if event == "call" and frame.f_code.co_name in ("get_class_annotations", "get_dataclass_info"):
        seen.add(next(iter(frame.f_locals.values())))
        if len(seen) == 2:
            half_way.set()
            came.wait(1)

def first():
    sys.setprofile(stop_half_way)
    quietly()

def quietly():
    try:
        CALL
    except ValueError:
        pass

seen = set()
compiling = threading.Thread(target=first)
compiling.start()
half_way.wait(1)
quietly()
came.set()
compiling.join()
print("alive")
"""
CALLS = {
    "a task's report": """calls.decode(b'{"plan":"p","address":"a","ranges":[["t",0,0,1]],"agent":[1,1],"x":1}', calls.Delivered)""",
    "a progress event": """calls.decode(b'{"query":"q","name":"n","sources":[{"x":1}]}', calls.BatchCommitted)""",
    "a member's configuration": """agent_config.decode_config(b'{"address": "a", "executor": {"x": 1}}')""",
}


@pytest.mark.parametrize("what", CALLS)
def test_no_type_is_met_half_compiled(what: str) -> None:
    """Where a thread compiles one, another that needs it takes what is there, and the process is gone: SIGSEGV."""
    program = HALF_WAY.replace("CALL\n", CALLS[what] + "\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_types_are_compiled_at_import() -> None:
    """No decoder of msgspec's is made in a function; what ``convert`` takes has one, made for that."""
    rooms = [
        *(ROOT / "runtime").rglob("*.py"),
        *(ROOT / "streaming").rglob("*.py"),
        *(ROOT / "sparkcohort").rglob("*.py"),
    ]
    assert {
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in rooms
        for function in nodes(path)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and (name := ast.unparse(call.func)).startswith("msgspec.")
        and (
            name.endswith("Decoder")
            or (
                name.endswith(("convert", ".decode"))
                and f"\nmsgspec.json.Decoder({ast.unparse(call.args[-1])})\n" not in path.read_text()
            )
        )
    } == set()
