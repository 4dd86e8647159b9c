"""What stock clients have asked three brokers, asked of three others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import Kafka, KafkaCluster
from kwire.testing.replaying import NoCounterpart, replay
from tests.commands.forked import run_kwire
from tests.waiting import until

pytestmark = pytest.mark.slow

TOPIC = "orders"
PARTITIONS = 6
WRITTEN = 60
"""Records by each of two producers; of the transactional one as many again are aborted."""
Settings = dict[str, str | int | float | bool]


@pytest.fixture(
    scope="module", params=["classic", pytest.param("consumer", marks=pytest.mark.long)]
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a session with a topic, transactions, an idempotent producer and a group."""
    path = tmp_path_factory.mktemp("traces") / f"{request.param}.jsonl"
    with KafkaCluster(3) as kafka:
        with kafka.trace(keep_bytes=True) as seen:
            session(kafka.bootstrap, request.param)
        seen.save(path)
    assert (seen.dropped, seen.lost) == (0, frozenset())
    return path


@pytest.fixture
def fresh() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as kafka:
        yield kafka


def session(bootstrap: str, protocol: str) -> None:
    at: Settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(at)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(120)
    write(Producer(at | {"enable.idempotence": True}), 0)
    biller = Producer(at | {"transactional.id": "billing"})
    biller.init_transactions(120)
    for number in (1, 2):
        biller.begin_transaction()
        write(biller, number)
        biller.commit_transaction(120) if number == 1 else biller.abort_transaction(120)
    of_group: Settings = {
        "group.id": "readers",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    read(at | of_group)


def write(producer: Producer, number: int) -> None:
    for each in range(WRITTEN):
        producer.produce(TOPIC, f"{number} {each}", partition=each % PARTITIONS)
    assert producer.flush(120) == 0


def read(settings: Settings) -> None:
    member = Consumer(settings)
    member.subscribe([TOPIC])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 120
    while len(found) < 2 * WRITTEN:
        assert time.monotonic() < deadline, len(found)
        message = member.poll(0.5)
        if message is not None and not message.error():
            found.append(message.value())
    member.commit(asynchronous=False)
    member.close()
    assert not any(value is None or value.startswith(b"2 ") for value in found)


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_fresh_cluster_answers_as_recorded(recorded: Path, fresh: KafkaCluster) -> None:
    outcome = fresh.replay(recorded)
    outcome.assert_same()
    seen = events(recorded)
    assert {event["broker"] for event in seen} == {1, 2, 3}
    assert outcome.lacking == 0
    assert len(seen) == outcome.sent + len(outcome.unsent) > 60
    too_early = [*outcome.unsent, *outcome.uncompared]
    assert all(left.why.startswith("it had come too early (") for left in too_early)
    assert outcome.compared > len(seen) * 3 / 4, str(outcome)
    assert len(fresh.topic(TOPIC).records(committed=True)) == 2 * WRITTEN
    assert not any(broker.clock.is_held for broker in fresh.brokers.values())


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_difference_names_its_broker(recorded: Path, fresh: KafkaCluster) -> None:
    asked = {event["broker"] for event in events(recorded) if event["api"] == "OffsetFetch"}
    with fresh.faults.add(api="OffsetFetch", error="GROUP_AUTHORIZATION_FAILED"):
        outcome = fresh.replay(recorded)
    (differing,) = outcome.differing
    assert {differing.request.broker} == asked
    assert f" at broker {differing.request.broker}:\n" in str(outcome)
    assert "NONE was recorded, now GROUP_AUTHORIZATION_FAILED" in str(outcome)
    (told,) = outcome.to_json()["differing"]
    assert told["broker"] == differing.request.broker


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_missing_broker_is_named(recorded: Path) -> None:
    with Kafka() as alone:
        with pytest.raises(
            NoCounterpart, match=f"1, 2 and 3, but the cluster at {alone.bootstrap} "
        ):
            replay(recorded, alone.bootstrap)
        refused = run_kwire("trace", "replay", str(recorded), f"-b{alone.bootstrap}")
    assert refused.returncode == 2
    assert refused.stderr.endswith("has brokers 1. Missing: 2 and 3.\n")


def control_of(kafka: KafkaCluster) -> str:
    """Of the first broker."""
    return f"--control=http://127.0.0.1:{kafka.brokers[1].control_port}"


def test_trace_commands_record_and_replay_a_cluster(fresh: KafkaCluster, tmp_path: Path) -> None:
    path, asked = tmp_path / "trace.jsonl", ("trace", "--bytes", "--brokers=3")
    run = [sys.executable, "-m", "kwire.cli", *asked, control_of(fresh)]
    with KafkaCluster(3) as kafka, path.open("wb") as file:
        run[-1] = control_of(kafka)
        with subprocess.Popen(run, stdout=file) as tracing:
            until(lambda: all(traces_at(kafka, each) for each in (1, 2, 3)), "it traces")
            bill(kafka.bootstrap)
            until(lambda: b'"EndTxn"' in path.read_bytes(), "the end is seen")
            tracing.send_signal(signal.SIGINT)
        assert not any(traces_at(kafka, each) for each in (1, 2, 3))
    again = ("trace", "replay", str(path), f"-b{fresh.bootstrap}", "--patience=60")
    same = run_kwire(*again, control_of(fresh))
    assert same.returncode == 0, same.stdout + same.stderr
    assert same.stdout.endswith(" the same, 0 not\n")
    wanted = [str(each) for each in range(WRITTEN)]
    fresh.topic(TOPIC).assert_holds(wanted, committed=True, within_s=120)


def traces_at(kafka: KafkaCluster, broker: int) -> list[object]:
    return list(kafka.brokers[broker].control.get("/traces")["traces"])


def bill(bootstrap: str) -> None:
    """A transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "b", "log_level": 0})
    producer.init_transactions(120)
    producer.begin_transaction()
    for each in range(WRITTEN):
        producer.produce(TOPIC, str(each))
    producer.commit_transaction(120)


def test_dead_broker_loses_unread_events(fresh: KafkaCluster) -> None:
    asked = "ApiVersions"
    with fresh.trace(api=asked, client="seen") as seen:
        for broker in fresh.brokers.values():
            at: Settings = {
                "bootstrap.servers": broker.bootstrap,
                "client.id": "seen",
                "log_level": 0,
            }
            AdminClient(at).list_topics(timeout=120)
        before = seen.events
        assert {event["broker"] for event in before} == {1, 2, 3}
        assert seen.lost == frozenset()
        fresh.brokers[2].kill()
        assert seen.events[: len(before)] == before
        fresh.brokers[2].start()
    assert seen.lost == {2}
