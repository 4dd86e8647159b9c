"""Tools for groups of all types: list, describe, reset offsets, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.ranges import ranges
from kwire.console.assistant.answers import (
    ROWS_MAX,
    Row,
    answer,
    first_names,
    fitted,
    present,
    shortened,
)
from kwire.console.assistant.tools import ClusterTools, destroys, reads
from kwire.console.cluster.groups import (
    GroupPage,
    ListedGroupRow,
    MemberRow,
    PartitionRow,
    describe,
    group_rows,
    list_groups,
    partitions_by_topic,
)
from kwire.console.cluster.resets import (
    PlannedReset,
    ResetChoice,
    ResetPlan,
    carry_out,
    delete,
    preview,
)

MEMBERS_MAX: Final = 50
RESET_PARTITIONS_MAX: Final = 5_000
"""The most partitions of one reset, as on the console's page."""

GroupArgument = Annotated[
    str, Field(description="The id of the group.", min_length=1, max_length=32_767)
]
TargetArgument = Annotated[
    Literal["earliest", "latest", "offset", "datetime", "shift"],
    Field(description="shift moves by a number of records, which may be negative."),
]
TargetValueArgument = Annotated[
    str, Field(description="The offset, the number of records, or a time like 2026-03-01T12:00.")
]
TopicsArgument = Annotated[
    list[str], Field(description="Empty for all with an offset.", max_length=1_000)
]


class GroupTools(ClusterTools):
    """Groups with their members, offsets and lag."""

    def tools(self) -> Iterator[Tool]:
        """See ClusterTools."""
        yield reads(self.list_groups)
        yield reads(self.describe_group)
        yield reads(self.preview_reset)
        if self._desk.allows_writes:
            yield destroys(self.reset_offsets)
            yield destroys(self.delete_group)

    async def list_groups(
        self,
        contains: Annotated[
            str, Field(description="Only groups whose id has this text.", max_length=1_000)
        ] = "",
        type: Annotated[  # noqa: A002 - the name in Kafka's tools
            Literal["", "classic", "consumer", "share", "streams"],
            Field(description="Only groups of this type; empty for all."),
        ] = "",
        after: Annotated[
            str, Field(description="Go on after this id, when an answer left groups out.")
        ] = "",
        limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 50,
    ) -> CallToolResult:
        """Groups by id, with type, state, members, topics and lag.

        The lag is the number of records that the group has not read; null if it is unknown.
        """
        page = await self._desk.ask(list_groups)
        found = [
            group
            for group in page.groups
            if contains in group.group_id and group.group_id > after and type in ("", group.type)
        ]
        described = await self._desk.ask(group_rows, found[:limit])
        rows, cut = fitted(described, _group, limit=limit)
        troubles = {f"broker {node_id}": why for node_id, why in page.troubles.items()}
        left_out = cut + len(found) - len(described)
        return answer({"groups": rows, "left_out": left_out} | present({"troubles": troubles}))

    async def describe_group(self, group: GroupArgument) -> CallToolResult:
        """A group with its members, its offset and lag in each partition, and what it waits for.

        The partitions with the most lag come first.
        """
        page = await self._desk.ask(describe, group)
        members, members_left_out = fitted(page.members, _member, limit=MEMBERS_MAX)
        by_lag = sorted(page.partitions, key=lambda row: -(row.lag or 0))
        partitions, left_out = fitted(by_lag, lambda row: _partition(row, page))
        return answer(
            _described(page)
            | {"members": members, "members_left_out": members_left_out}
            | {"partitions": partitions, "partitions_left_out": left_out}
        )

    async def preview_reset(
        self,
        group: GroupArgument,
        to: TargetArgument,
        value: TargetValueArgument = "",
        topics: TopicsArgument = [],  # noqa: B006 - only read; the schema shows it as the default
    ) -> CallToolResult:
        """The offsets that reset_offsets would set, and how many records would be read again or
        skipped. Changes nothing."""
        plan = await self._desk.ask(preview, group, ResetChoice(to, value, topics))
        return answer(_planned(plan))

    async def reset_offsets(
        self,
        group: GroupArgument,
        to: TargetArgument,
        value: TargetValueArgument = "",
        topics: TopicsArgument = [],  # noqa: B006 - only read; the schema shows it as the default
    ) -> CallToolResult:
        """Set the offsets of a group that has no members. preview_reset shows them before.

        The group then reads records again, or skips some.
        """

        def reset(cluster: Cluster) -> ResetPlan:
            plan = preview(cluster, group, ResetChoice(to, value, topics))
            if len(plan.rows) > RESET_PARTITIONS_MAX:
                raise Misuse(
                    f"the reset has {len(plan.rows):,} partitions, more than"
                    f" {RESET_PARTITIONS_MAX:,}: name fewer topics"
                )
            carry_out(cluster, group, {row.partition: row.new for row in plan.rows})
            return plan

        return answer(_planned(await self._desk.ask(reset)) | {"is_done": True})

    async def delete_group(self, group: GroupArgument) -> CallToolResult:
        """Delete a group that has no members, and its offsets. Nothing brings them back."""
        await self._desk.ask(delete, group)
        return answer({"deleted": group})


