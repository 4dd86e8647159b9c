"""`kwire groups` of streams groups."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kwire.conformance.wire.cases.build import batch, commit, fill
from kwire.conformance.wire.cases.streams_group import (
    counting,
    heartbeat,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage
from tests.cli.conftest import Kwire
from tests.streams_stage import stage_on

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(bootstrap: str, unique: str) -> Iterator[Stage]:
    made = stage_on(bootstrap, unique)
    yield made
    made.finish()


def test_a_streams_group_is_listed_described_reset_and_deleted(stage: Stage, kwire: Kwire) -> None:
    topic, group = stage.topic(partitions=2), new_group(stage)
    fill(stage, topic, batch(stage, b"one"), batch(stage, b"two"))
    epoch = join_until_assigned(stage, join(group, "m-1", counting(stage, topic)))
    stage.ask(commit(group, topic, 1, member_id="m-1", generation=epoch))
    listed = json.loads(kwire("groups", "list", "--type", "streams", "--json").stdout)
    assert {"group": group, "type": "streams", "state": "Stable", "protocol": "streams"} in listed
    described = json.loads(kwire("groups", "describe", group, "--json").stdout)
    assert (described["type"], described["epoch"]) == ("streams", epoch)
    [member] = described["members"]
    assert (member["process"], member["active"]) == ("process-of-m-1", "0_0 0_1 1_0 1_1")
    assert {
        "topic": topic.name,
        "partition": 0,
        "committed": 1,
        "end": 2,
        "lag": 1,
        "member": "m-1",
    } in described["partitions"]
    assert len(described["partitions"]) == 4
    shown = kwire("groups", "describe", group, "--members").stdout
    assert "0_0 0_1 1_0 1_1" in shown
    stage.ask(heartbeat(group, "m-1", -1))
    kwire("groups", "reset", group, "--topic", f"{topic.name}:0", "--to-earliest", "--execute")
    described = json.loads(kwire("groups", "describe", group, "--json").stdout)
    assert [each["committed"] for each in described["partitions"]] == [0]
    kwire("groups", "delete", group, "--yes")
    assert "GROUP_ID_NOT_FOUND" in kwire("groups", "describe", group, status=1).stderr
