"""Sends requests to share coordinators on other brokers.

Requests for one broker are collected: it gets one network request at a time, each with all pending
requests of the same type and group.  If the broker cannot be reached or does not respond, the
answer is NETWORK_EXCEPTION.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kwire.codecs.primitives import Message
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.questions import (
    DeleteState,
    InitializeState,
    ReadState,
    ShareStateRequest,
    SummarizeState,
    WriteState,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, batches_of

log = logging.getLogger("kwire.share_groups")

PARTITIONS_MAX = 1_000
"""Partitions in one network request; the coordinator needs about 10 ms for them."""

PendingRequest = tuple[ShareStateRequest, Promise[ShareStateAnswer]]


class RequestForm(NamedTuple):
    """How to encode one type of request: constructors of its message, topics and partitions.

    `state` reads the share state from a partition of the response, if the type returns one.
    """

    request: Callable[[str, list[Any]], Message]
    topic: Callable[[bytes, list[Any]], Any]
    partition: Callable[[Any], Any]
    state: Callable[[Any], ShareState | None] = lambda result: None


def _write_data(request: WriteState) -> write_share_group_state.PartitionData:
    """Return the part of WriteShareGroupState about one partition."""
    written = request.written
    return write_share_group_state.PartitionData(
        request.key.partition,
        written.state_epoch,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        [
            write_share_group_state.StateBatch(
                batch.first, batch.last, batch.state, batch.delivery_count
            )
            for batch in written.batches
        ],
    )


def _state_of_read(result: read_share_group_state.PartitionResult) -> ShareState:
    """Return the state in a result of ReadShareGroupState.

    The snapshot epoch matters only to the share coordinator; the response does not have it.
    """
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        batches=tuple(batches_of(result.state_batches)),
    )


def _state_of_summary(result: read_share_group_state_summary.PartitionResult) -> ShareState:
    """Return the state in a result of ReadShareGroupStateSummary, which has no batches."""
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )


REQUEST_FORMS: dict[type[ShareStateRequest], RequestForm] = {
    InitializeState: RequestForm(
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.InitializeStateData,
        lambda request: initialize_share_group_state.PartitionData(
            request.key.partition, request.state_epoch, request.start_offset
        ),
    ),
    ReadState: RequestForm(
        read_share_group_state.ReadShareGroupStateRequest,
        read_share_group_state.ReadStateData,
        lambda request: read_share_group_state.PartitionData(
            request.key.partition, request.leader_epoch
        ),
        _state_of_read,
    ),
    WriteState: RequestForm(
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.WriteStateData,
        _write_data,
    ),
    SummarizeState: RequestForm(
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.ReadStateSummaryData,
        lambda request: read_share_group_state_summary.PartitionData(request.key.partition, -1),
        _state_of_summary,
    ),
    DeleteState: RequestForm(
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.DeleteStateData,
        lambda request: delete_share_group_state.PartitionData(request.key.partition),
    ),
}


class RemoteStates:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery) -> None:
        """`nursery` runs the tasks that send requests."""
        self._peers = peers
        self._gathering: RequestBatcher[PendingRequest] = RequestBatcher(
            nursery,
            # Two requests about one share partition never share a message: its response has one
            # result for the partition.
            lambda pending: (pending[0].key, id(pending)),
            self._send,
            items_max=PARTITIONS_MAX,
        )

    def ask(self, broker_id: int, request: ShareStateRequest) -> Promise[ShareStateAnswer]:
        promise = Promise[ShareStateAnswer]()
        self._gathering.add(broker_id, (request, promise))
        return promise

    async def _send(self, broker_id: int, pending: list[PendingRequest]) -> None:
        """Sends the pending requests to a broker.

        One request to the broker holds only requests of one kind about one group.
        """
        groups: dict[tuple[type[ShareStateRequest], str], list[PendingRequest]] = {}
        for entry in pending:
            request = entry[0]
            groups.setdefault((type(request), request.key.group_id), []).append(entry)
        for (request_type, group_id), entries in groups.items():
            await self._send_group(broker_id, REQUEST_FORMS[request_type], group_id, entries)

    async def _send_group(
        self, broker_id: int, form: RequestForm, group_id: str, pending: list[PendingRequest]
    ) -> None:
        """Sends requests of one type and group, and resolves their promises."""
        peer = self._peers.peer(broker_id, Role.SHARE_STATE)
        answers: dict[ShareKey, ShareStateAnswer] = {}
        try:
            response = await peer.call(_message(form, group_id, [entry[0] for entry in pending]))
        except PeerError as error:
            log.info(
                "Cannot reach the share coordinator on broker %d: %s. The requests are retried.",
                broker_id,
                error,
            )
        else:
            answers = _answers(form, group_id, response)
        missing = ShareStateAnswer(ErrorCode.NETWORK_EXCEPTION)
        for request, promise in pending:
            promise.resolve(answers.get(request.key, missing))


def _message(form: RequestForm, group_id: str, requests: Sequence[ShareStateRequest]) -> Message:
    """Return one request about several share partitions of a group."""
    topics: dict[bytes, list[Any]] = {}
    for request in requests:
        topics.setdefault(request.key.topic_id, []).append(form.partition(request))
    return form.request(group_id, [form.topic(*topic) for topic in topics.items()])


def _answers(form: RequestForm, group_id: str, response: Any) -> dict[ShareKey, ShareStateAnswer]:  # noqa: ANN401 - its
    """Return the results of a response by share partition; with an error there is no state."""
    return {
        ShareKey(group_id, topic.topic_id, result.partition): ShareStateAnswer(
            error := as_error_code(result.error_code),
            result.error_message,
            form.state(result) if error is ErrorCode.NONE else None,
        )
        for topic in response.results
        for result in topic.partitions
    }
