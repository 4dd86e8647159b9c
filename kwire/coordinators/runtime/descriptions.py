"""Topology descriptions of streams groups (KIP-1331): between the groups and the plug-in.

A heartbeat asks one member at a time for the description.  The member sends it with
StreamsGroupTopologyDescriptionUpdate, the plug-in stores it, and the group's log notes for which
topology epoch that is.  Before each call of the plug-in the log notes that the outcome is not
known, so that after a crash the description is asked for again, and deleted with its group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_describe import DescribedGroup
from kwire.codecs.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kwire.coordinators.runtime.description_plugins import DescriptionPlugin
from kwire.coordinators.runtime.promise import answered
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.machine import GroupMachine
from kwire.groups.streams.configuring import DescriptionStatus, StatusCode
from kwire.groups.streams.decision import StreamsHeartbeatReply
from kwire.groups.streams.description import described, description_of
from kwire.groups.streams.group import UNCERTAIN_EPOCH

if TYPE_CHECKING:
    from kwire.coordinators.runtime.groups import GroupCoordinator

log = logging.getLogger(__name__)

ASKED_SINCE: Final = 1
"""The version of StreamsGroupHeartbeat since which members can be asked."""
FIRST_PAUSE_MS, LAST_PAUSE_MS, PAUSE_JITTER = 30_000, 3_600_000, 0.2
DELETION_FAILED: Final = "Topology description plugin failed to delete the topology."
NOT_FOR_THIS_BROKER: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@dataclass(frozen=True, slots=True)
class _Pause:
    """Until when no member of a group is asked again for the description of this epoch."""

    topology_epoch: int
    attempts: int
    until_ms: float


class Pauses:
    """The pauses between two requests of a group's description: they grow from 30 s to an hour."""

    def __init__(self, now_ms: Callable[[], int], rng: Random) -> None:
        self._now_ms = now_ms
        self._rng = rng
        self._pauses: dict[str, _Pause] = {}

    def is_active(self, group_id: str, epoch: int) -> bool:
        pause = self._pauses.get(group_id)
        return (
            pause is not None and pause.topology_epoch == epoch and self._now_ms() < pause.until_ms
        )

    def begin_unless_active(self, group_id: str, epoch: int) -> bool:
        """Begin a pause, unless one lasts.  Returns whether it began."""
        if self.is_active(group_id, epoch):
            return False
        self._begin(group_id, epoch)
        return True

    def begin_or_extend(self, group_id: str, epoch: int) -> None:
        """Begin the next pause, unless a later topology epoch has one."""
        pause = self._pauses.get(group_id)
        if pause is None or pause.topology_epoch <= epoch:
            self._begin(group_id, epoch)

    def end(self, group_id: str, epoch: int) -> None:
        pause = self._pauses.get(group_id)
        if pause is not None and pause.topology_epoch == epoch:
            del self._pauses[group_id]

    def forget(self, group_id: str) -> None:
        self._pauses.pop(group_id, None)

    def _begin(self, group_id: str, epoch: int) -> None:
        """Begin a pause, which is twice as long as the one before for the same epoch."""
        pause = self._pauses.get(group_id)
        again = pause is not None and pause.topology_epoch == epoch
        attempts = pause.attempts + 1 if pause is not None and again else 0
        delay_ms = min(FIRST_PAUSE_MS * 2.0**attempts, LAST_PAUSE_MS)
        if delay_ms < LAST_PAUSE_MS:
            delay_ms *= self._rng.uniform(1 - PAUSE_JITTER, 1 + PAUSE_JITTER)
        self._pauses[group_id] = _Pause(epoch, attempts, self._now_ms() + delay_ms)


