"""Random but valid histories of metadata records, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from kwire.codecs.messages import register_broker_record, register_controller_record
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.clear_elr_record import ClearElrRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.fence_broker_record import FenceBrokerRecord
from kwire.codecs.messages.no_op_record import NoOpRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.register_controller_record import RegisterControllerRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.unfence_broker_record import UnfenceBrokerRecord
from kwire.codecs.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.codecs.messages.unregister_controller_record import UnregisterControllerRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codecs.primitives import Message

NAMES = ["a", "a.b", "c"]
USERS = ["alice", "<default>", "b/c"]
MAYBE = st.none() | st.sampled_from(["x", "1", ""])


def uuid(number: int) -> bytes:
    """The number as a uuid."""
    return number.to_bytes(16, "big")


@dataclass
class History:
    """Draws records one after the other; each is valid after those before."""

    data: st.DataObject
    topics: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[bytes, int] = field(default_factory=dict)
    brokers: dict[int, int] = field(default_factory=dict)
    acls: list[bytes] = field(default_factory=list)
    count: int = 100

    def number(self, most: int) -> int:
        """A number from 0 to `most`."""
        return self.data.draw(st.integers(0, most))

    def fresh(self) -> int:
        """A number that was not drawn before: an epoch, or of a uuid."""
        self.count += 1
        return self.count

    def records(self, most: int = 40) -> list[Message]:
        """The records of a history, the level of metadata.version first."""
        drawn: list[Message] = [FeatureLevelRecord("metadata.version", 33)]
        for _ in range(self.data.draw(st.integers(0, most))):
            drawn.extend(self.data.draw(st.sampled_from(STEPS))(self))
        return drawn

    def ids(self, most: int = 3) -> list[int]:
        return self.data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=most, unique=True))

    # -- steps: each returns records

    def topic(self) -> list[Message]:
        name = self.data.draw(st.sampled_from(NAMES))
        if name in self.topics:
            return []
        topic_id = self.topics[name] = uuid(self.fresh())
        self.sizes[topic_id] = 0
        return [TopicRecord(name, topic_id), *self.partition(topic_id), *self.partition(topic_id)]

    def some_topic(self) -> bytes | None:
        if not self.topics:
            return None
        return self.data.draw(st.sampled_from(sorted(self.topics.values())))

    def partition(self, topic_id: bytes | None = None) -> list[Message]:
        topic_id = topic_id or self.some_topic()
        if topic_id is None:
            return []
        index, self.sizes[topic_id] = self.sizes[topic_id], self.sizes[topic_id] + 1
        replicas = self.ids()
        elr = self.data.draw(st.none() | st.just(replicas[:1]))
        return [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas[:1],
                leader=replicas[0],
                leader_epoch=self.number(3),
                partition_epoch=self.number(3),
                directories=[uuid(self.number(5)) for _ in replicas],
                eligible_leader_replicas=elr,
                last_known_elr=elr,
            )
        ]

    def change(self) -> list[Message]:
        topic_id = self.some_topic()
        if topic_id is None or not self.sizes[topic_id]:
            return []
        record = PartitionChangeRecord(self.number(self.sizes[topic_id] - 1), topic_id)
        maybe_ids = st.none() | st.lists(st.integers(1, 4), max_size=2, unique=True)
        record.isr = self.data.draw(maybe_ids)
        record.leader = self.data.draw(st.sampled_from([-2, -1, 1, 2]))
        record.leader_recovery_state = self.data.draw(st.sampled_from([-1, 0, 1]))
        record.eligible_leader_replicas = self.data.draw(maybe_ids)
        record.last_known_elr = self.data.draw(maybe_ids)
        record.adding_replicas = self.data.draw(maybe_ids)
        record.removing_replicas = self.data.draw(maybe_ids)
        if self.number(1):
            record.replicas = self.ids()
            record.directories = [uuid(self.number(5)) for _ in record.replicas]
        return [record]

    def remove_topic(self) -> list[Message]:
        name = self.data.draw(st.sampled_from(NAMES))
        topic_id = self.topics.pop(name, None)
        return [] if topic_id is None else [RemoveTopicRecord(topic_id)]

    def clear(self) -> list[Message]:
        return [ClearElrRecord(self.data.draw(st.sampled_from(["", *NAMES])))]

    def register(self) -> list[Message]:
        broker_id = 1 + self.number(3)
        epoch = self.brokers[broker_id] = self.fresh()
        endpoint = register_broker_record.BrokerEndpoint("PLAINTEXT", "h", 9, self.number(3))
        feature = register_broker_record.BrokerFeature("metadata.version", 7, 33)
        return [
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=uuid(self.fresh()),
                broker_epoch=epoch,
                end_points=[endpoint],
                features=[feature],
                rack=self.data.draw(MAYBE),
                fenced=bool(self.number(1)),
                log_dirs=[uuid(self.number(5))],
                cordoned_log_dirs=self.data.draw(st.sampled_from([None, [], [uuid(1)]])),
            )
        ]

    def some_broker(self) -> tuple[int, int] | None:
        if not self.brokers:
            return None
        return self.data.draw(st.sampled_from(sorted(self.brokers.items())))

    def change_broker(self) -> list[Message]:
        broker = self.some_broker()
        if broker is None:
            return []
        if self.number(3) == 0:
            is_fenced = bool(self.number(1))
            return [FenceBrokerRecord(*broker) if is_fenced else UnfenceBrokerRecord(*broker)]
        return [
            BrokerRegistrationChangeRecord(
                *broker,
                fenced=self.data.draw(st.sampled_from([-1, 0, 1])),
                in_controlled_shutdown=self.number(1),
                log_dirs=[uuid(each) for each in self.ids()] if self.number(1) else [],
                cordoned_log_dirs=self.data.draw(st.sampled_from([None, [], [uuid(2)]])),
            )
        ]

    def unregister(self) -> list[Message]:
        broker = self.some_broker()
        if broker is None:
            return []
        del self.brokers[broker[0]]
        return [UnregisterBrokerRecord(*broker)]

    def controller(self) -> list[Message]:
        controller_id = 100 + self.number(1)
        if self.number(2) == 0:
            return [UnregisterControllerRecord(controller_id)]
        endpoint = register_controller_record.ControllerEndpoint("CONTROLLER", "h", 9, 0)
        return [RegisterControllerRecord(controller_id, uuid(self.fresh()), False, [endpoint], [])]

    def config(self) -> list[Message]:
        resource = self.data.draw(st.sampled_from([2, 4, 16, 32]))
        names = sorted(self.topics) if resource == 2 else ["", "1"]
        if not names:
            return []
        name = self.data.draw(st.sampled_from(names))
        key = self.data.draw(st.sampled_from(["k", "l"]))
        return [ConfigRecord(resource, name, key, self.data.draw(MAYBE))]

    def quota(self) -> list[Message]:
        user = EntityData("user", self.data.draw(st.none() | st.sampled_from(USERS[::2])))
        client = EntityData("client-id", self.data.draw(st.none() | st.just("app")))
        entity = self.data.draw(st.sampled_from([[user], [client], [client, user]]))
        kind = self.data.draw(st.sampled_from(["producer_byte_rate", "request_percentage"]))
        value = self.data.draw(st.floats(0.1, 1e9))
        return [ClientQuotaRecord(entity, kind, value, bool(self.number(1)))]

    def credential(self) -> list[Message]:
        user = self.data.draw(st.sampled_from(USERS[::2]))
        mechanism = 1 + self.number(1)
        if self.number(1):
            return [RemoveUserScramCredentialRecord(user, mechanism)]
        salt = bytes([self.number(255)])
        return [UserScramCredentialRecord(user, mechanism, salt, b"s", b"k", 4096)]

    def acl(self) -> list[Message]:
        if self.acls and self.number(1):
            return [RemoveAccessControlEntryRecord(self.acls.pop(self.number(len(self.acls) - 1)))]
        acl_id = uuid(self.fresh())
        self.acls.append(acl_id)
        # A controller gives each entry only one id.
        principal = f"User:{self.fresh()}"
        return [AccessControlEntryRecord(acl_id, 2, "a", 3, principal, "10.0.0.0/8", 3, 3)]

    def token(self) -> list[Message]:
        token_id = self.data.draw(st.sampled_from(["t", "u"]))
        if self.number(1):
            return [RemoveDelegationTokenRecord(token_id)]
        return [DelegationTokenRecord("User:a", "User:b", ["User:c"], 1, 9, self.fresh(), token_id)]

    def producer_ids(self) -> list[Message]:
        return [ProducerIdsRecord(1, 1, 1000 * self.fresh())]

    def feature(self) -> list[Message]:
        return [FeatureLevelRecord("group.version", self.number(1))]

    def nothing(self) -> list[Message]:
        return [NoOpRecord()]


STEPS: list[Callable[[History], list[Message]]] = [
    History.topic,
    History.partition,
    History.change,
    History.change,
    History.change,
    History.remove_topic,
    History.clear,
    History.register,
    History.change_broker,
    History.change_broker,
    History.unregister,
    History.controller,
    History.config,
    History.quota,
    History.credential,
    History.acl,
    History.token,
    History.producer_ids,
    History.feature,
    History.nothing,
]
