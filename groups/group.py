"""The interface of a group of any kind, as the machine of its partition uses it."""

from __future__ import annotations

from typing import Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest


class Group(Protocol):
    """A group in its current state.

    It changes only by `apply` of its records, and by effects that have been carried out.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def type_name(self) -> str:
        """The group's type in ListGroups; identifies its `kwire.groups.kind.GroupKind`."""

    @property
    def state_name(self) -> str: ...

    def listed(self) -> ListedGroup: ...

    # -- checks of requests: NONE, or the error

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode: ...

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> ErrorCode: ...

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode: ...

    def check_offset_delete(self) -> ErrorCode: ...

    def check_delete(self) -> ErrorCode: ...

    @property
    def may_become_classic(self) -> bool:
        """Whether a JoinGroup of a new member may replace it with a classic group."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    # -- expiry of offsets (KIP-211)

    @property
    def offsets_may_expire(self) -> bool:
        """Whether offsets may expire: it is known which of them no member uses."""

    def retention_start_ms(self, commit_timestamp_ms: int) -> int:
        """Return when the retention starts (ms) of an offset committed at this time."""

    @property
    def has_description(self) -> bool:
        """Whether a plug-in may have the description of a streams group's topology."""

    @property
    def is_deleted_without_offsets(self) -> bool:
        """Whether the group is deleted when its last offset expires."""
