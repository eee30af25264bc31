"""A rebalance told in one line."""

from __future__ import annotations

from sparkcohort.runtime.group import summary
from sparkcohort.runtime.protocol.messages import Rebalanced
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import NO_REASON, Cause, Reason


def test_a_rebalance_that_moves_nothing_says_so() -> None:
    """Equal ownership before and after is told as such."""
    kept = {"a": (TopicPartition("t", 0),)}

    done = Rebalanced(2, Reason(Cause.MEMBER_JOINED, ("c",)), 5, 6, "range", ("a",), kept, kept)
    assert summary.line(done, summary.routes(done, {}), {}, str).endswith("nothing moved")


def test_many_partitions_are_counted_not_listed() -> None:
    """UnsupportedBroker six names a line counts."""
    many = tuple(TopicPartition("t", n) for n in range(20))

    done = Rebalanced(2, NO_REASON, 0, 0, "", ("a",), {}, {"a": many})
    assert "and 14 more: a)" in summary.line(done, summary.routes(done, {}), {}, str)


def test_moved_is_what_somebody_else_had_last() -> None:
    """Also rounds ago; what comes back to whom it belonged, and what nobody ever had, has not moved."""
    t = [TopicPartition("t", n) for n in range(4)]
    done = Rebalanced(2, NO_REASON, 0, 0, "", ("a", "b"), {"a": (t[0],)}, {"b": (t[0], t[1], t[2], t[3])})
    given = summary.routes(done, {t[1]: "a", t[2]: "b"})
    assert given == {("a", "b"): [t[0], t[1]], ("", "b"): [t[2], t[3]]}
    assert summary.moved_partitions(given) == (t[0], t[1])
    told = "moved 2 partitions (t-0, t-1: a -> b); assigned 2 partitions that no member had (t-2, t-3: b)"
    assert summary.line(done, given, {}, str).endswith(told)
