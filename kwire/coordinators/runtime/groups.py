"""The group coordinator of this broker: finds the partition of a group and runs its operations.

A group is stored in the partition of `__consumer_offsets` that its id hashes to, and the leader of
that partition is its coordinator.  Each operation returns its response, or a promise of it if it
has to wait: for other members (JoinGroup, SyncGroup) or until its records are committed.

Errors that a request gets before it reaches its group:

    another broker leads the partition, or it does not exist    NOT_COORDINATOR
    the partition is still being replayed                       COORDINATOR_LOAD_IN_PROGRESS
                                                                (a classic Heartbeat gets NONE:
                                                                its session is not known yet)
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.broker.timers import Timers
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.codecs.messages.describe_groups import DescribedGroup
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.codecs.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.codecs.uuids import uuid_text
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.runtime import CoordinatorRuntime, Shard
from kwire.groups import txn_offsets
from kwire.groups.classic import join as classic_join
from kwire.groups.classic.decision import ClassicCaller, join_error, sync_error
from kwire.groups.effects import GroupEffects
from kwire.groups.java import partition_for
from kwire.groups.limits import GroupLimits, MigrationPolicy
from kwire.groups.machine import GroupMachine
from kwire.groups.offsets import commit_error
from kwire.groups.surroundings import NOWHERE, Surroundings
from kwire.log import LogError, Verification
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.codecs.messages.share_group_describe import DescribedGroup as DescribedShareGroup
    from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from kwire.codecs.messages.streams_group_describe import (
        DescribedGroup as DescribedStreamsGroup,
    )
    from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from kwire.coordinators.contract.effects import Ticket
    from kwire.coordinators.runtime.description_plugins import DescriptionPlugin
    from kwire.coordinators.runtime.descriptions import TopologyDescriptions
    from kwire.coordinators.runtime.streams_topics import StreamsTopics
    from kwire.groups.assigned.heartbeat import HeartbeatCaller
    from kwire.groups.consumer.member import ConsumerMember
    from kwire.groups.share.decision import ShareHeartbeatReply
    from kwire.groups.share.initializing import StateTopicPartitions
    from kwire.groups.streams.decision import StreamsHeartbeatReply
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings

T = TypeVar("T")

SHARE_TYPE = "share"


def limits_of(config: BrokerConfig) -> GroupLimits:
    """Return the limits of groups that the broker's settings give; all times are in ms."""
    return GroupLimits(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        group_share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        group_share_max_size=config.group_share_max_size,
        group_streams_max_size=config.group_streams_max_size,
        group_consumer_migration_policy=MigrationPolicy[
            config.group_consumer_migration_policy.upper()
        ],
    )


def plugin_of(config: BrokerConfig) -> DescriptionPlugin | None:
    """Return the plug-in that stores topology descriptions, or None without one."""
    class_name = config.group_streams_topology_description_plugin_class
    if not class_name:
        return None
    from kwire.coordinators.runtime.description_plugins import load_plugin

    return load_plugin(class_name, {**config.explicit, "log.dirs": ",".join(config.log_dirs)})


def new_uuid() -> str:
    return str(uuid.uuid4())


def new_kafka_uuid() -> str:
    """A random UUID as Kafka's Uuid.randomUuid prints it; it never begins with a dash."""
    while (text := uuid_text(uuid.uuid4().bytes)).startswith("-"):
        pass
    return text


