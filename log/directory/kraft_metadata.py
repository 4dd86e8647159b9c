"""Reads topics, configs and access rules from `__cluster_metadata-0`, a KRaft node's metadata log.

Apache Kafka keeps it in the log directory unless `metadata.log.dir` names another folder.  The
newest `<end offset>-<epoch>.checkpoint` has everything below its end offset; the segments continue
from there.  `quorum-state` names the voters if the log itself does not (KIP-853).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import error as StructError

from kwire.codecs.batches import CorruptBatch, Record, records
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.kraft_version_record import KRaftVersionRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codecs.messages.voters_record import VotersRecord
from kwire.codecs.primitives import DecodeError, Message
from kwire.log.directory import files as names
from kwire.log.directory import kraft_records
from kwire.log.directory.files import Files, OpenFile
from kwire.log.directory.kraft_records import Registration
from kwire.log.recovery import scan

_logger = logging.getLogger(__name__)

QUORUM_STATE = "quorum-state"
TOPIC = 2
"""The resource type of a topic's configs."""

_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_VOTERS_KEY = bytes((0, 0, 0, 6))
"""The key of the control record that names the voters: its version and type."""
_KRAFT_VERSION_KEY = bytes((0, 0, 0, 5))
"""The key of the control record that has the level of kraft.version."""
_NO_LEADER_CHANGE = -2

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of a kind (`user`, `client-id`, `ip`) and a name, None for the default, by kind."""


@dataclass(slots=True)
class KraftPartition:
    """The state of a partition; leader -1 means no leader."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True)
class KraftMetadata:
    """The metadata of the cluster in the log, without the registrations of live nodes."""

    topics: dict[str, bytes] = field(default_factory=dict)
    """The id of each topic by name."""
    partitions: dict[bytes, dict[int, KraftPartition]] = field(default_factory=dict)
    """The partitions of each topic by topic id."""
    removed: set[bytes] = field(default_factory=set)
    """Ids of topics that were deleted since the newest checkpoint."""
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """The configs of each resource by (type, name)."""
    leftovers: dict[str, dict[str, str]] = field(default_factory=dict)
    """The configs of deleted topics by name.  Apache Kafka drops them at once.  But if it
    reads records of the old and of a new topic together at a start, the new topic gets them."""
    features: dict[str, int] = field(default_factory=dict)
    """The level of each feature by name, including `metadata.version` and `kraft.version`."""
    voters: set[int] = field(default_factory=set)
    """The node ids of the voters."""
    next_producer_id: int = 0
    acls: dict[bytes, AccessControlEntryRecord] = field(default_factory=dict)
    """The ACL entries by id."""
    credentials: dict[tuple[str, int], UserScramCredentialRecord] = field(default_factory=dict)
    """The SCRAM credentials by user and number of the mechanism."""
    tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    """The delegation tokens by id."""
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    """The quotas of users, client ids and IP addresses: values by the names of quotas."""
    broker_epochs: dict[int, int] = field(default_factory=dict)
    """The broker epoch of the last registration by node id."""
    _names: dict[bytes, str] = field(default_factory=dict)
    _pending: list[Message | Registration] | None = None  # records of an open transaction

    def note(self, kind: int, record: Message | Registration | None) -> None:
        """Apply a record, or hold it back until its transaction ends.

        `record` is None for a type that is not used here.
        """
        if kind == kraft_records.BEGIN:
            self._pending = []
        elif kind in (kraft_records.END, kraft_records.ABORT):
            pending, self._pending = self._pending or [], None
            for held_back in pending if kind == kraft_records.END else ():
                self.apply(held_back)
        elif record is not None and self._pending is not None:
            self._pending.append(record)
        elif record is not None:
            self.apply(record)

    def apply(self, record: Message | Registration) -> None:
        """Apply a record.  Raises LookupError if it refers to an unknown topic or partition."""
        if isinstance(record, ConfigRecord):
            self._set_config(record)
        elif isinstance(record, TopicRecord):
            self.topics[record.name] = record.topic_id
            self._names[record.topic_id] = record.name
            self.partitions.setdefault(record.topic_id, {})
        elif isinstance(record, PartitionRecord):
            self.partitions[record.topic_id][record.partition_id] = _state(record)
        elif isinstance(record, PartitionChangeRecord):
            _change(self.partitions[record.topic_id][record.partition_id], record)
        elif isinstance(record, RemoveTopicRecord):
            self._remove(record.topic_id)
        else:
            self._apply_of_cluster(record)

    def _apply_of_access(self, record: Message | Registration) -> None:
        """Apply a record of ACLs, SCRAM credentials, delegation tokens or quotas; ignore others."""
        if isinstance(record, AccessControlEntryRecord):
            self.acls[record.id] = record
        elif isinstance(record, RemoveAccessControlEntryRecord):
            self.acls.pop(record.id, None)
        elif isinstance(record, UserScramCredentialRecord):
            self.credentials[record.name, record.mechanism] = record
        elif isinstance(record, RemoveUserScramCredentialRecord):
            self.credentials.pop((record.name, record.mechanism), None)
        elif isinstance(record, DelegationTokenRecord):
            self.tokens[record.token_id] = record
        elif isinstance(record, RemoveDelegationTokenRecord):
            self.tokens.pop(record.token_id, None)
        elif isinstance(record, ClientQuotaRecord):
            self._set_quota(record)

    def _apply_of_cluster(self, record: Message | Registration) -> None:
        """Apply a record of producer ids, features or registrations; pass others on."""
        if isinstance(record, ProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = record.feature_level
        elif isinstance(record, Registration):
            self.broker_epochs[record.broker_id] = record.broker_epoch
        else:
            self._apply_of_access(record)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        """Set or remove one quota of an entity; an entity without quotas is removed."""
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        values = self.quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if not values:
            del self.quotas[entity]

    def _set_config(self, record: ConfigRecord) -> None:
        """Set one config of a resource; a null value removes it.

        A config that a topic's earlier namesake left behind does not count any more then.
        """
        key = record.resource_type, record.resource_name
        if record.resource_type == TOPIC:
            self.leftovers.get(record.resource_name, {}).pop(record.name, None)
        if record.value is None:
            self.configs.get(key, {}).pop(record.name, None)
        else:
            self.configs.setdefault(key, {})[record.name] = record.value

    def note_control(self, record: Record) -> None:
        """Apply a control record of the quorum."""
        if record.key == _VOTERS_KEY and record.value is not None:
            voters = VotersRecord.decode(record.value, 0).voters
            self.voters = {voter.voter_id for voter in voters}
        elif record.key == _KRAFT_VERSION_KEY and record.value is not None:
            version = KRaftVersionRecord.decode(record.value, 0)
            self.features["kraft.version"] = version.kraft_version

    def _remove(self, topic_id: bytes) -> None:
        """Remove a topic with its partitions; its configs become `leftovers`.

        A new topic of the same name may come later in the log.
        """
        name = self._names.pop(topic_id)
        del self.topics[name]
        del self.partitions[topic_id]
        configs = self.configs.pop((TOPIC, name), {})
        self.leftovers[name] = {**self.leftovers.get(name, {}), **configs}
        self.removed.add(topic_id)


def _state(record: PartitionRecord) -> KraftPartition:
    """Return the state of a new partition, as PartitionRecord has it."""
    return KraftPartition(
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.replicas),
        tuple(record.isr),
    )


