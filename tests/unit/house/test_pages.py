"""README and docs/ say what the code does: tables, programs, commands, options, links and searches are looked at."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest

from sparkcohort import dashboards
from sparkcohort.cli.main import cli
from sparkcohort.runtime.group.table import DIFFERENCES, TABLE
from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from sparkcohort.runtime.shell.options.table import BY_KEY, FAMILIES
from tests.kit.alert_rules import Alert, alerts
from tests.kit.pages import DOCS, EXAMPLES, FILES, GENERATED, README, ROOT, pages, section
from tests.kit.sources import nodes

MOST_README_LINES, MOST_FILES_FOUND, MOST_PAGES, MOST_WORDS = 150, 6, 32, 32_000
PAGES = {str(path.relative_to(ROOT)): path for path in pages()}
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_PAGE = re.compile(r"\bdocs/[\w/-]+\.md")
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)
CELLS = re.compile(r"(?<!\\) \| ")
OPTION = re.compile(r"""\.option\("([^"]+)",""")
SPARKS_OWN = (
    "DATA_SOURCE_NOT_EXIST",
    "DATA_SOURCE_NOT_FOUND",
    "DATA_SOURCE_PUSHDOWN_DISABLED",
    "PYTHON_VERSION_MISMATCH",
    "Python worker",
    "Cannot run program",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Incomplete log file",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
)
OF_CLOUDS = {"azure.identity", "google.auth", "google.auth.transport.requests"}
"""Modules that a page shows and no test has."""
CODE = ("assignors", "cli", "dashboards", "native", "runtime", "sparkcohort", "streaming")


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages ("": no language), without their indentation."""
    found = FENCE.findall(path.read_text())
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, word, body in found if word in languages]


def commands(path: Path) -> list[list[str]]:
    """The command lines of a page: of the blocks that are no pictures, without prompt, comment and output."""
    lines = [line for body in blocks(path, "") for line in body.splitlines()]
    starts = ("cohort ", "make ", "$ cohort ", "python -m ")
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith(starts)]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of a table, without its head."""
    return [CELLS.split(row) for row in ROW.findall(text)][1:]


@pytest.mark.parametrize("name", list(GENERATED))
def test_what_is_made_is_current(name: str) -> None:
    """Options, metrics, error codes, output and examples stand in the pages as in the code (else: ``python -m tests.kit.pages``)."""
    page, made = GENERATED[name]
    assert section(page.read_text(), name) == made()


@pytest.mark.parametrize("path", list(FILES), ids=lambda path: path.name)
def test_files_that_are_made_are_current(path: Path) -> None:
    """The dashboard and its pictures are what the tables in the code make (else: ``python -m tests.kit.pages``)."""
    assert path.read_text() == FILES[path]()


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_each_alert_has_a_runbook(alert: Alert) -> None:
    """A heading of its name, with what it means and what to do; and it leads there."""
    page = DOCS / "operate/on-call.md"
    assert f"runbook: 'docs/operate/on-call.md#{alert.name.lower()}'\n" in dashboards.text(dashboards.RULES)
    _, _, rest = page.read_text().partition(f"### {alert.name}\n")
    paragraph = re.split(r"\n##+ ", rest)[0]
    assert len(paragraph.split()) >= 30
    assert "**Do**" in paragraph


def test_no_runbook_is_left_over() -> None:
    """Each heading below *Alerts* is an alert."""
    chapter = (DOCS / "operate/on-call.md").read_text().partition("\n## Alerts\n")[2].partition("\n## ")[0]
    heads = re.findall(r"^### (.+)$", chapter, re.MULTILINE)
    assert heads == [alert.name for alert in alerts()]


def test_the_readme_fits_a_reading() -> None:
    """At most 150 lines, the live page after an executor was killed, and the pipeline."""
    text = README.read_text()
    assert len(text.splitlines()) <= MOST_README_LINES
    assert re.findall(r"!\[.+\]\((.+)\)", text) == ["docs/images/page.png"]
    assert 'format("cohort")' in section(text, "pipeline")


def test_the_documents_stay_small() -> None:
    """At most 32 pages and 32,000 words, without the bars of tables: all but CHANGELOG.md."""
    read = [path for path in pages() if path.name != "CHANGELOG.md"]
    assert len(read) <= MOST_PAGES
    words = [word for path in read for word in path.read_text().split() if re.search(r"\w", word)]
    assert len(words) <= MOST_WORDS


