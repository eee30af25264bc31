"""A row of the table of scenarios (``scenarios``)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Result(StrEnum):
    """What becomes of a scenario here, beside Spark's own source."""

    SAME = "same"
    BETTER = "better"
    REFUSED = "refused"
    DIFFERENT = "different"
    NOT_APPLICABLE = "not applicable"


SAME: Final = Result.SAME
BETTER: Final = Result.BETTER
REFUSED: Final = Result.REFUSED
DIFFERENT: Final = Result.DIFFERENT
NOT_APPLICABLE: Final = Result.NOT_APPLICABLE


class Scenario(NamedTuple):
    """One row: ``words`` say why it is better, different or nothing that a user sees, or, where it is refused, what to do.

    A ``test`` runs both formats, unless ``alone`` says why Spark's own source has nothing to compare.  It may end with
    ``[id]``, the id of the parameters that are this scenario.  Only a row that is not applicable has no test.
    """

    suite: str
    name: str
    result: Result
    words: str = ""
    test: str = ""
    alone: str = ""

    @property
    def beside(self) -> bool:
        """Whether both formats are run and compared."""
        return bool(self.test) and not self.alone
