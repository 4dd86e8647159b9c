"""A member of a group that uses the consumer protocol (KIP-848), where the coordinator assigns.

A heartbeat carries the partitions that the member owns, if they have changed.  Its response carries
the assignment.  The member first gives up partitions and then reports that in a heartbeat.  Only
then does the coordinator assign them to others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, ClientError, Misuse, UnsupportedRequest, check
from kwire.client.membership.membership import OUTDATED, ROLE, GroupMembership
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
"""The heartbeat interval until the member has a partition, instead of the coordinator's."""
PATIENCE_S: Final = 10.0
"""How long a new member waits for a partition.  Others give partitions up at their next heartbeat,
by default within 5 s."""


class ConsumerProtocolMember(GroupMembership):
    """A membership by the consumer protocol; see the module and Membership."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
        """The member generates its own id, a random UUID.  Nothing is sent until the first
        heartbeat."""
        super().__init__(cluster, group_id, topics)
        self.member_id = uuid_text(random_uuid(os.urandom))
        self.generation = JOIN_EPOCH
        self._received: list[TopicPartition] = []
        """The assignment in the last response that had one."""
        self._heartbeat_due = 0.0

    def join(self) -> list[TopicPartition]:
        """Join the group, or take over a changed assignment.  Returns the assignment."""
        if self.generation == JOIN_EPOCH:
            self._join_group()
        while self.assignment != self._received:
            self.assignment = self._received
            self._beat(full=True)
        return self.assignment

    def heartbeat(self) -> bool:
        """Send a heartbeat if one is due.

        Returns False if the assignment has changed, or if the epoch is over; then the member owns
        no partitions.
        """
        if time.monotonic() >= self._heartbeat_due:
            self._beat(full=False)
        return self.generation != JOIN_EPOCH and self._received == self.assignment

    def leave(self) -> None:
        """Leave the group, so that others get this member's partitions at once."""
        if self.generation == JOIN_EPOCH:
            return
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, LEAVE_EPOCH)
        self._call(request)
        self.generation = JOIN_EPOCH

    def _join_group(self) -> None:
        """Join, and wait for partitions for up to PATIENCE_S.

        The first member of a group gets all partitions at once.  A later member has to wait until
        others give some up.
        """
        self.assignment = []
        deadline = time.monotonic() + self._cluster.timeout_s
        while self.generation == JOIN_EPOCH:
            if not self._beat(full=True) and time.monotonic() > deadline:
                raise Misuse(f"group {self.group_id} did not accept this member in time")
        patience = time.monotonic() + PATIENCE_S
        while not self._received and self.generation != JOIN_EPOCH and time.monotonic() < patience:
            time.sleep(FIRST_BEATS_S)
            self._beat(full=False)

    def _beat(self, *, full: bool) -> bool:
        """Send a heartbeat and apply its response.  Returns False after a retriable error.

        Raises other errors.
        """
        try:
            self._apply(self._send_heartbeat(full=full))
        except ClientError as error:
            if not self._may_retry(error):
                raise
            self._cluster.tell_of_trouble(error)
            time.sleep(BACKOFF_S)
            return False
        return True

    def _send_heartbeat(self, *, full: bool) -> ConsumerGroupHeartbeatResponse:
        """The response to a heartbeat; a `full` one has subscription and owned partitions."""
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.generation)
        if full:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self.topics
            request.topic_partitions = self._owned()
        connection = self._cluster.coordinator(self.group_id, ROLE)
        try:
            connection.version_for(request)
        except UnsupportedRequest:
            raise Misuse(
                f"{connection.address} does not support the consumer protocol: "
                "use --group-protocol classic"
            ) from None
        reply: ConsumerGroupHeartbeatResponse = connection.call(request)
        check(reply.error_code, f"heartbeat in group {self.group_id}", reply.error_message)
        return reply

    def _owned(self) -> list[TopicPartitions]:
        """Return the partitions that this member owns, by topic id.  Topics that no longer exist
        have no id and are left out."""
        ids = self._cluster.topic_ids(sorted({topic for topic, _ in self.assignment}))
        owned: dict[bytes, list[int]] = {}
        for topic, partition in self.assignment:
            if topic in ids:
                owned.setdefault(ids[topic], []).append(partition)
        return [TopicPartitions(topic_id, partitions) for topic_id, partitions in owned.items()]

    def _apply(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        """Stores the member epoch, the time of the next heartbeat and, if the response has one, the
        assignment.  A response without an assignment leaves the last one valid."""
        self.generation = reply.member_epoch
        self._heartbeat_due = time.monotonic() + reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            names = {
                topic_id: name for name, topic_id in self._cluster.topic_ids(self.topics).items()
            }
            self._received = sorted(
                TopicPartition(names[topic.topic_id], partition)
                for topic in reply.assignment.topic_partitions
                if topic.topic_id in names
                for partition in topic.partitions
            )

    def _may_retry(self, error: ClientError) -> bool:
        """Whether another heartbeat may succeed after this error.

        A member whose epoch is over joins again and owns no partitions.
        """
        code = error.code if isinstance(error, BrokerRefused) else None
        if code in OUTDATED:
            self.generation = JOIN_EPOCH
            self._received = []
            return True
        if code is not ErrorCode.GROUP_ID_NOT_FOUND:
            self._cluster.forget_coordinator(self.group_id)
        return error.retriable