def _group(row: ListedGroupRow) -> Row:
    return {
        "group": shortened(row.group_id),
        "type": row.type,
        "state": row.state,
        "members": row.members,
        "lag": row.lag,
        "topics": first_names(row.topics, 10),
    } | present({"trouble": row.trouble})


def _described(page: GroupPage) -> Row:
    return {
        "group": shortened(page.group_id),
        "type": page.type,
        "type_means": page.type_words,
        "state": page.state,
        "coordinator": page.coordinator_id,
        "lag": page.lag,
        "notes": list(page.notes),
    } | present(
        {
            "assignor": page.assignor,
            "epoch": page.epoch,
            "assignment_epoch": page.assignment_epoch,
            "share_trouble": page.share_trouble,
        }
    )


def _member(member: MemberRow) -> Row:
    tasks = member.tasks
    return {
        "member": shortened(member.member_id),
        "client": shortened(member.client_id),
        "host": member.host,
        "partitions": _by_topic(member.assignment) or {},
    } | present(
        {
            "instance": member.instance_id,
            "epoch": member.epoch,
            "adding": _by_topic(member.adding),
            "revoking": _by_topic(member.revoking),
            "active_tasks": [] if tasks is None else tasks.active,
            "standby_tasks": [] if tasks is None else tasks.standby,
        }
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, str] | None:
    """The partitions of each topic as ranges; None if there are none."""
    found = partitions_by_topic(partitions)
    return {shortened(topic): ranges(indexes) for topic, indexes in found.items()} or None


def _partition(row: PartitionRow, page: GroupPage) -> Row:
    clients = page.client_ids
    return {
        "partition": str(row.partition),
        "offset": row.offset,
        "end_offset": row.end_offset,
        "lag": row.lag,
    } | present(
        {
            "clients": [shortened(clients[each]) for each in row.members[:10] if each in clients],
            "deleted_before_read": row.lost,
            "delivered": [
                {"first": each.first_offset, "last": each.last_offset, "state": each.state}
                for each in row.delivered[:10]
            ],
        }
    )


def _planned(plan: ResetPlan) -> Row:
    rows, left_out = fitted(plan.rows, _planned_row)
    return {
        "group": shortened(plan.group_id),
        "state": plan.state,
        "members": plan.members,
        "records_read_again": plan.back,
        "records_skipped": plan.skipped,
        "partitions": rows,
        "left_out": left_out,
    }


def _planned_row(row: PlannedReset) -> Row:
    return {
        "partition": str(row.partition),
        "committed": row.committed,
        "new": row.new,
        "start_offset": row.start_offset,
        "end_offset": row.end_offset,
    }
