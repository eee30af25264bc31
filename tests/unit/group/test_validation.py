"""What a member says: what nobody asked for is left out, a name that can't be printed is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from sparkcohort.runtime.group import validation
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import JoinGroup, ProcessInfo, Subscription
from sparkcohort.runtime.text import printable

ASSIGNORS = {"sticky", "range"}


def join(**others: Any) -> JoinGroup:
    """A join that offers two protocols."""
    return structs.replace(JoinGroup("m", "i", "c", "h", 10_000, 60_000, ("sticky", "range")), **others)


def test_what_nobody_asked_for_is_not_kept() -> None:
    """Protocols beyond the group's, one twice, a reason and a time-out without end; all else goes through as it is."""
    true = join(subscription=Subscription(("t", "u"), (), 7, "a"))
    assert validation.check_join(true, ASSIGNORS, 60_000) == true
    asked = join(protocols=("p0", "range", "range"), reason="why\n" * 1_000, rebalance_timeout_ms=2**62)
    checked = validation.check_join(asked, ASSIGNORS, 60_000)
    assert (checked.protocols, checked.reason) == (("range",), printable("why\n" * 1_000, 255))
    assert checked.rebalance_timeout_ms == 60_000
    strange = validation.check_join(join(protocols=("p\n0",)), ASSIGNORS, 60_000)
    assert strange.protocols == ("p\\n0",)  # which the group refuses


@pytest.mark.parametrize(
    "strange",
    [
        {"client_id": "a\nb"},
        {"client_host": "\x1b[31m"},
        {"group_instance_id": "x" * 256},
        {"subscription": Subscription(rack="a\nb")},
        {"subscription": Subscription(process=ProcessInfo("a\nb"))},
        {"subscription": Subscription(process=ProcessInfo(host="a\nb"))},
        {"subscription": Subscription(process=ProcessInfo(address="a\nb"))},
    ],
)
def test_a_name_that_is_none_is_refused(strange: dict[str, Any]) -> None:
    """It would stand in every log line about the member."""
    with pytest.raises(validation.Refusal, match="more than 255 characters, or one that can't be printed") as caught:
        validation.check_join(join(**strange), ASSIGNORS, 60_000)
    assert caught.value.error == ErrorCode.INVALID_REQUEST


def info(**process: Any) -> validation.MemberInfo:
    """What is known of a member's process."""
    wants = Subscription(rack="a", process=ProcessInfo(**process))
    return validation.member_info(JoinGroup("m-1", "i", "c", "h", 1, 1, ("range",), wants))


def test_what_an_agent_says_of_itself_is_known() -> None:
    """All of it, and defaults for what it leaves out."""
    said = info(executor="7", host="node-1", cores=4, pid=99, address="cohort-1")
    assert said == validation.MemberInfo("m-1", "7", "node-1", 4, 99, "cohort-1", "a")
    assert info() == validation.MemberInfo("m-1", "?", "h", 1, 0, "", "a")
