"""Records that a test moved a leader or a coordinator; listed with the injections of faults."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

NO_RULE: Final = None


class Moved(NamedTuple):
    """One move of a partition's leader, or of the coordinator that the partition belongs to."""

    time_ms: int
    topic: str
    partition: int
    before: int
    """Id of the broker that led the partition before."""
    after: int
    """Id of the broker that leads it now."""
    leader_epoch: int
    """The partition's new leader epoch."""
    of: tuple[str, str] | None = None
    """For a coordinator: ("group", group id) or ("transactional_id", transactional id)."""

    @property
    def rule(self) -> None:
        """None: no fault rule caused the move."""
        return NO_RULE

    def to_json(self) -> dict[str, Any]:
        """The move as GET /faults/happened returns it."""
        return {
            "rule": self.rule,
            "time_ms": self.time_ms,
            "moved": "leader" if self.of is None else "coordinator",
            **({} if self.of is None else dict([self.of])),
            "partitions": [{"topic": self.topic, "partition": self.partition}],
            "from": self.before,
            "to": self.after,
            "leader_epoch": self.leader_epoch,
        }
