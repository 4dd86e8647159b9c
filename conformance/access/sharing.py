"""Rights on topics of a member of a share group, who reads two and may see one.

What it says of records and what it is given is told topic by topic; rights are looked at in each
request, of all that the session has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from kwire.codecs.messages import share_acknowledge as acknowledging
from kwire.codecs.messages import share_fetch as fetching
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import ShareFetchRequest
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import POLL_S, READY_TIMEOUT_S, Response, told_of_each
from kwire.conformance.access.senders import GROUP, READER, TOPIC
from kwire.conformance.access.stage import Stage, rule
from kwire.conformance.wire.peer import Reply

QUEUE, KEPT_TOPIC, LOST_TOPIC = "queue", "queued", "withdrawn"
MEMBER = "one"
WAIT_MS = 500
ACCEPT, NO_SUCH_KIND = 1, 9
Told = Iterator[tuple[str, list[str]]]


def play(stage: Stage) -> Told:
    stage.topics(KEPT_TOPIC, LOST_TOPIC)
    stage.find_coordinators(QUEUE)
    group = rule(READER, GROUP, QUEUE, "READ")
    describe = rule(READER, GROUP, QUEUE, "DESCRIBE")
    topics = [rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.give(group, describe, *topics)
    member = _Member(stage)
    member.join()
    yield from member.asks("a member of a share group")
    stage.take(topics[1])
    yield from member.asks("a member of a share group without a topic")
    stage.take(group)
    yield from member.asks("a member of a share group without the group")
    stage.give(group, topics[1])
    yield from member.asks("a member of a share group with all again")
    stage.take(group, describe, *topics)


class _Member:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._names = {stage.topic_ids[name]: name for name in (KEPT_TOPIC, LOST_TOPIC)}
        self._epoch = 0
        """Of the session."""

    def join(self) -> None:
        """Be given both topics, and read them: each is told of when the broker first does."""
        self._be_assigned()
        told: set[bytes] = set()
        deadline = time.monotonic() + READY_TIMEOUT_S
        while len(told) < len(self._names):
            assert time.monotonic() < deadline, "the topics are not read"
            fetch = self._fetch()
            fetch.share_session_epoch = self._epoch
            told.update(each.topic_id for each in self._reply(fetch, 2).responses)
            self._epoch += 1

    def _be_assigned(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        beat = ShareGroupHeartbeatRequest(QUEUE, MEMBER, 0, None, [KEPT_TOPIC, LOST_TOPIC])
        while True:
            response = self._reply(beat, 1)
            assignment = response.assignment
            if assignment is not None and len(assignment.topic_partitions) == 2:
                return
            assert time.monotonic() < deadline, f"nothing is given to the member: {response}"
            time.sleep(POLL_S)
            beat = ShareGroupHeartbeatRequest(QUEUE, MEMBER, response.member_epoch)

    def _reply(self, message: Message, version: int) -> Response:
        outcome = self._stage.ask(READER, message, version)
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def asks(self, who: str) -> Told:
        """Of both topics, of a session that goes on."""
        asked: list[tuple[str, Message]] = [
            ("share_group_describe v1", ShareGroupDescribeRequest([QUEUE])),
            ("share_fetch v2", self._fetch()),
            ("share_acknowledge v2", self._acknowledge(ACCEPT)),
            ("share_acknowledge v2, what cannot be,", self._acknowledge(NO_SUCH_KIND)),
        ]
        for what, message in asked:
            if isinstance(message, ShareFetchRequest | ShareAcknowledgeRequest):
                message.share_session_epoch = self._epoch
            response = self._reply(message, int(what.partition(" v")[2][0]))
            yield f"{what} of {who}", told_of_each(Reply(response), self._names)
            in_session = not isinstance(message, ShareGroupDescribeRequest)
            if in_session and not response.error_code:
                self._epoch += 1

    def _fetch(self) -> ShareFetchRequest:
        topics = [fetching.FetchTopic(each, [fetching.FetchPartition(0)]) for each in self._names]
        return ShareFetchRequest(QUEUE, MEMBER, 0, WAIT_MS, 1, max_records=10, topics=topics)

    def _acknowledge(self, kind: int) -> ShareAcknowledgeRequest:
        batch = acknowledging.AcknowledgementBatch(0, 0, [kind])
        topics = [
            acknowledging.AcknowledgeTopic(each, [acknowledging.AcknowledgePartition(0, [batch])])
            for each in self._names
        ]
        return ShareAcknowledgeRequest(QUEUE, MEMBER, 0, topics=topics)
