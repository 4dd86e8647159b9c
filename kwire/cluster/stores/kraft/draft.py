"""The changes that the records of one batch make to an image (pure).

A draft collects what the records say, and makes the next image of it once.  So a batch costs time
in proportion to its records, and to the partitions of the topics that they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.credentials import MECHANISMS, user_key
from kwire.cluster.metadata.delta import Touched
from kwire.cluster.metadata.entities import entity_key
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    KraftPartitionImage,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.metadata.persistent_map import PersistentMap
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.kraft.records import BadMetadata
from kwire.cluster.stores.kraft.states import (
    NO_PARTITION,
    changed_broker,
    changed_partition,
    controller_of,
    quota_text,
    registered_broker,
    registered_partition,
    without_eligible,
)
from kwire.cluster.stores.kraft.user_records import credential_text, token_of
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.clear_elr_record import ClearElrRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord
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
from kwire.codecs.messages.zk_migration_state_record import ZkMigrationStateRecord
from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_text

Rule = tuple[ResourcePattern, AccessControlEntry]
"""One access control entry and the resources that it is on."""
AclIds = PersistentMap[bytes, Rule]
"""Access control entries by the ids that the metadata log gives them."""

FENCED, UNFENCED = 1, -1
"""BrokerRegistrationChangeRecord.fenced; 0 changes nothing."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _DraftTopic:
    """A topic that is new or changes; `partitions` are those of the next image."""

    name: str
    id: bytes
    partitions: list[KraftPartitionImage]


