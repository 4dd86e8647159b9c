"""Where an append comes from, which decides what is checked."""

from __future__ import annotations

from enum import Enum, auto


class Origin(Enum):
    """CLIENT: everything is checked, one batch.  COORDINATOR: this broker's own records and
    markers, without sequence numbers.  REPLICATION: the leader has checked, offsets are kept."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()
