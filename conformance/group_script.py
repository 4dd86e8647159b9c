"""Scripts of group requests as text, for brokers and for coordinators without a broker.

Each line is one request of a named client.  The indented lines below it are the responses that
arrive then, for any client:

    join a
      a: MEMBER_ID_REQUIRED id=a
    join a
      a: NONE generation=1 leader=a protocol=consumer/range members=[a=x]

The responses have the clients' names instead of member ids, so the text does not depend on the ids.

    join NAME [v=9 instance= id= type=consumer protocols=range:x session= rebalance= reason=]
    sync NAME [v=5 gen= instance= id= type= protocol= assign=a:x,b:y]
    heartbeat NAME [v=4 gen= instance= id=]
    leave NAME[:instance],... [v=5 reason=]
    commit NAME [v=9 gen= instance= id= leader= retention=] topic:partition=offset[:metadata] ...
    txn-commit NAME [v=3 gen= instance= id= leader= producer=7] topic:partition=offset[:...] ...
    fetch [v=9 stable=1 id= gen=] topic:partition ... (nothing: all)
    delete-offsets topic:partition ...
    delete    describe [v=6]    list [v=5 states=a,b types=a,b]
    wait MS

`-` is a client without a member id.  `gen`, `type` and `protocol` are by default those of the
client's last response.  `group=` on any line replaces the script's group.  `leader` is the leader
epoch of the partitions.  The metadata `*N` is N characters, and `null` is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

AnyMessage = Any
"""A request or response of any API and version."""

Arguments = dict[str, str]
TopicPartitions = dict[str, list[tuple[int, str]]]


class GroupTarget(Protocol):
    """A broker or a coordinator without one, to which a script sends its requests."""

    def send(self, name: str, api: ApiKey, version: int, request: AnyMessage) -> None:
        """Send a request of client `name`; its response may come at once or with a later
        request."""

    def replies(self) -> list[tuple[str, AnyMessage]]:
        """Return (client, response) of all responses since the last call."""

    def wait(self, time_ms: int) -> None:
        """Let `time_ms` milliseconds pass."""


class ClientState:
    """What a client knows from its last JoinGroup response."""

    def __init__(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.protocol_type: str | None = "consumer"
        self.protocol_name: str | None = "range"


class GroupScript:
    """Runs the lines of one script against a target."""

    def __init__(self, target: GroupTarget, group_id: str) -> None:
        """Prepare scripts about one group; the client `-` has no member id."""
        self._target = target
        self._group_id = group_id
        self._clients: dict[str, ClientState] = {"-": ClientState()}
        self._commands: dict[str, Callable[[list[str], Arguments], None]] = {
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "commit": self._commit,
            "txn-commit": self._txn_commit,
            "fetch": self._fetch,
            "delete-offsets": self._delete_offsets,
            "delete": self._delete,
            "describe": self._describe,
            "list": self._list,
            "wait": self._wait,
        }

    def run(self, line: str) -> list[str]:
        """Run one line; the formatted responses that have arrived."""
        self.send(line)
        return self.replies()

    def send(self, line: str) -> None:
        """Send the request of a line, or let its time pass."""
        command, *words = line.split()
        arguments = dict(word.split("=", 1) for word in words if _is_argument(word))
        self._commands[command]([word for word in words if not _is_argument(word)], arguments)

    def replies(self) -> list[str]:
        """Return the formatted responses since the last call."""
        messages = self.messages()  # all of them, so that every member id has its name
        return [f"{name}: {text}" for name, reply in messages for text in self._format(reply)]

    def messages(self) -> list[tuple[str, AnyMessage]]:
        """Return (client, response) of all responses since the last call."""
        replies = self._target.replies()
        for name, response in replies:
            if isinstance(response, JoinGroupResponse):
                self._learn(name, response)
        return replies

    # Requests

    def _client(self, name: str) -> ClientState:
        return self._clients.setdefault(name, ClientState())

    def _id_of(self, name: str, arguments: Arguments) -> str:
        """Return the member id for a request: the client's, or `id=`, a client's name or any id."""
        other = arguments.get("id")
        if other is None:
            return self._client(name).member_id
        return self._clients[other].member_id if other in self._clients else other

    def _send(
        self, name: str, api: ApiKey, default: int, arguments: Arguments, request: object
    ) -> None:
        self._target.send(name, api, int(arguments.get("v", default)), request)

    def _join(self, words: list[str], arguments: Arguments) -> None:
        """Send the JoinGroup of `join NAME`."""
        name = words[0]
        protocols = [p.partition(":") for p in arguments.get("protocols", "range:x").split(",")]
        request = JoinGroupRequest(
            group_id=arguments.get("group", self._group_id),
            session_timeout_ms=int(arguments.get("session", 30_000)),
            rebalance_timeout_ms=int(arguments.get("rebalance", 60_000)),
            member_id=self._id_of(name, arguments),
            group_instance_id=arguments.get("instance"),
            protocol_type=arguments.get("type", "consumer"),
            protocols=[JoinGroupRequestProtocol(n, _bytes(data)) for n, _, data in protocols if n],
            reason=arguments.get("reason"),
        )
        self._send(name, ApiKey.JOIN_GROUP, 9, arguments, request)

    def _sync(self, words: list[str], arguments: Arguments) -> None:
        """Send the SyncGroup of `sync NAME`; `assign` names clients, not member ids."""
        name = words[0]
        client = self._client(name)
        pairs = [pair.partition(":") for pair in arguments.get("assign", "").split(",")]
        assignments = [
            SyncGroupRequestAssignment(self._client(member).member_id, _bytes(data))
            for member, _, data in pairs
            if member
        ]
        request = SyncGroupRequest(
            group_id=arguments.get("group", self._group_id),
            generation_id=int(arguments.get("gen", client.generation_id)),
            member_id=self._id_of(name, arguments),
            group_instance_id=arguments.get("instance"),
            protocol_type=arguments.get("type", client.protocol_type) or None,
            protocol_name=arguments.get("protocol", client.protocol_name) or None,
            assignments=assignments,
        )
        self._send(name, ApiKey.SYNC_GROUP, 5, arguments, request)

    def _heartbeat(self, words: list[str], arguments: Arguments) -> None:
        """Send the Heartbeat of `heartbeat NAME`."""
        name = words[0]
        request = HeartbeatRequest(
            group_id=arguments.get("group", self._group_id),
            generation_id=int(arguments.get("gen", self._client(name).generation_id)),
            member_id=self._id_of(name, arguments),
            group_instance_id=arguments.get("instance"),
        )
        self._send(name, ApiKey.HEARTBEAT, 4, arguments, request)

    def _leave(self, words: list[str], arguments: Arguments) -> None:
        """Send the LeaveGroup of `leave NAME`; before version 3 it has one member only."""
        version = int(arguments.get("v", 5))
        names = [word.partition(":") for word in words[0].split(",")]
        identities = [
            MemberIdentity(
                self._client(name).member_id if name else "",
                instance or None,
                arguments.get("reason"),
            )
            for name, _, instance in names
        ]
        request = LeaveGroupRequest(group_id=arguments.get("group", self._group_id))
        if version < 3:
            request.member_id = identities[0].member_id
        else:
            request.members = identities
        self._send(names[0][0] or "-", ApiKey.LEAVE_GROUP, 5, arguments, request)

    def _commit(self, words: list[str], arguments: Arguments) -> None:
        """Send the OffsetCommit of `commit NAME`."""
        name, *places = words
        leader_epoch = int(arguments.get("leader", -1))
        topics = []
        for topic, partitions in _topics(places).items():
            parsed = [(index, text.partition(":")) for index, text in partitions]
            topics.append(
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            index, int(offset), leader_epoch, _metadata(metadata)
                        )
                        for index, (offset, _, metadata) in parsed
                    ],
                )
            )
        request = OffsetCommitRequest(
            group_id=arguments.get("group", self._group_id),
            generation_id_or_member_epoch=int(
                arguments.get("gen", self._client(name).generation_id)
            ),
            member_id=self._id_of(name, arguments),
            group_instance_id=arguments.get("instance"),
            retention_time_ms=int(arguments.get("retention", -1)),
            topics=topics,
        )
        self._send(name, ApiKey.OFFSET_COMMIT, 9, arguments, request)

    def _txn_commit(self, words: list[str], arguments: Arguments) -> None:
        """Send the TxnOffsetCommit of `txn-commit NAME`; its producer id is 7 by default."""
        name, *places = words
        leader_epoch = int(arguments.get("leader", -1))
        topics = []
        for topic, partitions in _topics(places).items():
            parsed = [(index, text.partition(":")) for index, text in partitions]
            txn_partitions = [
                TxnOffsetCommitRequestPartition(
                    index, int(offset), leader_epoch, _metadata(metadata)
                )
                for index, (offset, _, metadata) in parsed
            ]
            topics.append(TxnOffsetCommitRequestTopic(topic, partitions=txn_partitions))
        request = TxnOffsetCommitRequest(
            transactional_id=f"{self._group_id}-of-{name}",
            group_id=arguments.get("group", self._group_id),
            producer_id=int(arguments.get("producer", 7)),
            producer_epoch=0,
            generation_id_or_member_epoch=int(
                arguments.get("gen", self._client(name).generation_id)
            ),
            member_id=self._id_of(name, arguments),
            group_instance_id=arguments.get("instance"),
            topics=topics,
        )
        self._send(name, ApiKey.TXN_OFFSET_COMMIT, 3, arguments, request)

    def _fetch(self, words: list[str], arguments: Arguments) -> None:
        """Send the OffsetFetch of `fetch`; without partitions it asks for all offsets."""
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[i for i, _ in partitions])
            for topic, partitions in _topics(words).items()
        ]
        group = OffsetFetchRequestGroup(
            group_id=arguments.get("group", self._group_id),
            member_id=arguments.get("id"),
            member_epoch=int(arguments.get("gen", -1)),
            topics=topics if words else None,
        )
        request = OffsetFetchRequest(groups=[group], require_stable="stable" in arguments)
        self._send("-", ApiKey.OFFSET_FETCH, 9, arguments, request)

    def _delete_offsets(self, words: list[str], arguments: Arguments) -> None:
        """Send the OffsetDelete of `delete-offsets`."""
        request = OffsetDeleteRequest(
            group_id=arguments.get("group", self._group_id),
            topics=[
                OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(i) for i, _ in parts])
                for topic, parts in _topics(words).items()
            ],
        )
        self._send("-", ApiKey.OFFSET_DELETE, 0, arguments, request)

    def _delete(self, _words: list[str], arguments: Arguments) -> None:
        request = DeleteGroupsRequest([arguments.get("group", self._group_id)])
        self._send("-", ApiKey.DELETE_GROUPS, 2, arguments, request)

    def _describe(self, _words: list[str], arguments: Arguments) -> None:
        request = DescribeGroupsRequest([arguments.get("group", self._group_id)])
        self._send("-", ApiKey.DESCRIBE_GROUPS, 6, arguments, request)

    def _list(self, _words: list[str], arguments: Arguments) -> None:
        """Send the ListGroups of `list`."""
        request = ListGroupsRequest(
            states_filter=_list_of(arguments.get("states")),
            types_filter=_list_of(arguments.get("types")),
        )
        self._send("-", ApiKey.LIST_GROUPS, 5, arguments, request)

    def _wait(self, words: list[str], _arguments: Arguments) -> None:
        self._target.wait(int(words[0]))

    # Responses

    def _format(self, response: AnyMessage) -> Iterator[str]:
        """Yield the lines of a response, with clients' names in place of member ids."""
        kind = type(response).__name__
        if isinstance(response, JoinGroupResponse):
            yield self._join_reply(response)
        elif kind == "SyncGroupResponse":
            protocol = f" protocol={response.protocol_type}/{response.protocol_name}"
            assignment = f" assignment={_text(response.assignment)}"
            yield _error(response.error_code) + (protocol + assignment) * (not response.error_code)
        elif kind == "LeaveGroupResponse":
            members = [f" {self._member(m)}={_error(m.error_code)}" for m in response.members]
            yield _error(response.error_code) + "".join(members)
        elif kind == "DescribeGroupsResponse":
            yield from self._description(response.groups[0])
        elif kind == "ListGroupsResponse":
            groups = sorted(
                f" {g.group_state}/{g.group_type}/{g.protocol_type}"
                for g in response.groups
                if g.group_id == self._group_id
            )
            yield _error(response.error_code) + "".join(groups)
        elif kind == "DeleteGroupsResponse":
            yield _error(response.results[0].error_code)
        else:
            yield _error(_group_error(response)) + "".join(_partitions(response))

    def _learn(self, name: str, response: JoinGroupResponse) -> None:
        """Remember what the next requests of this client need from its JoinGroup response.

        MEMBER_ID_REQUIRED has a member id too, for the join that follows.
        """
        client = self._client(name)
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = response.member_id
        if response.error_code == ErrorCode.NONE:
            client.generation_id = response.generation_id
            client.protocol_type = response.protocol_type or client.protocol_type
            client.protocol_name = response.protocol_name

    def _join_reply(self, response: JoinGroupResponse) -> str:
        """Return the line of a JoinGroup response."""
        error = ErrorCode(response.error_code)
        member = f" id={self.alias(response.member_id)}" if response.member_id else ""
        members = sorted(f"{self._member(m)}={_text(m.metadata)}" for m in response.members)
        skip = " skip-assignment" if response.skip_assignment else ""
        if error is not ErrorCode.NONE:
            leader = f" leader={self.alias(response.leader)}" if response.leader else ""
            return error.name + member + leader + f" members={members}" * bool(members) + skip
        return (
            f"NONE generation={response.generation_id} leader={self.alias(response.leader)}"
            f" protocol={response.protocol_type}/{response.protocol_name}"
            f" members=[{' '.join(members)}]{skip}"
        )

    def _description(self, group: AnyMessage) -> Iterator[str]:
        """Yield the line of a described group, then a line for each member, sorted."""
        message = f" ({group.error_message})" if group.error_message else ""
        yield (
            _error(group.error_code)
            + message.replace(self._group_id, "G")
            + f" {group.group_state} protocol={group.protocol_type}/{group.protocol_data}"
        )
        yield from sorted(
            f"  {self.alias(m.member_id)} instance={m.group_instance_id} client={m.client_id}"
            f" {m.client_host} metadata={_text(m.member_metadata)}"
            f" assignment={_text(m.member_assignment)}"
            for m in group.members
        )

    def _member(self, member: AnyMessage) -> str:
        instance = f":{member.group_instance_id}" if member.group_instance_id else ""
        return self.alias(member.member_id) + instance

    def alias(self, member_id: str) -> str:
        """Return the name of the client with this member id, or `?` if no client has it."""
        if not member_id:
            return "-"
        names = [name for name, client in self._clients.items() if client.member_id == member_id]
        return names[0] if names else "?"


