"""Tools for the control of a kwire broker: faults, clock, snapshots, forks and traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import trio
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from kwire.console.assistant.answers import Row, answer, fitted, present, shortened, time_of
from kwire.console.assistant.tools import ClusterTools, adds, destroys, reads
from kwire.console.cluster.control import (
    PRESETS,
    ControlState,
    FaultRow,
    TracedRequestRow,
    TracedRequests,
    add_fault,
    advance,
    begin_fork,
    begin_trace,
    control_state,
    end_fork,
    end_trace,
    hold,
    remove_fault,
    remove_snapshot,
    restore_snapshot,
    take_snapshot,
    traced_requests,
)
from kwire.testing.control import given_fields

TRACE_S_MAX: Final = 30.0
"""The longest that one call follows requests: some assistants give a call a minute."""
MESSAGE_LENGTH_MAX: Final = 2_000
"""Characters of a traced request, and of its response."""
ADVANCE_MS_MAX: Final = 10 * 365 * 86_400_000
NUMBER_MAX: Final = 2**31 - 1

Preset = Literal[
    "leader-moved", "coordinator-moved", "coordinator-loading", "stale-metadata", "lost-reply",
    "full-disk", "failed-disk", "slow-disk", "death",
]  # fmt: skip
FILTER: Final = "Only requests of this "
ApiArgument = Annotated[
    str | None, Field(description="Only this API, such as Produce or Fetch.", max_length=100)
]
TopicFilter = Annotated[str | None, Field(description=f"{FILTER}topic.", max_length=249)]
PartitionFilter = Annotated[int | None, Field(description=f"{FILTER}partition.", ge=0)]
ClientFilter = Annotated[
    str | None, Field(description=f"{FILTER}client id; * stands for any text.", max_length=1_000)
]
GroupFilter = Annotated[str | None, Field(description=f"{FILTER}group.", max_length=32_767)]
TransactionFilter = Annotated[
    str | None, Field(description=f"{FILTER}transactional id.", max_length=32_767)
]
SnapshotName = Annotated[str, Field(description="The name of the snapshot.", max_length=200)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]


class ControlTools(ClusterTools):
    """What `kwire serve --control` offers to tests of clients."""

    def tools(self) -> Iterator[Tool]:
        """See ClusterTools."""
        if self._desk.control is None:
            return
        yield reads(self.describe_control)
        yield reads(self.trace_requests)
        yield reads(self.read_trace)
        if self._desk.allows_writes:
            yield destroys(self.add_fault)
            yield adds(self.remove_faults, is_idempotent=True)
            yield destroys(self.set_clock)
            yield adds(self.take_snapshot)
            yield destroys(self.restore_snapshot)
            yield destroys(self.remove_snapshot)
            yield adds(self.begin_fork)
            yield destroys(self.end_fork)
            yield adds(self.begin_trace)
            yield destroys(self.end_trace)

    async def describe_control(self) -> CallToolResult:
        """The fault rules of the broker with what they injected, its clock, snapshots, forks and
        traces."""
        return answer(_state(await self._desk.ask_control(control_state)))

    async def trace_requests(
        self,
        seconds: Annotated[
            float, Field(description="How long to follow the requests.", gt=0, le=TRACE_S_MAX)
        ] = 5.0,
        api: ApiArgument = None,
        topic: TopicFilter = None,
        partition: PartitionFilter = None,
        client: ClientFilter = None,
        group: GroupFilter = None,
        transactional_id: TransactionFilter = None,
    ) -> CallToolResult:
        """Follow the requests that reach the broker for some seconds, with their responses.

        Passwords and tokens are hidden, and records left out. The newest requests are shown.
        """
        wanted = given_fields(
            api=api, topic=topic, partition=partition, client=client, group=group,
            transactional_id=transactional_id,
        )  # fmt: skip
        number = await self._desk.ask_control(begin_trace, wanted)
        try:
            await trio.sleep(seconds)
            found = await self._desk.ask_control(traced_requests, number, 0)
        finally:
            with trio.CancelScope(shield=True):
                await self._desk.ask_control(end_trace, number)
        return answer(_traced(found))

    async def read_trace(
        self,
        trace: Number,
        after: Annotated[int, Field(description="`last` of the answer before.", ge=0)] = 0,
    ) -> CallToolResult:
        """The newest requests of a trace that somebody has begun, with their responses."""
        return answer(_traced(await self._desk.ask_control(traced_requests, trace, after)))

    async def add_fault(
        self,
        preset: Annotated[
            Preset | None,
            Field(description="; ".join(f"{name}: {does}" for name, does in PRESETS.items())),
        ] = None,
        api: ApiArgument = None,
        topic: TopicFilter = None,
        partition: PartitionFilter = None,
        client: ClientFilter = None,
        group: GroupFilter = None,
        transactional_id: TransactionFilter = None,
        times: Annotated[Number | None, Field(description="Injections; null for no limit.")] = None,
        skip: Annotated[Number | None, Field(description="Requests to let pass first.")] = None,
        probability: Annotated[float | None, Field(ge=0, le=1)] = None,
        error: Annotated[
            str | None, Field(description="An error code such as NOT_LEADER_OR_FOLLOWER.")
        ] = None,
        delay_ms: Number | None = None,
        throttle_ms: Number | None = None,
        truncate: Annotated[
            Number | None, Field(description="Cut the response off after so many bytes.")
        ] = None,
        disconnect: Annotated[bool | None, Field(description="Close the connection.")] = None,
        silence: Annotated[bool | None, Field(description="Never answer.")] = None,
        die: Annotated[bool | None, Field(description="Kill the broker.")] = None,
        carried_out: Annotated[
            bool | None, Field(description="Carry the request out before the fault.")
        ] = None,
    ) -> CallToolResult:
        """Add a rule that injects a fault into requests that match; returns its number.

        Name a preset, or what to inject: an error, a delay, a disconnect. Set `times`, or remove
        the rule when you are done.
        """
        rule = given_fields(
            preset=preset, api=api, topic=topic, partition=partition, client=client, group=group,
            transactional_id=transactional_id, times=times, skip=skip, probability=probability,
            error=error, delay_ms=delay_ms, throttle_ms=throttle_ms, truncate=truncate,
            disconnect=disconnect, silence=silence, die=die, carried_out=carried_out,
        )  # fmt: skip
        return answer({"rule": await self._desk.ask_control(add_fault, rule)})

    async def remove_faults(
        self, rule: Annotated[Number | None, Field(description="Null removes all rules.")] = None
    ) -> CallToolResult:
        """Remove a fault rule, or all of them."""
        await self._desk.ask_control(remove_fault, rule)
        return answer({"removed": "all" if rule is None else rule})

    async def set_clock(
        self,
        advance_ms: Annotated[int, Field(ge=0, le=ADVANCE_MS_MAX)] = 0,
        held: Annotated[
            bool | None, Field(description="Stop the clock, or let it run again.")
        ] = None,
    ) -> CallToolResult:
        """Advance the broker's clock, whose timers fire, such as sessions and retention.

        Nothing turns the clock back; a snapshot does not have the time.
        """
        if held is not None:
            await self._desk.ask_control(hold, is_held=held)
        if advance_ms:
            await self._desk.ask_control(advance, advance_ms)
        state = await self._desk.ask_control(control_state)
        return answer(_clock(state))

    async def take_snapshot(self, name: SnapshotName) -> CallToolResult:
        """Keep what the broker holds now under a name."""
        await self._desk.ask_control(take_snapshot, name)
        return answer({"taken": name})

    async def restore_snapshot(self, name: SnapshotName) -> CallToolResult:
        """Restart the broker with what a snapshot has. What came after it is lost."""
        await self._desk.ask_control(restore_snapshot, name)
        return answer({"restored": name})

    async def remove_snapshot(self, name: SnapshotName) -> CallToolResult:
        """Remove a snapshot."""
        await self._desk.ask_control(remove_snapshot, name)
        return answer({"removed": name})

    async def begin_fork(
        self,
        snapshot: Annotated[
            str, Field(description="Empty for what the broker holds now.", max_length=200)
        ] = "",
    ) -> CallToolResult:
        """Start another broker on a copy of the data; returns its number and its address."""
        return answer({"fork": dict(await self._desk.ask_control(begin_fork, snapshot))})

    async def end_fork(self, fork: Number) -> CallToolResult:
        """End a fork, and remove its data."""
        await self._desk.ask_control(end_fork, fork)
        return answer({"ended": fork})

    async def begin_trace(
        self,
        api: ApiArgument = None,
        topic: TopicFilter = None,
        partition: PartitionFilter = None,
        client: ClientFilter = None,
        group: GroupFilter = None,
        transactional_id: TransactionFilter = None,
    ) -> CallToolResult:
        """Begin to keep the requests that match, until end_trace; returns the trace's number."""
        wanted = given_fields(
            api=api, topic=topic, partition=partition, client=client, group=group,
            transactional_id=transactional_id,
        )  # fmt: skip
        return answer({"trace": await self._desk.ask_control(begin_trace, wanted)})

    async def end_trace(self, trace: Number) -> CallToolResult:
        """End a trace, and drop the requests that it kept."""
        await self._desk.ask_control(end_trace, trace)
        return answer({"ended": trace})