class TopologyDescriptions:
    """See the module."""

    def __init__(
        self, groups: GroupCoordinator, plugin: DescriptionPlugin, rng: Random | None = None
    ) -> None:
        self._groups = groups
        self._plugin = plugin
        self._pauses = Pauses(groups.runtime.now_ms, Random() if rng is None else rng)

    # -- heartbeats

    def ask(self, reply: StreamsHeartbeatReply, group_id: str, version: int) -> None:
        """Let the response ask its member for the description, if it is this member's turn."""
        response = reply.response
        stale = any(s.status_code == StatusCode.STALE_TOPOLOGY for s in response.status or () if s)
        if (
            version >= ASKED_SINCE
            and response.error_code == ErrorCode.NONE
            and reply.descriptions.is_missing
            and not stale
            and self._pauses.begin_unless_active(group_id, reply.descriptions.topology)
        ):
            response.topology_description_required = True

    # -- a description that a member sends

    async def update(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        """Store a description.  Raises Refusal."""
        group_id, epoch = request.group_id, request.topology_epoch
        refusal: Refusal | None = await answered(
            self._submit(
                group_id,
                lambda machine, ticket, _: GroupEffects.reply(
                    ticket, machine.streams.check_description(group_id, request.member_id, epoch)
                ),
                Refusal,
            )
        )
        if refusal is not None:
            raise refusal
        description = description_of(request.topology_description)
        if not await self._expect_call(group_id, to_delete=False):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        try:
            await self._plugin.set_topology(group_id, epoch, description)
        except Exception as failure:
            # The plug-in's code is not kwire's, so any exception may come out of it.
            log.info("The plug-in cannot store the topology of group %s: %r", group_id, failure)
            if getattr(failure, "permanent", False):
                await self._note_answer(group_id, epoch, stored=False)
            else:
                self._pauses.begin_or_extend(group_id, epoch)
            raise _refused(failure) from failure
        await self._note_answer(group_id, epoch, stored=True)

    async def _expect_call(self, group_id: str, *, to_delete: bool) -> bool:
        """Note in the log that the plug-in is called.  Raises Refusal if that fails."""
        expected: bool | ErrorCode = await answered(
            self._submit(
                group_id,
                lambda machine, ticket, now_ms: machine.streams.expect_description_call(
                    group_id, ticket, now_ms, to_delete=to_delete
                ),
                lambda error: error,
            )
        )
        if isinstance(expected, ErrorCode):
            raise Refusal(expected)
        return expected

    async def _note_answer(self, group_id: str, epoch: int, *, stored: bool) -> None:
        """Note the plug-in's answer in the log.  Raises Refusal if that fails."""
        error: ErrorCode = await answered(
            self._submit(
                group_id,
                lambda machine, ticket, now_ms: machine.streams.description_answered(
                    group_id, epoch, ticket, now_ms, stored=stored
                ),
                lambda error: error,
            )
        )
        if error is ErrorCode.NONE:
            self._pauses.end(group_id, epoch)
            return
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            self._pauses.forget(group_id)
        elif error not in NOT_FOR_THIS_BROKER:
            self._pauses.begin_or_extend(group_id, epoch)
        raise Refusal(error)

    # -- descriptions of groups

    async def attach(self, listed: Iterable[DescribedGroup]) -> None:
        """Add the topology descriptions to the descriptions of groups."""
        for group in listed:
            if group.error_code == ErrorCode.NONE:
                await self._attach_one(group)

    async def _attach_one(self, group: DescribedGroup) -> None:
        """Add the topology description of one group, and its status."""
        machine, topology = self._machine(group.group_id), group.topology
        group.topology_description_status = DescriptionStatus.NOT_STORED
        if machine is None or topology is None:
            return
        if machine.streams.description_epochs(group.group_id).stored != topology.epoch:
            return
        try:
            found = await self._plugin.get_topology(group.group_id, topology.epoch)
        except Exception as failure:
            # As above: any exception of the plug-in.
            log.warning("The plug-in cannot read the topology of %s: %r", group.group_id, failure)
            group.topology_description_status = DescriptionStatus.FAILED
            return
        if found is not None:
            group.topology_description = described(found)
            group.topology_description_status = DescriptionStatus.AVAILABLE

    # -- deletion

    def has_any(self, group_id: str) -> bool:
        """Whether the plug-in may have a description of a group that is coordinated here."""
        machine = self._machine(group_id)
        group = None if machine is None else machine.groups.get(group_id)
        return group is not None and group.has_description

    def must_be_deleted_before_join(self, group_id: str) -> bool:
        """Whether JoinGroup would replace a streams group, of which the plug-in may have data."""
        machine = self._machine(group_id)
        return (
            machine is not None
            and self.has_any(group_id)
            and (machine.groups[group_id].check_delete() is ErrorCode.NONE)
        )

    async def delete(self, group_id: str) -> Refusal | None:
        """Delete the description of a group that has no members; the refusal if that fails."""
        try:
            if not self.has_any(group_id) or not await self._expect_call(group_id, to_delete=True):
                return None
            await self._plugin.delete_topology(group_id)
        except Refusal as refusal:
            return refusal
        except Exception as failure:
            # As above: any exception of the plug-in.
            log.info("The plug-in cannot delete the topology of group %s: %r", group_id, failure)
            return Refusal(ErrorCode.GROUP_DELETION_FAILED, DELETION_FAILED)
        self._pauses.forget(group_id)
        await answered(
            self._submit(
                group_id,
                lambda machine, ticket, now_ms: machine.streams.description_deleted(
                    group_id, ticket, now_ms
                ),
                lambda error: error,
            )
        )
        return None

    async def delete_before_join(self, group_id: str) -> bool:
        """Delete the description of a group that a JoinGroup is about to replace.

        False: it cannot be deleted, or could not be a short time ago.
        """
        if self._pauses.is_active(group_id, UNCERTAIN_EPOCH):
            return False
        if await self.delete(group_id) is None:
            return True
        self._pauses.begin_unless_active(group_id, UNCERTAIN_EPOCH)
        return False

    async def clean(self) -> None:
        """Delete the descriptions of groups that have no members and no offsets."""
        shards = list(self._groups.runtime.shards.values())
        machines = [shard.machine for shard in shards if shard.error is ErrorCode.NONE]
        for group_id in [each for machine in machines for each in machine.groups_to_clean()]:
            await self.delete(group_id)

    async def clean_forever(self, interval_ms: int) -> None:
        """Clean at each interval."""
        while True:
            await trio.sleep(interval_ms / 1000)
            await self.clean()

    # -- the coordinator

    def _machine(self, group_id: str) -> GroupMachine | None:
        """The machine of a group's partition, or None if another broker leads it."""
        shard = self._groups.runtime.shards.get(self._groups.partition_for(group_id))
        return shard.machine if shard is not None and shard.error is ErrorCode.NONE else None

    def _submit(
        self,
        group_id: str,
        decide: Callable[[GroupMachine, Ticket, int], GroupEffects],
        refuse: Callable[[ErrorCode], Any],
    ) -> Any:  # noqa: ANN401 - the reply of the decision, or a promise of it
        groups = self._groups
        return groups.runtime.submit(groups.partition_for(group_id), decide, refuse)


def _refused(failure: Exception) -> Refusal:
    return Refusal(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, str(failure))
