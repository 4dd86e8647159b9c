"""Questions to share coordinators on other brokers.

A broker is asked one request after the other, each about as many partitions of a group as there are
questions of the same kind by then.  Who is not reached, or does not answer, is NETWORK_EXCEPTION.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import trio

from kwire.client.errors import as_error_code
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kwire.codecs.primitives import Message
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.questions import Begin, Forget, Question, Read, Summarize, Write
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, batches_of

log = logging.getLogger("kwire.sharing.remote_states")

PARTITIONS_MAX = 1_000
"""In one request: some 10 ms of the coordinator's time."""

Waiting = tuple[Question, Promise[Answer]]


class Form(NamedTuple):
    """How a kind of question is put: the request of a group, its topics and its partitions."""

    request: Callable[[str, list[Any]], Message]
    topic: Callable[[bytes, list[Any]], Any]
    partition: Callable[[Any], Any]
    state: Callable[[Any], ShareState | None] = lambda result: None


def _written(question: Write) -> write_share_group_state.PartitionData:
    written = question.written
    return write_share_group_state.PartitionData(
        question.key.partition,
        written.state_epoch,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        [
            write_share_group_state.StateBatch(
                each.first, each.last, each.state, each.delivery_count
            )
            for each in written.batches
        ],
    )


def _read(result: read_share_group_state.PartitionResult) -> ShareState:
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        batches=tuple(batches_of(result.state_batches)),
    )


def _summarized(result: read_share_group_state_summary.PartitionResult) -> ShareState:
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )


FORMS: dict[type[Question], Form] = {
    Begin: Form(
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.InitializeStateData,
        lambda asked: initialize_share_group_state.PartitionData(
            asked.key.partition, asked.state_epoch, asked.start_offset
        ),
    ),
    Read: Form(
        read_share_group_state.ReadShareGroupStateRequest,
        read_share_group_state.ReadStateData,
        lambda asked: read_share_group_state.PartitionData(asked.key.partition, asked.leader_epoch),
        _read,
    ),
    Write: Form(
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.WriteStateData,
        _written,
    ),
    Summarize: Form(
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.ReadStateSummaryData,
        lambda asked: read_share_group_state_summary.PartitionData(asked.key.partition, -1),
        _summarized,
    ),
    Forget: Form(
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.DeleteStateData,
        lambda asked: delete_share_group_state.PartitionData(asked.key.partition),
    ),
}


class RemoteStates:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery) -> None:
        self._peers = peers
        self._gathering: RequestBatcher[Waiting] = RequestBatcher(
            nursery,
            lambda waiting: (waiting[0].key, id(waiting)),
            self._send,
            items_max=PARTITIONS_MAX,
        )

    def ask(self, broker_id: int, question: Question) -> Promise[Answer]:
        promise = Promise[Answer]()
        self._gathering.add(broker_id, (question, promise))
        return promise

    async def _send(self, broker_id: int, asked: list[Waiting]) -> None:
        alike: dict[tuple[type[Question], str], list[Waiting]] = {}
        for waiting in asked:
            question = waiting[0]
            alike.setdefault((type(question), question.key.group_id), []).append(waiting)
        for (kind, group_id), together in alike.items():
            await self._send_alike(broker_id, FORMS[kind], group_id, together)

    async def _send_alike(
        self, broker_id: int, form: Form, group_id: str, asked: list[Waiting]
    ) -> None:
        peer = self._peers.peer(broker_id, Role.SHARE_STATE)
        answers: dict[ShareKey, Answer] = {}
        try:
            response = await peer.call(_request(form, group_id, [each for each, _ in asked]))
        except PeerError as problem:
            log.info("the share coordinator on broker %d: %s", broker_id, problem)
        else:
            answers = _answers(form, group_id, response)
        missing = Answer(ErrorCode.NETWORK_EXCEPTION)
        for question, promise in asked:
            promise.resolve(answers.get(question.key, missing))


def _request(form: Form, group_id: str, questions: Sequence[Question]) -> Message:
    topics: dict[bytes, list[Any]] = {}
    for question in questions:
        topics.setdefault(question.key.topic_id, []).append(form.partition(question))
    return form.request(group_id, [form.topic(*each) for each in topics.items()])


def _answers(form: Form, group_id: str, response: Any) -> dict[ShareKey, Answer]:  # noqa: ANN401 - its
    return {
        ShareKey(group_id, topic.topic_id, result.partition): Answer(
            error := as_error_code(result.error_code),
            result.error_message,
            form.state(result) if error is ErrorCode.NONE else None,
        )
        for topic in response.results
        for result in topic.partitions
    }