def _change(state: KraftPartition, record: PartitionChangeRecord) -> None:
    """Apply PartitionChangeRecord to a partition; its null fields change nothing.

    Every change adds 1 to the partition epoch; a change of the leader adds 1 to the leader epoch.
    """
    if record.leader != _NO_LEADER_CHANGE:
        state.leader = record.leader
        state.leader_epoch += 1
    if record.replicas is not None:
        state.replicas = tuple(record.replicas)
    if record.isr is not None:
        state.isr = tuple(record.isr)
    state.partition_epoch += 1


def read(folder: Path, files: Files) -> KraftMetadata:
    """Return the metadata of the log in `folder`.

    Raises OSError.  If the log is damaged, the metadata are those before the damage, and a
    warning is logged.
    """
    metadata = KraftMetadata(voters=_voters(folder))
    for path, start in _parts(folder):
        try:
            _read_part(path, start, files, metadata)
        except (CorruptBatch, DecodeError, LookupError, StructError) as error:
            _logger.warning("%s is damaged and is read up to the damage: %r", path, error)
            break
    return metadata


def fingerprint(folder: Path) -> str:
    """Return a text that changes with every append: the names and sizes of the log's files."""
    with os.scandir(folder) as entries:
        sizes = sorted(
            (entry.name, entry.stat().st_size)
            for entry in entries
            if entry.name.endswith(names.LOG) or _CHECKPOINT.fullmatch(entry.name)
        )
    return " ".join(f"{name}:{size}" for name, size in sizes)


def _voters(folder: Path) -> set[int]:
    """Return the voters in `quorum-state`.

    Its version 1 names none, because the log names them.
    """
    try:
        state = json.loads((folder / QUORUM_STATE).read_bytes())
        return {int(voter["voterId"]) for voter in state.get("currentVoters", ())}
    except FileNotFoundError:
        return set()
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        _logger.warning("%s is ignored because it is damaged: %r", folder / QUORUM_STATE, error)
        return set()


def _parts(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the newest checkpoint and the segments after it, each with the offset to read from."""
    listed = sorted(os.listdir(folder))
    snapshots = [name for name in listed if _CHECKPOINT.fullmatch(name)]
    bases = [name for name in listed if name.endswith(names.LOG)]
    # A checkpoint's name begins with its offset, in 20 digits.
    start = int(snapshots[-1][:20]) if snapshots else 0
    earlier = [name for name in bases if (names.offset_of_file_name(name) or 0) <= start]
    yield from ((folder / name, 0) for name in snapshots[-1:])
    yield from ((folder / name, start) for name in earlier[-1:] + bases[len(earlier) :])


def _read_part(path: Path, start: int, files: Files, metadata: KraftMetadata) -> None:
    """Apply the records from offset `start` on of one segment or snapshot file.

    Raises OSError and CorruptBatch.
    """
    file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    for _, header, batch in scan.batches(files, file, 0, files.size(file)):
        if header.last_offset < start:
            continue
        for record in records(batch):
            if header.is_control:
                metadata.note_control(record)
            elif record.offset >= start and record.value is not None:
                metadata.note(*kraft_records.decode(record.value))