def test_the_crash_table_names_its_tests() -> None:
    """Each test that the page names is there, and each test of a row stands in that row."""
    functions = {
        node.name
        for folder in ("e2e", "shell/produce")
        for path in (ROOT / "tests" / folder).glob("test_*.py")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
    }
    table = {
        row[0]: set(re.findall(r"`(test_\w+)`", row[-1])) for row in rows((DOCS / "audit/exactly-once.md").read_text())
    }
    assert list(table) == [str(number) for number in range(1, 16)]
    assert set().union(*table.values()) - functions == set()
    assert [number for number, named in table.items() if not named] == ["15"]
    for name in functions:
        for number in re.findall(r"\d+", name) if re.match(r"test_rows?_\d", name) else ():
            assert name in table[number], f"row {number} lacks {name}"


def test_the_index_has_every_page() -> None:
    """Nothing in docs/ is found by nobody."""
    named = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "README.md").read_text())}
    assert {path for path in DOCS.rglob("*.md") if path.name != "README.md"} - named == set()


@cache
def _anchors(path: Path) -> frozenset[str]:
    text = FENCE.sub("", path.read_text())
    heads = [
        re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    ]
    return frozenset(heads)


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    """Files and headings that links name are there."""
    page = PAGES[name]
    lost = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_page_that_code_or_settings_name_is_there() -> None:
    """In errors, comments and conf/, where no link is followed."""
    files = [path for folder in (*CODE, "conf", "examples", "jvm", "tools") for path in (ROOT / folder).rglob("*.*")]
    texts = {
        path: path.read_text(errors="replace")
        for path in files
        if path.is_file() and path.suffix not in {".pyc", ".so"}
    }
    lost = {
        page: path for path, text in texts.items() for page in NAMED_PAGE.findall(text) if not (ROOT / page).is_file()
    }
    assert lost == {}


