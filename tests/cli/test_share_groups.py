"""`kwire groups` of share groups."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kwire.conformance.wire.cases.build import filled_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    acknowledge,
    fetch,
    heartbeat,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage
from tests.cli.conftest import Kwire
from tests.coordinators.share_partitions.serving import stage_on

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(bootstrap: str) -> Iterator[Stage]:
    made = stage_on(bootstrap)
    yield made
    made.finish()


def test_a_share_group_is_listed_described_reset_and_deleted(stage: Stage, kwire: Kwire) -> None:
    group, topic = new_group(stage), filled_topic(stage)
    epoch = join_until_assigned(stage, group, "m-1", topic)
    stage.send(fetch(group, "m-1", 0, topic))
    for number, last in enumerate((1, 3), 1):
        stage.send(acknowledge(group, "m-1", number, topic, (last - 1, last, [ACCEPT])))
    listed = json.loads(kwire("groups", "list", "--type", "share", "--json").stdout)
    assert {"group": group, "type": "share", "state": "Stable", "protocol": "share"} in listed
    described = json.loads(kwire("groups", "describe", group, "--json").stdout)
    assert (described["type"], described["state"], described["epoch"]) == ("share", "Stable", epoch)
    [member] = described["members"]
    assert (member["member"], member["epoch"]) == ("m-1", epoch)
    assert member["assignment"] == f"{topic.name}:0-1"
    assert described["partitions"][0] == {
        "topic": topic.name,
        "partition": 0,
        "start": 2,
        "lag": 2,
        "members": "m-1",
    }
    reset = ["groups", "reset", group, "--all-topics", "--execute"]
    refused = kwire(*reset, "--to-earliest", status=1)
    assert "NON_EMPTY_GROUP" in refused.stderr
    stage.ask(heartbeat(group, "m-1", -1))
    planned = kwire("groups", "reset", group, "-t", f"{topic.name}:0", "--to-earliest", "--dry-run")
    assert f"group {group} would be reset" in planned.stderr
    assert start_of(kwire, group) == 2
    kwire(*reset, "--shift-by", "2")
    assert start_of(kwire, group) == 4
    whole = kwire("groups", "delete-offsets", group, "-t", f"{topic.name}:0", status=2)
    assert "whole topics" in whole.stderr
    kwire("groups", "delete-offsets", group, "-t", topic.name, "--yes")
    assert json.loads(kwire("groups", "describe", group, "--json").stdout)["partitions"] == []
    kwire("groups", "delete", group, "--yes")
    assert "GROUP_ID_NOT_FOUND" in kwire("groups", "describe", group, status=1).stderr


def test_reset_creates_a_group_of_the_given_type(kwire: Kwire, unique: str) -> None:
    kwire("topics", "create", unique, "-p", "1")
    kwire("produce", unique, stdin="1\n2\n")
    reset = ["groups", "reset", unique, "--topic", unique, "--to-earliest", "--yes"]
    refused = kwire(*reset, status=1).stderr
    assert refused == (
        f"kwire: group {unique} does not exist: give --type consumer or --type share to create it\n"
    )
    assert unique not in kwire("groups", "list").stdout
    kwire(*reset, "--type", "share")
    assert kwire("consume", unique, "--share", unique, "-n", "2").stdout == "1\n2\n"
    kwire(*reset)  # the type of a group that exists needs no word
    other = kwire(*reset, "--type", "consumer", status=1).stderr
    assert other == f"kwire: group {unique} is a share group, not a consumer group\n"
    misspelt = [*reset[:2], unique[:-1], *reset[3:]]
    assert f"did you mean {unique}?" in kwire(*misspelt, status=1).stderr


def start_of(kwire: Kwire, group: str) -> int:
    """From where the first partition is read."""
    [first, *_] = json.loads(kwire("groups", "describe", group, "--json").stdout)["partitions"]
    start: int = first["start"]
    return start
