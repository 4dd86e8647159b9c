"""How soon a registry with many schemas is there, and answers: `make registry-figures`.

Without the target the tests measure few schemas, and set no limit in time, so that they pass on a
busy machine.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.registry.subjects.records import Key, KeyKind, Write
from kwire.testing import Kafka
from kwire.testing.registry import Registry
from kwire.testing.values import Record
from tests.figures.table import FigureTable, machine, spread
from tests.registry.asking import Asking, record

pytestmark = pytest.mark.slow

TABLE = FigureTable("docs/registry.md", "registry-figures", "KWIRE_REGISTRY_FIGURES")
SCHEMAS = 50_000 if TABLE.is_writing else 300
VERSIONS = 5
"""Versions of each subject."""
STARTS = 5 if TABLE.is_writing else 1
LOOK_UPS = 5_000 if TABLE.is_writing else 100
REGISTERED = 200 if TABLE.is_writing else 5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def schema_of(number: int) -> str:
    """A schema of about 500 characters, as topics have them."""
    fields = [f"field_{index}" for index in range(6)]
    extra = [f"added_{index}?" for index in range(number % VERSIONS)]
    return record(f"Record{number // VERSIONS}", *fields, *extra)


def records() -> Iterator[Record]:
    """The records of the topic."""
    for number in range(SCHEMAS):
        subject, version = f"topic-{number // VERSIONS:05}-value", number % VERSIONS + 1
        value = {
            "subject": subject, "version": version, "id": number + 1,
            "schema": schema_of(number), "deleted": False,
        }  # fmt: skip
        key = Key(KeyKind.SCHEMA, subject, version)
        yield Record(Write(key, value).encoded_value(), key.encoded())


def processor_s(pid: int) -> float:
    """The processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def percentile(times_s: list[float], share: float) -> float:
    """The time in ms within which this share of requests was answered."""
    return sorted(times_s)[min(len(times_s) - 1, int(len(times_s) * share))] * 1000


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """A broker with a full topic of schemas."""
    with Kafka({"log.cleaner.enable": "false"}) as kafka:
        kafka.create_topic("_schemas", configs={"cleanup.policy": "compact"}).seed(records())
        yield kafka


def test_registry_with_many_schemas_starts_and_answers(kafka: Kafka) -> None:
    if TABLE.is_writing:
        load = os.getloadavg()[0]
        TABLE.keep("measured on", f"{machine()}, load {load:.0f} at the begin")
    name = f"{SCHEMAS:,} schemas"
    starts, used = [], []
    for _ in range(STARTS):
        began = time.monotonic()
        with Registry(kafka) as registry:
            starts.append(time.monotonic() - began)
            used.append(processor_s(registry.pid))
    TABLE.keep(f"{name}: the registry answers after its start", spread(starts, "s", 2))
    TABLE.keep(f"{name}: processor time of a start", spread(used, "s", 2))
    with Registry(kafka) as registry, Asking(registry.url) as asking:
        before = processor_s(registry.pid)
        measure_look_ups(asking, name)
        used_ms = (processor_s(registry.pid) - before) / (2.1 * LOOK_UPS) * 1000
        TABLE.keep(f"{name}: processor time of a look-up", f"{used_ms:.2f} ms")
        status = Path(f"/proc/{registry.pid}/status").read_text()
        resident = next(line.split()[1] for line in status.splitlines() if line[:6] == "VmRSS:")
        TABLE.keep(f"{name}: memory of the registry", f"{int(resident) / 1000:,.0f} MB")
        times = []
        for number in range(REGISTERED):
            began = time.perf_counter()
            made = asking.register(f"new-{number}", record(f"New{number}", "a"))
            times.append(time.perf_counter() - began)
            assert made.data["id"] == SCHEMAS + number + 1
        middle, late = percentile(times[1:], 0.5), percentile(times[1:], 0.99)
        TABLE.keep(f"{name}: a new schema is registered, p50 and p99",
                   f"{middle:.2f} ms and {late:.2f} ms")  # fmt: skip


def measure_look_ups(asking: Asking, name: str) -> None:
    """Measure look-ups of random schemas by id, by version and by text, one after another."""
    rng = random.Random(37)
    by_id, by_version, by_text = [], [], []
    for _ in range(LOOK_UPS):
        number = rng.randrange(SCHEMAS)
        began = time.perf_counter()
        found = asking.get(f"/schemas/ids/{number + 1}")
        by_id.append(time.perf_counter() - began)
        assert found.data["schema"] == schema_of(number)
    for _ in range(LOOK_UPS):
        subject, version = rng.randrange(SCHEMAS // VERSIONS), rng.randint(1, VERSIONS)
        began = time.perf_counter()
        found = asking.get(f"/subjects/topic-{subject:05}-value/versions/{version}")
        by_version.append(time.perf_counter() - began)
        assert found.data["version"] == version
    for _ in range(LOOK_UPS // 10):
        number = rng.randrange(SCHEMAS)
        subject = number // VERSIONS
        body = {"schema": schema_of(number)}
        began = time.perf_counter()
        found = asking.ask("POST", f"/subjects/topic-{subject:05}-value", body)
        by_text.append(time.perf_counter() - began)
        assert found.data["id"] == number + 1
    for what, times in (("id", by_id), ("subject and version", by_version), ("text", by_text)):
        middle, late = percentile(times, 0.5), percentile(times, 0.99)
        TABLE.keep(f"{name}: look-up by {what}, p50 and p99", f"{middle:.2f} ms and {late:.2f} ms")
