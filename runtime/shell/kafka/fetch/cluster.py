"""What a fetching client knows of its cluster, and when it is to ask again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sparkcohort.runtime.kafka.fetch_messages import Metadata, Node, Topic
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.backoff import backoff
from sparkcohort.runtime.shell.kafka.fetch.connection import Distrusted
from sparkcohort.runtime.shell.kafka.fetch.metadata import MetadataClient


class Cluster:
    """Brokers and topics as of the last answer; for one thread, the asking is done in another."""

    def __init__(self, asker: MetadataClient, age_s: float) -> None:
        """``age_s``: after how long to ask although nothing is missing; inf: never."""
        self.nodes: Mapping[int, Node] = {}
        self.topics: Mapping[str, Topic] = {}
        self.distrusted = ""  # why we refused the brokers that could be asked; "" if we did not
        self._asker, self._age_s = asker, age_s
        self._pending, self._ask_at, self._in_vain, self._asked_at = False, 0.0, 0, float("-inf")
        self._well = True  # the last question was answered

    def is_due(self, missing: bool, now: float) -> bool:
        """Whether to ask now; ``missing``: something is not known, and is asked for again, more slowly each time."""
        if not missing and self._well:
            self._in_vain = 0
        return not self._pending and now >= self._ask_at and (missing or now - self._asked_at >= self._age_s)

    def ask(
        self,
        jobs: BackgroundWork,
        topics: Collection[str],
        silent: Collection[Node],
        callback: Callable[[Metadata | Exception], None],
    ) -> None:
        """Ask for these topics, brokers that are ``silent`` last; ``callback`` is to call ``take_answer``."""
        nodes = list(self.nodes.values())
        jobs.start(lambda: self._asker.ask(topics, nodes, silent), callback, self._asker.close)
        self._pending = True

    def take_answer(self, result: Metadata | Exception, now: float) -> None:
        """Take over the metadata, or note the failure."""
        self._pending = False
        self._in_vain += 1
        self._well = isinstance(result, Metadata)
        self._ask_at = now + backoff(self._in_vain, result if isinstance(result, Exception) else None)
        self.distrusted = str(result) if isinstance(result, Distrusted) else ""
        if isinstance(result, Metadata):
            self._asked_at = now
            self.nodes, self.topics = result.nodes, {**self.topics, **result.topics}

    def refusal(self, now: float) -> str:
        """Why no broker is asked now, where that is because we don't trust them."""
        return self.distrusted if now < self._ask_at and not self._pending else ""

    def forget(self, topic: str) -> None:
        """Forget a topic, so that the next assignment waits for new metadata."""
        self.topics = {name: entry for name, entry in self.topics.items() if name != topic}

    def close(self) -> None:
        """Close the connection; what is under way closes it itself."""
        if not self._pending:
            self._asker.close()
