"""Operations of the group coordinator on the offsets of share groups.

The share coordinator stores the offsets; the group coordinator stores for which partitions it does.
Each function returns its reply, or a promise of it.  The module is imported at first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.coordinators.runtime.groups import GroupCoordinator
from kwire.coordinators.runtime.promise import Promise
from kwire.groups.effects import GroupEffects
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions
from kwire.groups.share.offsets import OffsetAlteration, OffsetDeletion, RequestedOffsets


class KnownOffsets(NamedTuple):
    """Partitions for which the share coordinator stores a start offset of the group."""

    error: ErrorCode
    topics: StateTopicPartitions = NOTHING


def known_offsets(groups: GroupCoordinator, group_id: str) -> KnownOffsets | Promise[KnownOffsets]:
    """Return the partitions for which the group has a start offset, or an error."""
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: GroupEffects.reply(
            ticket, KnownOffsets(ErrorCode.NONE, machine.share.offsets_known(group_id))
        ),
        KnownOffsets,
    )


def alter_offsets(
    groups: GroupCoordinator, group_id: str, wanted: RequestedOffsets
) -> OffsetAlteration | Promise[OffsetAlteration]:
    """Records that start offsets of a group change.

    The caller then asks the share coordinator to change them.
    """
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, now_ms: machine.share.alter_offsets(
            group_id, wanted, ticket, now_ms
        ),
        lambda error: OffsetAlteration(AlterShareGroupOffsetsResponse(error_code=error)),
    )


def delete_offsets(
    groups: GroupCoordinator, group_id: str, names: Sequence[str]
) -> OffsetDeletion | Promise[OffsetDeletion]:
    """Records that offsets of topics are to be deleted.

    The caller then asks the share coordinator to delete them.
    """
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: machine.share.delete_offsets(group_id, names, ticket),
        lambda error: OffsetDeletion(DeleteShareGroupOffsetsResponse(error_code=error)),
    )


def offsets_deleted(
    groups: GroupCoordinator, group_id: str, topics: StateTopicPartitions
) -> Promise[None] | None:
    """Records that the share coordinator has deleted its state for `topics`."""
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: machine.share.offsets_deleted(group_id, topics, ticket),
        lambda _: None,
    )
