"""A broker whose ACLs change during a scene, and connections of the scene's users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import (
    POLL_S,
    READY_TIMEOUT_S,
    Response,
    access_lines,
    ask,
    connect,
)
from kwire.conformance.access.senders import (
    ADMIN,
    ALLOW,
    LITERAL,
    OPERATIONS,
    TOPIC,
    WITNESS,
)
from kwire.conformance.wire.peer import Address, ClientConnection, Outcome, Reply

_METADATA_VERSION, _PRODUCE_VERSION = 9, 9
_ACLS_VERSION = 3
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)


def rule(
    user: str,
    resource_type: int,
    name: str,
    operation: str,
    *,
    pattern: int = LITERAL,
    permission: int = ALLOW,
) -> AclCreation:
    """Return an ACL of one user, from any host."""
    number = OPERATIONS[operation]
    return AclCreation(resource_type, name, pattern, f"User:{user}", "*", number, permission)


class AccessStage:
    """Topics, ACLs, and one connection of each user."""

    def __init__(self, plain: Address, sasl: Address) -> None:
        self._addresses = (plain, sasl)
        self._peers: dict[str, ClientConnection] = {}
        self._markers = count(1)
        self.topic_ids: dict[str, bytes] = {}

    def peer(self, user: str) -> ClientConnection:
        """Return the user's connection; a new one if the broker has closed the last one."""
        peer = self._peers.get(user)
        if peer is None or not peer.usable:
            peer = self._peers[user] = connect(*self._addresses, user)
        return peer

    def ask(self, user: str, message: Message, version: int) -> Outcome:
        return ask(self.peer(user), message, version)

    def ask_as_admin(self, message: Message, version: int) -> Response:
        """Return the response to a request of the super user; fails if there is none."""
        outcome = self.ask(ADMIN, message, version)
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def ask_coordinator(self, message: Message, version: int) -> Response:
        """Return the super user's response from a coordinator; asks again until the coordinator is
        ready."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            reply = self.ask_as_admin(message, version)
            lines = access_lines(Reply(reply))
            if not any("COORDINATOR" in line for line in lines):
                return reply
            assert time.monotonic() < deadline, "the coordinators do not answer"
            time.sleep(POLL_S)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def find_coordinators(self, *keys: str) -> None:
        """Wait until these groups and transactional ids have coordinators."""
        for key_type in (0, 1):
            self.ask_coordinator(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=[*keys]), 4
            )

    def topics(self, *names: str) -> None:
        """Create topics of one partition, and write one record to each."""
        wanted = [CreatableTopic(name, 1, 1) for name in names]
        created = self.ask_as_admin(CreateTopicsRequest(wanted, 10_000), 7)
        for topic in created.topics:
            assert not topic.error_code, topic
            self.topic_ids[topic.name] = topic.topic_id
        for name in names:
            self.write(name)

    def write(self, topic: str) -> None:
        """Write one more record to the topic once it has a leader."""
        data = PartitionProduceData(0, build([Record(0, 0, None, b"x")]))
        request = ProduceRequest(None, 1, 10_000, [TopicProduceData(topic, partition_data=[data])])
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            reply = self.ask_as_admin(request, _PRODUCE_VERSION)
            error = reply.responses[0].partition_responses[0].error_code
            if error not in _NOT_YET:
                assert not error, reply
                return
            assert time.monotonic() < deadline, f"topic {topic} has no leader"
            time.sleep(POLL_S)

    def add_acls(self, *rules: AclCreation) -> None:
        """Create these ACLs and wait until the broker applies them."""
        self._create_acls(rules)
        self._wait_until_applied()

    def remove_acls(self, *rules: AclCreation) -> None:
        """Delete these ACLs and wait until the broker no longer applies them."""
        filters = [
            DeleteAclsFilter(
                each.resource_type,
                each.resource_name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in rules
        ]
        reply = self.ask_as_admin(DeleteAclsRequest(filters), _ACLS_VERSION)
        deleted = [result for result in reply.filter_results if len(result.matching_acls) == 1]
        assert len(deleted) == len(rules), reply
        self._wait_until_applied()

    def _create_acls(self, rules: Sequence[AclCreation]) -> None:
        reply = self.ask_as_admin(CreateAclsRequest(list(rules)), _ACLS_VERSION)
        assert not any(result.error_code for result in reply.results), reply

    def _wait_until_applied(self) -> None:
        """Wait until the broker applies all changes of ACLs so far.

        CreateAcls and DeleteAcls return before the broker applies a change, and it applies changes
        in order. So this adds one more ACL of another user, and waits until it is in force.
        """
        marker = f"marker-{next(self._markers)}"
        self._create_acls([rule(WITNESS, TOPIC, marker, "DESCRIBE")])
        request = MetadataRequest([MetadataRequestTopic(name=marker)], False)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            outcome = self.ask(WITNESS, request, _METADATA_VERSION)
            assert isinstance(outcome, Reply), outcome
            response: Response = outcome.message
            if response.topics[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return
            assert time.monotonic() < deadline, "the broker does not apply new ACLs"
            time.sleep(POLL_S)
