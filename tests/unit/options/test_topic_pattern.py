r"""Expressions of ``subscribePattern`` find the topics that Java's own find, or are refused by name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from sparkcohort.runtime.shell.options import topic_pattern
from sparkcohort.runtime.shell.options.topic_pattern import PatternError, finds
from tests.kit.jars import QUICK
from tests.kit.jars import java as java_program
from tests.kit.tier import of_tier

PROGRAM = Path(__file__).parents[2] / "kit" / "java" / "Patterns.java"
NAMES = (
    "orders", "ORDERS", "Orders-2", "eu.orders", "eu-orders.v1", "us_orders", "a.b", "aXb", "a", "b", "ab", "aab",
    "abab", "0", "x-1", "x_1", "x.1", "_internal", "-", ".hidden", "topic.with.dots", "aaaa", "bcd", "z9", "K", "k",
    "s", "ss",
)  # fmt: skip
ATOMS = (
    "a", "b", "o", "r", "A", "K", "1", "-", "_", "\\.", ".", "^", "$", "\\A", "\\Z", "\\z", "\\b", "\\B", "\\G", "}",
    "]", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V", "\\R", "\\X", "\\t", "\\e", "\\x61",
    "\\x{62}", "\\u0061", "\\0141", "\\cA", "\\Qa.b\\E", "\\Q.\\E", "\\Q", "\\E", "\\-", "\\_", "\\q", "\\y", "é", " ",
    "#", "&", "&&", "\\p{Lower}", "\\p{Upper}", "\\P{Alpha}", "\\p{Punct}", "\\pL", "\\p{Lu}", "\\p{IsAlphabetic}",
    "\\p{IsLatin}", "\\PN", "\\p{javaLowerCase}", "\\p{InGreek}", "\\p{Pd}", "\\p{IsL}", "\\p{gc=Lu}", "\\p{Blank}",
    "\\p{Foo}", "\\N{DIGIT ONE}", "[a-z]", "[^o]", "[a-z&&[^b]]", "[a-c[x-z]]", "[^a[b]]", "[]a]", "[^]a]", "[a-]",
    "[-a]", "[\\w-z]", "[a&b]", "[\\d&&1]", "[a-z&&b-d]", "[^a-z&&[^b]]", "[\\p{L}&&[^a]]", "[\\Q]-\\E]", "[a&&]",
    "[&&a]", "[]", "[", "[a-\\x63]", "[z-a]", "[ a]", "[a-z&&[^b]&&[^c]]", "[a&&[a]b]", "[a-[b]]", "[\\b]", "[.]",
    "[^.]", "[\\P{Lower}]", "[#a]", "[a^]", "[a|b]", "[(a)]", "(a)", "(a|b)", "(?:a|bc)", "(?<n>a)", "(?<n>b)",
    "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?<=ab?)", "(?>a*)", "\\1", "\\2", "\\k<n>", "\\11", "(?i)", "(?-i)",
    "(?x)", "(?i:aB)", "(?s)", "(?m)", "(?u)", "(?U)", "(?d)", "(?iu-s:K)", "(?q)", "()", "(a)\\1", "(a|(b))+",
    "(?i)[a-c]", "(?i)\\p{Lower}", "(?i)[^a]", "(?x) a b # c\n", "(?x)[a b]", "|", "(", ")", "(?#x)",
)  # fmt: skip
SIGNS = (
    "", "", "", "", "?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,2}", "{1,}", "{,2}", "{0}?", "{2}+",
    "{", "{a}",
)  # fmt: skip
MEANT = (
    "orders", "^orders$", "orders-.*", "^(eu|us)[._-]orders(\\.v[0-9]+)?$", "\\Aeu\\.[a-z]+\\Z", "(?i)orders", "(?i:EU).*",
    "^(?!_).*", "^.*(?<!-dlq)$", "\\Qeu.orders\\E", "[t-z]+(?<=\\Qrs\\E)", "[a-z&&[^b]]+", "[^._-]+", "\\p{Upper}+", "\\p{Alpha}\\d{1,3}", "\\w++",
    "(?<region>eu|us)-.*", "(?>a*)b", "\\pL+\\PN*", "a{2,}?",
)  # fmt: skip


def drawn(seed: int, count: int) -> list[str]:
    """Atoms and signs in a row; each atom alone first, and each sign."""
    random = Random(seed)
    alone = [*ATOMS, *(f"a{sign}" for sign in SIGNS if sign), *(f"(?x)a {sign}" for sign in SIGNS)]
    rows = (range(random.randint(1, 5)) for _ in range(count))
    return alone + ["".join(random.choice(ATOMS) + random.choice(SIGNS) for _ in row) for row in rows]


def theirs_of(patterns: list[str]) -> list[str]:
    """What Java says of each."""
    told = "".join(f"{text.encode().hex()}\n" for text in patterns)
    ran = subprocess.run(
        [java_program(), *QUICK, str(PROGRAM), *NAMES],
        input=told,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ran.stdout.splitlines()


def ours(text: str) -> str:
    """The same of ours."""
    try:
        return "".join("1" if finds(text, name) else "0" for name in NAMES)
    except PatternError as error:
        return f"no: {error}"


def test_the_same_topics_as_java_or_a_refusal() -> None:
    """Whatever Java refuses is refused; what people write for topics is taken."""
    patterns = [*MEANT, *drawn(1, of_tier(quick=500, thorough=6_000))]
    theirs = dict(zip(patterns, theirs_of(patterns), strict=True))
    found = {text: ours(text) for text in patterns}
    taken = {text: (found[text], theirs[text]) for text in patterns if not found[text].startswith("no: ")}
    assert {text: pair for text, pair in taken.items() if pair[0] != pair[1]} == {}
    assert len(taken) > len(patterns) / 10
    assert [text for text in MEANT if text not in taken] == []


def test_an_expression_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and what to do are told; Java's own would keep the driver for ever."""
    with (
        monkeypatch.context() as patched,
        pytest.raises(PatternError, match=r"not done with the topic a{200}- after 0.2 s: repeat no group"),
    ):
        patched.setattr(topic_pattern, "LONGEST_S", 0.2)
        finds("^(a|a)*$", "a" * 200 + "-")
    assert finds("^(?>(a|a)*)$", "a" * 200)
