"""Two instances of one registry, as processes: raced, killed, stopped and paused."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from kwire.testing import Kafka
from kwire.testing.registry import Registry
from tests.inside import PATIENCE_S
from tests.registry.asking import Answer, Asking, record

pytestmark = pytest.mark.slow

Answers = list[tuple[str, Answer]]
"""Subjects and records (`s1 R7`), with the answers to their registration."""


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Registry]]:
    """Two instances.  After each test both run."""
    with Kafka() as kafka, Registry(kafka) as one, Registry(kafka) as two:
        with Asking(one.url) as asking:
            assert asking.ask("PUT", "/config", {"compatibility": "NONE"}).status == 200
        yield [one, two]
        for each in (one, two):
            print(each.log)
            assert "Traceback" not in each.log


def race(instances: list[Registry], prefix: str, schemas: int) -> Answers:
    """Register schemas at all instances at once, each in another order.

    Connections that end meanwhile are no failure.
    """
    answers: Answers = []
    lock = threading.Lock()

    def work(instance: Registry, seed: int) -> None:
        numbers = list(range(schemas))
        random.Random(seed).shuffle(numbers)
        with Asking(instance.url) as asking:
            for number in numbers:
                subject, name = f"{prefix}{number % 5}", f"{prefix}R{number}"
                try:
                    answer = asking.register(subject, record(name, "a"))
                except OSError:
                    continue
                with lock:
                    answers.append((f"{subject} {name}", answer))

    threads = [
        threading.Thread(target=work, args=(instance, seed))
        for seed, instance in enumerate(instances)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def given(answers: Answers) -> dict[str, tuple[int, int]]:
    """The id and version of each schema.  Fails if one id or version is of two schemas."""
    found: dict[str, tuple[int, int]] = {}
    for name, answer in answers:
        if answer.status != 200:
            assert answer.code in (50001, 50002, 50003, 50004), answer
            continue
        ids = (answer.data["id"], answer.data["version"])
        assert found.setdefault(name, ids) == ids, name
    ids_given = [schema_id for schema_id, _ in found.values()]
    assert len(ids_given) == len(set(ids_given)), "one id has two schemas"
    versions = [(name.split()[0], version) for name, (_, version) in found.items()]
    assert len(versions) == len(set(versions)), "one version has two schemas"
    return found


def check_kept(instance: Registry, found: dict[str, tuple[int, int]]) -> None:
    """Fail if an instance lacks an acknowledged version."""
    with Asking(instance.url) as asking:
        for name, (schema_id, version) in found.items():
            subject, record_name = name.split()
            kept = asking.get(f"/subjects/{subject}/versions/{version}")
            assert kept.status == 200, (name, kept)
            assert (kept.data["id"], kept.data["schema"]) == (schema_id, record(record_name, "a"))


def until_all(instances: list[Registry], prefix: str, schemas: int, answers: Answers) -> None:
    """Register until each schema is acknowledged, and check that both instances have all."""
    deadline = time.monotonic() + PATIENCE_S
    while len(given(answers)) < schemas:
        assert time.monotonic() < deadline
        answers += race(instances, prefix, schemas)
    found = given(answers)
    newest = f"{prefix}newest"
    for instance in instances:
        # What was registered through an instance it has read, and all that was written before.
        with Asking(instance.url) as asking:
            made = asking.register(newest, record(f"{newest}{instance.pid}", "a"))
            assert made.status == 200, made
        check_kept(instance, found)


def elected(pair: list[Registry]) -> tuple[Registry, Registry]:
    """The primary, which is the instance with the first URL, and the other one.

    Waits until both know it.
    """
    first, second = sorted(pair, key=lambda each: each.url)
    deadline = time.monotonic() + PATIENCE_S
    while any(primary_of(each) != first.url for each in pair):
        assert time.monotonic() < deadline, first.log + second.log
        time.sleep(0.05)
    return first, second


def primary_of(instance: Registry) -> str:
    """The URL of the last primary in an instance's log."""
    return instance.log.rpartition("the primary is ")[2].split()[0]


def test_either_instance_registers_and_has_read_what_it_sent_on(pair: list[Registry]) -> None:
    for number, instance in enumerate(pair):
        with Asking(instance.url) as asking:
            made = asking.register(f"either{number}", record(f"Either{number}", "a"))
            assert made.status == 200, made
            found = asking.get(f"/subjects/either{number}/versions/1")
            assert found.data["id"] == made.data["id"]


def test_raced_instances_give_each_schema_one_id(pair: list[Registry]) -> None:
    answers = race([*pair, *pair], "raced", 40)
    assert [answer for _, answer in answers if answer.status != 200] == []
    until_all(pair, "raced", 40, answers)


def test_killed_primary_loses_no_acknowledged_version(pair: list[Registry]) -> None:
    primary, other = elected(pair)
    answers: Answers = []
    some_are_registered = threading.Event()

    def kill() -> None:
        some_are_registered.wait(PATIENCE_S)
        primary.kill()

    def register() -> None:
        answers.extend(race([primary], "killed", 3))
        some_are_registered.set()
        answers.extend(race([other, primary], "killed", 25))

    killer, registrar = threading.Thread(target=kill), threading.Thread(target=register)
    killer.start()
    registrar.start()
    killer.join()
    registrar.join()
    primary.start()
    until_all(pair, "killed", 25, answers)


def test_other_instance_takes_over_when_the_primary_stops(pair: list[Registry]) -> None:
    primary, other = elected(pair)
    primary.stop()
    try:
        with Asking(other.url) as asking:
            made = asking.register("stopped", record("Stopped", "a"))
            assert made.status == 200, made
    finally:
        primary.start()


@pytest.mark.long
def test_paused_primary_contradicts_nothing_when_it_wakes(pair: list[Registry]) -> None:
    primary, other = elected(pair)
    sent = threading.Thread(target=race, args=([primary], "paused", 1))
    os.kill(primary.pid, signal.SIGSTOP)
    try:
        sent.start()
        answers = race([other], "paused", 20)
    finally:
        os.kill(primary.pid, signal.SIGCONT)
    sent.join()
    until_all(pair, "paused", 20, answers)


@pytest.mark.long
def test_change_sent_to_a_paused_primary_is_made_by_the_next_one(pair: list[Registry]) -> None:
    primary, other = elected(pair)
    os.kill(primary.pid, signal.SIGSTOP)
    try:
        with Asking(other.url) as asking:
            began = time.monotonic()
            made = asking.register("taken-over", record("TakenOver", "a"))
            print(f"the change took {time.monotonic() - began:.1f} s")
            assert made.status == 200, made
            assert primary_of(other) == other.url
    finally:
        os.kill(primary.pid, signal.SIGCONT)


@pytest.mark.long
def test_primary_that_is_killed_again_and_again_loses_nothing(pair: list[Registry]) -> None:
    rng = random.Random(37)
    answers: Answers = []
    for round_number in range(10):
        primary, other = elected(pair)
        killer = threading.Timer(rng.random() * 0.2, primary.kill)
        killer.start()
        answers += race([other, primary], f"round{round_number}", 20)
        killer.join()
        primary.start()
    until_all(pair, "round9", 20, answers)
