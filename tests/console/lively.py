"""A cluster with something of everything that the console shows, hostile names and records too.

`fill` works on any Kafka.  The members of its groups live in a thread of this process, so that the
groups stay as they are for as long as the tests take.
"""

from __future__ import annotations

import json
import math
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from typing import NamedTuple

from kwire.client.access.acls import (
    Acl,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
)
from kwire.client.access.users import set_passwords
from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import (
    ConfigAlteration,
    ConfigResource,
    ConfigResourceKind,
    alter_configs,
)
from kwire.client.errors import check
from kwire.client.groups import at_coordinator, commit_offsets
from kwire.client.membership.classic import GroupMember
from kwire.client.membership.consumer import ConsumerProtocolMember
from kwire.client.membership.membership import Membership
from kwire.client.membership.share_consumer import Acknowledgement, ShareConsumer
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.client.quotas import alter_quotas
from kwire.client.topics import create_topic
from kwire.codecs.compression import Compression
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.console import hostile

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "metrics.port": "0",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in (
            ("min.heartbeat.interval.ms", "100"),
            ("heartbeat.interval.ms", "100"),
            ("max.session.timeout.ms", "600000"),
            ("session.timeout.ms", "600000"),
        )
    },
    "group.streams.initial.rebalance.delay.ms": "0",
}
"""Settings of a broker that `fill` can fill with everything, on kwire and on Apache Kafka.

Members find each other soon, and stay when this process is stopped for minutes.
"""

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (6, {"retention.ms": "604800000"}),
    "payments": (3, {"min.insync.replicas": "1", "compression.type": "producer"}),
    "customers": (2, {"cleanup.policy": "compact"}),
    "page-views": (12, {"retention.bytes": "1073741824", "segment.bytes": "1048576"}),
    "readings": (1, {}),
    "pictures": (1, {"max.message.bytes": "2097152"}),
    "hostile": (
        1,
        {
            "max.message.bytes": "2097152",
            "message.timestamp.after.max.ms": "9223372036854775807",
        },
    ),
    "hostile.-_.." + "x" * 230: (1, {}),
    "empty": (1, {}),
}
"""Partitions and configs by topic."""

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "namespace": "weather",
    "fields": [
        {"name": "station", "type": "string"},
        {"name": "celsius", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
"""The Avro schema of the values of `readings`, number 7 of its registry."""
SCHEMA_ID = 7

CITIES = ("Berlin", "Lagos", "Lima", "Osaka", "Pune", "Tromsø")
PRODUCTS = ("apples", "bread", "coffee", "dates", "eggs", "figs")
HOUR_MS = 3_600_000
BEAT_S = 0.25
JOINING_BEAT_S = 0.02
RELEASED = 7
"""Payments that the member of the share group gives back."""
JOIN_TIMEOUT_S = 120.0


class Groups(NamedTuple):
    """The ids of the groups with members, one of each kind, and one without."""

    classic: str = "billing"
    consumer: str = "shipping"
    share: str = "alerts"
    streams: str = "enrichment"
    empty: str = "monthly-report"


GROUPS = Groups()


def avro_reading(station: str, celsius: float, at_ms: int) -> bytes:
    """A value of `readings` in the format of schema registries: a zero byte, the id, Avro."""
    name = station.encode()
    return b"".join(
        (
            struct.pack(">bi", 0, SCHEMA_ID),
            zigzag(len(name)),
            name,
            struct.pack("<d", celsius),
            zigzag(at_ms),
        )
    )


def zigzag(number: int) -> bytes:
    """A number as Avro writes a long."""
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


# -- records


def fill(cluster: Cluster, *, now_ms: int, orders: int = 600, tame: bool = False) -> None:
    """Create the topics with their records, groups without members, ACLs, users and quotas.

    `now_ms` is the time of the newest record; the others are of the hour before.  `tame` leaves out
    the hostile ones.
    """
    for name, (partitions, configs) in TOPICS.items():
        if not (tame and name.startswith("hostile")):
            create_topic(cluster, name, partitions=partitions, configs=configs)
    rng = random.Random(35)
    producer = Producer(cluster, create_topics=False)
    send_orders(producer, rng, [now_ms - HOUR_MS * each // orders for each in range(orders)])
    send_customers(producer, now_ms)
    send_other_formats(producer, rng, now_ms)
    if not tame:
        send_hostile(producer, now_ms)
    producer.flush()
    compressed = Producer(cluster, compression=Compression.ZSTD, create_topics=False)
    for number in range(orders):
        path = f"/products/{rng.choice(PRODUCTS)}?visit={rng.randrange(10**6)}"
        compressed.send("page-views", f"GET {path} 200".encode(), str(number % 97).encode())
    compressed.flush()
    names = () if tame else hostile.NAMES
    fill_groups(cluster, names)
    fill_access(cluster, names)


def order(rng: random.Random, number: int) -> bytes:
    """The JSON value of one order."""
    return json.dumps(
        {
            "id": number,
            "customer": {"id": rng.randrange(40), "city": rng.choice(CITIES)},
            "lines": [{"product": rng.choice(PRODUCTS), "count": rng.randrange(1, 9)}],
            "paid": rng.random() < 0.7,
            "note": None,
        },
        ensure_ascii=False,
    ).encode()


def send_orders(producer: Producer, rng: random.Random, times_ms: Sequence[int]) -> None:
    """Orders of these times with headers, and a payment for most of them."""
    for number, at_ms in enumerate(times_ms):
        headers = [("trace-id", f"{rng.getrandbits(64):016x}".encode()), ("retry", None)]
        key = f"order-{number}".encode()
        producer.send("orders", order(rng, number), key, headers=headers, timestamp_ms=at_ms)
        if number % 5:
            payment = json.dumps({"order": number, "cents": rng.randrange(100, 99_999)})
            producer.send("payments", payment.encode(), key, timestamp_ms=at_ms + 900)


def send_customers(producer: Producer, now_ms: int) -> None:
    """Records of a compacted topic: every tenth customer is deleted by a tombstone."""
    for number in range(40):
        key = f"customer-{number}".encode()
        value = json.dumps({"name": f"Customer {number}", "city": CITIES[number % 6]}).encode()
        producer.send("customers", value, key, timestamp_ms=now_ms)
        if number % 10 == 0:
            producer.send("customers", None, key, timestamp_ms=now_ms)


def send_other_formats(producer: Producer, rng: random.Random, now_ms: int) -> None:
    """Avro, binary, text in several scripts, empty and null values, and no keys."""
    for number in range(60):
        reading = avro_reading(CITIES[number % 6], 20.5 - number / 10, now_ms - number * 60_000)
        producer.send("readings", reading, CITIES[number % 6].encode())
    png = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
    for size in (0, 100, 3_000, 60_000):
        producer.send("pictures", png + rng.randbytes(size), struct.pack(">q", size))
    for text in (
        "",
        "naïve café",
        "日本語のテキスト",
        "العربية",
        "🦉 emoji 👩‍🔬",
        "tab\tand\nlines",
    ):
        producer.send("pictures", text.encode())
    producer.send("pictures", None)
    producer.send("pictures", b"", b"")


def send_hostile(producer: Producer, now_ms: int) -> None:
    """Each payload as a key, a value, a header and inside JSON; then lines of 1 MB."""
    for payload in hostile.PAYLOADS.values():
        raw = payload.encode()
        headers: list[tuple[str, bytes | None]] = [(payload, raw), ("plain", raw)]
        producer.send("hostile", raw, raw, headers=headers, timestamp_ms=now_ms)
        nested = json.dumps({payload: [payload, {"deep": payload}]}).encode()
        producer.send("hostile", nested, raw, timestamp_ms=now_ms)
    producer.send("hostile", hostile.SURROGATE, hostile.SURROGATE)
    producer.send("hostile", json.dumps({"half": "\ud800"}).encode())
    producer.send("hostile", b"[" * 5_000 + b"]" * 5_000, b"deep JSON")
    producer.send("hostile", b"1" * 6_000, b"a long number", timestamp_ms=0)
    producer.send("hostile", b'{"a": NaN, "b": 1e999, "a": 2}', b"odd JSON", timestamp_ms=2**53)
    producer.send("hostile", hostile.ONE_MEGABYTE.encode(), b"a line of 1 MB")
    producer.send("hostile", json.dumps({"line": hostile.ONE_MEGABYTE[:900_000]}).encode())
    producer.send("hostile", b"the last", hostile.ONE_MEGABYTE[:200_000].encode())


# -- groups without members, and who may do what


def fill_groups(cluster: Cluster, names: Sequence[str]) -> None:
    """Committed offsets of groups without members, also of these names."""
    orders = {TopicPartition("orders", number): 10 * number for number in range(6)}
    commit_offsets(cluster, GROUPS.empty, orders)
    for name in names:
        commit_offsets(cluster, name, {TopicPartition("hostile", 0): 3})


def fill_access(cluster: Cluster, names: Sequence[str]) -> None:
    """ACLs, users with passwords, and quotas, also of these names."""
    read, write = Operation.READ, Operation.WRITE
    literal, prefixed = Pattern.LITERAL, Pattern.PREFIXED
    allow, deny = Permission.ALLOW, Permission.DENY
    acls = [
        Acl(Resource.TOPIC, literal, "orders", "User:alice", "*", read, allow),
        Acl(Resource.TOPIC, prefixed, "page-", "User:bob", "10.0.0.1", write, deny),
        Acl(Resource.GROUP, literal, "*", "User:alice", "*", read, allow),
        Acl(Resource.CLUSTER, literal, "kafka-cluster", "User:bob", "*", Operation.DESCRIBE, allow),
        *(Acl(Resource.GROUP, literal, name, f"User:{name}", "*", read, allow) for name in names),
    ]
    create_acls(cluster, acls)
    set_passwords(cluster, dict.fromkeys(("alice", "bob", *names[1:2]), "secret"))
    limits = {"producer_byte_rate": 1_048_576.0, "consumer_byte_rate": 2_097_152.0}
    alter_quotas(cluster, {"user": "alice"}, limits)
    alter_quotas(cluster, {"client-id": "crawler"}, {"request_percentage": 12.5})
    alter_quotas(cluster, {"user": None}, {"producer_byte_rate": 10_000_000.0})
    for name in names[1:2]:
        alter_quotas(cluster, {"client-id": name}, limits)


# -- groups with members


class Members:
    """Members of groups of all kinds, each in a thread of its own, until `close`."""

    def __init__(self, bootstrap: str, *, traffic: bool = False, tame: bool = False) -> None:
        """With `traffic`, orders are written and offsets committed all the time, in waves.  `tame`:
        no client id is hostile."""
        self._bootstrap = bootstrap
        self._stopped = threading.Event()
        self._failures: list[BaseException] = []
        self._ready: list[threading.Event] = []
        self._threads: list[threading.Thread] = []
        speed = Speed() if traffic else None
        self._add("billing-1", lambda cluster: classic_member(cluster, speed))
        for name in ("shipping-1", "shipping-2"):
            self._add(name, lambda cluster: consumer_member(cluster, speed))
        self._add("alerts-1", share_member)
        second = "worker-2" if tame else hostile.SCRIPT
        for name, client_id in (("worker-1", "worker-1"), ("worker-2", second)):
            self._add(client_id, partial(streams_member, name=name))
        if traffic:
            self._add("shop", writing)

    def start(self) -> None:
        """Join; returns once all members have something to work on.  Raises their errors."""
        for thread in self._threads:
            thread.start()
        for ready in self._ready:
            if not ready.wait(JOIN_TIMEOUT_S):
                raise TimeoutError("the groups of the lively cluster have no assignments")
        self.check()

    def close(self) -> None:
        """End the members, without letting them leave their groups."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)

    def check(self) -> None:
        """Raise what made a member fail, if one did."""
        if self._failures:
            raise self._failures[0]

    def _add(self, client_id: str, life: Callable[[Cluster], Iterator[bool]]) -> None:
        """Add a member.  `life` yields once a beat whether it has something to work on."""
        ready = threading.Event()
        self._ready.append(ready)

        def run() -> None:
            cluster = Cluster(self._bootstrap, client_id=client_id)
            try:
                for is_ready in life(cluster):
                    if is_ready:
                        ready.set()
                    if self._stopped.wait(BEAT_S if ready.is_set() else JOINING_BEAT_S):
                        return
            except BaseException as failure:  # `check` raises it
                self._failures.append(failure)
                ready.set()
            finally:
                cluster.close()

        self._threads.append(threading.Thread(target=run, name=client_id, daemon=True))


class Speed:
    """Which part of its lag a member works off in a beat, in waves."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> float:
        """From 5 % to 45 %."""
        return 0.25 + 0.2 * math.sin((time.monotonic() - self._began) / 6)


def classic_member(cluster: Cluster, speed: Speed | None) -> Iterator[bool]:
    """The life of a member of a classic group."""
    member = GroupMember(cluster, GROUPS.classic, ["orders", "payments"])
    return living(cluster, member, lambda each: 60 + each.partition, speed)


def consumer_member(cluster: Cluster, speed: Speed | None) -> Iterator[bool]:
    """The life of a member of a consumer group."""
    member = ConsumerProtocolMember(cluster, GROUPS.consumer, ["orders", "page-views"])
    return living(cluster, member, lambda each: 2 + each.partition, speed)


def living(
    cluster: Cluster,
    member: Membership,
    offset_of: Callable[[TopicPartition], int],
    speed: Speed | None,
) -> Iterator[bool]:
    """Commit `offset_of` for each new partition; with `speed`, work off the lag in each beat."""
    member.join()
    committed: dict[TopicPartition, int] = {}
    while True:
        if not member.heartbeat():
            member.join()
        elif committed.keys() != set(member.assignment):
            committed = {each: offset_of(each) for each in member.assignment}
            member.commit(committed)
        elif speed is not None and committed:
            ends = end_offsets(cluster, committed)
            part = speed.now()
            committed = {
                each: offset + max(0, int((ends[each] - offset) * part))
                for each, offset in committed.items()
            }
            member.commit(committed)
        yield bool(committed)


def share_member(cluster: Cluster) -> Iterator[bool]:
    """The life of a member of a share group: it gives some payments back, and then reads no more.

    A broker counts how often records were delivered; it stores this when they are given back.
    """
    alter_configs(
        cluster,
        ConfigResource(ConfigResourceKind.GROUP, GROUPS.share),
        {"share.auto.offset.reset": (ConfigAlteration.SET, "earliest")},
    )
    member = ShareConsumer(cluster, GROUPS.share, ["payments"], Acknowledgement.RELEASE)
    while not member.poll(0.05, RELEASED):
        yield False
    member.commit()
    while True:
        yield True


def streams_member(cluster: Cluster, name: str) -> Iterator[bool]:
    """The life of a member of a streams group that reads orders, repartitions and counts."""
    repartition, changelog = (f"{GROUPS.streams}-{each}" for each in ("by-city", "counts"))
    reading = Subtopology("0", source_topics=["orders"], repartition_sink_topics=[repartition])
    counting = Subtopology(
        "1",
        repartition_source_topics=[TopicInfo(repartition, 6)],
        state_changelog_topics=[TopicInfo(changelog)],
    )
    active: list[TaskIds] = []
    epoch = 0
    while True:
        request = StreamsGroupHeartbeatRequest(
            GROUPS.streams, name, epoch, active_tasks=active, standby_tasks=[], warmup_tasks=[]
        )
        if epoch == 0:
            request.topology = Topology(0, [reading, counting])
            request.rebalance_timeout_ms = 60_000
            request.process_id = f"{name}.example"
            request.client_tags = []
        reply: StreamsGroupHeartbeatResponse = at_coordinator(
            cluster, GROUPS.streams, methodcaller("call", request)
        )
        check(reply.error_code, f"heartbeat in group {GROUPS.streams}", reply.error_message)
        epoch = reply.member_epoch
        if reply.active_tasks is not None:
            active = [
                TaskIds(task.subtopology_id, list(task.partitions)) for task in reply.active_tasks
            ]
        yield bool(active)


def writing(cluster: Cluster) -> Iterator[bool]:
    """Write orders and payments, in waves."""
    producer = Producer(cluster, create_topics=False)
    rng = random.Random(1)
    began = time.monotonic()
    while True:
        count = int(25 + 20 * math.sin((time.monotonic() - began) / 9))
        now_ms = time.time_ns() // 1_000_000
        send_orders(producer, rng, [now_ms] * count)
        producer.flush()
        yield True


@contextmanager
def lively(
    bootstrap: str, *, traffic: bool = False, orders: int = 600, tame: bool = False
) -> Iterator[None]:
    """Fill a cluster, and let members live in its groups until the end of the block."""
    cluster = Cluster(bootstrap, client_id="lively")
    try:
        fill(cluster, now_ms=time.time_ns() // 1_000_000, orders=orders, tame=tame)
    finally:
        cluster.close()
    members = Members(bootstrap, traffic=traffic, tame=tame)
    try:
        members.start()
        yield
        members.check()
    finally:
        members.close()
