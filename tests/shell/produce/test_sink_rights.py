"""What an exactly-once sink's user must be permitted (docs/operate/security.md): with it all goes well, each that is missing is named."""

from __future__ import annotations

from typing import Final

import pytest

from sparkcohort.runtime.errors import CohortError
from tests.kit.exactly_once_sink import Sink
from tests.kit.shared_brokers import Guarded
from tests.kit.waiting import wait_until
from tests.kit.written_records import WrittenRecords

RIGHTS: Final = {
    "transactional_id": ("write", "describe"),
    "topic": ("write", "describe"),
    "state topic": ("read", "write", "describe", "create"),
}
"""All that the user may do."""

MISSING: Final = {
    (
        "transactional_id",
        "write",
    ): "no permission on transactional id {topic}: allow this user WRITE and DESCRIBE on it",
    ("topic", "write"): "allow this user WRITE and DESCRIBE on each topic of the rows",
    ("state topic", "read"): "no permission to read topic {topic}-state: grant READ on it",
    (
        "state topic",
        "write",
    ): "allow this user WRITE and DESCRIBE on each topic of the rows, and on that of sink.state.topic",
    ("state topic", "create"): "topic {topic}-state (sink.state.topic) is missing and can't be made",
}
"""Without which right a batch ends with which words."""


class RestrictedSink(Sink):
    """A sink whose user has all rights but one."""

    def __init__(self, guarded: Guarded, java: WrittenRecords, topic: str, missing: tuple[str, str] | None) -> None:
        """The topic and the user are made; ``missing`` as in ``MISSING``."""
        self._user = f"user-{topic}"
        super().__init__(guarded, java, topic)
        guarded.admin.add_users("SCRAM-SHA-256", {self._user: "secret,of=it"})
        names = {"transactional_id": topic, "topic": topic, "state topic": f"{topic}-state"}
        for resource, operations in RIGHTS.items():
            kept = [each for each in operations if (resource, each) != missing]
            guarded.admin.allow(self._user, resource.rpartition(" ")[2], names[resource], *kept)

    def texts(self, **more: str) -> dict[str, str]:
        """With the user's login."""
        login = {
            "kafka.bootstrap.servers": self.broker.at["SASL_PLAINTEXT"],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.username": self._user,
            "kafka.sasl.password": "secret,of=it",
            "kafka.max.block.ms": "3000",
            "sink.state.topic": f"{self.topic}-state",
        }
        return super().texts(**more) | login


def test_what_the_guide_names_is_enough(guarded: Guarded, java: WrittenRecords, topic: str) -> None:
    """Two batches, leftovers between them, and the state topic made by this user."""
    sink = RestrictedSink(guarded, java, topic, None)

    def begins() -> bool:  # a broker hears of a right a moment later
        try:
            sink.start()
        except CohortError as error:
            assert "permission" in str(error), error
            return False
        return True

    wait_until(begins, 20, "the rights")
    sink.batch(0)
    sink.tasks(1)
    sink.batch(1)
    sink.shows(0, 1)
    assert sink.open_names() == set()


@pytest.mark.parametrize("missing", MISSING, ids=" ".join)
def test_each_right_that_is_missing_is_named(
    guarded: Guarded, java: WrittenRecords, topic: str, missing: tuple[str, str]
) -> None:
    """With the remedy."""
    sink = RestrictedSink(guarded, java, topic, missing)
    with pytest.raises(CohortError) as raised:
        sink.batch(0)
    assert MISSING[missing].format(topic=topic) in str(raised.value)
