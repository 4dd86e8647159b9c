"""The topic of the registry, read and written by services in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse
from kwire.client.producer import Producer
from kwire.client.topics import delete_topic
from kwire.registry.primary import InstanceIdentity
from kwire.registry.service import NotPrimary, RegistryService, RegistrySettings
from kwire.registry.subjects.changing import delete_subject
from kwire.registry.subjects.errors import RegistryError
from kwire.registry.subjects.proposals import Proposal
from kwire.registry.subjects.records import SchemaVersion, Write, digest_of
from kwire.registry.subjects.registering import register
from kwire.registry.topic import RegistryTopic
from kwire.testing import Kafka
from tests.inside import PATIENCE_S
from tests.registry.subjects.toy import compare, parse

pytestmark = pytest.mark.slow

PORTS = count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker for this file's topics."""
    with Kafka() as kafka:
        yield kafka


@contextmanager
def served(kafka: Kafka, name: str, *, is_eligible: bool = True) -> Iterator[RegistryService]:
    """A service with a topic and a group of this name."""
    identity = InstanceIdentity("here", next(PORTS), is_eligible=is_eligible)
    service = RegistryService(
        lambda: Cluster(kafka.bootstrap), identity, parse, compare, RegistrySettings(name, name)
    )
    service.start()
    try:
        yield service
    finally:
        service.stop()


def registered(service: RegistryService, subject: str, schema: str) -> SchemaVersion:
    """Register a schema at a service that is, or becomes, the primary."""

    def decide() -> tuple[SchemaVersion, list[Write]]:
        proposal = Proposal(schema)
        found = register(service.registry, service.schemas, subject, proposal, normalize=False)
        return found.version, found.writes

    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert service.election.wait(PATIENCE_S)
        try:
            return service.change(decide)
        except NotPrimary:
            assert time.monotonic() < deadline


def test_topic_with_other_settings_is_refused(broker: Kafka) -> None:
    broker.create_topic("many", partitions=2, configs={"cleanup.policy": "compact"})
    with pytest.raises(Misuse, match="has 2 partitions"):
        RegistryTopic(lambda: Cluster(broker.bootstrap), "many").load()
    broker.create_topic("deleted", configs={"cleanup.policy": "delete"})
    with pytest.raises(Misuse, match=r"cleanup\.policy=delete"):
        RegistryTopic(lambda: Cluster(broker.bootstrap), "deleted").load()


def test_topic_is_created_compacted_and_has_what_is_registered(broker: Kafka) -> None:
    with served(broker, "created") as service:
        made = registered(service, "s", "a")
        assert service.registry.versions("s") == [made]
    values = [json.loads(each.value or b"{}") for each in broker.topic("created").records()]
    assert made.value() in values
    with served(broker, "created") as again:
        assert again.registry.versions("s") == [made]


def test_id_of_a_permanently_deleted_schema_is_not_given_after_a_restart(broker: Kafka) -> None:
    with served(broker, "ids") as service:
        registered(service, "s", "a")
        registered(service, "t", "b")
        for permanent in (False, True):
            service.change(
                lambda permanent=permanent: delete_subject(  # type: ignore[misc]  # mypy infers no type of a lambda with a default
                    service.registry, "t", permanent=permanent
                )
            )
    with served(broker, "ids") as again:
        assert registered(again, "u", "c").id == 3


def test_service_that_is_not_eligible_is_no_primary(broker: Kafka) -> None:
    with served(broker, "never", is_eligible=False) as service:
        assert service.election.wait(PATIENCE_S)
        assert service.election.has_none
        with pytest.raises(NotPrimary):
            service.change(lambda: (None, []))


def test_record_of_another_writer_that_contradicts_is_repaired(broker: Kafka) -> None:
    with served(broker, "repaired") as service:
        made = registered(service, "s", "a")
        wrong = SchemaVersion("s", 1, 7, "z", digest=digest_of("z", (), None, None))
        with Cluster(broker.bootstrap) as cluster:
            producer = Producer(cluster)
            write = Write(wrong.key, wrong.value())
            producer.send("repaired", write.encoded_value(), write.key.encoded(), partition=0)
            producer.flush()
        # The record is before this one in the topic, so that it has been read.
        registered(service, "t", "b")
        assert service.registry.versions("s") == [made]
        deadline = time.monotonic() + PATIENCE_S
        while service.registry.repairs:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    last = {each.key: each.value for each in broker.topic("repaired").records()}
    assert json.loads(last[made.key.encoded()] or b"") == made.value()


def test_decision_is_made_again_if_another_instance_wrote_first(broker: Kafka) -> None:
    with served(broker, "again") as service:
        registered(service, "s", "a")
        other = SchemaVersion("t", 1, 2, "b", digest=digest_of("b", (), None, None))
        decided = []

        def decide() -> tuple[SchemaVersion, list[Write]]:
            found = register(service.registry, service.schemas, "u", Proposal("c"), normalize=False)
            decided.append(found.version.id)
            if len(decided) == 1:
                # Another instance takes the same id before the record is written.
                with Cluster(broker.bootstrap) as cluster:
                    producer = Producer(cluster)
                    write = Write(other.key, other.value())
                    key = write.key.encoded()
                    producer.send("again", write.encoded_value(), key, partition=0)
                    producer.flush()
            return found.version, found.writes

        assert service.change(decide).id == 3
        assert decided == [2, 3]
        assert service.registry.versions("t") == [other]


def test_record_that_is_none_of_a_registry_is_skipped(broker: Kafka) -> None:
    topic = broker.create_topic("strange", configs={"cleanup.policy": "compact"})
    from kwire.testing.values import Record

    topic.seed([Record("x", key="no key"), Record(None, key="[]")])
    with served(broker, "strange") as service:
        assert registered(service, "s", "a").id == 1


def test_schema_that_the_topic_does_not_take_is_refused(broker: Kafka) -> None:
    configs = {"cleanup.policy": "compact", "max.message.bytes": "2000"}
    broker.create_topic("small", configs=configs)
    with served(broker, "small") as service:
        with pytest.raises(RegistryError) as caught:
            registered(service, "s", " ".join(f"field{number}" for number in range(1000)))
        assert caught.value.code == 42209
        assert registered(service, "s", "a").id == 1


def test_deleted_topic_is_created_again_and_the_registry_is_empty(broker: Kafka) -> None:
    with served(broker, "gone") as service:
        registered(service, "s", "a")
        with Cluster(broker.bootstrap) as cluster:
            delete_topic(cluster, "gone")
        deadline = time.monotonic() + PATIENCE_S
        while service.registry.subjects:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert registered(service, "t", "b").version == 1
        assert list(service.registry.subjects) == ["t"]
