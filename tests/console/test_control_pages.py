"""The pages of a broker with `--control`: faults, requests, clock, snapshots and forks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping

import pytest

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse
from kwire.client.topics import create_topic, list_topics
from kwire.console.cluster.control import fault_of, fault_words, trace_words
from kwire.console.views.control import duration_ms
from kwire.testing.control import ControlClient
from kwire.testing.kafka import Kafka
from tests.console.consoles import Answer, ConsoleProcess, visit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as started:
        yield started


@pytest.fixture(scope="module")
def control(kafka: Kafka) -> ControlClient:
    return kafka.control


@pytest.fixture(scope="module")
def console(
    kafka: Kafka, control: ControlClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    with ConsoleProcess(kafka.bootstrap, folder, "--control", control.address) as started:
        yield started


def change(console: ConsoleProcess, action: str, **fields: str) -> Answer:
    """Send a form of the page, and return the page that it leads to."""
    done = visit(console, "/control/change", {"broker": "0", "action": action, **fields})
    assert done.status == 303, done.text
    return visit(console, done.headers["location"])


def test_fault_is_switched_on_injected_and_switched_off(
    console: ConsoleProcess, kafka: Kafka, control: ControlClient
) -> None:
    shown = change(console, "add-fault", preset="stale-metadata", client="victim", times="1")
    assert "kwire fault add stale-metadata --client victim --times 1 --control" in shown.text
    assert "preset=stale-metadata client=victim times=1" in shown.text
    with Cluster(kafka.bootstrap, client_id="victim", timeout_s=60) as cluster:
        create_topic(cluster, "met-a-fault", partitions=1)
        list_topics(cluster)
    assert "used up" in visit(console, "/control").text
    [rule] = control.get("/faults")["faults"]
    change(console, "remove-fault", rule=str(rule["rule"]))
    assert control.get("/faults")["faults"] == []
    assert "the rule injects nothing" in change(console, "add-fault", client="x").text
    assert "is a number, not" in change(console, "add-fault", times="x").text


def test_clock_is_advanced_held_and_released(
    console: ConsoleProcess, control: ControlClient
) -> None:
    before_ms = control.get("/clock")["ahead_ms"]
    shown = change(console, "advance", duration="90m")
    assert "kwire clock advance 90m --control" in shown.text
    assert control.get("/clock")["ahead_ms"] - before_ms >= 90 * 60_000
    change(console, "hold")
    assert control.get("/clock")["held"]
    change(console, "release")
    assert not control.get("/clock")["held"]
    assert "is not a duration" in change(console, "advance", duration="soon").text


def test_snapshot_is_taken_forked_and_removed(
    console: ConsoleProcess, control: ControlClient
) -> None:
    shown = change(console, "take", name="seeded")
    assert "kwire snapshot take seeded --control" in shown.text
    shown = change(console, "fork", snapshot="seeded")
    assert "kwire snapshot fork seeded --beside --control" in shown.text
    [fork] = control.get("/forks")["forks"]
    assert fork["bootstrap"] in shown.text
    change(console, "end-fork", fork=str(fork["fork"]))
    assert control.get("/forks")["forks"] == []
    change(console, "remove-snapshot", name="seeded")
    assert control.get("/snapshots")["snapshots"] == []
    assert "not a valid name" in html.unescape(change(console, "take", name="../x").text)


def test_requests_are_recorded_followed_and_ended(
    console: ConsoleProcess, kafka: Kafka, control: ControlClient
) -> None:
    begun = visit(console, "/requests/begin", {"broker": "0", "client": "seen<b>"})
    page = visit(console, begun.headers["location"])
    assert "kwire trace --client 'seen<b>' --control" in html.unescape(page.text)
    [more] = re.findall(r'data-more="([^"]+)"', page.text)
    more = html.unescape(more)
    assert "<tr" not in visit(console, f"{more}&after=0").text
    with Cluster(kafka.bootstrap, client_id="seen<b>", timeout_s=60) as cluster:
        list_topics(cluster)
    rows = visit(console, f"{more}&after=0").text
    assert "<strong>Metadata</strong>" in rows
    assert "seen&lt;b&gt;" in rows
    assert "<b>" not in rows
    numbers = [int(number) for number in re.findall(r'data-number="(\d+)"', rows)]
    assert numbers == sorted(numbers, reverse=True)
    assert "<tr" not in visit(console, f"{more}&after={numbers[0]}").text
    [trace] = re.findall(r"trace=(\d+)", more)
    visit(console, "/requests/end", {"broker": "0", "trace": trace})
    assert control.get("/traces")["traces"] == []
    assert visit(console, f"{more}&after=0").status == 400


def test_unknown_actions_and_brokers_are_refused(console: ConsoleProcess) -> None:
    assert visit(console, "/control/change", {"broker": "0", "action": "explode"}).status == 400
    for broker in ("7", "-1", "x", "99999999"):
        assert visit(console, f"/control?broker={broker}").status in (200, 400)
    assert visit(console, "/requests?trace=x&after=0").status == 400


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"preset": "full-disk", "topic": "a"}, ["fault", "add", "full-disk", "--topic", "a"]),
        (
            {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "probability": "0.5"},
            ["fault", "add", "--api", "Produce", "--probability", "0.5",
             "--error", "NOT_LEADER_OR_FOLLOWER"],
        ),
        ({"delay_ms": "500", "carried_out": "yes"},
         ["fault", "add", "--delay-ms", "500", "--carried-out"]),
    ],
)  # fmt: skip
def test_command_of_a_fault_is_that_of_kwire(fields: Mapping[str, str], words: list[str]) -> None:
    assert fault_words(fault_of(fields)) == words


def test_command_of_a_trace_is_that_of_kwire() -> None:
    assert trace_words({"topic": "a", "partition": 3}) == [
        "trace", "--topic", "a", "--partition", "3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("30s", 30_000), ("1.5h", 5_400_000), ("7", 7_000), ("250ms", 250)]
)
def test_durations_have_units(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "-1s", "1y", "9" * 40, "1e5s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(Misuse, match="is not a duration"):
        duration_ms(text)
