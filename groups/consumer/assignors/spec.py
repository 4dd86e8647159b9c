"""The input of the server-side assignors: a group with its members and topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwire.groups.assignment import MemberSpec


@dataclass(frozen=True, slots=True)
class ConsumerGroupSpec:
    """A consumer group as its assignor sees it.

    `partition_counts` has every topic that a member subscribes to; all of them exist.
    `homogeneous`: all members subscribe to the same topics.
    """

    members: Sequence[MemberSpec]
    homogeneous: bool
    partition_counts: Mapping[bytes, int]