@pytest.mark.parametrize("name", PAGES)
def test_every_program_can_be_run(name: str) -> None:
    """Python compiles, what it imports is installed or an example, and its options exist."""
    honoured = BY_KEY.keys()
    for body in blocks(PAGES[name], "python"):
        for node in ast.walk(ast.parse(body, name)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert module in OF_CLOUDS or importlib.util.find_spec(str(module)), f"{name}: no module {module}"
            if isinstance(node, ast.ImportFrom) and node.module == "sparkcohort":
                front = importlib.import_module("sparkcohort")
                assert [alias.name for alias in node.names if not hasattr(front, alias.name)] == []
        if 'format("cohort")' in body or "stream.option" in body:
            ours = [word for word in OPTION.findall(body) if word not in {"path", "checkpointLocation"}]
            unknown = [
                word for word in ours if word.lower() not in honoured and not word.startswith(("kafka.", *FAMILIES))
            ]
            assert unknown == []


@pytest.mark.parametrize("name", PAGES)
def test_every_value_can_be_read(name: str) -> None:
    """JSON and TOML parse; properties are Spark's, Kafka's or ours."""
    for body in blocks(PAGES[name], "json"):
        json.loads(body)
    for body in blocks(PAGES[name], "toml"):
        tomllib.loads(body)
    for line in "".join(blocks(PAGES[name], "properties")).splitlines():
        assert re.match(r"(spark\.[\w.]+ +\S|kafka\.[\w.]+=\S)", line), line


@pytest.mark.parametrize("name", PAGES)
def test_every_command_exists(name: str) -> None:
    """``cohort`` takes these arguments, ``make`` has these targets, ``python -m`` these modules."""
    targets = re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    inline = re.findall(r"`make ([a-z-]+)", PAGES[name].read_text())
    assert [target for target in inline if target not in targets] == []
    for word, *rest in commands(PAGES[name]):
        if word == "make":
            assert rest[0] in targets
        elif word == "python":
            assert importlib.util.find_spec(rest[1])
        elif rest[0] == "--version":
            assert cli.main(rest, standalone_mode=False) == 0
        else:
            _parsed(rest)


def _parsed(arguments: list[str]) -> None:
    """What a person would type, parsed by the command's own parser, and not carried out."""
    with click.Context(cli) as context:
        command = cli.get_command(context, arguments[0])
        assert command is not None, arguments
        command.make_context(arguments[0], arguments[1:], parent=context)


def test_no_page_imports_what_may_move() -> None:
    """Users import from ``sparkcohort``; its rooms are ours."""
    wrong = re.compile(r"(?:from|import) sparkcohort\.|sparkcohort\.(?:runtime|streaming|native)")
    shown = [*PAGES.values(), *(ROOT / "examples").glob("*.py"), *(ROOT / "conf").iterdir()]
    assert {path.name: found for path in shown if (found := wrong.findall(path.read_text()))} == {}


def test_every_metric_that_a_page_names_is_there() -> None:
    """Alerts and guides ask for what the endpoint has."""
    recorded = re.compile(r"job_group:[\w:]+|cohort_test\.yml")
    named = {
        name
        for path in PAGES.values()
        for name in re.findall(r"\bcohort_[a-z_]+\b", recorded.sub("", path.read_text()))
    }
    assert sorted(named - {spec.name for spec in METRICS}) == []
    assert named >= {spec.name for spec in METRICS}


def test_every_difference_that_a_cell_names_is_explained() -> None:
    """Of the table of requests, below it."""
    assert {row.differs for rows in TABLE.values() for row in rows.values()} - {""} <= set(DIFFERENCES)


def test_every_example_is_shown() -> None:
    """No file of examples/ is shown nowhere."""
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {file for _, file in EXAMPLES.values()}


@pytest.mark.parametrize(
    ("rule", "search", "places"), rows(section((DOCS / "architecture.md").read_text(), "rules")), ids=lambda cell: cell
)
def test_a_rule_is_found_by_its_search(rule: str, search: str, places: str) -> None:
    """The search that architecture.md has for a rule finds its places, and few others."""
    command = shlex.split(search.strip("`").replace("\\|", "|"))
    assert command[0] == "grep", rule
    done = subprocess.run(
        [*command, "--include=*.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    found = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert set(re.findall(r"`([^`]+)`", places)) <= found
    assert len(found) <= MOST_FILES_FOUND


def test_every_room_stands_in_the_map() -> None:
    """Architecture.md names each package, and none that isn't there."""
    named = [row[0].strip("`") for row in rows(section((DOCS / "architecture.md").read_text(), "rooms"))]
    rooms = {str(path.parent.relative_to(ROOT)) for folder in CODE for path in (ROOT / folder).rglob("__init__.py")}
    rooms |= {str(path.parent.relative_to(ROOT)) for path in (ROOT / "native").rglob("*.c")}
    rooms |= {str(path.parents[2].relative_to(ROOT)) for path in ROOT.glob("*/src/sparkcohort/*.java")}
    assert sorted(named) == sorted(rooms - {"runtime", "runtime/shell"})


@cache
def _source() -> str:
    """All of our Python, with strings that stand in pieces joined."""
    files = [*ROOT.glob("*.py"), *(path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py")))]
    return re.sub(r'"\n\s+f?"', "", "\n".join(path.read_text() for path in files))


def test_every_place_of_the_code_that_a_page_names_is_there() -> None:
    """Files and folders in backticks exist."""
    place = re.compile(r"`((?:api|assignors|conf|examples|native|runtime|streaming|tests|tools|docs)/[\w./-]+)`")
    named = {found for path in PAGES.values() for found in place.findall(path.read_text())}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_on_call_quotes_is_said_somewhere() -> None:
    """Each message in the tables of on-call is one of ours, or one of the few of Spark's."""
    cells = [row[0] for row in rows((DOCS / "operate/on-call.md").read_text())]
    quoted = [part.strip() for cell in cells for quote in re.findall(r"`([^`]+)`", cell) for part in quote.split("…")]
    known = [part for part in quoted if part and not any(words in part for words in SPARKS_OWN)]
    assert len(known) > 25
    assert [part for part in known if part.rstrip(".") not in _source()] == []


def test_every_name_of_an_error_is_explained() -> None:
    """What ``CohortError.error`` can be stands in reference/names.md."""
    explained = (DOCS / "reference/names.md").read_text()
    raised = {
        str(argument.value)
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and str(getattr(node.func, "id", "")).endswith(("Error", "Loss"))
        for argument in node.args[1:]
        if isinstance(argument, ast.Constant) and re.fullmatch(r"[A-Z][A-Z_.]+", str(argument.value))
    }
    assert len(raised) > 8
    assert sorted(name for name in raised if f"`{name}`" not in explained) == []
