"""The demo's consumer group is one: each of its members reads."""

from __future__ import annotations

import pytest

from kwire.pipeline.demo import group, produce
from kwire.testing import BrokerProcess

PARTITIONS = 6


@pytest.mark.slow  # two libraries join a group: 4 s
def test_each_member_has_a_share(shared_broker: BrokerProcess, unique: str) -> None:
    """Also if the first member could have read everything before the others joined."""
    bootstrap = shared_broker.bootstrap
    produce.create_topics(bootstrap, {unique: PARTITIONS})
    rows = [{"carrier": f"carrier-{number}", "month": "1"} for number in range(100)]
    count = produce.produce(bootstrap, unique, rows, lambda done: None)
    members = group.consume(bootstrap, unique, unique, count, PARTITIONS, lambda done: None)
    shares = [sorted(member.partitions) for member in members]
    assert sorted(shares) == [[0, 1], [2, 3], [4, 5]]
    assert group.committed(bootstrap, unique, unique) == count
