"""Address and credentials of one coordinator run; sent in Spark's input partitions, never logged."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcohort.runtime.shell.rpc.tls import Credentials


@dataclass(frozen=True)  # without slots: pickled by the names of its fields, by which SlotPartition.java reads them
class Run:
    """One coordinator run; ``host`` None: the address that Spark gives for its driver.

    ``assignors`` are the names that its members offer; only the driver loads the assignors.
    """

    run_id: str
    host: str | None
    port: int
    credentials: Credentials = field(repr=False)
    assignors: tuple[str, ...] = ()
