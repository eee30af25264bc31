"""Taking static members out of a group (KIP-345): librdkafka's administrator can't."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from sparkcohort.runtime.kafka.fetch_messages import (
    LEAVE_GROUP,
    LEAVE_GROUP_VERSION,
    Node,
    framed,
    leave_group_answer,
    leave_group_request,
)
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.shell.kafka.consumer.record_source import settings_of
from sparkcohort.runtime.shell.kafka.fetch.connection import Beyond, Settings, TransportError, unsupported
from sparkcohort.runtime.shell.kafka.fetch.metadata import connect_to, send_and_receive

CONNECT_S = 2.0
NEEDED: Final = {LEAVE_GROUP: LEAVE_GROUP_VERSION}
GONE: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""Kafka's answers after which the member is none any more; the last: another has its place."""


def remove_members(conf: Mapping[str, Any], coordinator: Node, group: str, members: Mapping[str, str]) -> None:
    """Have the group's coordinator take these out: instance ids by member ids.

    One that has been replaced under its instance id stays.  ``conf``: as for ``clients.new_admin``.  Raises TransportError,
    Beyond where only librdkafka can log in.
    """
    librdkafkas = settings_of(conf)
    if reason := unsupported(librdkafkas):
        raise Beyond(reason)
    try:
        settings = Settings.of(librdkafkas)
    except ValueError as error:
        raise Beyond(str(error)) from None
    body = leave_group_request(group, members)
    request = framed(LEAVE_GROUP, LEAVE_GROUP_VERSION, 1, settings.client_id, body)
    with closing(connect_to(coordinator, settings, CONNECT_S, NEEDED)) as transport:
        answers = send_and_receive(
            transport, request, "LeaveGroup", lambda frame: leave_group_answer(frame, len(frame), 1)
        )
    refusals = {error for member, error in answers.items() if error not in GONE}
    if refusals:
        raise TransportError(f"Kafka's error {min(refusals)} to LeaveGroup")
