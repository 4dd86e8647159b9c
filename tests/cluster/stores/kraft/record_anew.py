"""Record data/*.json.gz again, from Apache Kafka of the version in conformance/apache_kafka.py.

    python -m tests.cluster.stores.kraft.record_anew       takes some minutes and 2 GB

recorded.py says what the recordings have.  Run the tests afterwards, because each recording has
other ids and offsets.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError
from kwire.client.security import ClientSecurity
from kwire.codecs.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    broker_registration,
    controller_registration,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    expire_delegation_token,
    incremental_alter_configs,
    renew_delegation_token,
    update_features,
)
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.describe_acls import DescribeAclsRequest
from kwire.codecs.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.codecs.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.codecs.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.codecs.messages.unregister_controller import UnregisterControllerRequest
from kwire.conformance.apache_kafka import CLUSTER_ID
from kwire.testing.hosting.ports import free_port
from tests.cluster.stores.kraft.features import features_of
from tests.cluster.stores.kraft.real_controller import KafkaBroker, KafkaController

TIMEOUT_S = 120
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ACCESS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "secret",
}


class Stage:
    """A controller and two brokers with two log directories each."""

    def __init__(self, folder: Path, release: str | None, snapshot_bytes: int) -> None:
        """Start them; `release` is the one that the cluster is formatted for, with static voters.

        Broker 1 makes a snapshot after so many bytes.
        """
        self.controller = KafkaController(
            folder / "controller",
            settings={**ACCESS, "metadata.max.idle.interval.ms": "10000"},
            release=release,
        )
        self.sasl = free_port()
        self.brokers = {
            1: self._broker(folder, 1, snapshot_bytes),
            2: self._broker(folder, 2, 20 * 1024 * 1024),
        }
        self.answers: dict[str, dict[str, Any]] = {}

    def _broker(self, folder: Path, broker_id: int, snapshot_bytes: int) -> KafkaBroker:
        data = folder / f"broker-{broker_id}"
        sasl = self.sasl if broker_id == 1 else free_port()
        return KafkaBroker(
            data,
            broker_id,
            self.controller,
            settings={
                **ACCESS,
                "broker.rack": f"r{broker_id}",
                "log.dirs": f"{data / 'data'},{data / 'more'}",
                "replica.lag.time.max.ms": "6000",
                "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} username="admin"'
                ' password="pw" user_admin="pw" user_alice="pw";',
            },
            sasl_port=sasl,
        )

    def start(self) -> None:
        for node in (self.controller, *self.brokers.values()):
            node.start()
        self.wait_for({1, 2})

    def stop(self) -> None:
        for node in (*self.brokers.values(), self.controller):
            node.stop()

    def ask(self, request: Any, port: int | None = None, user: str | None = None) -> Any:  # noqa: ANN401 - of any API
        """Ask the controller, or the node on `port`; `user` logs in at broker 1."""
        security = None
        if user is not None:
            port = self.sasl
            security = ClientSecurity(
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": f'{JAAS} username="{user}" password="pw";',
                }
            )
        connection = BrokerConnection(
            "localhost",
            port or self.controller.port,
            client_id="recorder",
            timeout_s=TIMEOUT_S,
            security=security,
        )
        try:
            return connection.call(request)
        finally:
            connection.close()

    def keep(self, label: str, request: Any, user: str | None = None) -> None:  # noqa: ANN401 - of any API
        """Keep the answer of broker 1."""
        answer = self.ask(request, self.brokers[1].port, user)
        version = type(answer).MAX_VERSION
        name = type(answer).__name__
        self.answers[label] = {
            "name": name,
            "version": version,
            "hex": answer.encode(version).hex(),
        }

    def wait_for(self, unfenced: set[int]) -> None:
        """Wait until exactly these brokers are unfenced, as broker 1 sees it."""
        request = DescribeClusterRequest(include_fenced_brokers=True)

        def live() -> set[int]:
            answer = self.ask(request, self.brokers[1].port)
            return {each.broker_id for each in answer.brokers if not each.is_fenced}

        until(lambda: live() == unfenced)

    def create(self, name: str, partitions: int, replicas: int, **configs: str) -> None:
        entries = [
            create_topics.CreatableTopicConfig(key.replace("_", "."), value)
            for key, value in configs.items()
        ]
        topic = create_topics.CreatableTopic(name, partitions, replicas, [], entries)
        self.ask(create_topics.CreateTopicsRequest([topic], 60_000))

    def alter(self, resource: int, name: str, broker: int = 0, **configs: str | None) -> None:
        """Set configs, or remove those that are None."""
        entries = [
            incremental_alter_configs.AlterableConfig(
                key.replace("_", "."), int(value is None), value
            )
            for key, value in configs.items()
        ]
        altered = incremental_alter_configs.AlterConfigsResource(resource, name, entries)
        port = self.brokers[broker].port if broker else None
        self.ask(incremental_alter_configs.IncrementalAlterConfigsRequest([altered]), port)

    def level(self, feature: str, level: int, upgrade_type: int = 1) -> None:
        update = update_features.FeatureUpdateKey(feature, level, upgrade_type=upgrade_type)
        self.ask(update_features.UpdateFeaturesRequest(60_000, [update]))

    def save(self, name: str) -> None:
        """Write the recording; the nodes are stopped."""
        folder = self.brokers[1].metadata
        files = {
            path.name: path.read_bytes().hex()
            for path in sorted(folder.iterdir())
            if path.suffix in (".log", ".checkpoint") or path.name == "quorum-state"
        }
        content = json.dumps({"answers": self.answers, "files": files}, indent=0, sort_keys=True)
        target = Path(__file__).parent / "data" / f"{name}.json.gz"
        target.write_bytes(gzip.compress(content.encode(), mtime=0))
        print(target, target.stat().st_size)


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; a node that is not up yet is asked again."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except ClientError:
            pass  # it is starting
        time.sleep(0.3)
    raise TimeoutError


def apart() -> None:
    """Let the brokers make an image, so that the next records are not replayed with those before.

    Apache Kafka 4.4.0 has defects if they are (docs/decisions/0031).
    """
    time.sleep(2)


def record_new_cluster(stage: Stage) -> None:
    """from-4.4: a new cluster, with every kind of record that 4.4.0 writes."""
    stage.create("one", 1, 1)
    stage.create("two", 4, 2, min_insync_replicas="2", retention_ms="86400000")
    stage.create("a.b_c", 2, 2)
    assigned = create_topics.CreatableReplicaAssignment(0, [1])
    moved = create_topics.CreatableTopic("moved", -1, -1, [assigned])
    stage.ask(create_topics.CreateTopicsRequest([moved], 60_000))
    stage.alter(TOPIC, "one", cleanup_policy="compact", segment_bytes="1048576")
    stage.alter(TOPIC, "one", segment_bytes=None)
    stage.alter(BROKER, "1", log_cleaner_threads="2")
    stage.alter(BROKER, "", log_retention_ms="123456789")
    stage.alter(METRICS, "sub", interval_ms="1000", metrics="org.apache.kafka")
    stage.alter(GROUP, "g1", consumer_session_timeout_ms="50000")
    _record_access(stage)
    _record_topics(stage)
    _record_nodes(stage)
    _record_failures(stage)
    _keep_answers(stage, ("one", "two", "a.b_c", "moved", "gone", "cordon"))
    for resource, name in (
        (TOPIC, "one"),
        (TOPIC, "two"),
        (BROKER, "1"),
        (BROKER, ""),
        (METRICS, "sub"),
        (GROUP, "g1"),
    ):
        asked = describe_configs.DescribeConfigsResource(resource, name, None)
        request = describe_configs.DescribeConfigsRequest([asked], True)
        stage.keep(f"configs {resource} {name}", request)
    any_acl = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    stage.keep("acls", any_acl)
    stage.keep("scram", DescribeUserScramCredentialsRequest(None))
    stage.keep("quotas", DescribeClientQuotasRequest([]))
    stage.keep("tokens", DescribeDelegationTokenRequest(None), user="admin")


def _record_access(stage: Stage) -> None:
    """Access rules, SCRAM users, quotas and delegation tokens, some of which go again."""
    _record_rules(stage)
    _record_users(stage)
    _record_quotas(stage)
    _record_tokens(stage)


def _record_rules(stage: Stage) -> None:
    def rule(
        name: str = "one",
        *,
        kind: int = 2,
        pattern: int = 3,
        user: str = "alice",
        host: str = "*",
        operation: int = 3,
        permission: int = 3,
    ) -> create_acls.AclCreation:
        return create_acls.AclCreation(
            kind, name, pattern, f"User:{user}", host, operation, permission
        )

    stage.ask(
        create_acls.CreateAclsRequest(
            [
                rule(),
                rule(operation=4, host="10.0.0.0/8"),
                rule("pre", pattern=4, operation=2),
                rule("kafka-cluster", kind=4, operation=8, permission=2),
                rule(user="bob", host="192.168.1.0/24", operation=8),
            ]
        )
    )
    bobs = delete_acls.DeleteAclsFilter(2, "one", 3, "User:bob", None, 1, 1)
    stage.ask(delete_acls.DeleteAclsRequest([bobs]))


def _record_users(stage: Stage) -> None:
    scram = alter_user_scram_credentials

    def user(name: str, mechanism: int) -> alter_user_scram_credentials.ScramCredentialUpsertion:
        return scram.ScramCredentialUpsertion(name, mechanism, 4096, b"s" * 32, b"p" * 32)

    change = scram.AlterUserScramCredentialsRequest
    stage.ask(change([], [user("alice", 1), user("bob", 2)]))
    stage.ask(change([], [user("alice", 2)]))
    apart()
    stage.ask(change([scram.ScramCredentialDeletion("bob", 2)], []))
    apart()


def _record_quotas(stage: Stage) -> None:
    quotas = alter_client_quotas

    def entry(
        entity: dict[str, str | None], **values: float | None
    ) -> alter_client_quotas.RequestEntryData:
        return quotas.RequestEntryData(
            [quotas.EntityData(kind, name) for kind, name in entity.items()],
            [quotas.OpData(key, value or 0, value is None) for key, value in values.items()],
        )

    set_all = [
        entry({"user": "alice"}, producer_byte_rate=1000, consumer_byte_rate=2000),
        entry({"user": None, "client-id": "app"}, request_percentage=50),
        entry({"ip": "127.0.0.9"}, connection_creation_rate=5),
        entry({"client-id": None}, controller_mutation_rate=1.5),
    ]
    stage.ask(quotas.AlterClientQuotasRequest(set_all))
    remove = [
        entry({"user": "alice"}, consumer_byte_rate=None),
        entry({"ip": "127.0.0.9"}, connection_creation_rate=None),
    ]
    stage.ask(quotas.AlterClientQuotasRequest(remove))


def _record_tokens(stage: Stage) -> None:
    tokens = create_delegation_token
    renewer = tokens.CreatableRenewers("User", "alice")
    own = stage.ask(tokens.CreateDelegationTokenRequest(None, None, [renewer], -1), user="admin")
    alices = stage.ask(
        tokens.CreateDelegationTokenRequest("User", "alice", [], 86_400_000), user="admin"
    )
    renew = renew_delegation_token.RenewDelegationTokenRequest(bytes(own.hmac), 3_600_000)
    stage.ask(renew, user="admin")
    expire = expire_delegation_token.ExpireDelegationTokenRequest(bytes(alices.hmac), -1)
    stage.ask(expire, user="alice")


def _record_topics(stage: Stage) -> None:
    """Features, a topic that is created again, new partitions, reassignments, producer ids."""
    stage.level("share.version", 1, upgrade_type=2)
    stage.create("gone", 3, 1, retention_ms="1000")
    apart()
    stage.ask(
        delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState("gone")], [], 60_000)
    )
    apart()
    stage.create("gone", 1, 2)
    more = create_partitions.CreatePartitionsTopic("one", 3, None)
    stage.ask(create_partitions.CreatePartitionsRequest([more], 60_000))
    producer = InitProducerIdRequest(None, 60_000)
    until(lambda: not stage.ask(producer, stage.brokers[1].port).error_code)
    moving = alter_partition_reassignments
    partition = moving.ReassignablePartition(0, [2])
    topic = moving.ReassignableTopic("moved", [partition])
    stage.ask(moving.AlterPartitionReassignmentsRequest(60_000, True, [topic]))
    time.sleep(2)


def _record_nodes(stage: Stage) -> None:
    """Registrations of other nodes, and cordoned directories."""
    for broker_id in (7, 8):
        listener = broker_registration.Listener("PLAINTEXT", "localhost", 30_000 + broker_id, 0)
        stage.ask(
            broker_registration.BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=bytes([broker_id]) * 16,
                listeners=[listener],
                features=features_of(broker_registration.Feature),
                log_dirs=[bytes([broker_id + 100]) * 16],
            )
        )
    stage.ask(UnregisterBrokerRequest(7))
    for controller_id in (101, 102):
        place = controller_registration.Listener("CONTROLLER", "localhost", 31_000, 0)
        stage.ask(
            controller_registration.ControllerRegistrationRequest(
                controller_id,
                bytes([controller_id]) * 16,
                False,
                [place],
                features_of(controller_registration.Feature),
            )
        )
    stage.ask(UnregisterControllerRequest(101))
    more = str(stage.brokers[1].directory / "more")
    stage.alter(BROKER, "1", broker=1, cordoned_log_dirs=more)
    time.sleep(2)
    stage.create("cordon", 2, 2)
    time.sleep(1)
    stage.alter(BROKER, "1", broker=1, cordoned_log_dirs=None)
    time.sleep(2)
    first = str(stage.brokers[2].directory / "data")
    stage.alter(BROKER, "2", broker=2, cordoned_log_dirs=first)
    time.sleep(2)


def _record_failures(stage: Stage) -> None:
    """A kill -9 and a controlled shutdown of broker 2, and a kill -9 of the controller."""
    stage.brokers[2].kill()
    stage.wait_for({1})
    time.sleep(1)
    stage.brokers[2].spawn()
    stage.wait_for({1, 2})
    time.sleep(8)
    stage.ask(ElectLeadersRequest(0, None, 60_000))
    stage.alter(TOPIC, "two", min_insync_replicas="1")
    stage.brokers[2].stop()
    stage.wait_for({1})
    stage.controller.kill()
    stage.controller.spawn()
    stage.controller.wait_until_up()
    time.sleep(14)  # a new leader waits for the sessions of brokers
    stage.alter(TOPIC, "two", max_message_bytes="2000000", flush_ms="1000")
    time.sleep(3)


def _keep_answers(stage: Stage, topics: Sequence[str]) -> None:
    stage.keep("metadata", MetadataRequest(None, False))
    stage.keep("cluster", DescribeClusterRequest(include_fenced_brokers=True))
    asked = [describe_topic_partitions.TopicRequest(name) for name in topics]
    stage.keep("partitions", describe_topic_partitions.DescribeTopicPartitionsRequest(asked))
    stage.keep("versions", ApiVersionsRequest("recorder", "1"))


def record_old_cluster(stage: Stage) -> None:
    """from-3.9: a cluster that began with 3.9, raised step by step; ELRs that are cleared."""
    stage.create("one", 2, 2, min_insync_replicas="2")
    stage.create("two", 1, 1)
    stage.level("metadata.version", 22)
    stage.create("three", 2, 2, min_insync_replicas="2")
    stage.level("metadata.version", 33)
    stage.level("eligible.leader.replicas.version", 1)
    stage.level("kraft.version", 1)
    stage.create("four", 2, 2, min_insync_replicas="2")
    stage.brokers[2].kill()
    stage.wait_for({1})
    time.sleep(2)
    stage.alter(TOPIC, "four", min_insync_replicas="1")
    stage.alter(BROKER, "", broker=1, min_insync_replicas="1")
    stage.brokers[2].spawn()
    stage.wait_for({1, 2})
    time.sleep(4)
    stage.brokers[2].stop()
    stage.wait_for({1})
    for number in range(6):
        stage.alter(TOPIC, "two", flush_ms=str(1000 + number), retention_ms=str(10**9 + number))
    time.sleep(3)
    _keep_answers(stage, ("one", "two", "three", "four"))


def main() -> None:
    for name, release, snapshot_bytes, record in (
        ("from-4.4", None, 2500, record_new_cluster),
        ("from-3.9", "3.9", 1500, record_old_cluster),
    ):
        folder = Path(tempfile.mkdtemp(prefix="record-"))
        stage = Stage(folder, release, snapshot_bytes)
        try:
            stage.start()
            record(stage)
        finally:
            stage.stop()
        stage.save(name)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
