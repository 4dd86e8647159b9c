"""The result of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Replayed:
    """What a replay did.

    name          Name by which the next run continues it.
    records       Number of records written by this run; a minimum if it was stopped, because a
                  cancelled task may still commit its transaction.
    there         Number of selected records that an earlier run had written.
    partitions    Number of target partitions with records.
    created       Topics that were created.
    stopped       Whether Ctrl-C, SIGTERM or `stop` ended it before it was done.
    """

    name: str
    records: int = 0
    there: int = 0
    partitions: int = 0
    created: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    stopped: bool = False
