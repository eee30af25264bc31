"""How to reach one coordinator run: travels in Spark's input partitions, never into a log."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcohort.runtime.shell.rpc.tls import Credentials


@dataclass(frozen=True, slots=True)
class Run:
    """One coordinator run; ``host`` None means the address that Spark itself gives for its driver.

    ``assignors`` are the names that its members offer: only the driver has looked for the assignors themselves.
    """

    run_id: str
    host: str | None
    port: int
    credentials: Credentials = field(repr=False)
    assignors: tuple[str, ...] = ()
