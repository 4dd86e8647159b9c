"""An assigned group that commits offsets: a consumer or a streams group.

A member may commit and fetch offsets if it sends its member epoch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.groups.assigned.group import AssignedGroup, M, T
from kwire.groups.txn_offsets import NEW_ERRORS_SINCE

MEMBER_EPOCHS_SINCE = 9  # OffsetCommit


class CommitPartition(NamedTuple):
    """A partition in a commit request."""

    topic: str
    topic_id: bytes
    partition: int


class CommittingGroup(AssignedGroup[M, T]):
    """See the module."""

    __slots__ = ()

    @abstractmethod
    def assigned_since_epoch(self, member: M, partition: CommitPartition) -> int | None:
        """The epoch in which the partition was assigned to the member; None if it is not."""

    def uses_member_epochs(self, member: M) -> bool:
        """False for a member of the classic protocol, which sends generations instead."""
        return True

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Check OffsetCommit.

        A member may commit with an earlier epoch if it has had all the partitions since that epoch
        or longer (KIP-1251).
        """
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.uses_member_epochs(member) and api_version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        partitions = (
            CommitPartition(t.name, t.topic_id, p.partition_index)
            for t in request.topics
            for p in t.partitions
        )
        return self._check_epoch(member, epoch, partitions)

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> ErrorCode:
        """Check TxnOffsetCommit.  A producer that names no member may commit (KIP-447).

        Versions before 6 have ILLEGAL_GENERATION in place of STALE_MEMBER_EPOCH.
        """
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if epoch == -1 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        partitions = (
            CommitPartition(t.name, t.topic_id, p.partition_index)
            for t in request.topics
            for p in t.partitions
        )
        error = self._check_epoch(member, epoch, partitions)
        if error is ErrorCode.STALE_MEMBER_EPOCH and api_version < NEW_ERRORS_SINCE:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_epoch(
        self, member: M, epoch: int, partitions: Iterable[CommitPartition]
    ) -> ErrorCode:
        """Return the error of a commit with `epoch`, NONE if it is the member's epoch.

        An earlier epoch is allowed if each partition was assigned in that epoch or before.
        """
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch > member.epoch:
            return self._stale(member)
        for partition in partitions:
            since = self.assigned_since_epoch(member, partition)
            if since is None or epoch < since:
                return self._stale(member)
        return ErrorCode.NONE

    def _stale(self, member: M) -> ErrorCode:
        """The error for a wrong epoch, in the protocol that the member uses."""
        of_epochs = self.uses_member_epochs(member)
        return ErrorCode.STALE_MEMBER_EPOCH if of_epochs else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Check OffsetFetch.  A request without member id and epoch is allowed."""
        if request.member_id is None and request.member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(request.member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == request.member_epoch:
            return ErrorCode.NONE
        return self._stale(member)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    @property
    def may_become_classic(self) -> bool:
        return not self.members

    @property
    def offsets_may_expire(self) -> bool:
        return True

    @property
    def is_deleted_without_offsets(self) -> bool:
        return not self.members
