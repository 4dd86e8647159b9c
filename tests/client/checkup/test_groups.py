"""Findings about the committed offsets of groups."""

from __future__ import annotations

from kwire.client.checkup.finding import CheckGrade
from kwire.client.checkup.groups import GroupOffset, group_findings
from kwire.client.cluster import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_offsets_inside_of_the_log_have_no_finding() -> None:
    inside = [GroupOffset("g", T0, offset, 5, 9) for offset in (5, 7, 9)]
    assert list(group_findings(inside)) == []


def test_offset_below_the_first_record_is_a_risk_with_the_number_of_deleted_offsets() -> None:
    [each] = group_findings(
        [GroupOffset("my group", T0, 1, 5, 9), GroupOffset("my group", T1, 4, 5, 9)]
    )
    assert (each.grade, each.check, each.about) == (
        CheckGrade.RISK, "records-deleted-unread", "group my group",
    )  # fmt: skip
    assert "5 offsets of partitions t-0, t-1" in each.says
    assert (each.remedy or "").startswith("kwire groups reset 'my group' --topic t --to-earliest")


def test_offset_beyond_the_end_is_a_risk() -> None:
    [each] = group_findings([GroupOffset("g", T0, 10, 5, 9)])
    assert (each.grade, each.check) == (CheckGrade.RISK, "offset-beyond-end")
