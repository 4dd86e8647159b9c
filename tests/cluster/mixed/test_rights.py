"""Access rights apply at kwire and at Apache Kafka 3.9.2, whichever broker got the change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from kwire.client.access.acls import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
    delete_acls,
    describe_acls,
    only,
)
from kwire.client.access.users import set_passwords
from kwire.client.topics import create_topic
from kwire.cluster.stores.zookeeper import acl_znodes
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE
from tests.cluster.mixed.secured import NONE, PASSWORD, Secured, secured
from tests.security.scram_client import SCRAM, NotLetIn
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.java, pytest.mark.slow]

OURS, THEIRS = 1, 2
BOTH = (OURS, THEIRS)
READ, WRITE = frozenset({"READ", "DESCRIBE"}), frozenset({"WRITE", "DESCRIBE"})


def acl(
    name: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    pattern: Pattern = Pattern.LITERAL,
    host: str = "*",
) -> Acl:
    return Acl(Resource.TOPIC, pattern, name, "User:alice", host, operation, permission)


@pytest.fixture(scope="module")
def started(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker of each kind, which log in to each other, and the user alice without rights."""
    directory = tmp_path_factory.mktemp("rights")
    settings = {"zookeeper.session.timeout.ms": "6000"}
    with secured(
        zookeeper, directory, f"/{directory.name}", KWIRE, APACHE, settings=settings
    ) as each:
        with each.cluster.client(OURS) as client:
            set_passwords(client, {"alice": PASSWORD}, SCRAM)
            create_topic(client, "t", assignment=[[OURS, THEIRS], [THEIRS, OURS]])
        each.cluster.all_say(
            "t", [(OURS, BOTH, frozenset(BOTH)), (THEIRS, (2, 1), frozenset(BOTH))]
        )
        yield each


@pytest.fixture
def pair(started: Secured) -> Secured:
    """The same pair, without the rights that an earlier test has granted."""
    delete(started, OURS, AclFilter())
    everywhere(started, NONE)
    return started


def everywhere(pair: Secured, rights: frozenset[str], topic: str = "t") -> None:
    for broker_id in BOTH:
        at(pair, broker_id, rights, topic)


def at(pair: Secured, broker_id: int, rights: frozenset[str], topic: str = "t") -> None:
    until(lambda: _may(pair, broker_id, topic) == rights, f"allowed {set(rights)} at {broker_id}")


def _may(pair: Secured, broker_id: int, topic: str) -> frozenset[str]:
    try:
        return pair.rights(broker_id, "alice", topic)
    except (OSError, NotLetIn):
        return frozenset({"not asked"})


def create(pair: Secured, broker_id: int, *acls: Acl) -> None:
    with pair.cluster.client(broker_id) as client:
        create_acls(client, acls)


def delete(pair: Secured, broker_id: int, *filters: AclFilter) -> list[Acl]:
    with pair.cluster.client(broker_id) as client:
        return delete_acls(client, filters)


def described(pair: Secured, broker_id: int) -> list[Acl]:
    with pair.cluster.client(broker_id) as client:
        return describe_acls(client, AclFilter())


def told_of_alike(pair: Secured, count: int) -> None:
    """Wait until both brokers report the same entries, this many."""

    def is_so() -> bool:
        ours, theirs = described(pair, OURS), described(pair, THEIRS)
        return ours == theirs and len(ours) == count

    until(is_so, f"{count} told of alike")


def test_rights_changed_at_either_broker_apply_at_both(pair: Secured) -> None:
    everywhere(pair, NONE)
    assert _produced(pair) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    for one, other in ((OURS, THEIRS), (THEIRS, OURS)):
        create(pair, one, acl("t", Operation.READ), acl("t", Operation.WRITE))
        everywhere(pair, READ | WRITE)
        assert _produced(pair) == {None}
        # What the other has written since is written again, with what was there before.
        create(pair, other, acl("t", Operation.READ, permission=Permission.DENY))
        everywhere(pair, WRITE)
        create(pair, one, acl("t", Operation.DELETE, host="10.0.0.1"))
        told_of_alike(pair, 4)
        gone = delete(pair, other, AclFilter(name="t", operation=Operation.READ))
        assert [each.permission for each in gone] == [Permission.DENY, Permission.ALLOW]
        told_of_alike(pair, 2)
        everywhere(pair, WRITE)
        assert len(delete(pair, one, AclFilter())) == 2
        everywhere(pair, NONE)
    create(pair, OURS, acl("t", Operation.READ, pattern=Pattern.PREFIXED))
    create(pair, THEIRS, acl("*", Operation.WRITE))
    everywhere(pair, READ | WRITE)
    delete(pair, THEIRS, AclFilter(pattern=Pattern.MATCH, name="t"))
    everywhere(pair, NONE)
    with pair.znodes() as client:
        assert [client.get_children(path) for path in acl_znodes.TYPE_PATHS] == [
            [] for _ in acl_znodes.TYPE_PATHS
        ]


def _produced(pair: Secured) -> set[int | None]:
    """The results that alice's producer gets for a record to each partition."""
    producer = Producer(
        {
            "bootstrap.servers": f"{pair.sasl_address(OURS)},{pair.sasl_address(THEIRS)}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAM,
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
    )
    error_codes: set[int | None] = set()
    for partition in (0, 1):
        producer.produce(
            "t",
            b"value",
            partition=partition,
            on_delivery=lambda error, _: error_codes.add(error.code() if error else None),
        )
    assert producer.flush(PATIENCE_S) == 0
    return error_codes


@pytest.mark.long
def test_rights_changed_while_a_broker_was_away_apply_when_it_returns(pair: Secured) -> None:
    for away, there in ((OURS, THEIRS), (THEIRS, OURS)):
        create(pair, there, acl("t", Operation.READ))
        everywhere(pair, READ)
        pair.cluster.stop(away)
        create(pair, there, acl("t", Operation.WRITE))
        delete(pair, there, only(acl("t", Operation.READ)))
        pair.cluster.start(away)
        everywhere(pair, WRITE)
        delete(pair, away, AclFilter())
        everywhere(pair, NONE)


@pytest.mark.long
def test_broker_reads_all_rights_after_its_session_expired(pair: Secured) -> None:
    """It also reads changes whose notifications were deleted."""
    ours = pair.cluster.brokers[OURS]
    create(pair, THEIRS, acl("t", Operation.READ), acl("u", Operation.READ))
    everywhere(pair, READ)
    with pair.znodes() as client:
        ours.pause()
        until(lambda: client.exists(f"/brokers/ids/{OURS}") is None, "expired")
        create(pair, THEIRS, acl("t", Operation.WRITE))
        delete(pair, THEIRS, only(acl("t", Operation.READ)), AclFilter(name="u"))
        for folder in acl_znodes.FOLDERS.values():
            for name in client.get_children(folder):
                client.delete(f"{folder}/{name}")
        at(pair, THEIRS, WRITE)
        ours.resume()
        until(lambda: client.exists(f"/brokers/ids/{OURS}") is not None, "back")
    everywhere(pair, WRITE)
    told_of_alike(pair, 1)
    assert described(pair, OURS) == [acl("t", Operation.WRITE)]
    create(pair, OURS, acl("t", Operation.READ))
    everywhere(pair, READ | WRITE)
