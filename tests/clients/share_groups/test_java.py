"""Tests share groups (KIP-932) with Apache Kafka's share consumers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess

import pytest

from kwire.conformance.apache_kafka import command
from tests.clients.librdkafka import create_topic, produce
from tests.clients.share_groups.consumers import configure_group

pytestmark = [pytest.mark.slow, pytest.mark.java]

TOOLS = "org.apache.kafka.tools"
CONSOLE = f"{TOOLS}.consumer.ConsoleShareConsumer"
VERIFIABLE = f"{TOOLS}.VerifiableShareConsumer"
RECORDS, LATER = 2_000, 2

JavaClass = Callable[..., CompletedProcess[str]]


@pytest.mark.long
def test_console_share_consumer_prints_each_record_once(
    bootstrap: str, java_class: JavaClass, unique: str
) -> None:
    """A consumer does not print records that an earlier one printed or rejected.

    Each of them had all that was left, and gave back what it did not print.
    """
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, 6)
    configure_group(bootstrap, unique)

    def consume(count: int, *more: str) -> list[str]:
        given = ["--bootstrap-server", bootstrap, "--topic", unique, "--group", unique]
        given += ["--max-messages", str(count), "--timeout-ms", "60000", *more]
        given += ["--command-property", "max.poll.records=2"]
        done = java_class(CONSOLE, given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    assert consume(2) == ["0", "1"]
    assert consume(2, "--reject") == ["2", "3"]
    assert consume(2, "--release") == ["4", "5"]
    printed = ["--formatter-property", "print.delivery=true"]
    assert consume(2, *printed) == ["Delivery:4", "4", "Delivery:4", "5"]


class Member:
    """A VerifiableShareConsumer, which prints its records and their acknowledgements."""

    def __init__(self, bootstrap: str, group: str) -> None:
        given = ["--bootstrap-server", bootstrap, "--topic", group, "--group-id", group]
        given += ["--acknowledgement-mode", "sync"]
        self.process = subprocess.Popen(
            command(VERIFIABLE, given), stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.acknowledged = Counter[int]()
        self.had = Counter[int]()

    def events(self) -> Iterator[str]:
        """Each event as it is printed, until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            offsets = [each for part in told.get("partitions", ()) for each in part["offsets"]]
            if told["name"] == "records_consumed":
                self.had.update(offsets)
            elif told["name"] == "offsets_acknowledged" and told["success"]:
                self.acknowledged.update(offsets)
            yield told["name"]

    def kill(self) -> None:
        """Kill the process (kill -9), and read the rest of its output."""
        os.kill(self.process.pid, signal.SIGKILL)
        for _ in self.events():
            pass


@contextmanager
def member(bootstrap: str, group: str) -> Iterator[Member]:
    made = Member(bootstrap, group)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def test_killed_share_member_loses_no_record_and_none_is_accepted_twice(
    bootstrap: str, unique: str
) -> None:
    """It is killed while it works; the next one gets all remaining records."""
    create_topic(bootstrap, unique)
    produce(bootstrap, unique, RECORDS, **{"batch.num.messages": 10})
    configure_group(bootstrap, unique)
    with member(bootstrap, unique) as killed:
        assert "records_consumed" in killed.events()
        killed.kill()
    with member(bootstrap, unique) as survivor:
        untold = killed.had.keys() - killed.acknowledged.keys()
        end = RECORDS
        for _ in survivor.events():
            missing = set(range(end)) - survivor.acknowledged.keys() - killed.acknowledged.keys()
            if missing <= untold:
                # Either it lives on in the other's hands, or it was accepted on the wire by who did
                # not live to tell; what is produced now comes behind all that was given back.
                if end == RECORDS + LATER or not missing:
                    break
                produce(bootstrap, unique, 1)
                end += 1
        both = survivor.acknowledged + killed.acknowledged
    assert set(both.values()) == {1}, "a record that was accepted twice"
    assert missing in (set(), untold), "a part of what was to be accepted together"
    assert killed.had, "the one that was killed had records"