def _clock(state: ControlState) -> Row:
    return {
        "now": time_of(state.now_ms),
        "now_ms": state.now_ms,
        "ahead_ms": state.ahead_ms,
        "is_held": state.is_held,
    }


def _state(state: ControlState) -> Row:
    faults, faults_left_out = fitted(state.faults, _fault)
    happened, happened_left_out = fitted(state.happened, dict, limit=20)
    return {
        "address": state.address,
        "clock": _clock(state),
        "faults": faults,
        "faults_left_out": faults_left_out,
        "injected": state.happened_count,
        "newest_injected": happened,
        "snapshots": [dict(each) for each in state.snapshots[:100]],
        "forks": [dict(each) for each in state.forks[:100]],
        "traces": [dict(each) for each in state.traces[:100]],
    } | present({"newest_injected_left_out": happened_left_out})


def _fault(row: FaultRow) -> Row:
    return {
        "rule": row.number,
        "fields": dict(row.fields),
        "matched": row.matched,
        "injected": row.happened,
        "is_used_up": row.is_used_up,
    }


def _traced(found: TracedRequests) -> Row:
    """The newest requests that have room, in their order."""
    rows, cut = fitted(found.rows[::-1], _request)
    return {"requests": rows[::-1], "last": found.last, "left_out": found.dropped + cut}


def _request(row: TracedRequestRow) -> Row:
    shown: Mapping[str, Any] = {
        "number": row.number,
        "time": time_of(row.time_ms),
        "client": shortened(row.client),
        "api": row.api,
        "version": row.version,
        "duration_ms": row.duration_ms,
    }
    return dict(shown) | present(
        {
            "partitions": list(row.partitions[:50]),
            "errors": list(row.errors[:50]),
            "fault": row.fault,
            "ending": row.ending,
            "request": shortened(row.request, MESSAGE_LENGTH_MAX),
            "response": shortened(row.response, MESSAGE_LENGTH_MAX),
        }
    )
