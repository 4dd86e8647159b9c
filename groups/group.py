"""What all kinds of groups have in common, as the machine of their partition sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest


class Group(Protocol):
    """A group as it is now: what may be done with it, and what is told of it.

    It is never changed but by its record, or by effects that have happened.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def type_name(self) -> str:
        """As ListGroups calls the kind: its `kwire.groups.kind.Kind`."""

    @property
    def state_name(self) -> str: ...

    def listed(self) -> ListedGroup: ...

    # -- may it be done?  NONE, or why not

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode: ...

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, topic_id_of: Callable[[str], bytes]
    ) -> ErrorCode: ...

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode: ...

    def check_offset_delete(self) -> ErrorCode: ...

    def check_delete(self) -> ErrorCode: ...

    @property
    def may_turn_classic(self) -> bool:
        """Whether a member of the classic protocol may have it begin anew as one of its kind."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    # -- the life of its offsets (KIP-211)

    @property
    def offsets_may_expire(self) -> bool:
        """Whether it can be known that nobody in the group uses an offset."""

    def unused_since_ms(self, commit_timestamp_ms: int) -> int:
        """When the retention of an offset began that was committed then."""

    @property
    def goes_with_its_offsets(self) -> bool:
        """Whether the group is forgotten once it has no offsets left."""
