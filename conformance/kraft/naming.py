"""Metadata records as text that is the same in each run: names instead of ids, times and epochs.

| in a record | in the text |
| --- | --- |
| topic id | the name, with "(2)" behind it if it is the second topic of that name |
| directory id | the name that the run gives it, as `1/data`, or `unassigned` |
| directory of a replica | `of the broker`, which chooses one with few logs, or `unassigned` |
| id of a rule | the rule |
| token id | `token 1`, by first appearance |
| incarnation id, broker epoch, port | nothing |
| times of a token | the time in ms that it may be renewed for |

Text stands below a subject: a partition, a topic, a broker, a resource.  The order of records
counts within a subject only, because several brokers write at the same time.

The directories of a partition are subjects of their own, because each broker reports its own
directory when it likes, and controllers repeat all directories in other records.  So are what a
broker says of its directories and its shutdown, which its heartbeats say at any time, and each
config of a resource, which brokers of Apache Kafka send in any order.

A broker that is fenced is sometimes fenced again: if it comes back while its last session goes on.
This depends on how fast it starts, and has no text.

Controllers place replicas at random unless a request places them.  Of partitions of topics that are
placed so, only the creation is text, without the ids of brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.no_op_record import NoOpRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import Message, Struct
from kwire.codecs.uuids import uuid_text

UNASSIGNED = bytes(15) + b"\1"
LOST = bytes(16)
SPECIAL = {UNASSIGNED: "unassigned", LOST: "lost"}
LEFT_OUT = {
    "broker_epoch",
    "directories",
    "incarnation_id",
    "partition_id",
    "port",
    "topic_id",
}
DIRECTORIES = {"log_dirs", "cordoned_log_dirs"}
SUBJECTS = {
    "AccessControlEntryRecord": "rules",
    "RemoveAccessControlEntryRecord": "rules",
    "ConfigRecord": "config {name} of {resource_type} {resource_name!r}",
    "ClientQuotaRecord": "quotas",
    "UserScramCredentialRecord": "user {name}",
    "RemoveUserScramCredentialRecord": "user {name}",
    "DelegationTokenRecord": "tokens",
    "RemoveDelegationTokenRecord": "tokens",
    "RegisterBrokerRecord": "broker {broker_id}",
    "BrokerRegistrationChangeRecord": "broker {broker_id}",
    "UnregisterBrokerRecord": "broker {broker_id}",
    "ProducerIdsRecord": "producer ids",
    "FeatureLevelRecord": "features",
    "ClearElrRecord": "ELR of {topic_name!r}",
}
"""Subject of a record, by its class and fields; other records have the subject `quorum`."""


class RecordLine(NamedTuple):
    """A record as text, below its subject."""

    subject: str
    text: str


class Naming:
    """Names what the records of one run have ids for; it has to see all records from the first."""

    def __init__(
        self,
        directories: Mapping[bytes, str],
        is_placed_at_random: Callable[[str], bool] = lambda _topic: False,
    ) -> None:
        """`directories` are the names of directory ids; more may be added later."""
        self._directories = directories
        self._is_placed_at_random = is_placed_at_random
        self._topics: dict[bytes, str] = {}
        self._created: Counter[str] = Counter()
        self._rules: dict[bytes, str] = {}
        self._tokens: dict[str, str] = {}
        self._replicas: dict[str, dict[int, bytes]] = {}
        self._fenced: set[int] = set()

    def lines(self, message: Message) -> Iterator[RecordLine]:
        """Yield the lines of the next record of the log."""
        match message:
            case NoOpRecord():
                return
            case TopicRecord() | RemoveTopicRecord():
                yield self._topic(message)
            case PartitionRecord() | PartitionChangeRecord():
                yield from self._partition(message)
            case RemoveAccessControlEntryRecord():
                yield RecordLine("rules", f"Remove {self._rules[bytes(message.id)]}")
            case RemoveDelegationTokenRecord():
                yield RecordLine("tokens", f"Remove {self._token(message.token_id)}")
            case BrokerRegistrationChangeRecord(fenced=1, broker_id=at) if at in self._fenced:
                return
            case _:
                self._note_fencing(message)
                yield RecordLine(subject_of(message), self._text(message))

    def _note_fencing(self, message: Message) -> None:
        """Note which brokers are fenced after this record."""
        match message:
            case RegisterBrokerRecord(fenced=True) | BrokerRegistrationChangeRecord(fenced=1):
                self._fenced.add(message.broker_id)
            case RegisterBrokerRecord() | BrokerRegistrationChangeRecord(fenced=-1):
                self._fenced.discard(message.broker_id)

    def _topic(self, record: TopicRecord | RemoveTopicRecord) -> RecordLine:
        topic_id = bytes(record.topic_id)
        if isinstance(record, TopicRecord):
            self._created[record.name] += 1
            again = self._created[record.name]
            self._topics[topic_id] = record.name + (f" ({again})" if again > 1 else "")
        return RecordLine(f"topic {self._topics[topic_id]}", type(record).__name__)

    def _partition(self, record: PartitionRecord | PartitionChangeRecord) -> Iterator[RecordLine]:
        """Yield the record without directories, unless nothing is left, and then directories."""
        topic = self._topics[bytes(record.topic_id)]
        subject = f"{topic}-{record.partition_id}"
        if self._is_placed_at_random(topic):
            if isinstance(record, PartitionRecord):
                yield RecordLine(subject, f"PartitionRecord with {len(record.replicas)} replicas")
            return
        if fields := [*self._fields(record)]:
            yield RecordLine(subject, " ".join((type(record).__name__, *fields)))
        before = self._replicas.get(subject, {})
        replicas = [*before] if record.replicas is None else record.replicas
        now = dict(before)
        if record.directories:
            now = {
                broker_id: bytes(directory)
                for broker_id, directory in zip(replicas, record.directories, strict=True)
            }
            for broker_id, directory in now.items():
                if before.get(broker_id) != directory:
                    at = f"{subject}, directory of {broker_id}"
                    yield RecordLine(at, SPECIAL.get(directory, "of the broker"))
        elif record.replicas is not None:
            now = {broker_id: before.get(broker_id, UNASSIGNED) for broker_id in replicas}
        self._replicas[subject] = now

    def _text(self, message: Message) -> str:
        """Return a record of another kind: the name of its class, and its fields."""
        name = type(message).__name__
        text = " ".join((name, *self._fields(message)))
        if isinstance(message, AccessControlEntryRecord):
            self._rules[bytes(message.id)] = text
        return text

    def _fields(self, message: Struct) -> Iterator[str]:
        """Yield the fields as `name=value`, without those that have their default values."""
        default = type(message)()
        for name in message.__slots__:
            value = getattr(message, name)
            if name not in LEFT_OUT and value != getattr(default, name):
                named = self._named(message, name, value)
                if named is not None:
                    yield f"{name}={self._value(named)}"

    def _named(self, message: Struct, name: str, value: Any) -> Any:  # noqa: ANN401 - any field
        """Return what stands for the value of a field; None if nothing does."""
        match message:
            case AccessControlEntryRecord() if name == "id":
                return None
            case DelegationTokenRecord() if name == "token_id":
                return self._token(value)
            case DelegationTokenRecord() if name == "max_timestamp":
                return value - message.issue_timestamp
            case DelegationTokenRecord() if name.endswith("_timestamp"):
                return None
        if name == "features":  # a broker lists them in any order
            return sorted(value, key=lambda each: each.name)
        return sorted(map(self._directory, value)) if name in DIRECTORIES else value

    def _token(self, token_id: str) -> str:
        return self._tokens.setdefault(token_id, f"token {len(self._tokens) + 1}")

    def _directory(self, directory: bytes) -> str:
        directory = bytes(directory)
        return SPECIAL.get(directory) or self._directories.get(directory, uuid_text(directory))

    def _value(self, value: Any) -> str:  # noqa: ANN401 - of any field
        if isinstance(value, Struct):
            return f"({' '.join(self._fields(value))})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._value, value))}]"
        return value.hex() if isinstance(value, bytes | memoryview) else repr(value)


def subject_of(message: Message) -> str:
    """Return the subject of a record that belongs to no topic."""
    pattern = SUBJECTS.get(type(message).__name__, "quorum")
    if isinstance(message, BrokerRegistrationChangeRecord) and not message.fenced:
        pattern = "broker {broker_id}, shutdown and directories"
    names: tuple[str, ...] = message.__slots__
    return pattern.format(**{name: getattr(message, name) for name in names})
