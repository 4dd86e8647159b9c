"""The origin of an append, which decides on the checks."""

from __future__ import annotations

from enum import Enum, auto


class Origin(Enum):
    """The origin of an append.

    CLIENT        one batch of a producer: everything is checked
    COORDINATOR   a batch that this broker built, without sequence numbers
    REPLICATION   batches from the leader, which has checked them; their offsets are kept
    """

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()
