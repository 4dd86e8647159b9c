"""The record of a classic group.

type  key    value               written as version
----  -----  ------------------  ---------------------------
2     group  GroupMetadataValue  3, the last version without tagged fields
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.codecs.messages.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from kwire.groups.record_format import VALUE_PREFIX, VERSION, version_of

GROUP_METADATA = 2
GROUP_METADATA_VALUE_VERSION = 3

_PREFIX = VERSION.pack(GROUP_METADATA)


@dataclass(slots=True)
class GroupMetadata:
    """A classic group as of its last completed rebalance; value None deletes the group."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value as bytes; the value is None for a tombstone."""
        key = _PREFIX + self.key.encode(0)
        if self.value is None:
            return key, None
        version = GROUP_METADATA_VALUE_VERSION
        return key, VALUE_PREFIX[version] + self.value.encode(version)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> GroupMetadata:
        """Return the record from its key and value as bytes; a null value is a tombstone.

        Raises DecodeError, UnreadableRecord.
        """
        return cls(
            GroupMetadataKey.decode(key, 0, 2),
            None
            if value is None
            else GroupMetadataValue.decode(value, version_of(value, GroupMetadataValue), 2),
        )


def group_tombstone(group_id: str) -> GroupMetadata:
    return GroupMetadata(GroupMetadataKey(group=group_id), None)
