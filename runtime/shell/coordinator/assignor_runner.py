"""The leader's assignments: a built-in assignor computes them at once, a user's own in a thread.

An assignor's failure costs its round and nothing else: each member keeps its partitions, the failure is counted and logged
once, and the assignor is called again later (``delayed_rebalance.record_failure``).  A user's assignor has a deadline, after which the
round ends without it.  Until it returns, rounds fail at once, since Python can't end a thread.  Only native code that holds
Python's lock could stop the group.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.runtime.group.member_state import ComputeAssignment
from sparkcohort.runtime.leader import assignment, delayed_rebalance
from sparkcohort.runtime.leader.imbalance import LoadWatch
from sparkcohort.runtime.protocol.messages import Assignments
from sparkcohort.runtime.protocol.reasons import Reason
from sparkcohort.runtime.shell.agent.listener_runner import patience_ms
from sparkcohort.runtime.shell.rpc.threads import in_context

log = logging.getLogger("sparkcohort.assignor")


Result: TypeAlias = tuple[Assignments, delayed_rebalance.LeaderState] | BaseException
Done: TypeAlias = Callable[[Assignments, int, str], None]
"""Takes the assignments of a round, its generation, and the assignor's failure ("" when there is none)."""


@dataclass(slots=True, eq=False)
class _AssignorCall:
    """One round's computation; ``round`` is set before it is computed."""

    request: ComputeAssignment
    owned: assignment.Owned
    leader_state: delayed_rebalance.LeaderState
    began_ms: int
    due_ms: int
    round: delayed_rebalance.Round | None = None

    @property
    def name(self) -> str:
        return self.request.protocol_name


