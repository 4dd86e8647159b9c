"""Tests share groups (KIP-932) with librdkafka's share consumer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka import AcknowledgeType, Producer

from tests.clients.librdkafka import TIMEOUT_S, create_topic, produce, values
from tests.clients.share_groups.consumers import configure_group, poll, share_consumer

pytestmark = pytest.mark.slow

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
DELIVERIES = 3

HOLDER = """
import sys
from tests.clients.share_groups.consumers import poll, share_consumer
with share_consumer(*sys.argv[1:]) as member:
    while not (messages := poll(member)):
        pass
    print(len(messages), flush=True)
    sys.stdin.read()
"""
"""A program of a member that acquires records, prints their number, and keeps them."""


def test_share_members_share_a_partition(bootstrap: str, unique: str) -> None:
    """Each record goes to one member, and each member gets some; then one continues alone."""
    create_topic(bootstrap, unique)
    configure_group(bootstrap, unique)
    seen = Counter[int]()
    with ExitStack() as entered:
        members = [entered.enter_context(share_consumer(bootstrap, unique, unique)) for _ in "abc"]
        counts = [0, 0, 0]
        sent, deadline = 0, time.monotonic() + TIMEOUT_S
        while min(counts) == 0 or len(seen) < sent:
            assert time.monotonic() < deadline, (counts, sent, len(seen))
            if min(counts) == 0:
                produce(bootstrap, unique, 20)
                sent += 20
            for number, member in enumerate(members):
                offsets = [message.offset() for message in poll(member)]
                counts[number] += len(offsets)
                seen.update(offset for offset in offsets if offset is not None)
        for member in members:
            member.commit_sync(TIMEOUT_S)  # closing gives back what the last poll has brought
    assert set(seen.values()) == {1}, "a record that two of them had"
    produce(bootstrap, unique, 5)
    with share_consumer(bootstrap, unique, unique) as member:
        after = Counter[int]()
        while after.total() < 5:
            after.update(message.offset() or 0 for message in poll(member))
            assert time.monotonic() < deadline
    assert sorted(after) == list(range(sent, sent + 5)), "what was accepted is not delivered again"


def test_released_records_are_delivered_again_until_the_limit(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 6)
    configure_group(bootstrap, unique, share_delivery_count_limit=str(DELIVERIES))
    said = {0: ACCEPT, 1: REJECT, 2: RELEASE, 3: RELEASE, 4: ACCEPT, 5: REJECT}
    deliveries: dict[int, list[int]] = {number: [] for number in said}
    wanted = {number: [1, 2, 3] if said[number] is RELEASE else [1] for number in said}
    explicit = {"share_acknowledgement_mode": "explicit"}
    with share_consumer(bootstrap, unique, unique, **explicit) as member:
        deadline = time.monotonic() + TIMEOUT_S
        while deliveries != wanted or 6 not in deliveries:
            if deliveries == wanted:
                produce(bootstrap, unique, 1)  # the next record: nothing else comes before it
                deliveries[6], wanted[6], said[6] = [], [1], ACCEPT
            for message in poll(member):
                number = message.offset()
                assert number is not None
                deliveries[number].append(message.delivery_count() or 0)
                member.acknowledge(message, said[number])
            member.commit_sync(TIMEOUT_S)
            assert time.monotonic() < deadline, deliveries


def test_records_of_a_killed_member_go_to_another(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 50)
    configure_group(bootstrap, unique)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, bootstrap, unique, unique],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "50\n"
        finally:
            holder.kill()
    with share_consumer(bootstrap, unique, unique) as member:
        found: Counter[tuple[int, int]] = Counter()
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < 50:
            found.update((int(m.value() or b""), m.delivery_count() or 0) for m in poll(member))
            assert time.monotonic() < deadline, found
    assert {times for _, times in found} == {2}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_share_group_reads_transactions_by_its_isolation_level(
    bootstrap: str, unique: str, isolation: str
) -> None:
    """read_committed does not deliver aborted records, nor those after an open transaction."""
    create_topic(bootstrap, unique)
    configure_group(bootstrap, unique, share_isolation_level=isolation)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": unique}
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    for batch, end in enumerate((producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(unique, str(10 * batch + number).encode())
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    committed_only = isolation == "read_committed"
    expected = list(range(10, 20)) if committed_only else list(range(20))
    with share_consumer(bootstrap, unique, unique) as member:
        seen: list[int] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(seen) < len(expected):
            seen += values(poll(member))
            assert time.monotonic() < deadline, seen
        assert sorted(seen) == expected
        producer.begin_transaction()
        producer.produce(unique, b"20")
        producer.flush(TIMEOUT_S)
        produce(bootstrap, unique, 1)
        while not committed_only and len(seen) < len(expected) + 2:
            seen += values(poll(member))
            assert time.monotonic() < deadline, seen
        assert committed_only == (not (more := values(poll(member, 1.0))) and len(seen) == 10), more
        producer.commit_transaction(TIMEOUT_S)
        while len(seen) < len(expected) + 2:
            seen += values(poll(member))
            assert time.monotonic() < deadline, seen