class GroupCoordinator:
    """See the module."""

    def __init__(
        self,
        limits: GroupLimits,
        *,
        partitions: int,
        timers: Timers,
        now_ms: Callable[[], int],
        commit_timeout_ms: int = 5_000,
        compression: Compression = Compression.NONE,
        new_id: Callable[[], str] = new_uuid,
        surroundings: Surroundings = NOWHERE,
    ) -> None:
        """`partitions` is the partition count of `__consumer_offsets`, 0 while it is not known.
        `new_id` makes the last part of a member id."""
        self.limits = limits
        self.partitions = partitions
        self._new_id = new_id
        self._nursery: trio.Nursery | None = None
        self._streams_topics: StreamsTopics | None = None
        self.descriptions: TopologyDescriptions | None = None
        """The topology descriptions of streams groups, if a plug-in stores them."""
        self.runtime = CoordinatorRuntime(
            lambda: GroupMachine(limits, surroundings),
            timers=timers,
            now_ms=now_ms,
            commit_timeout_ms=commit_timeout_ms,
            compression=compression,
        )

    @classmethod
    def configured(
        cls,
        config: BrokerConfig,
        *,
        partitions: int,
        timers: Timers,
        now_ms: Callable[[], int],
        surroundings: Surroundings,
    ) -> GroupCoordinator:
        """Return a group coordinator with the broker's settings.

        `partitions` is the number of partitions of `__consumer_offsets`.
        """
        plugin = plugin_of(config)
        coordinator = cls(
            replace(limits_of(config), keeps_topology_descriptions=plugin is not None),
            partitions=partitions,
            timers=timers,
            now_ms=now_ms,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            compression=Compression(config.offsets_topic_compression_codec),
            surroundings=surroundings,
        )
        if plugin is not None:
            from kwire.coordinators.runtime.descriptions import TopologyDescriptions

            coordinator.descriptions = TopologyDescriptions(coordinator, plugin)
        return coordinator

    # -- which partitions are led here

    def start(self, nursery: trio.Nursery) -> None:
        """Load partitions in tasks of `nursery` from now on."""
        self._nursery = nursery
        if self.descriptions is not None:
            interval_ms = self.limits.offsets_retention_check_interval_ms
            nursery.start_soon(self.descriptions.clean_forever, interval_ms)

    def start_soon(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a task that no reply waits for."""
        assert self._nursery is not None, "start() comes first"
        self._nursery.start_soon(work, *arguments)

    def lead(self, partition: Partition) -> None:
        """Replay and serve a partition of `__consumer_offsets` that this broker leads now."""
        shard = self.runtime.lead(partition)
        if shard is not None:
            assert self._nursery is not None, "start() comes first"
            self._nursery.start_soon(shard.load)

    def resign(self, index: int) -> None:
        """Stop serving a partition that this broker does not lead any more."""
        self.runtime.resign(index)

    def topics_deleted(self, deleted: Sequence[tuple[str, bytes]]) -> None:
        """Delete the committed offsets of topics (name, id) that were deleted."""
        self.runtime.topics_deleted(deleted)

    def partition_for(self, group_id: str) -> int:
        """The partition that stores the group, or -1 while the partition count is not known:
        requests for any group get NOT_COORDINATOR then."""
        return partition_for(group_id, self.partitions) if self.partitions else -1

    def _shard_of(self, group_id: str) -> Shard[GroupMachine] | None:
        return self.runtime.shards.get(self.partition_for(group_id))

    # -- membership of classic and consumer groups

    def join_group(
        self, request: JoinGroupRequest, caller: ClassicCaller
    ) -> JoinGroupResponse | Promise[JoinGroupResponse]:
        """JoinGroup: adds a member to a classic group, or lets it rejoin.

        The reply is a promise while the rebalance waits for other members.
        """
        invalid = classic_join.invalid(request, self.limits)
        if invalid is not None:
            return invalid
        prefix = request.group_instance_id
        new_member_id = f"{caller.client_id if prefix is None else prefix}-{self._new_id()}"
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.classic.join(
                request,
                caller,
                # Members of a consumer group have plain UUIDs, also those of the classic protocol.
                new_kafka_uuid() if machine.classic.is_hosted(request.group_id) else new_member_id,
                ticket,
                now_ms,
            ),
            join_error,
        )

    def sync_group(
        self, request: SyncGroupRequest
    ) -> SyncGroupResponse | Promise[SyncGroupResponse]:
        """SyncGroup: returns the member's assignment, once the leader has sent it."""
        if not request.group_id:
            return sync_error(ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.classic.sync(request, ticket, now_ms),
            sync_error,
        )

    def heartbeat(
        self, request: HeartbeatRequest
    ) -> HeartbeatResponse | Promise[HeartbeatResponse]:
        """Heartbeat of a classic member; the error tells it to rejoin if necessary."""
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.classic.heartbeat(request, ticket, now_ms),
            _heartbeat_error,
        )

    def keeps_session(self, request: HeartbeatRequest) -> bool:
        """Restart the session of a classic member, if that is all that its Heartbeat asks for.

        Returns False, and does nothing, if `heartbeat` would return an error or a promise.
        """
        shard = self._shard_of(request.group_id)
        if shard is None:
            return False
        session = shard.machine.classic.kept_session(request)
        return session is not None and shard.put_off(*session)

    def leave_group(
        self, request: LeaveGroupRequest
    ) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
        """LeaveGroup: removes members from a classic group."""
        if not request.group_id:
            return _leave_error(ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.classic.leave(request, ticket, now_ms),
            _leave_error,
        )

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatCaller
    ) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: handles a request that has been validated."""
        if not request.member_id:  # v0: the coordinator chooses the id of a member that joins
            request = replace(request, member_id=new_kafka_uuid())
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.consumer.heartbeat(
                request, caller, ticket, now_ms
            ),
            lambda error: ConsumerGroupHeartbeatResponse(error_code=error),
        )

    def keeps_consumer_session(
        self, request: ConsumerGroupHeartbeatRequest, member: ConsumerMember, interval_ms: int
    ) -> bool:
        """Restart the session of a member, if that is all that its heartbeat asks for.

        Returns False, and does nothing, if `member` has changed since it sent the same request, or
        if the response would have another heartbeat interval (in ms) or an assignment, or would
        have to wait.
        """
        shard = self._shard_of(request.group_id)
        if shard is None:
            return False
        session = shard.machine.consumer.kept_session(request, member, interval_ms)
        return session is not None and shard.put_off(*session)

    def consumer_member(self, group_id: str, member_id: str) -> ConsumerMember | None:
        """The member of a consumer group as it is now; None if this broker has no such member."""
        shard = self._shard_of(group_id)
        group = None if shard is None else shard.machine.consumer.find(group_id)
        return None if group is None else group.members.get(member_id)

    # -- share groups

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: HeartbeatCaller
    ) -> ShareHeartbeatReply | Promise[ShareHeartbeatReply]:
        """ShareGroupHeartbeat: handles a request that has been validated."""
        from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
        from kwire.groups.share.decision import ShareHeartbeatReply

        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.share.heartbeat(
                request, caller, ticket, now_ms
            ),
            lambda error: ShareHeartbeatReply(ShareGroupHeartbeatResponse(error_code=error)),
        )

    def share_initialized(
        self, group_id: str, topics: StateTopicPartitions, *, succeeded: bool
    ) -> Promise[None] | None:
        """Records whether the share coordinator has initialized its state for `topics`."""

        def decide(machine: GroupMachine, ticket: Ticket, now_ms: int) -> GroupEffects:
            record = machine.share.initialized if succeeded else machine.share.not_initialized
            return record(group_id, topics, ticket)

        return self.runtime.submit(self.partition_for(group_id), decide, lambda _: None)

    def share_state_topics(self, group_id: str) -> StateTopicPartitions | None:
        """Return the topics whose share state must be deleted before the group itself.

        None if there is no such group or no such state, or if the group has members: then it cannot
        be deleted.
        """
        shard = self._shard_of(group_id)
        group = None if shard is None else shard.machine.groups.get(group_id)
        if shard is None or group is None or group.type_name != SHARE_TYPE:
            return None
        return shard.machine.share.state_to_delete(group_id)

    def describe_share_group(
        self, group_id: str
    ) -> DescribedShareGroup | Promise[DescribedShareGroup]:
        """ShareGroupDescribe: returns the state of a share group."""
        from kwire.codecs.messages.share_group_describe import DescribedGroup

        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(group_id),
            lambda machine, ticket, _: GroupEffects.reply(ticket, machine.share.describe(group_id)),
            lambda error: DescribedGroup(group_id=group_id, error_code=error),
        )

    # -- streams groups

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: HeartbeatCaller
    ) -> StreamsHeartbeatReply | Promise[StreamsHeartbeatReply]:
        """StreamsGroupHeartbeat: handles a request that has been validated."""
        from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
        from kwire.groups.streams.decision import StreamsHeartbeatReply

        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.streams.heartbeat(
                request, caller, ticket, now_ms
            ),
            lambda error: StreamsHeartbeatReply(StreamsGroupHeartbeatResponse(error_code=error)),
        )

    def streams_topics(
        self, settings: LiveSettings, membership: ClusterMembership
    ) -> StreamsTopics:
        """The creator of internal topics of streams groups; it is made at first use."""
        from kwire.coordinators.runtime.streams_topics import StreamsTopics

        if self._streams_topics is None:
            self._streams_topics = StreamsTopics(settings, membership, self.start_soon)
        return self._streams_topics

    def describe_streams_group(
        self, group_id: str
    ) -> DescribedStreamsGroup | Promise[DescribedStreamsGroup]:
        """StreamsGroupDescribe: returns the state of a streams group."""
        from kwire.codecs.messages.streams_group_describe import DescribedGroup

        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(group_id),
            lambda machine, ticket, _: GroupEffects.reply(
                ticket, machine.streams.describe(group_id)
            ),
            lambda error: DescribedGroup(group_id=group_id, error_code=error),
        )

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int
    ) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
        """OffsetCommit: stores offsets of a group of any kind.

        `api_version` decides the errors that the client knows.
        """
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.commit_offsets(
                request, api_version, ticket, now_ms
            ),
            lambda error: commit_error(request, error),
        )

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        verification: Verification | None,
    ) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
        """TxnOffsetCommit: stores offsets, pending until the transaction ends.

        Each topic has both its name and its id.  `api_version` decides the errors that the client
        knows.
        `verification` proves that the transaction includes the group's offsets partition.
        """
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.commit_transactional_offsets(
                request, api_version, ticket, now_ms
            ),
            lambda error: txn_offsets.commit_error(request, error),
            verification,
        )

    def end_transaction(
        self, index: int, marker: bytearray, *, commit: bool, transaction_version: int
    ) -> None:
        """Appends a marker to a partition, then applies or drops the pending offsets.

        Raises LogError: NOT_LEADER_OR_FOLLOWER while the partition is not served here, or the
        log's own error if the append fails.
        """
        shard = self.runtime.shards.get(index)
        if shard is None or shard.error is not ErrorCode.NONE:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        shard.end_transaction(
            marker,
            self.runtime.now_ms(),
            commit=commit,
            transaction_version=transaction_version,
        )

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]:
        """OffsetFetch: returns the group's present offsets.

        Like all replies, it waits for the commit.
        """
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, _: GroupEffects.reply(
                ticket, machine.fetch_offsets(request, require_stable=require_stable)
            ),
            lambda error: OffsetFetchResponseGroup(group_id=request.group_id, error_code=error),
        )

    def delete_offsets(
        self, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
        """OffsetDelete: removes offsets of partitions that no member reads."""
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(request.group_id),
            lambda machine, ticket, now_ms: machine.delete_offsets(request, ticket, now_ms),
            lambda error: OffsetDeleteResponse(error_code=error),
        )

    # -- groups

    def delete_group(self, group_id: str) -> ErrorCode | Promise[ErrorCode]:
        """DeleteGroups: deletes a group without members; returns NONE or the error."""
        return self.runtime.submit(
            self.partition_for(group_id),
            lambda machine, ticket, now_ms: machine.delete_group(group_id, ticket, now_ms),
            lambda error: error,
        )

    def describe_group(
        self, group_id: str, api_version: int
    ) -> DescribedGroup | Promise[DescribedGroup]:
        """DescribeGroups: returns the state of a classic group.

        `api_version` decides how an unknown group is reported.
        """
        return self.runtime.submit(
            self.partition_for(group_id),
            lambda machine, ticket, _: GroupEffects.reply(
                ticket, machine.classic.describe(group_id, api_version)
            ),
            lambda error: DescribedGroup(group_id=group_id, error_code=error),
        )

    def describe_consumer_group(
        self, group_id: str
    ) -> DescribedConsumerGroup | Promise[DescribedConsumerGroup]:
        """ConsumerGroupDescribe: returns the state of a group."""
        if not group_id:
            return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_for(group_id),
            lambda machine, ticket, _: GroupEffects.reply(
                ticket, machine.consumer.describe(group_id)
            ),
            lambda error: DescribedConsumerGroup(group_id=group_id, error_code=error),
        )

    def list_groups(
        self, states: Sequence[str], types: Sequence[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """Return the groups of all partitions led here.

        While a partition is loading: no groups and COORDINATOR_LOAD_IN_PROGRESS.
        """
        groups: list[ListedGroup] = []
        for shard in self.runtime.shards.values():
            if shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return shard.error, []
            if shard.error is ErrorCode.NONE:
                groups += shard.machine.list_groups(states, types)
        return ErrorCode.NONE, groups


def _heartbeat_error(error: ErrorCode) -> HeartbeatResponse:
    """The response for an error of the shard; see the module for the exception."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)


def _leave_error(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
