"""The states of a classic group and the transitions between them.

state                 what requests get in this state
--------------------  ----------------------------------------------------------------------
EMPTY                 no members; has offsets until they expire.  Join starts a rebalance;
                      sync, heartbeat and leave: UNKNOWN_MEMBER_ID; offset commits without a
                      generation are accepted.
PREPARING_REBALANCE   members (re)join and are parked.  Heartbeat and sync:
                      REBALANCE_IN_PROGRESS; offset commits of the last generation are accepted.
COMPLETING_REBALANCE  the members know their generation and wait for the leader's assignment.
                      Sync is parked; join with unchanged protocols is answered with the
                      current generation, any other starts over; heartbeat is accepted;
                      offset commit: REBALANCE_IN_PROGRESS.
STABLE                sync is answered with the assignment.  A join of the leader, or of a
                      member with other protocols, starts a rebalance.
DEAD                  deleted, or led by another broker: COORDINATOR_NOT_AVAILABLE.

EMPTY -> PREPARING_REBALANCE                  the first member joins
PREPARING_REBALANCE -> COMPLETING_REBALANCE   all have joined, or the rebalance timed out
PREPARING_REBALANCE -> EMPTY                  no member is left
COMPLETING_REBALANCE -> STABLE                the leader's assignment is in the log
COMPLETING_REBALANCE, STABLE -> PREPARING_REBALANCE
                                              a member joins, leaves, fails or changes
any -> DEAD                                   the group is removed from this broker
"""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """Values are the names that ListGroups and DescribeGroups print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}
