"""What a task's request has to look like: all else is refused in one short line, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.task_requests import MOST_PATIENCE_S, InvalidRequest, encode_request, parse

RANGE, FIELDS = ["orders", 0, 5, 9], AgentRequest.__struct_fields__


def refused(body: bytes) -> str:
    """Why a request is refused."""
    with pytest.raises(InvalidRequest) as caught:
        parse(body)
    return str(caught.value)


def test_a_request_is_read_as_it_was_written() -> None:
    """The token, which is looked at before, is left out."""
    request = AgentRequest((Range("orders", 0, 5, 9),), (5,), 3, patience_s=2.0)
    sent = encode_request(request, "secret")
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert sent[4:].startswith(b'{"token": "secret"')
    assert parse(sent[4:]) == request
    assert encode_request(AgentRequest(), "secret")[4:] == b'{"token": "secret"}'
    assert parse(b"{}") == AgentRequest()
    assert parse(json.dumps({"ranges": [RANGE], "direct": True}).encode()).direct
    assert parse(b'{"patience_s": 2}') == AgentRequest(patience_s=2.0)
    assert parse(json.dumps({"patience_s": 1e300}).encode()).patience_s == MOST_PATIENCE_S


@pytest.mark.parametrize(
    "said",
    [
        {"ranges": [RANGE]},
        {"ranges": [RANGE, ["orders", 0, 9, 12]], "direct": True},
        {"ranges": [["orders", 0, 9, 5]], "direct": True},
        {"ranges": [RANGE], "planned_starts": [None]},
        {"ranges": [["orders", 0, 5]], "planned_starts": [5]},
        {"ranges": [["orders", -1, 5, 9]], "planned_starts": [5]},
        {"ranges": [["orders", 1 << 31, 5, 9]], "planned_starts": [5]},
        {"ranges": [["orders", 0, 9, 5]], "planned_starts": [5]},
        {"ranges": [["orders", 0, 5, 1 << 63]], "planned_starts": [5]},
        {"ids": {"orders": 7}},
        {"patience_s": -1},
        {"patience_s": float("nan")},
        {"action": "JoinGroup"},
        {"action": "Claim", "body": "\udfff"},
        {"more": 1},
        {"x" * 10_000: 1},
    ],
)
def test_what_is_wrong_is_refused(said: dict[str, Any]) -> None:
    """Types and bounds of every value; nothing that was sent comes into the log at length."""
    assert len(refused(json.dumps(said).encode())) < 200


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"[]", b"null", b'"x"', b"[" * 99_999, b"9" * 9_999])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    """Nested however deep."""
    assert len(refused(body)) < 200


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(FIELDS), _JSON) | _JSON)
def test_anything_is_a_request_or_nonsense(said: object) -> None:
    """There is no third way."""
    try:
        request = parse(json.dumps(said).encode())
    except InvalidRequest:
        return
    assert len(request.ranges) == len(request.planned_starts)
