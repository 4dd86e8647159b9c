"""Groups whose members send assignments that are not Kafka's: they are described all the same."""

from __future__ import annotations

import pytest

from kwire.client.cluster import TopicPartition
from kwire.client.groups import classic_group
from kwire.client.membership.subscription import write_assignment
from kwire.codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember


def described(*assignments: bytes) -> list[list[TopicPartition]]:
    """The assignments of the members of a group, as they are described."""
    members = [
        DescribedGroupMember(f"member-{number}", member_assignment=assignment)
        for number, assignment in enumerate(assignments)
    ]
    group = DescribedGroup(
        group_id="group", group_state="Stable", protocol_type="consumer", members=members
    )
    found = classic_group(group)
    assert found is not None
    return [member.assignment for member in found.members]


@pytest.mark.parametrize(
    "foreign",
    [b"m", b"mine", b"\xff\xff", b"\xff\xfe\x00", b"\x00\x01\x7f\xff\xff\xff", b"{}" * 50],
)
def test_member_with_a_foreign_assignment_is_described_without_partitions(foreign: bytes) -> None:
    own = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert described(write_assignment(own), foreign) == [own, []]