def _is_argument(word: str) -> bool:
    """Return whether a word is `key=value`, and not `topic:partition=offset`."""
    key, equals, _ = word.partition("=")
    return bool(equals) and ":" not in key


def _topics(words: list[str]) -> TopicPartitions:
    """Return the (partition, value) pairs of `topic:partition=value` words by topic."""
    topics: TopicPartitions = {}
    for word in words:
        place, _, value = word.partition("=")
        topic, _, partition = place.rpartition(":")
        topics.setdefault(topic, []).append((int(partition), value))
    return topics


def _metadata(text: str) -> str | None:
    """Return the metadata that a word stands for: `*N` is N characters, `null` is None."""
    if text == "null":
        return None
    return "m" * int(text[1:]) if text.startswith("*") else text


def _list_of(text: str | None) -> list[str]:
    return text.split(",") if text else []


def _bytes(text: str) -> bytes:
    """Return the bytes of a word: `0x…` is hexadecimal, `@a+b` a subscription to topics a and b."""
    if text.startswith("0x"):
        return bytes.fromhex(text[2:])
    if text.startswith("@"):
        topics = [topic.encode() for topic in text[1:].split("+")]
        names = b"".join(len(t).to_bytes(2) + t for t in topics)
        return (0).to_bytes(2) + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"
    return text.encode()


def _text(data: bytes) -> str:
    text = bytes(data).decode("latin-1")
    return text if text.isprintable() else "<binary>"


def _error(code: int) -> str:
    return ErrorCode(code).name


def _group_error(response: AnyMessage) -> int:
    groups = getattr(response, "groups", None)
    code: int = groups[0].error_code if groups else getattr(response, "error_code", 0)
    return code


def _partitions(response: AnyMessage) -> Iterator[str]:
    """Yield the text of each partition in a response: its offset, metadata and error."""
    groups = getattr(response, "groups", None)
    topics = groups[0].topics if groups else getattr(response, "topics", [])
    places = [(topic, partition) for topic in topics for partition in topic.partitions]
    for topic, partition in sorted(places, key=lambda p: (p[0].name, p[1].partition_index)):
        text = f" {topic.name}:{partition.partition_index}="
        if hasattr(partition, "committed_offset"):
            text += f"{partition.committed_offset}"
            text += f":{partition.metadata}" if partition.metadata else ""
            text += f"/{_error(partition.error_code)}" if partition.error_code else ""
        else:
            text += _error(partition.error_code)
        yield text
