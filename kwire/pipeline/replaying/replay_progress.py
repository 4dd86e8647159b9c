"""What a replay has done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Replayed:
    """What a replay did.

    name          That the next run goes on by.
    records       Written by this run; where it was stopped, at least so many: a task that is
                  cancelled may yet end the transaction that it is in.
    there         Of those asked for, that an earlier run had written.
    partitions    Of the target that have records.
    created       Topics that were created.
    stopped       By Ctrl-C, SIGTERM or the `stop` event, before it was done.
    """

    name: str
    records: int = 0
    there: int = 0
    partitions: int = 0
    created: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    stopped: bool = False
