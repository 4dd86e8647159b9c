"""Leaders and coordinators that a test has moved, as they are told with what else happened."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

NO_RULE: Final = None


class Moved(NamedTuple):
    """The leader of a partition, which is a coordinator where the partition is its topic's."""

    time_ms: int
    topic: str
    partition: int
    before: int
    """The broker that led it."""
    after: int
    leader_epoch: int
    """Since then."""
    of: tuple[str, str] | None = None
    """Whose coordinator was asked for: ("group", its id) or ("transactional_id", that)."""

    @property
    def rule(self) -> None:
        """It is nobody's: it happened when it was asked for."""
        return NO_RULE

    def to_json(self) -> dict[str, Any]:
        """As it is told over HTTP."""
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
