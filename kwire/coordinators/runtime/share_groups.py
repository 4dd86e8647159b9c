"""What share groups know of the offsets that the share coordinator keeps for them.

Each gives its reply, or the promise of one.  Imported when somebody asks about such offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.coordinators.runtime.groups import GroupCoordinator
from kwire.coordinators.runtime.promise import Promise
from kwire.groups.effects import Effects
from kwire.groups.share.initializing import NOTHING, Topics
from kwire.groups.share.offsets import Alteration, Deletion, Wanted


class Known(NamedTuple):
    """Partitions of which the share coordinator keeps from where a group reads them."""

    error: ErrorCode
    topics: Topics = NOTHING


def known(groups: GroupCoordinator, group_id: str) -> Known | Promise[Known]:
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: Effects.reply(
            ticket, Known(ErrorCode.NONE, machine.share.offsets_known(group_id))
        ),
        Known,
    )


def alter(
    groups: GroupCoordinator, group_id: str, wanted: Wanted
) -> Alteration | Promise[Alteration]:
    """Note that a group is to read from elsewhere: the share coordinator is to be told."""
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, now_ms: machine.share.alter_offsets(
            group_id, wanted, ticket, now_ms
        ),
        lambda error: Alteration(AlterShareGroupOffsetsResponse(error_code=error)),
    )


def delete(
    groups: GroupCoordinator, group_id: str, names: Sequence[str]
) -> Deletion | Promise[Deletion]:
    """Note that topics are to be forgotten: the share coordinator is to be told."""
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: machine.share.delete_offsets(group_id, names, ticket),
        lambda error: Deletion(DeleteShareGroupOffsetsResponse(error_code=error)),
    )


def deleted(groups: GroupCoordinator, group_id: str, topics: Topics) -> Promise[None] | None:
    """The share coordinator has forgotten them."""
    return groups.runtime.submit(
        groups.partition_for(group_id),
        lambda machine, ticket, _: machine.share.offsets_deleted(group_id, topics, ticket),
        lambda _: None,
    )
