"""A member of a share group (KIP-932).

Several members may read the same partition.  Nobody owns it, so a new assignment applies at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, ClientError, Misuse, UnsupportedRequest, check
from kwire.client.membership.membership import OUTDATED, ROLE
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.codecs.uuids import random_uuid, uuid_text

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
FIRST_BEATS_S: Final = 1.0
"""The heartbeat interval until the member has a partition, instead of the coordinator's."""


class ShareMember:
    """A member; its owner has to call `beat` often."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
        """The member generates its own id, a random UUID.  Nothing is sent until the first
        heartbeat."""
        self.group_id = group_id
        self.topics = sorted(set(topics))
        self.member_id = uuid_text(random_uuid(os.urandom))
        self.epoch = JOIN_EPOCH
        self.assignment: list[TopicPartition] = []
        self._cluster = cluster
        self._due = 0.0

    def beat(self) -> None:
        """Send a heartbeat if one is due, and apply its response.

        Raises errors that are not retriable.
        """
        if time.monotonic() < self._due:
            return
        try:
            self._apply(self._send_heartbeat())
        except ClientError as error:
            self._handle(error)

    def leave(self) -> None:
        """Leave the group, if this member has joined it."""
        if self.epoch != JOIN_EPOCH:
            request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, LEAVE_EPOCH)
            self._cluster.coordinator(self.group_id, ROLE).call(request)
            self.epoch = JOIN_EPOCH

    def _send_heartbeat(self) -> ShareGroupHeartbeatResponse:
        """Sends a heartbeat to the coordinator; the first one joins the group with the subscribed
        topics.  Raises Misuse if the broker does not support share groups."""
        request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch)
        if self.epoch == JOIN_EPOCH:
            request.subscribed_topic_names = self.topics
        connection = self._cluster.coordinator(self.group_id, ROLE)
        try:
            connection.version_for(request)
        except UnsupportedRequest:
            raise Misuse(f"{connection.address} does not support share groups") from None
        reply: ShareGroupHeartbeatResponse = connection.call(request)
        check(reply.error_code, f"heartbeat in group {self.group_id}", reply.error_message)
        return reply

    def _apply(self, reply: ShareGroupHeartbeatResponse) -> None:
        """Stores the member epoch, the assignment if the response has one, and the time of the next
        heartbeat.  Without partitions, heartbeats are more frequent, so that the first assignment
        arrives soon."""
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            ids = self._cluster.topic_ids(self.topics)
            names = {topic_id: name for name, topic_id in ids.items()}
            self.assignment = sorted(
                TopicPartition(names[topic.topic_id], partition)
                for topic in reply.assignment.topic_partitions
                if topic.topic_id in names
                for partition in topic.partitions
            )
        wait_s = reply.heartbeat_interval_ms / 1000 if self.assignment else FIRST_BEATS_S
        self._due = time.monotonic() + wait_s

    def _handle(self, error: ClientError) -> None:
        """Prepare the next heartbeat after an error.  Raises it if it is not retriable.

        A member whose epoch is over joins again.
        """
        self._due = time.monotonic() + BACKOFF_S
        if isinstance(error, BrokerRefused) and error.code in OUTDATED:
            self.epoch, self.assignment = JOIN_EPOCH, []
            return
        self._cluster.forget_coordinator(self.group_id)
        if not error.retriable:
            raise error
        self._cluster.tell_of_trouble(error)
