"""Questions of an operator about a cluster that has lost a broker.

They are answered by its metrics, by `kwire top`, and by the console.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.operations.scenes import BrokenCluster, Pages, Top, console_of, top_of

pytestmark = pytest.mark.slow

CONTROLLER = "kafka_controller_kafkacontroller_"


@pytest.fixture(scope="module")
def top(lost: BrokenCluster) -> Top:
    return top_of(lost.operator, lambda: time.sleep(0.05))


@pytest.fixture(scope="module")
def pages(lost: BrokenCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with console_of(lost.operator, tmp_path_factory.mktemp("console")) as found:
        yield found


def test_is_a_broker_down(lost: BrokenCluster, top: Top, pages: Pages) -> None:
    """The controller counts the brokers; the others give 0."""
    assert lost.before.sums(f"{CONTROLLER}activebrokercount", [])[()] == 3
    assert lost.after.sums(f"{CONTROLLER}activebrokercount", [])[()] == 2
    assert lost.after.sums(f"{CONTROLLER}fencedbrokercount", [])[()] == 1

    assert {row["broker"] for row in top.rows("brokers") if not row["trouble"]} == {1, 2}
    assert any(str(lost.LOST) in problem for problem in top.view["problems"])

    page = pages.text("/health")
    for words in (f"broker {lost.LOST} is absent", "not well", "What to do", "2 of 3"):
        assert words in page


def test_who_is_the_controller(lost: BrokenCluster, top: Top, pages: Pages) -> None:
    for scrape in (lost.before, lost.after):
        assert scrape.sums(f"{CONTROLLER}activecontrollercount", [])[()] == 1

    (controller,) = [row for row in top.rows("brokers") if row["is_controller"]]
    assert controller["broker"] == top.view["controller"] != lost.LOST

    named = [row[0] for row in pages.rows("/brokers") if "controller" in row[0]]
    assert named == [f"{controller['broker']} controller"]


def test_which_partitions_have_no_leader(lost: BrokenCluster, top: Top, pages: Pages) -> None:
    offline = [value for _, value in lost.after.series(f"{CONTROLLER}offlinepartitionscount")]
    assert max(offline) == lost.single.partitions
    named = lost.after.sums("kwire_partition_offline", ["topic", "partition"])
    assert named.keys() == {(lost.single.name, "0")}

    assert top.view["totals"]["offline"] == lost.single.partitions
    assert top.view["offline"] == [f"{lost.single.name}-0"]
    assert f"1 partition offline: {lost.single.name}-0" in top.view["problems"]

    rows = [row for row in pages.rows("/health") if row[1:2] == ["offline"]]
    assert [(row[0], row[-1]) for row in rows] == [
        (f"{lost.single.name} 0", f"broker {lost.LOST} is absent")
    ]


def test_which_partitions_are_under_replicated(lost: BrokenCluster, top: Top, pages: Pages) -> None:
    found = lost.after.sums("kafka_cluster_partition_underreplicated", ["topic", "partition"])
    under = {place for place, value in found.items() if value}
    assert {topic for topic, _ in under} >= {lost.tripled.name}
    assert lost.single.name not in {topic for topic, _ in under}

    assert top.view["totals"]["under_replicated"] == len(under)
    assert f"{len(under)} partitions under-replicated" in top.view["problems"]

    rows = [row for row in pages.rows("/health") if row[1:2] == ["under-replicated"]]
    assert {tuple(row[0].split()) for row in rows} == under


def test_which_brokers_lead_more_than_before(lost: BrokenCluster, top: Top, pages: Pages) -> None:
    """The two that are left lead what the third one led."""
    before = [value for _, value in lost.before.series("kafka_server_replicamanager_leadercount")]
    after = [value for _, value in lost.after.series("kafka_server_replicamanager_leadercount")]
    assert len(before) == len(after) + 1
    assert sum(after) == sum(before) - lost.single.partitions
    assert max(after) > max(before)

    leaders = {row["broker"]: row["leaders"] for row in top.rows("brokers") if row["leaders"]}
    assert sorted(leaders.values()) == sorted(int(value) for value in after)

    leads = {row[0].split()[0]: row[3].split()[0] for row in pages.tables("/brokers")[0]}
    assert {int(broker): int(count) for broker, count in leads.items() if count != "0"} == leaders
