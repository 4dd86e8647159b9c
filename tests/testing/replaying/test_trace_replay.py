"""What stock clients have asked one broker, asked of another one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.testing import Kafka
from kwire.testing.replaying import replay
from kwire.testing.topics import connected
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow

TOPIC = "replayed-orders"
"""A name of this module's own, as the others: Apache Kafka is shared with other tests."""
RECORDS = 40


@pytest.fixture(scope="module")
def fresh() -> Iterator[Kafka]:
    """A broker that each test resets before it replays."""
    with Kafka() as broker:
        yield broker


@pytest.fixture(scope="module", params=["classic", "consumer"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a session with a topic, transactions, an idempotent producer and a group."""
    path = tmp_path_factory.mktemp("traces") / f"{request.param}.jsonl"
    with Kafka() as kafka:
        with kafka.trace(keep_bytes=True) as seen:
            session(kafka.bootstrap, request.param)
        seen.save(path)
    assert seen.dropped == 0
    return path


def session(bootstrap: str, protocol: str) -> None:
    at: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(at)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(120)
    write(Producer(at | {"transactional.id": "replayed-billing"}), transactions=2)
    write(Producer(at | {"enable.idempotence": True}), transactions=0)
    read(
        at
        | {
            "group.id": "replayed-readers",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )


def write(producer: Producer, transactions: int) -> None:
    """Half of the records, at once or in so many transactions."""
    if transactions:
        producer.init_transactions(120)
    for number in range(transactions or 1):
        if transactions:
            producer.begin_transaction()
        for each in range(RECORDS // 2 // (transactions or 1)):
            producer.produce(TOPIC, f"{number} {each}", key=str(each))
        if transactions:
            producer.commit_transaction(120)
    assert producer.flush(120) == 0


def read(settings: dict[str, str | int | float | bool]) -> None:
    """All of it by a member, who commits what he has read, and goes.

    One: of two that join at once either may come first, and what follows is another story then.
    """
    member = Consumer(settings)
    member.subscribe([TOPIC])
    count, deadline = 0, time.monotonic() + 120
    while count < RECORDS and time.monotonic() < deadline:
        message = member.poll(0.5)
        count += message is not None and message.error() is None
    assert count >= RECORDS
    member.commit(asynchronous=False)
    member.close()


def test_fresh_broker_answers_as_recorded(recorded: Path, fresh: Kafka) -> None:
    fresh.reset()
    # Other ids than the recorded ones: of producers here, of topics, members and sessions always.
    for _ in range(3):
        at = {"bootstrap.servers": fresh.bootstrap, "log_level": 0}
        producer = Producer(at | {"transactional.id": "another"})
        producer.init_transactions(120)
    outcome = fresh.replay(recorded)
    outcome.assert_same()
    assert outcome.sent == outcome.compared > 40
    assert [*outcome.unsent, *outcome.uncompared, *outcome.asked_again] == []
    assert outcome.lacking == 0
    values = [record.value for record in fresh.topic(TOPIC).records()]
    assert len(values) == RECORDS


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_changed_response_is_reported(recorded: Path, fresh: Kafka) -> None:
    fresh.reset()
    with fresh.faults.add(api="OffsetFetch", error="GROUP_AUTHORIZATION_FAILED", times=1):
        outcome = fresh.replay(recorded)
    assert [each.request.api for each in outcome.differing] == ["OffsetFetch"], str(outcome)
    assert "NONE was recorded, now GROUP_AUTHORIZATION_FAILED" in str(outcome)
    with pytest.raises(AssertionError, match="GROUP_AUTHORIZATION_FAILED"):
        outcome.assert_same()


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_lost_response_is_reported(recorded: Path, fresh: Kafka) -> None:
    fresh.reset()
    with fresh.faults.add(api="CreateTopics", disconnect=True, carried_out=True, times=1):
        outcome = fresh.replay(recorded)
    (differing,) = outcome.differing
    assert differing.request.api == "CreateTopics"
    assert "an answer was recorded, now the connection was closed" in str(outcome)


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_request_is_sent_again_until_the_broker_is_ready(recorded: Path, fresh: Kafka) -> None:
    fresh.reset()
    not_yet = {"api": "FindCoordinator", "error": "COORDINATOR_NOT_AVAILABLE", "times": 1}
    with fresh.faults.add(**not_yet):  # type: ignore[arg-type]  # of each its own type
        outcome = fresh.replay(recorded, patience_s=60)
    outcome.assert_same()
    (again,) = outcome.asked_again
    assert (again.request.api, again.why) == ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
    fresh.reset()
    with fresh.faults.add(**not_yet):  # type: ignore[arg-type]  # of each its own type
        assert not replay(recorded, fresh.bootstrap, timeout_s=5).same


@pytest.mark.long
@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_recorded_pace_keeps_the_times_of_the_trace(recorded: Path, fresh: Kafka) -> None:
    lines = recorded.read_text().splitlines()
    times = [int(line.split('"timeMs": ')[1].split(",")[0]) for line in lines]
    fresh.reset()
    start = time.monotonic()
    fresh.replay(recorded, pace="recorded").assert_same()
    assert time.monotonic() - start >= (max(times) - min(times)) / 1000


def test_requests_with_secrets_are_neither_kept_nor_sent(fresh: Kafka, tmp_path: Path) -> None:
    fresh.reset()
    path = tmp_path / "trace.jsonl"
    with fresh.trace(keep_bytes=True) as seen:
        admin = AdminClient({"bootstrap.servers": fresh.bootstrap, "log_level": 0})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("anna", scram, b"s3cret")
        admin.alter_user_scram_credentials([change])["anna"].result(120)
    seen.save(path)
    outcome = fresh.replay(path)
    assert [left.why for left in outcome.unsent] == ["it holds secrets"]
    assert "not sent: " in str(outcome)
    assert "AlterUserScramCredentials" in str(outcome)


@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_replay_command_reports_differences(recorded: Path, fresh: Kafka, tmp_path: Path) -> None:
    fresh.reset()
    same = command(fresh, recorded)
    assert same.returncode == 0, same.stdout + same.stderr
    assert same.stdout.endswith(" the same, 0 not\n")
    other = command(fresh, recorded)  # the topic is there already
    assert other.returncode == 1, other.stderr
    assert "error_code: NONE was recorded, now TOPIC_ALREADY_EXISTS" in other.stdout
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(recorded.read_text()[:-20])
    count = len(recorded.read_text().splitlines())
    refused = command(fresh, damaged)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"kwire: {damaged}, line {count}: it is not JSON")


def command(kafka: Kafka, path: Path) -> subprocess.CompletedProcess[str]:
    return run_kwire("trace", "replay", str(path), "--bootstrap-server", kafka.bootstrap)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("recorded", ["classic"], indirect=True)
def test_apache_kafka_answers_as_recorded(recorded: Path, apache_kafka: ApacheKafkaNode) -> None:
    """But for what it says while its coordinators begin."""
    wait_for_coordinator(apache_kafka.bootstrap, "replayed-readers")
    outcome = replay(recorded, apache_kafka.bootstrap, patience_s=120, timeout_s=120)
    outcome.assert_same()
    assert outcome.sent == outcome.compared > 40
    again = {name for left in outcome.asked_again for name in left.why.split(", ")}
    assert again <= {
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }


def wait_for_coordinator(bootstrap: str, group: str) -> None:
    """Until it would let members join: of two at once the one that asks again may come second."""
    deadline = time.monotonic() + 120
    with connected(bootstrap) as cluster:
        while time.monotonic() < deadline:
            cluster.any().call(FindCoordinatorRequest(coordinator_keys=[group]))
            stranger = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
            if cluster.any().call(stranger).error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                return
            time.sleep(0.1)
    raise TimeoutError(f"nobody coordinates {group}")