@dataclass(slots=True)
class ImageDraft:
    """See the module.  A draft may take the records of several batches."""

    before: ClusterImage
    acl_ids: AclIds
    topics: dict[str, _DraftTopic | None] = field(default_factory=dict)
    names: dict[bytes, str | None] = field(default_factory=dict)
    configs: dict[ResourceKey, dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, tuple[BrokerImage, bool] | None] = field(default_factory=dict)
    """New and changed brokers, and whether each is fenced."""
    controllers: dict[int, ControllerImage | None] = field(default_factory=dict)
    rules: dict[bytes, Rule | None] = field(default_factory=dict)
    tokens: dict[str, DelegationToken | None] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    next_producer_id: int | None = None

    def add(self, record: Message) -> None:
        """Take one record.  Raises BadMetadata if it contradicts the metadata before it."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise BadMetadata(f"{type(record).__name__} cannot be replayed")
        handler(self, record)

    # -- topics

    def _topic(self, topic_id: bytes) -> _DraftTopic:
        """Return the topic of that id, ready to be changed."""
        if topic_id in self.names:
            name = self.names[topic_id]
        else:
            name = self.before.names_by_id.get(topic_id)
        if name is None:
            raise BadMetadata(f"no topic has the id {uuid_text(topic_id)}")
        return self._named(name)

    def _named(self, name: str) -> _DraftTopic:
        """Return the topic of that name, ready to be changed."""
        if name not in self.topics:
            known = self.before.topics.get(name)
            if known is None:
                raise BadMetadata(f"no topic is called {name}")
            self.topics[name] = _DraftTopic(
                name, known.id, [_kraft(each) for each in known.partitions]
            )
        topic = self.topics[name]
        if topic is None:
            raise BadMetadata(f"no topic is called {name}")
        return topic

    def _add_topic(self, record: TopicRecord) -> None:
        if self._known(record.name) is not None:
            raise BadMetadata(f"topic {record.name} exists already")
        self.topics[record.name] = _DraftTopic(record.name, record.topic_id, [])
        self.names[record.topic_id] = record.name

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._topic(record.topic_id).name
        self.topics[name] = self.names[record.topic_id] = None
        self.configs[TOPIC_RESOURCE, name] = {}

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self._topic(record.topic_id).partitions
        lacking = record.partition_id + 1 - len(partitions)
        partitions.extend([NO_PARTITION] * lacking)
        partitions[record.partition_id] = registered_partition(record)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic, index = self._topic(record.topic_id), record.partition_id
        if not 0 <= index < len(topic.partitions) or topic.partitions[index] is NO_PARTITION:
            raise BadMetadata(f"partition {topic.name}-{index} does not exist")
        topic.partitions[index] = changed_partition(topic.partitions[index], record)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """Empty the ELR of a topic, or of all topics.  An unknown topic has none."""
        names = [record.topic_name] if record.topic_name else [*self.topics, *self.before.topics]
        for name in dict.fromkeys(names):
            if self._has_eligible(name):
                topic = self._named(name)
                topic.partitions = [without_eligible(each) for each in topic.partitions]

    def _known(self, name: str) -> _DraftTopic | TopicImage | None:
        """Return the topic of that name as it is now, or None; not to be changed."""
        return self.topics[name] if name in self.topics else self.before.topics.get(name)

    def _has_eligible(self, name: str) -> bool:
        topic = self._known(name)
        return topic is not None and any(
            each.eligible or each.last_eligible for each in topic.partitions
        )

    # -- brokers and controllers

    def _broker(self, broker_id: int, epoch: int) -> tuple[BrokerImage, bool]:
        """Return a registered broker and whether it is fenced."""
        if broker_id in self.brokers:
            known = self.brokers[broker_id]
        elif broker_id in self.before.registered:
            known = self.before.registered[broker_id], broker_id not in self.before.brokers
        else:
            known = None
        if known is None:
            raise BadMetadata(f"broker {broker_id} is not registered")
        if known[0].epoch != epoch:
            raise BadMetadata(
                f"broker {broker_id} is registered with epoch {known[0].epoch}, not {epoch}"
            )
        return known

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = registered_broker(record), record.fenced

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker, is_fenced = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced not in (0, FENCED, UNFENCED):
            raise BadMetadata(f"broker {broker.id} has the unknown fencing {record.fenced}")
        if record.fenced:
            is_fenced = record.fenced == FENCED
        self.brokers[broker.id] = changed_broker(broker, record), is_fenced

    def _fence(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)[0], True

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)[0], False

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.brokers[record.broker_id] = None

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = controller_of(record)

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self.controllers[record.controller_id] = None

    # -- configs, quotas and credentials

    def _configs(self, key: ResourceKey) -> dict[str, str]:
        """Return the configs of a resource, ready to be changed."""
        if key not in self.configs:
            self.configs[key] = dict(self.before.configs_of(*key))
        return self.configs[key]

    def _set_config(self, key: ResourceKey, name: str, value: str | None) -> None:
        configs = self._configs(key)
        if value is None:
            configs.pop(name, None)
        else:
            configs[name] = value

    def _config(self, record: ConfigRecord) -> None:
        key = record.resource_type, record.resource_name
        self._set_config(key, record.name, record.value)

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = {part.entity_type: part.entity_name for part in record.entity}
        text = None if record.remove else quota_text(entity, record.key, record.value)
        self._set_config(entity_key(entity), record.key, text)

    def _add_credential(self, record: UserScramCredentialRecord) -> None:
        mechanism = _mechanism(record.mechanism)
        self._set_config(user_key(record.name), mechanism, credential_text(record))

    def _remove_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self._set_config(user_key(record.name), _mechanism(record.mechanism), None)

    # -- access control entries, tokens, producer ids, features

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self.rules[record.id] = (
            ResourcePattern(record.resource_type, record.pattern_type, record.resource_name),
            AccessControlEntry(
                record.principal, record.host, record.operation, record.permission_type
            ),
        )

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        known = self.rules[record.id] if record.id in self.rules else self.acl_ids.get(record.id)
        if known is None:
            raise BadMetadata(f"no access control entry has the id {uuid_text(record.id)}")
        self.rules[record.id] = None

    def _add_token(self, record: DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.tokens[record.token_id] = None

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _feature(self, record: FeatureLevelRecord) -> None:
        self.levels[record.name] = record.feature_level

    def _nothing(self, record: Message) -> None:
        """Ignore a record that changes nothing."""

    # -- the next image

    def finish(self, version: int) -> tuple[ClusterImage, AclIds, Touched]:
        """Return the next image with this version, its ACL ids, and what may have changed."""
        touched = Touched(
            dict.fromkeys(self.topics), dict.fromkeys(self.configs), dict.fromkeys(self.brokers)
        )
        touched.tokens |= dict.fromkeys(self.tokens)
        touched.controllers |= dict.fromkeys(self.controllers)
        image = self._with_topics(self.before)
        for (resource, name), configs in self.configs.items():
            image = image.with_configs(resource, name, configs)
        image, acl_ids = self._with_rules(image, touched)
        known = self.brokers.items()
        registered = {key: None if broker is None else broker[0] for key, broker in known}
        live = {key: None if broker is None or broker[1] else broker[0] for key, broker in known}
        gone = [token_id for token_id, token in self.tokens.items() if token is None]
        kept = [(token_id, token) for token_id, token in self.tokens.items() if token is not None]
        image = replace(
            image,
            version=version,
            brokers=_changed(image.brokers, live),
            registered=_changed(image.registered, registered),
            controllers=_changed(image.controllers, self.controllers),
            tokens=image.tokens.without(gone).having(kept),
            features=self._features(version),
        )
        if self.next_producer_id is not None:
            image = image.with_next_producer_id(self.next_producer_id)
        return image, acl_ids, touched

    def _with_topics(self, image: ClusterImage) -> ClusterImage:
        replaced = [
            name
            for name, topic in self.topics.items()
            if (known := image.topics.get(name)) is not None
            and (topic is None or topic.id != known.id)
        ]
        image = image.without_topics(replaced) if replaced else image
        changed = [
            TopicImage(topic.name, topic.id, tuple(topic.partitions))
            for topic in self.topics.values()
            if topic is not None
        ]
        return image.with_topics(changed) if changed else image

    def _with_rules(self, image: ClusterImage, touched: Touched) -> tuple[ClusterImage, AclIds]:
        """Return the image with the changed access control entries, and the ids of all entries."""
        entries: dict[ResourcePattern, set[AccessControlEntry]] = {}

        def of(pattern: ResourcePattern) -> set[AccessControlEntry]:
            if pattern not in entries:
                entries[pattern] = set(image.acls_on(pattern))
            return entries[pattern]

        removed = [self.acl_ids[each] for each in self.rules if each in self.acl_ids]
        for pattern, entry in removed:
            of(pattern).discard(entry)
        added = [(acl_id, rule) for acl_id, rule in self.rules.items() if rule is not None]
        for _, (pattern, entry) in added:
            of(pattern).add(entry)
        for pattern, left in entries.items():
            image = image.with_acls(pattern, frozenset(left))
            touched.acls[pattern] = None
        return image, self.acl_ids.without(self.rules).having(added)

    def _features(self, version: int) -> FinalizedFeatures:
        """Return the features; their epoch is the version at which they last changed."""
        features = self.before.features
        if not self.levels:
            return features
        levels = {**(features.agreed or {}), **self.levels}
        return FinalizedFeatures({}, {name: each for name, each in levels.items() if each}, version)


def _kraft(partition: PartitionImage) -> KraftPartitionImage:
    """Return the partition of an image that a replay made."""
    assert isinstance(partition, KraftPartitionImage)
    return partition


def _mechanism(number: int) -> str:
    mechanism = MECHANISMS.get(number)
    if mechanism is None:
        raise BadMetadata(f"SCRAM mechanism {number} is not known")
    return mechanism


def _changed(before: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """Return `before` with the entries of `changes`, where None removes one."""
    if not changes:
        return before
    entries: dict[K, V | None] = {**before, **changes}
    return MappingProxyType({key: value for key, value in entries.items() if value is not None})


_HANDLERS: Final[dict[type[Message], Callable[[ImageDraft, Any], None]]] = {
    AccessControlEntryRecord: ImageDraft._add_acl,
    BrokerRegistrationChangeRecord: ImageDraft._change_broker,
    ClearElrRecord: ImageDraft._clear_elr,
    ClientQuotaRecord: ImageDraft._quota,
    ConfigRecord: ImageDraft._config,
    DelegationTokenRecord: ImageDraft._add_token,
    FeatureLevelRecord: ImageDraft._feature,
    FenceBrokerRecord: ImageDraft._fence,
    NoOpRecord: ImageDraft._nothing,
    PartitionChangeRecord: ImageDraft._change_partition,
    PartitionRecord: ImageDraft._add_partition,
    ProducerIdsRecord: ImageDraft._producer_ids,
    RegisterBrokerRecord: ImageDraft._register_broker,
    RegisterControllerRecord: ImageDraft._register_controller,
    RemoveAccessControlEntryRecord: ImageDraft._remove_acl,
    RemoveDelegationTokenRecord: ImageDraft._remove_token,
    RemoveTopicRecord: ImageDraft._remove_topic,
    RemoveUserScramCredentialRecord: ImageDraft._remove_credential,
    TopicRecord: ImageDraft._add_topic,
    UnfenceBrokerRecord: ImageDraft._unfence,
    UnregisterBrokerRecord: ImageDraft._unregister_broker,
    UnregisterControllerRecord: ImageDraft._unregister_controller,
    UserScramCredentialRecord: ImageDraft._add_credential,
    ZkMigrationStateRecord: ImageDraft._nothing,  # Apache Kafka 4 ignores it
}
