"""The roles of the records of an assigned group.

role               key            value
-----------------  -------------  -----------------------------------------------------------------
GroupEpoch         group          the group's epoch, and a hash of the topics that it reads
MemberMetadata     group, member  a member's client, subscription and settings
TargetEpoch        group          the epoch that the target assignment was computed for, and when
TargetAssignment   group, member  a member's target
CurrentAssignment  group, member  what a member has, what it must give up, its epoch and its state

Each kind of groups has one class for each role, with a type number and a value of its own, and one
or two classes for what only this kind stores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kwire.groups.record_format import K, KeyedRecord, V


class GroupEpoch(KeyedRecord[K, V]):
    """See the module.  Its tombstone deletes the group."""


class MemberMetadata(KeyedRecord[K, V]):
    """See the module.  Its tombstone removes the member."""


class TargetEpoch(KeyedRecord[K, V]):
    """See the module."""


class TargetAssignment(KeyedRecord[K, V]):
    """See the module."""


class CurrentAssignment(KeyedRecord[K, V]):
    """See the module."""


class RecordRoles(NamedTuple):
    """The record classes of one kind of groups."""

    epoch: type[GroupEpoch[Any, Any]]
    metadata: type[MemberMetadata[Any, Any]]
    target_epoch: type[TargetEpoch[Any, Any]]
    target: type[TargetAssignment[Any, Any]]
    current: type[CurrentAssignment[Any, Any]]
