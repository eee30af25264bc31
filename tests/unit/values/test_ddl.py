"""Schemas as DDL: what is written is read, and what is no schema is told where."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkcohort.runtime.values.ddl import MalformedDdl, parse_ddl
from sparkcohort.runtime.values.types import ColumnType, array, ddl, decimal, mapping

PLAIN = st.sampled_from(
    [
        *map(ColumnType, ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary")),
        *map(ColumnType, ("date", "timestamp", "timestamp_ntz")),
        decimal(38, 38),
        decimal(1, 0),
    ]
)
NAMES = st.one_of(
    st.sampled_from(["a", "_1", "struct", "not", "1a", "a`b", "ü 𝄞", "a.b"]), st.text(min_size=1, max_size=5)
)


def structs(of: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    """Structs of such types."""
    fields = st.lists(st.tuples(NAMES, of), min_size=1, max_size=4)
    return fields.map(
        lambda all_: ColumnType("struct", tuple(kind for _, kind in all_), tuple(name for name, _ in all_))
    )


TYPES = st.recursive(PLAIN, lambda of: st.one_of(structs(of), of.map(array), st.builds(mapping, of, of)), max_leaves=8)


@given(structs(TYPES), st.booleans(), st.sampled_from(["", "NOT NULL", "COMMENT 'x'"]))
def test_what_is_written_is_read(wanted: ColumnType, as_columns: bool, spoken: str) -> None:
    """A struct's own text, and its fields as a list of columns."""
    assert parse_ddl(ddl(wanted)) == wanted
    if as_columns:
        fields = zip(wanted.names, wanted.children, strict=True)
        columns = [f"`{name.replace('`', '``')}` {ddl(kind)} {spoken}" for name, kind in fields]
        assert parse_ddl(", ".join(columns)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a INT", "a:int"),
        ("a integer,b Long , c SHORT\n,d byte, e real", "a:int,b:bigint,c:smallint,d:tinyint,e:float"),
        ("a DECIMAL, b dec(5), c NUMERIC ( 7 , 3 )", "a:decimal(10,0),b:decimal(5,0),c:decimal(7,3)"),
        ("`a``b` DATE", "a`b:date"),
        ("a TIMESTAMP_LTZ, b TIMESTAMP WITHOUT TIME ZONE", "a:timestamp,b:timestamp_ntz"),
        ("a STRUCT<>, b STRUCT < >", "a:struct<>,b:struct<>"),
        ("a STRUCT<b INT, c: INT NOT NULL COMMENT 'x'>", "a:struct<b:int,c:int>"),
        ("a INT NOT NULL COMMENT 'it''s \\' -- no comment', b INT", "a:int,b:int"),
        ('a INT COMMENT "x"', "a:int"),
        ("-- the first\na INT, /* the\nsecond */ b INT -- the end", "a:int,b:int"),
        ("struct INT, array STRING, comment DATE, null INT", "struct:int,array:string,comment:date,null:int"),
        ("a ARRAY<ARRAY<MAP<STRING,ARRAY<INT>>>>", "a:array<array<map<string,array<int>>>>"),
    ],
)
def test_what_spark_writes(text: str, wanted: str) -> None:
    """Other names of types, spaces, comments, backticks, words that are keywords elsewhere."""
    assert str(parse_ddl(text)) == f"struct<{wanted}>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a column's name is expected at character 1, where the schema ends"),
        (" -- nothing", "a column's name is expected"),
        ("STRUCT<>", "has no column"),
        ("a", "a type is expected at character 2, where the schema ends"),
        ("a INT b INT", "a comma or the end is expected at character 7, where 'b' stands"),
        ("a INT,", "a column's name is expected at character 7"),
        ("a: INT", "a type is expected at character 2, where ':' stands"),
        ("my-name INT", "'-' at character 3 has no place in a schema: .* backticks"),
        ("12 INT", "a column's name is expected at character 1, where '12' stands"),
        ("`` INT", "the name at character 1 is empty"),
        ("a ARRAY", "< is expected at character 8"),
        ("a MAP<STRING>", ", is expected at character 13, where '>' stands"),
        ("a INT NOT", "null is expected"),
        ("a INT COMMENT b", "a text between quotes is expected"),
        ("a DECIMAL(39)", "the DECIMAL at character 3 has 39 digits"),
        ("a DECIMAL(5,6)", "the DECIMAL at character 3 has 5 digits, 6 of them behind the point"),
        ("a DECIMAL(0)", "the DECIMAL at character 3 has 0 digits"),
        ("a VARCHAR(10)", "the type VARCHAR at character 3 is not one that a value can have: write STRING"),
        ("a TEXT", "the type TEXT at character 3 is not one .*: write BOOLEAN, .* or STRUCT"),
        ("a STRING COLLATE UNICODE", "a comma or the end is expected at character 10"),
        ("a INT /* never closed", "'/' at character 7 has no place"),
        ("a " + "ARRAY<" * 101 + "INT" + ">" * 101, "types are nested deeper than 100 levels"),
    ],
)  # fmt: skip
def test_what_is_no_schema(text: str, words: str) -> None:
    """Where, and what should stand there."""
    with pytest.raises(MalformedDdl, match=words):
        parse_ddl(text)


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(
                ["a", "INT", ",", "<", ">", "STRUCT", "ARRAY", "MAP", "(", ")", "1", "`", "'", "NOT", "NULL", ":"]
            )
        ).map(" ".join),
    )
)
@example("a STRUCT<" * 5_000)
def test_any_text_is_a_schema_or_malformed(text: str) -> None:
    """And nothing else is raised."""
    try:
        found = parse_ddl(text)
    except MalformedDdl as error:
        assert "\n" not in str(error) or "\n" in text
    else:
        assert parse_ddl(ddl(found)) == found