class AssignorRunner:
    """Computes the assignments of one group; all of it but the thread under the coordinator's lock.

    ``now`` is the group's clock (ms), ``post`` hands a job to the coordinator's loop, ``done`` takes the assignments.
    """

    def __init__(
        self,
        group_id: str,
        assignors: Mapping[str, Assignor],
        rebalance_timeout_ms: int,
        max_delay_ms: int,
        balancing: LoadWatch | None = None,
        *,
        now: Callable[[], int],
        post: Callable[[Callable[[], None]], None],
        done: Done,
    ) -> None:
        self.leader_state = delayed_rebalance.LeaderState()
        self.failures: Counter[str] = Counter()
        self._group_id = group_id
        self._assignors = assignors
        self._patience_ms = patience_ms(rebalance_timeout_ms)
        self._max_delay_ms = max_delay_ms
        self._balancing = balancing
        self._now, self._post, self._done = now, post, done
        self._current: _AssignorCall | None = None
        self._stuck: _AssignorCall | None = None
        self._computing = threading.Lock()  # a user's assignor runs in one thread at a time

    def lead_round(
        self, request: ComputeAssignment, owned: assignment.Owned, make_round: Callable[[], delayed_rebalance.Round]
    ) -> None:
        """Begin a round with the input that ``make_round`` collects; a round that is still being computed is void."""
        began_ms = self._now()
        call = self._current = _AssignorCall(request, owned, self.leader_state, began_ms, began_ms + self._patience_ms)
        own = ASSIGNORS.get(call.name) is not self._assignors.get(call.name)
        if own and self._stuck is not None:
            began = self._stuck.request.generation
            self._fail(call, f"assignor {self._stuck.name} has not returned since the round of generation {began}")
            return
        try:
            call.round = make_round()
        except Exception as error:  # noqa: BLE001  the group waits for an assignment after any error
            self._fail(call, f"assignor {call.name} could not be asked: {assignment.describe_error(error)}", error)
            return
        if not own:
            self._end(call, self._computed(call))
            return
        try:
            threading.Thread(target=in_context(self._work, call), name="cohort-assignor", daemon=True).start()
        except RuntimeError as error:  # the system has no thread for it
            self._fail(call, f"assignor {call.name} could not be asked: {assignment.describe_error(error)}", error)

    def due(self) -> int | None:
        """When another round is due (ms of the group's clock); None if only an event can bring one."""
        due = delayed_rebalance.deadline(self.leader_state)
        return self._balancing.due() if due is None and self._balancing is not None else due

    def reason(self, name: Callable[[str], str]) -> Reason:
        """The reason of the round that is due; ``name`` makes a member id readable."""
        if self._balancing is None or delayed_rebalance.deadline(self.leader_state) is not None:
            return delayed_rebalance.reason(self.leader_state, name)
        return self._balancing.request_round(self._now())

    def deadline(self) -> int | None:
        """When ``tick`` has something to do (ms of the group's clock); None while nothing is computed."""
        return None if self._current is None else self._current.due_ms

    def tick(self) -> None:
        """Fail the round of an assignor after its deadline."""
        call = self._current
        if call is not None and self._now() >= call.due_ms:
            self._stuck = call
            self._fail(call, f"assignor {call.name} did not return within {self._patience_ms} ms")

    def running(self) -> dict[str, Any] | None:
        """The assignor that runs and for how long; None when none does."""
        call = self._current
        return None if call is None else {"name": call.name, "age_ms": self._now() - call.began_ms}

    def failure(self) -> dict[str, Any] | None:
        """The assignor's failure, how often in a row it failed, and when it is called again; None without a failure."""
        failure = self.leader_state.failure
        if failure is None:
            return None
        return {
            "assignor": failure.assignor,
            "error": failure.error,
            "age_ms": self._now() - failure.at_ms,
            "in_a_row": failure.times,
            "retry_in_ms": max(failure.due_ms - self._now(), 0),
        }

    # --- a user's assignor's thread -------------------------------------------------------------------

    def _work(self, call: _AssignorCall) -> None:
        """Compute, and post that the call is over, with or without a result, so that the assignor doesn't count as stuck."""
        with self._computing:
            # Not current: another round has begun meanwhile, or its time is over.
            result = self._computed(call) if call is self._current else None
        self._post(partial(self._returned, call, result))

    def _computed(self, call: _AssignorCall) -> Result:
        try:
            assert call.round is not None  # noqa: S101  see lead_round
            return delayed_rebalance.lead(
                call.leader_state, call.round, call.began_ms, self._max_delay_ms, self._assignors
            )
        except BaseException as error:  # noqa: BLE001  the user's code may raise SystemExit; the group goes on
            return error

    # --- how a round ends ------------------------------------------------------------------------------

    def _returned(self, call: _AssignorCall, result: Result | None) -> None:
        """A call is finished, or was void and skipped: the assignor can take the next."""
        if self._stuck is not None:
            late_ms = self._now() - call.began_ms
            log.warning("group %s: assignor %s has returned, after %d ms", self._group_id, call.name, late_ms)
            self._stuck = None
        if call is self._current and result is not None:
            self._end(call, result)

    def _end(self, call: _AssignorCall, result: Result) -> None:
        if isinstance(result, BaseException):
            self._fail(call, assignment.failure_message(call.name, result), result)
            return
        self._current = None
        had_failed = self.leader_state.failure is not None
        assignments, self.leader_state = result
        if (
            self._balancing is not None and delayed_rebalance.deadline(self.leader_state) is None
        ):  # the assignor had its way
            self._balancing.end_round(self._now())
        if had_failed and self.leader_state.failure is None:
            log.info("group %s: assignor %s works again", self._group_id, call.name)
        self._done(assignments, call.request.generation, "")

    def _fail(self, call: _AssignorCall, reason: str, error: BaseException | None = None) -> None:
        self._current = None
        former = self.leader_state.failure
        self.leader_state = delayed_rebalance.record_failure(self.leader_state, self._now(), call.name, reason)
        self.failures[call.name] += 1
        users = error if not isinstance(error, assignment.InvalidAssignment) else None
        level = (
            logging.DEBUG if former is not None and former.error == reason else logging.ERROR
        )  # once for each failure in a row
        log.log(level, "group %s: %s; each member keeps its partitions", self._group_id, reason, exc_info=users)
        self._done(assignment.keep_owned(call.request.members, call.owned), call.request.generation, reason)
