"""A rebalance told in one line."""

from __future__ import annotations

import doctest

from sparkcohort.runtime import summary
from sparkcohort.runtime.protocol import Rebalanced, TopicPartition


def test_the_example_in_the_docstring_is_true() -> None:
    """The module's doctest passes."""
    assert doctest.testmod(summary).failed == 0


def test_a_rebalance_that_moves_nothing_says_so() -> None:
    """Equal ownership before and after is told as such."""
    kept = {"a": (TopicPartition("t", 0),)}

    assert summary.line(Rebalanced(2, "c joined", 5, 6, "range", ("a",), kept, kept), {}, str).endswith("nothing moved")


def test_many_partitions_are_counted_not_listed() -> None:
    """Beyond six names a line counts."""
    many = tuple(TopicPartition("t", n) for n in range(20))

    assert "and 14 more: nobody -> a" in summary.line(Rebalanced(2, "", 0, 0, "", ("a",), {}, {"a": many}), {}, str)
