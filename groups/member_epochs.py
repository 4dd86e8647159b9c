"""Groups whose members have epochs: who may commit their offsets, look at them, delete them.

Consumer groups (KIP-848) and streams groups (KIP-1071) say the same of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest

MEMBER_EPOCHS_SINCE = 9  # OffsetCommit


class MemberOfEpoch(Protocol):
    @property
    def epoch(self) -> int: ...


M = TypeVar("M", bound=MemberOfEpoch)


class Place(NamedTuple):
    """A partition of which somebody commits an offset."""

    topic: str
    topic_id: bytes
    partition: int


class MemberEpochs(ABC, Generic[M]):
    """See the module; in part what `kwire.groups.group.Group` asks for."""

    __slots__ = ()
    members: dict[str, M]

    @abstractmethod
    def given_since(self, member: M, place: Place) -> int | None:
        """In which epoch the member was given what a partition is for; None: it has not."""

    def speaks_of_epochs(self, member: M) -> bool:
        """Or of generations, as the classic protocol does."""
        return True

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """A member of an earlier epoch may commit for what it was given by then (KIP-1251)."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.speaks_of_epochs(member) and api_version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        places = (
            Place(t.name, t.topic_id, p.partition_index)
            for t in request.topics
            for p in t.partitions
        )
        return self._check_epoch(member, epoch, places)

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, topic_id_of: Callable[[str], bytes]
    ) -> ErrorCode:
        """KIP-447: a producer that names no member may commit to any group."""
        epoch = request.generation_id
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if epoch == -1 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        places = (
            Place(t.name, topic_id_of(t.name), p.partition_index)
            for t in request.topics
            for p in t.partitions
        )
        error = self._check_epoch(member, epoch, places)
        stale = error is ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.ILLEGAL_GENERATION if stale else error

    def _check_epoch(self, member: M, epoch: int, places: Iterable[Place]) -> ErrorCode:
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch > member.epoch:
            return self._stale(member)
        for place in places:
            since = self.given_since(member, place)
            if since is None or epoch < since:
                return self._stale(member)
        return ErrorCode.NONE

    def _stale(self, member: M) -> ErrorCode:
        """As the protocol that the member speaks calls it."""
        of_epochs = self.speaks_of_epochs(member)
        return ErrorCode.STALE_MEMBER_EPOCH if of_epochs else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Who names neither member nor epoch may look."""
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

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def may_turn_classic(self) -> bool:
        return not self.members

    @property
    def offsets_may_expire(self) -> bool:
        return True

    def unused_since_ms(self, commit_timestamp_ms: int) -> int:
        return commit_timestamp_ms

    @property
    def goes_with_its_offsets(self) -> bool:
        return not self.members
