"""How KRaft controllers change a partition: in-sync and eligible replicas, and who leads (pure).

A model of what Apache Kafka 4.4's controllers were seen to write, with and without eligible leader
replicas (KIP-966):

    in-sync replicas    without those that are fenced or leaving; the last one stays in it without
                        ELR, and goes to the ELR with it
    ELR                 who was in the ISR when it fell below min.insync.replicas, except brokers
                        that stopped uncleanly; empty while enough are in sync
    leader              the present one if it is in the ISR or the ELR and acceptable, else the
                        first such replica
    last known leader   leads again, although it may lack records, if ISR and ELR are empty
    unclean election    any acceptable replica, if an administrator asks for it
    reassignment        complete once all that are added are in sync
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.cluster.metadata.image import NO_LEADER, UNASSIGNED, KraftPartitionImage
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1


@dataclass(frozen=True)
class Rules:
    """Settings of the cluster."""

    has_elr: bool
    min_isr: int


@dataclass
class PartitionDecision:
    """The next state of a partition; what is not set stays."""

    state: KraftPartitionImage
    rules: Rules
    is_acceptable: Callable[[int], bool]
    """Whether a broker can lead now."""
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    unclean: frozenset[int] = frozenset()
    """Brokers that stopped uncleanly, and may have lost records."""
    prefers_first: bool = False
    may_lose: bool = False
    """Whether the election may be unclean."""
    has_recovered: bool = False
    is_lossy: bool = False
    """Whether the elected leader may lack records; set by `record`."""

    def record(self, topic_id: bytes, index: int) -> PartitionChangeRecord | None:
        """The record that leads to the next state; None if nothing changes."""
        state = self.state
        isr = tuple(each for each in self._wanted_isr() if each not in self.unclean)
        replicas, adding, removing, isr = self._assignment(isr)
        elr = self._elr(isr, replicas)
        leader, isr, elr = self._elect(isr, elr, replicas)
        record = PartitionChangeRecord(index, topic_id)
        if leader != state.leader or not set(state.replicas) <= set(replicas):
            record.leader = leader
        if isr != state.isr and (isr or self.rules.has_elr):
            record.isr = list(isr)
        if elr != state.eligible:
            record.eligible_leader_replicas = list(elr)
        self._set_last_known(record, leader)
        if self.is_lossy and not state.recovering:
            record.leader_recovery_state = RECOVERING
        elif self.has_recovered and state.recovering:
            record.leader_recovery_state = RECOVERED
        if replicas != state.replicas:
            record.replicas = list(replicas)
            known = dict(zip(state.replicas, state.directories, strict=True))
            record.directories = [known.get(each, UNASSIGNED) for each in replicas]
        if adding != state.adding:
            record.adding_replicas = list(adding)
        if removing != state.removing:
            record.removing_replicas = list(removing)
        is_empty = record.encode(2) == PartitionChangeRecord(index, topic_id).encode(2)
        return None if is_empty else record

    def _wanted_isr(self) -> tuple[int, ...]:
        return self.state.isr if self.isr is None else self.isr

    def _assignment(
        self, isr: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Replicas, adding, removing and ISR, after a reassignment that is complete now."""
        state = self.state
        replicas = state.replicas if self.replicas is None else self.replicas
        adding = state.adding if self.adding is None else self.adding
        removing = state.removing if self.removing is None else self.removing
        left = tuple(each for each in isr if each not in removing)
        if (adding or removing) and left and set(adding) <= set(left):
            return tuple(each for each in replicas if each not in removing), (), (), left
        return replicas, adding, removing, isr

    def _elr(self, isr: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, ...]:
        if not self.rules.has_elr or len(isr) >= min(self.rules.min_isr, len(replicas)):
            return ()
        candidates = dict.fromkeys((*self.state.eligible, *self.state.isr))
        return tuple(
            each
            for each in candidates
            if each not in isr and each not in self.unclean and each in replicas
        )

    def _elect(
        self, isr: tuple[int, ...], elr: tuple[int, ...], replicas: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The leader, and the ISR and the ELR with it."""
        state = self.state
        safe = [each for each in replicas if each in (*isr, *elr) and self.is_acceptable(each)]
        if self.prefers_first and replicas[0] in safe:
            leader = replicas[0]
        elif state.leader in safe:
            leader = state.leader
        elif safe:
            leader = safe[0]
        else:
            leader = self._elect_unsafely(isr, elr, replicas)
            if leader != NO_LEADER:
                self.is_lossy = True
                return leader, (leader,), tuple(each for each in elr if each != leader)
            return NO_LEADER, isr, elr
        if leader not in isr:
            return leader, (leader,), tuple(each for each in elr if each != leader)
        return leader, isr, elr

    def _elect_unsafely(
        self, isr: tuple[int, ...], elr: tuple[int, ...], replicas: tuple[int, ...]
    ) -> int:
        last = self.state.last_eligible
        has_last = self.rules.has_elr and not isr and not elr and len(last) == 1
        if has_last and last[0] in replicas and self.is_acceptable(last[0]):
            return last[0]
        if self.may_lose:
            return next(filter(self.is_acceptable, replicas), NO_LEADER)
        return NO_LEADER

    def _set_last_known(self, record: PartitionChangeRecord, leader: int) -> None:
        """The last known leader is kept from when a partition loses its last eligible leader."""
        state = self.state
        if not self.rules.has_elr:
            return
        if record.isr == [] and not state.last_eligible and state.leader != NO_LEADER:
            record.last_known_elr = [state.leader]
        elif leader != NO_LEADER and state.last_eligible:
            record.last_known_elr = []
