"""Groups: the list, one group with its progress and members, the reset of its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlencode

import trio
from starlette.responses import Response

from kwire.client.cluster import TopicPartition
from kwire.client.errors import ClientError, Misuse
from kwire.client.groups import SHARE
from kwire.client.inspection.many_groups import Listed
from kwire.console.cluster.commands import command_line
from kwire.console.cluster.groups import (
    TYPE_WORDS,
    TYPES,
    GroupPage,
    MemberRow,
    PartitionRow,
    describe,
    group_rows,
    list_groups,
)
from kwire.console.cluster.resets import ResetChoice, carry_out, delete, preview
from kwire.console.history.in_flight import RecordsInFlight, records_in_flight
from kwire.console.history.sampler import GROUP_LAG, GROUP_RATE, GroupNow
from kwire.console.history.series import SeriesKey, SeriesPoint, thinned
from kwire.console.listing import ShownTable, TableColumn, shown_table
from kwire.console.site import SitePage, Visit
from kwire.console.views.plots import observed_on, sampler_of

TREND_POINTS: Final = 40
CHANGE_MS: Final = 60_000
"""The time over which the change of a lag is computed: some samples, since members commit only now
and then."""
UNSAMPLED_MAX: Final = 250
"""The most groups that are asked for their lag before the first sample of it."""
RESET_PARTITIONS_MAX: Final = 5_000
"""The most partitions of one reset: each is a field of the form that confirms it."""


class GroupLine(NamedTuple):
    """A group in the list, with its last sample, or before the first sample with its lag now."""

    listed: Listed
    now: GroupNow | None
    lag_now: int | None = None

    @property
    def lag(self) -> int | None:
        return self.lag_now if self.now is None else self.now.lag

    @property
    def rate(self) -> float | None:
        return None if self.now is None else self.now.records_per_s


GROUP_COLUMNS: Final[tuple[TableColumn[GroupLine], ...]] = (
    TableColumn("group", "Group", lambda line: line.listed.group_id),
    TableColumn("type", "Type", lambda line: line.listed.type),
    TableColumn("state", "State", lambda line: line.listed.state),
    TableColumn("members", "Members", is_number=True),
    TableColumn("topics", "Topics"),
    TableColumn(
        "lag", "Lag", lambda line: line.lag, is_number=True,
        title="Records that the group has not read yet",
    ),
    TableColumn(
        "rate", "Records/s", lambda line: line.rate, is_number=True,
        title="Records per second that the group commits",
    ),
    TableColumn("trend", "Lag, last hour"),
)  # fmt: skip

PARTITION_COLUMNS: Final[tuple[TableColumn[PartitionRow], ...]] = (
    TableColumn("partition", "Partition", lambda row: row.partition),
    TableColumn("offset", "Committed", lambda row: row.offset, is_number=True),
    TableColumn("end", "End", lambda row: row.end_offset, is_number=True),
    TableColumn("lag", "Lag", lambda row: row.lag, is_number=True),
    TableColumn("member", "Member", lambda row: " ".join(row.members) or None),
)

SHARE_COLUMNS: Final[tuple[TableColumn[PartitionRow], ...]] = (
    TableColumn("partition", "Partition", lambda row: row.partition),
    TableColumn("offset", "Start", lambda row: row.offset, is_number=True),
    TableColumn("end", "End", lambda row: row.end_offset, is_number=True),
    TableColumn(
        "lag", "Lag", lambda row: row.lag, is_number=True,
        title="Records that are not finished, also those that members hold",
    ),
    TableColumn(
        "delivered", "Delivered",
        title="Records after the start offset that were delivered before",
    ),
    TableColumn(
        "flight", "In flight",
        title="Records in delivery now, by state; only kwire's metrics endpoint tells (--metrics)",
    ),
    TableColumn("members", "Members", lambda row: len(row.members), is_number=True),
)  # fmt: skip

MEMBER_COLUMNS: Final[tuple[TableColumn[MemberRow], ...]] = (
    TableColumn("client", "Member", lambda row: (row.client_id, row.member_id)),
    TableColumn("host", "Host", lambda row: row.host),
    TableColumn("epoch", "Epoch", lambda row: row.epoch, is_number=True),
    TableColumn("count", "Partitions", lambda row: len(row.assignment), is_number=True),
    TableColumn("assignment", "Assignment"),
)

TABS: Final = ("progress", "members", "topology", "reset")


async def groups(visit: Visit) -> Response:
    """The list of groups of all types."""
    found = await visit.ask(list_groups)
    wanted = visit.query.get("type", "")
    listed = [group for group in found.groups if wanted not in TYPES or group.type == wanted]
    state = visit.table("type")
    table = shown_table(
        await _lines(visit, listed, by_lag=state.sort == "lag"),
        GROUP_COLUMNS,
        state,
        lambda line: f"{line.listed.group_id} {line.listed.state}",
    )
    rows = await visit.ask(group_rows, [line.listed for line in table.rows]) if table.rows else []
    if state.sort == "lag":  # a sample is some seconds old; the page shows the lag of now
        table = _sorted_by_lag(table, {row.group_id: row.lag for row in rows})
    history = sampler_of(visit.site).history
    trends = {
        row.group_id: trend_line(history.points(SeriesKey(GROUP_LAG, row.group_id))) for row in rows
    }
    return visit.page(
        "groups.html",
        table=table,
        rows={row.group_id: row for row in rows},
        trends=trends,
        found=found,
        types=TYPES,
        type_words=TYPE_WORDS,
        wanted=wanted,
    )


async def _lines(visit: Visit, listed: list[Listed], *, by_lag: bool) -> list[GroupLine]:
    """The groups with their last sample; before the first one with the lag of now, if they are few
    and are sorted by it."""
    latest = sampler_of(visit.site).latest
    if latest is not None:
        return [GroupLine(group, latest.groups.get(group.group_id)) for group in listed]
    lags: dict[str, int | None] = {}
    if by_lag and 0 < len(listed) <= UNSAMPLED_MAX:
        lags = {row.group_id: row.lag for row in await visit.ask(group_rows, listed)}
    return [GroupLine(group, None, lags.get(group.group_id)) for group in listed]


def _sorted_by_lag(
    table: ShownTable[GroupLine], lags: Mapping[str, int | None]
) -> ShownTable[GroupLine]:
    """The table with the rows of its page in the order of these lags."""
    known = [line for line in table.rows if lags.get(line.listed.group_id) is not None]
    unknown = [line for line in table.rows if lags.get(line.listed.group_id) is None]
    known.sort(key=lambda line: lags[line.listed.group_id] or 0, reverse=table.state.descending)
    return replace(table, rows=[*known, *unknown])


def trend_line(points: list[SeriesPoint], width: int = 120, height: int = 24) -> str:
    """The `points` of an SVG polyline that shows a series; empty if there is nothing to show."""
    known = [(p.time_ms, p.value) for p in thinned(points, TREND_POINTS) if p.value is not None]
    if len(known) < 2:
        return ""
    start_ms, end_ms = known[0][0], known[-1][0]
    highest = max(value for _, value in known) or 1.0
    return " ".join(
        f"{(time_ms - start_ms) / max(1, end_ms - start_ms) * width:.1f},"
        f"{height - 2 - value / highest * (height - 4):.1f}"
        for time_ms, value in known
    )


def lag_change(points: list[SeriesPoint]) -> float | None:
    """How fast a lag changes, in records per second, over the last CHANGE_MS; negative if the group
    catches up.  None before the second sample."""
    known = [(point.time_ms, point.value) for point in points if point.value is not None]
    if not known:
        return None
    last_ms, last = known[-1]
    first_ms, first = next(each for each in known if each[0] >= last_ms - CHANGE_MS)
    return (last - first) * 1000 / (last_ms - first_ms) if last_ms > first_ms else None


async def group(visit: Visit) -> Response:
    """One group: its progress, its members, its topology, or the form of a reset."""
    page = await visit.ask(describe, group_id_of(visit))
    tab = visit.query.get("tab", "")
    if tab not in TABS or (tab == "topology" and not page.subtopologies):
        tab = TABS[0]
    sampler = sampler_of(visit.site)
    now = sampler.latest
    in_flight: Mapping[TopicPartition, RecordsInFlight] = {}
    flight_trouble = None
    if page.type == SHARE and visit.site.metrics and tab == "progress":
        in_flight, flight_trouble = await trio.to_thread.run_sync(
            records_in_flight, visit.site.metrics, page.group_id, abandon_on_cancel=True
        )
    observed = await observed_on(visit.site)
    return visit.page(
        "group.html",
        group=page,
        in_flight=in_flight,
        flight_trouble=flight_trouble,
        rebalance=None if observed is None else observed.rebalances.get(page.group_id),
        tab=tab,
        partitions=progress_table(visit, page) if tab == "progress" else None,
        members=members_table(visit, page) if tab == "members" else None,
        now=None if now is None else now.groups.get(page.group_id),
        lag_change=lag_change(sampler.history.points(SeriesKey(GROUP_LAG, page.group_id))),
        lag_kind=GROUP_LAG,
        rate_kind=GROUP_RATE,
        describe_command=command_line(
            ["groups", "describe", page.group_id, *(["--members"] if tab == "members" else [])],
            visit.site.command_options,
        ),
        delete_command=command_line(
            ["groups", "delete", page.group_id], visit.site.command_options
        ),
    )


def group_id_of(visit: Visit) -> str:
    """The group that the URL names.  Raises Misuse."""
    group_id = visit.query.get("id", "")
    if not group_id:
        raise Misuse("the URL names no group")
    return group_id


def progress_table(visit: Visit, page: GroupPage) -> ShownTable[PartitionRow]:
    """The partitions of a group that the URL asks for."""
    columns = SHARE_COLUMNS if page.type == SHARE else PARTITION_COLUMNS
    return shown_table(
        page.partitions,
        columns,
        visit.table("id", "tab"),
        lambda row: f"{row.partition} {' '.join(row.members)}",
    )


def members_table(visit: Visit, page: GroupPage) -> ShownTable[MemberRow]:
    """The members of a group that the URL asks for."""
    return shown_table(
        page.members,
        MEMBER_COLUMNS,
        visit.table("id", "tab"),
        lambda row: f"{row.client_id} {row.member_id} {row.host} {row.instance_id or ''}",
    )


# -- changes


async def reset(visit: Visit) -> Response:
    """The preview of a reset, from the form of the group's page."""
    group_id = group_id_of(visit)
    topics = [topic for topic in visit.request.query_params.getlist("topic") if topic]
    choice = ResetChoice(
        visit.query.get("target", ""), visit.query.get("value", "").strip(), topics
    )
    plan = await visit.ask(preview, group_id, choice)
    if len(plan.rows) > RESET_PARTITIONS_MAX:
        raise Misuse(
            f"the reset is about {len(plan.rows):,} partitions: choose fewer topics, or use the"
            " command line"
        )
    return visit.page(
        "group_reset.html",
        plan=plan,
        command=command_line(plan.words, visit.site.command_options),
    )


