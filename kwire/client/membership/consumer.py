"""A member of a group by the consumer protocol (KIP-848): its coordinator deals the partitions out.

Each heartbeat says what the member has, if that has changed, and hears what it is to have.  What it
is to give up it gives up before it says so; only then others get it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, ClientError, Misuse, UnsupportedRequest, check
from kwire.client.membership.membership import OUTDATED, ROLE, OfGroup
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.codecs.uuids import random_uuid, uuid_text

REBALANCE_TIMEOUT_MS: Final = 300_000
"""Kafka's default of max.poll.interval.ms."""
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
FIRST_BEATS_S: Final = 1.0
"""Until there is a partition the coordinator is asked so often, whatever its interval."""
PATIENCE_S: Final = 10.0
"""How long: others give theirs up at their next heartbeat, every 5 s unless settings say more."""


class ConsumerProtocolMember(OfGroup):
    """See the module, and Membership."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
        super().__init__(cluster, group_id, topics)
        self.member_id = uuid_text(random_uuid(os.urandom))
        self.generation = JOIN_EPOCH
        self._told: list[TopicPartition] = []
        self._heartbeat_due = 0.0

    def join(self) -> list[TopicPartition]:
        """Come into the group, or take over what was told; returns what is this member's."""
        if self.generation == JOIN_EPOCH:
            self._come_in()
        while self.assignment != self._told:
            self.assignment = self._told
            self._beat(says_all=True)
        return self.assignment

    def heartbeat(self) -> bool:
        """False where it is to have others, or its epoch is over: it has nothing any more then."""
        if time.monotonic() >= self._heartbeat_due:
            self._beat(says_all=False)
        return self.generation != JOIN_EPOCH and self._told == self.assignment

    def leave(self) -> None:
        """What it had is for others at once."""
        if self.generation == JOIN_EPOCH:
            return
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, LEAVE_EPOCH)
        self._ask(request)
        self.generation = JOIN_EPOCH

    def _come_in(self) -> None:
        """A first member has all at once; a later one waits for a while for what others have."""
        self.assignment = []
        deadline = time.monotonic() + self._cluster.timeout_s
        while self.generation == JOIN_EPOCH:
            if not self._beat(says_all=True) and time.monotonic() > deadline:
                raise Misuse(f"group {self.group_id} did not take this member in in time")
        patience = time.monotonic() + PATIENCE_S
        while not self._told and self.generation != JOIN_EPOCH and time.monotonic() < patience:
            time.sleep(FIRST_BEATS_S)
            self._beat(says_all=False)

    def _beat(self, *, says_all: bool) -> bool:
        """Whether it was answered; raises what no further heartbeat can mend."""
        try:
            self._hear(self._say(says_all=says_all))
        except ClientError as error:
            if not self._may_go_on(error):
                raise
            self._cluster.tell_of_trouble(error)
            time.sleep(BACKOFF_S)
            return False
        return True

    def _say(self, *, says_all: bool) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.generation)
        if says_all:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self.topics
            request.topic_partitions = self._owned()
        connection = self._cluster.coordinator(self.group_id, ROLE)
        try:
            connection.version_for(request)
        except UnsupportedRequest:
            raise Misuse(
                f"{connection.address} has no groups of the consumer protocol: "
                "--group-protocol classic"
            ) from None
        reply: ConsumerGroupHeartbeatResponse = connection.call(request)
        check(reply.error_code, f"heartbeat in group {self.group_id}", reply.error_message)
        return reply

    def _owned(self) -> list[TopicPartitions]:
        ids = self._cluster.topic_ids(sorted({topic for topic, _ in self.assignment}))
        owned: dict[bytes, list[int]] = {}
        for topic, partition in self.assignment:
            if topic in ids:
                owned.setdefault(ids[topic], []).append(partition)
        return [TopicPartitions(topic_id, partitions) for topic_id, partitions in owned.items()]

    def _hear(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        self.generation = reply.member_epoch
        self._heartbeat_due = time.monotonic() + reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            names = {
                topic_id: name for name, topic_id in self._cluster.topic_ids(self.topics).items()
            }
            self._told = sorted(
                TopicPartition(names[topic.topic_id], partition)
                for topic in reply.assignment.topic_partitions
                if topic.topic_id in names
                for partition in topic.partitions
            )

    def _may_go_on(self, error: ClientError) -> bool:
        """Whether a further heartbeat can mend it; who is out comes in anew, with nothing."""
        code = error.code if isinstance(error, BrokerRefused) else None
        if code in OUTDATED:
            self.generation = JOIN_EPOCH
            self._told = []
            return True
        if code is not ErrorCode.GROUP_ID_NOT_FOUND:
            self._cluster.forget_coordinator(self.group_id)
        return error.retriable
