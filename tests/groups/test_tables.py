"""Hash tables and queues have the order of Java 17's (Tables.java prints it)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.groups.java import TABLE_SIZE, HashTable, integer_hash, table_size
from kwire.groups.java_queue import PriorityQueue
from tests.kafkas_classes import asked, kept

TABLES = Path(__file__).with_name("Tables.java")
ANSWERS = Path(__file__).parent / "data" / "tables-17.txt"


def check(line: str) -> None:
    kind, *told, answer = line.split("|")
    found = ASKED[kind](*told)
    assert found == [int(each) for each in answer.split()], line


def walked(capacity: str, steps: str) -> list[int]:
    size = table_size(int(capacity)) if capacity else TABLE_SIZE
    table: HashTable[int] = HashTable(integer_hash, size=size)
    keys = set()
    for what, key in ((step[0], int(step[1:])) for step in steps.split()):
        if what == "-":
            table.discard(key)
            keys.discard(key)
        else:
            table.add(key, in_front=what == "^")
            keys.add(key)
        assert len(table) == len(keys)
        assert (key in table) == (key in keys)
    return list(table)


def copied(keys: str) -> list[int]:
    return list(HashTable.of_collection(integer_hash, map(int, keys.split())))


def polled(steps: str) -> list[int]:
    weights: list[int] = []
    queue: PriorityQueue[int] = PriorityQueue(weights.__getitem__)
    out = []
    for step in steps.split():
        if step == "-":
            first = queue.poll()
            assert first is not None
            out.append(first)
        else:
            weights.append(int(step))
            queue.add(len(weights) - 1)
        assert len(queue) == len(weights) - len(out)
    assert queue.poll() is None
    return out


ASKED: dict[str, Callable[..., list[int]]] = {"map": walked, "set": copied, "queue": polled}


def test_hash_table_matches_recorded_java_order() -> None:
    for line in kept(ANSWERS):
        check(line)


def test_crowded_bucket_grows_only_a_small_table() -> None:
    """In a larger one Java makes a tree of it, whose order is not told apart."""
    for size in (16, 32, 64):
        crowd = [size * each for each in range(9)]
        table = HashTable(integer_hash, [*crowd, 1], size)
        in_one_bucket = set(list(table)[: len(crowd)]) == set(crowd)
        assert in_one_bucket == (size == 64), size


@pytest.mark.long
@pytest.mark.java
def test_recorded_order_matches_java(rng: random.Random) -> None:
    for line in asked(TABLES, rng):
        check(line)
