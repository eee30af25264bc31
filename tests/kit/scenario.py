"""A row of the table of scenarios (``scenarios``)."""

from __future__ import annotations

from typing import NamedTuple


class Scenario(NamedTuple):
    """One row: ``words`` say what is the same, better or other here; without a ``test`` it is nothing that a user sees.

    A ``test`` runs both formats, unless ``alone`` says why Spark's own source has nothing to compare.  It may end with
    ``[id]``, the id of the parameters that are this scenario.
    """

    suite: str
    name: str
    words: str
    test: str = ""
    alone: str = ""

    @property
    def beside(self) -> bool:
        """Whether both formats are run and compared."""
        return bool(self.test) and not self.alone
