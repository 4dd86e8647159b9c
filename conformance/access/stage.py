"""A broker on which rights are given and taken, and what it tells users meanwhile."""

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
    ask,
    connect,
    told_of_each,
)
from kwire.conformance.access.senders import (
    ADMIN,
    ALLOW,
    LITERAL,
    OPERATIONS,
    TOPIC,
    WITNESS,
)
from kwire.conformance.wire.peer import Address, Outcome, Peer, Reply

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
    number = OPERATIONS[operation]
    return AclCreation(resource_type, name, pattern, f"User:{user}", "*", number, permission)


class Stage:
    """Topics, rights, and a connection of each user's."""

    def __init__(self, plain: Address, sasl: Address) -> None:
        self._addresses = (plain, sasl)
        self._peers: dict[str, Peer] = {}
        self._markers = count(1)
        self.topic_ids: dict[str, bytes] = {}

    def peer(self, user: str) -> Peer:
        """The user's connection; a new one where the broker has closed it."""
        known = self._peers.get(user)
        if known is None or not known.usable:
            known = self._peers[user] = connect(*self._addresses, user)
        return known

    def ask(self, user: str, message: Message, version: int) -> Outcome:
        return ask(self.peer(user), message, version)

    def sure(self, message: Message, version: int) -> Response:
        """What the super user is answered, which must be an answer."""
        outcome = self.ask(ADMIN, message, version)
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def coordinated(self, message: Message, version: int) -> Response:
        """What the super user is answered by a coordinator, as soon as there is one."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            reply = self.sure(message, version)
            told = told_of_each(Reply(reply))
            if not any("COORDINATOR" in each for each in told):
                return reply
            assert time.monotonic() < deadline, "the coordinators do not answer"
            time.sleep(POLL_S)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def find_coordinators(self, *keys: str) -> None:
        """Have there be coordinators, of groups and of transactions, for these."""
        for key_type in (0, 1):
            self.coordinated(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[*keys]), 4)

    def topics(self, *names: str) -> None:
        """Topics of one partition with one record."""
        wanted = [CreatableTopic(name, 1, 1) for name in names]
        made = self.sure(CreateTopicsRequest(wanted, 10_000), 7)
        for each in made.topics:
            assert not each.error_code, each
            self.topic_ids[each.name] = each.topic_id
        for name in names:
            self.write(name)

    def write(self, topic: str) -> None:
        """One more record, as soon as somebody leads the topic."""
        data = PartitionProduceData(0, build([Record(0, 0, None, b"x")]))
        request = ProduceRequest(None, 1, 10_000, [TopicProduceData(topic, partition_data=[data])])
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            reply = self.sure(request, _PRODUCE_VERSION)
            error = reply.responses[0].partition_responses[0].error_code
            if error not in _NOT_YET:
                assert not error, reply
                return
            assert time.monotonic() < deadline, f"nobody leads {topic}"
            time.sleep(POLL_S)

    def give(self, *rules: AclCreation) -> None:
        """Have the rules be there, and the broker go by them."""
        self._create(rules)
        self._settle()

    def take(self, *rules: AclCreation) -> None:
        """Have the rules be gone, and the broker no longer go by them."""
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
        reply = self.sure(DeleteAclsRequest(filters), _ACLS_VERSION)
        gone = [result for result in reply.filter_results if len(result.matching_acls) == 1]
        assert len(gone) == len(rules), reply
        self._settle()

    def _create(self, rules: Sequence[AclCreation]) -> None:
        reply = self.sure(CreateAclsRequest(list(rules)), _ACLS_VERSION)
        assert not any(each.error_code for each in reply.results), reply

    def _settle(self) -> None:
        """Rules are answered before a broker goes by them, and it hears of them in their order:
        so one of another user's is added, and waited for."""
        marker = f"marker-{next(self._markers)}"
        self._create([rule(WITNESS, TOPIC, marker, "DESCRIBE")])
        asked = MetadataRequest([MetadataRequestTopic(name=marker)], False)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            outcome = self.ask(WITNESS, asked, _METADATA_VERSION)
            assert isinstance(outcome, Reply), outcome
            told: Response = outcome.message
            if told.topics[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return
            assert time.monotonic() < deadline, "the broker does not hear of new rules"
            time.sleep(POLL_S)
