"""Rights of a member of a share group on the two topics that it reads.

ShareFetch and ShareAcknowledge have results for each topic. Both brokers check the rights on all
topics of the session in each request.
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
from kwire.conformance.access.asking import POLL_S, READY_TIMEOUT_S, Response, access_lines
from kwire.conformance.access.senders import GROUP, READER, TOPIC
from kwire.conformance.access.stage import AccessStage, rule
from kwire.conformance.wire.peer import Reply

QUEUE, KEPT_TOPIC, LOST_TOPIC = "queue", "queued", "withdrawn"
MEMBER = "one"
WAIT_MS = 500
ACCEPT, NO_SUCH_KIND = 1, 9
SceneAnswers = Iterator[tuple[str, list[str]]]


def play(stage: AccessStage) -> SceneAnswers:
    """Yield the answers that a member of a share group gets while its rights change."""
    stage.topics(KEPT_TOPIC, LOST_TOPIC)
    stage.find_coordinators(QUEUE)
    group = rule(READER, GROUP, QUEUE, "READ")
    describe = rule(READER, GROUP, QUEUE, "DESCRIBE")
    topics = [rule(READER, TOPIC, name, "READ") for name in (KEPT_TOPIC, LOST_TOPIC)]
    stage.add_acls(group, describe, *topics)
    member = _ShareMember(stage)
    member.join()
    yield from member.answers("a member of a share group")
    stage.remove_acls(topics[1])
    yield from member.answers("a member of a share group without a topic")
    stage.remove_acls(group)
    yield from member.answers("a member of a share group without the group")
    stage.add_acls(group, topics[1])
    yield from member.answers("a member of a share group with all again")
    stage.remove_acls(group, describe, *topics)


class _ShareMember:
    def __init__(self, stage: AccessStage) -> None:
        self._stage = stage
        self._names = {stage.topic_ids[name]: name for name in (KEPT_TOPIC, LOST_TOPIC)}
        self._epoch = 0
        """The epoch of the share session."""

    def join(self) -> None:
        """Get both topics assigned, and fetch until the broker has sent records of each one."""
        self._wait_for_assignment()
        seen: set[bytes] = set()
        deadline = time.monotonic() + READY_TIMEOUT_S
        while len(seen) < len(self._names):
            assert time.monotonic() < deadline, "the topics are not read"
            fetch = self._fetch()
            fetch.share_session_epoch = self._epoch
            seen.update(topic.topic_id for topic in self._reply(fetch, 2).responses)
            self._epoch += 1

    def _wait_for_assignment(self) -> None:
        """Send heartbeats until both topics are assigned; fail after READY_TIMEOUT_S seconds.

        Only the first heartbeat has the subscription, the others name the member's epoch.
        """
        deadline = time.monotonic() + READY_TIMEOUT_S
        beat = ShareGroupHeartbeatRequest(QUEUE, MEMBER, 0, None, [KEPT_TOPIC, LOST_TOPIC])
        while True:
            response = self._reply(beat, 1)
            assignment = response.assignment
            if assignment is not None and len(assignment.topic_partitions) == 2:
                return
            assert time.monotonic() < deadline, f"the member gets no topics: {response}"
            time.sleep(POLL_S)
            beat = ShareGroupHeartbeatRequest(QUEUE, MEMBER, response.member_epoch)

    def _reply(self, message: Message, version: int) -> Response:
        outcome = self._stage.ask(READER, message, version)
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def answers(self, who: str) -> SceneAnswers:
        """Yield the responses to requests about both topics in the current session."""
        requests: list[tuple[str, Message]] = [
            ("share_group_describe v1", ShareGroupDescribeRequest([QUEUE])),
            ("share_fetch v2", self._fetch()),
            ("share_acknowledge v2", self._acknowledge(ACCEPT)),
            ("share_acknowledge v2, what cannot be,", self._acknowledge(NO_SUCH_KIND)),
        ]
        for title, message in requests:
            if isinstance(message, ShareFetchRequest | ShareAcknowledgeRequest):
                message.share_session_epoch = self._epoch
            response = self._reply(message, int(title.partition(" v")[2][0]))
            yield f"{title} of {who}", access_lines(Reply(response), self._names)
            in_session = not isinstance(message, ShareGroupDescribeRequest)
            if in_session and not response.error_code:
                self._epoch += 1

    def _fetch(self) -> ShareFetchRequest:
        topics = [fetching.FetchTopic(each, [fetching.FetchPartition(0)]) for each in self._names]
        return ShareFetchRequest(QUEUE, MEMBER, 0, WAIT_MS, 1, max_records=10, topics=topics)

    def _acknowledge(self, kind: int) -> ShareAcknowledgeRequest:
        """Return a request that acknowledges the first record of each topic in this way."""
        batch = acknowledging.AcknowledgementBatch(0, 0, [kind])
        topics = [
            acknowledging.AcknowledgeTopic(each, [acknowledging.AcknowledgePartition(0, [batch])])
            for each in self._names
        ]
        return ShareAcknowledgeRequest(QUEUE, MEMBER, 0, topics=topics)
