"""Users and quotas set at kwire or Apache Kafka 3.9.2 apply at both."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.client.access.users import describe_users, remove_passwords, set_passwords
from kwire.client.cluster import Cluster
from kwire.client.errors import BrokerRefused
from kwire.client.quotas import Quotas, alter_quotas, describe_quotas
from kwire.client.topics import create_topic
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE
from tests.cluster.mixed.secured import PASSWORD, Secured, secured
from tests.security.scram_client import SCRAM, SCRAM_512, can_log_in
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.java, pytest.mark.slow]

OURS, THEIRS = 1, 2
BOTH = (OURS, THEIRS)


@pytest.fixture(scope="module")
def pair(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker of each kind, which log in to each other by SCRAM; all users have all rights."""
    directory = tmp_path_factory.mktemp("users")
    with secured(
        zookeeper,
        directory,
        f"/{directory.name}",
        KWIRE,
        APACHE,
        between=SCRAM_512,
        settings={"authorizer.class.name": ""},
    ) as each:
        yield each


def everywhere(pair: Secured, user: str, expected: Mapping[tuple[str, str], bool]) -> None:
    """Check that each broker accepts, or rejects, a login with this mechanism and password."""
    until(
        lambda: all(_let_in(pair.ports[each], user, expected) == expected for each in BOTH),
        f"let in as in {expected}",
    )


def _let_in(port: int, user: str, tried: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    return {each: can_log_in(port, user, each[1], each[0]) for each in tried}


def test_user_created_at_either_broker_logs_in_at_both(pair: Secured) -> None:
    for one, other in ((OURS, THEIRS), (THEIRS, OURS)):
        user = f"user {one}=,"
        with pair.cluster.client(one) as ours, pair.cluster.client(other) as theirs:
            set_passwords(ours, {user: PASSWORD}, SCRAM, iterations=5000)
            everywhere(pair, user, {(SCRAM, PASSWORD): True, (SCRAM_512, PASSWORD): False})
            set_passwords(theirs, {user: "other"}, SCRAM_512)
            set_passwords(theirs, {user: "new"}, SCRAM, iterations=6000)
            everywhere(
                pair,
                user,
                {(SCRAM, PASSWORD): False, (SCRAM, "new"): True, (SCRAM_512, "other"): True},
            )
            wanted = {user: {SCRAM: 6000, SCRAM_512: 4096}}
            until(
                lambda: [describe_users(each, [user]) for each in (ours, theirs)] == [wanted] * 2,  # noqa: B023 - at once
                "told of",
            )
            remove_passwords(ours, [user], SCRAM)
            everywhere(pair, user, {(SCRAM, "new"): False, (SCRAM_512, "other"): True})
            with pytest.raises(BrokerRefused, match="does not exist"):
                remove_passwords(theirs, [user], SCRAM)
            remove_passwords(theirs, [user], SCRAM_512)
            everywhere(pair, user, {(SCRAM_512, "other"): False})
    with pair.znodes() as client:
        assert {*client.get_children("/config/users")} >= {"admin", "user%201%3D%2C"}


QUOTAS: list[tuple[dict[str, str | None], dict[str, float]]] = [
    ({"user": "a b"}, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}),
    ({"user": None}, {"consumer_byte_rate": 2e9}),
    ({"client-id": "c*"}, {"controller_mutation_rate": 7.0}),
    ({"client-id": None}, {"producer_byte_rate": 1e9}),
    ({"user": "a b", "client-id": "c*"}, {"consumer_byte_rate": 5.0}),
    ({"user": None, "client-id": None}, {"producer_byte_rate": 3e9}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
    ({"ip": None}, {"connection_creation_rate": 1000.0}),
]


def test_quotas_set_at_either_are_described_by_both(pair: Secured) -> None:
    for one, other in ((OURS, THEIRS), (THEIRS, OURS)):
        with pair.cluster.client(one) as ours, pair.cluster.client(other) as theirs:
            for entity, values in QUOTAS:
                alter_quotas(ours, entity, values)
            expected = _sorted([Quotas(entity, values) for entity, values in QUOTAS])
            clients = ours, theirs
            until(lambda: _told_by(clients) == [expected] * 2, "described")  # noqa: B023 - at once
            for entity, values in QUOTAS:
                alter_quotas(theirs, entity, dict.fromkeys(values))
            until(lambda: _told_by(clients) == [[], []], "none described")  # noqa: B023 - at once


def _told_by(clients: Iterable[Cluster]) -> list[list[object]]:
    return [_sorted(describe_quotas(client, {})) for client in clients]


def _sorted(found: list[Quotas]) -> list[object]:
    shown: list[object] = [
        (sorted(map(str, each.entity.items())), dict(each.values)) for each in found
    ]
    return sorted(shown, key=str)


def test_quotas_set_at_either_hold_at_both(pair: Secured) -> None:
    with pair.cluster.client(OURS) as ours, pair.cluster.client(THEIRS) as theirs:
        create_topic(ours, "q", assignment=[[OURS], [THEIRS]])
        pair.cluster.all_say(
            "q", [(OURS, (OURS,), frozenset({OURS})), (THEIRS, (THEIRS,), frozenset({THEIRS}))]
        )
        for number, client in enumerate((ours, theirs)):
            user = f"q{number}"
            set_passwords(client, {user: PASSWORD}, SCRAM)
            alter_quotas(client, {"user": user}, {"producer_byte_rate": 2000})
            everywhere(pair, user, {(SCRAM, PASSWORD): True})
            until(lambda: all(_told_by((ours, theirs))), "known to both")
            assert _throttling(pair, user) == {*BOTH}
            alter_quotas(client, {"user": user}, {"producer_byte_rate": None})
            until(lambda: not any(_told_by((ours, theirs))), "known to both")


def _throttling(pair: Secured, user: str) -> set[int]:
    """The brokers that throttle a producer which sends each of them many times its quota.

    What a broker describes need not be in force there yet.
    """
    rested: set[int] = set()
    producer = Producer(
        {
            "bootstrap.servers": ",".join(map(pair.sasl_address, BOTH)),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": PASSWORD,
            "throttle_cb": lambda event: (
                rested.add(event.broker_id) if event.throttle_time else None
            ),
        }
    )
    failures: list[object] = []
    deadline = time.monotonic() + PATIENCE_S
    while rested != {*BOTH} and time.monotonic() < deadline:
        for broker_id in {*BOTH} - rested:
            producer.produce(
                "q",
                b"x" * 10_000,
                partition=BOTH.index(broker_id),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        producer.flush(PATIENCE_S)
    assert failures == []
    return rested