async def do_reset(visit: Visit) -> Response:
    """Set the offsets that the preview has shown."""
    form = await visit.form()
    group_id = form.get("id", "")
    try:
        offsets = offsets_in(form.get("offsets", ""))
        await visit.ask(carry_out, group_id, offsets)
    except ClientError as error:
        return visit.done(group_path(group_id), str(error), is_error=True)
    count = f"{len(offsets):,} partition{'s' if len(offsets) != 1 else ''}"
    return visit.done(group_path(group_id), f"The offsets of {count} are reset.")


def offsets_in(text: str) -> dict[TopicPartition, int]:
    """The offsets of a form: lines of topic, partition and offset, parted by tabs.

    Raises Misuse.
    """
    offsets: dict[TopicPartition, int] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 3 or not fields[1].isdecimal() or not fields[2].isdecimal():
            raise Misuse("the form has offsets that this page did not write")
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    if not offsets:
        raise Misuse("nothing to reset")
    return offsets


async def do_delete(visit: Visit) -> Response:
    """Delete a group without members."""
    form = await visit.form()
    group_id = form.get("id", "")
    try:
        await visit.ask(delete, group_id)
    except ClientError as error:
        return visit.done(group_path(group_id), str(error), is_error=True)
    visit.site.pool.forget_results()
    return visit.done("/groups", f"Group {group_id} is deleted.")


def group_path(group_id: str) -> str:
    """The path of a group's page."""
    return "/groups/one?" + urlencode({"id": group_id}, errors="replace")


PAGES = (
    SitePage("/groups", groups, label="Groups", position=20),
    SitePage("/groups/one", group),
    SitePage("/groups/reset", reset),
    SitePage("/groups/reset", do_reset, methods=("POST",)),
    SitePage("/groups/delete", do_delete, methods=("POST",)),
)
