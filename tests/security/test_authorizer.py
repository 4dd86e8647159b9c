"""The rules of access control lists, compared with Apache Kafka's class (AskAuthorizer.java)."""

from __future__ import annotations

import random
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.conformance import java
from kwire.conformance.class_archive import options
from kwire.security.authorizer import AclAuthorizer

SOURCE = Path(__file__).with_name("AskAuthorizer.java")
WORLDS, QUESTIONS = 600, 25
PRINCIPALS = ("User:a", "User:b", "User:root", "Group:a", "User:*")
HOSTS = ("127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1")
NAMES = ("a", "ab", "abc", "abd", "b", "*", "hardcode", "há", "kafka-cluster")
OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
TYPES = [each for each in ResourceType if each > ResourceType.ANY]

Acl = tuple[ResourcePattern, AccessControlEntry]


class World(NamedTuple):
    """Access control lists and actions to decide; `any_of` are about any resource of a type."""

    super_users: tuple[str, ...]
    allow_everyone: bool
    acls: tuple[Acl, ...]
    questions: tuple[tuple[str, str, int, int, str], ...]
    any_of: tuple[tuple[str, str, int, int], ...]


def draw_acl(rng: random.Random, types: list[ResourceType]) -> Acl:
    kind = rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
    operation = rng.choice([AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, *OPERATIONS])
    permission = rng.choice(
        (AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)
    )
    host = rng.choice(("*", "*", *HOSTS))
    return (
        ResourcePattern(rng.choice(types), kind, rng.choice(NAMES)),
        AccessControlEntry(rng.choice(PRINCIPALS), host, operation, permission),
    )


def draw(rng: random.Random) -> World:
    types = rng.sample(TYPES, 2)
    acls = {draw_acl(rng, types) for _ in range(rng.randrange(9))}
    askers = [each for each in PRINCIPALS if each != "User:*"]
    questions = tuple(
        (
            rng.choice(askers),
            rng.choice(HOSTS),
            rng.choice(OPERATIONS),
            rng.choice(types),
            rng.choice((*NAMES, "abcd", "zz")),
        )
        for _ in range(QUESTIONS)
    )
    any_of = tuple(
        (rng.choice(askers), rng.choice(HOSTS), rng.choice(OPERATIONS), rng.choice(types))
        for _ in range(4)
    )
    super_users = ("User:root",) if rng.random() < 0.5 else ()
    return World(super_users, rng.random() < 0.3, tuple(acls), questions, any_of)


def authorizer_of(world: World) -> AclAuthorizer:
    made = AclAuthorizer(world.super_users, allow_everyone_if_no_acl_found=world.allow_everyone)
    grouped: defaultdict[ResourcePattern, set[AccessControlEntry]] = defaultdict(set)
    for pattern, entry in world.acls:
        grouped[pattern].add(entry)
        made.follow({pattern: frozenset(grouped[pattern])})
    return made


def answers(world: World) -> list[str]:
    authorizer = authorizer_of(world)
    said = [authorizer.ruling(*question).allowed for question in world.questions]
    said += [authorizer.allows_any(*question) for question in world.any_of]
    return ["ALLOWED" if each else "DENIED" for each in said]


def lines_for_java(world: World) -> list[str]:
    asked = [
        f"new\t{';'.join(world.super_users)}\t{str(world.allow_everyone).lower()}",
        *("\t".join(("acl", *(_text(part) for part in (*a, *b)))) for a, b in world.acls),
        "loaded",
        *("\t".join(("ask", *map(_text, each))) for each in world.questions),
        *("\t".join(("any", *map(_text, each))) for each in world.any_of),
    ]
    return asked


def _text(part: object) -> str:
    return str(int(part)) if isinstance(part, int) else str(part)


@pytest.mark.java
@pytest.mark.slow
def test_authorizer_decides_like_apache_kafka(apache_kafka_libs: Path, rng: random.Random) -> None:
    worlds = [draw(rng) for _ in range(WORLDS)]
    done = subprocess.run(
        [java.executable(), *options(apache_kafka_libs), "-cp", f"{apache_kafka_libs}/*", SOURCE],
        input="\n".join(line for world in worlds for line in lines_for_java(world)) + "\n",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    theirs = done.stdout.splitlines()
    assert len(theirs) == WORLDS * (QUESTIONS + 4)
    for world in worlds:
        expected, theirs = theirs[: QUESTIONS + 4], theirs[QUESTIONS + 4 :]
        assert answers(world) == expected, world


def test_removed_entry_no_longer_allows() -> None:
    authorizer = AclAuthorizer()
    prefix = ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "ab")
    allowed = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
    question = ("User:a", "10.0.0.7", AclOperation.DESCRIBE, ResourceType.TOPIC, "abc")
    assert not authorizer.ruling(*question).allowed
    authorizer.follow({prefix: frozenset({allowed})})
    assert authorizer.ruling(*question).allowed
    denied = allowed._replace(operation=AclOperation.DESCRIBE, permission=AclPermissionType.DENY)
    authorizer.follow({prefix: frozenset({allowed, denied})})
    assert not authorizer.ruling(*question).allowed
    authorizer.follow({prefix: frozenset()})
    assert not authorizer.ruling(*question).allowed


@pytest.mark.parametrize("everyone", [False, True])
def test_resource_with_any_entry_is_denied_by_default(everyone: bool) -> None:
    """`allow.everyone.if.no.acl.found` is about resources without entries, for anybody."""
    authorizer = AclAuthorizer(allow_everyone_if_no_acl_found=everyone)
    named = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "a")
    others = AccessControlEntry("User:b", "*", AclOperation.READ, AclPermissionType.ALLOW)
    authorizer.follow({named: frozenset({others})})
    question = ("User:a", "10.0.0.7", AclOperation.READ, ResourceType.TOPIC)
    assert authorizer.ruling(*question, "a") == (False, "DefaultDeny")
    without = (True, "DefaultAllow") if everyone else (False, "DefaultDeny")
    assert authorizer.ruling(*question, "b") == without


def test_decisions_depend_neither_on_the_order_of_lists_nor_on_earlier_questions(
    rng: random.Random,
) -> None:
    for world in (draw(rng) for _ in range(60)):
        backwards = world._replace(
            acls=world.acls[::-1], questions=world.questions[::-1], any_of=world.any_of[::-1]
        )
        count = len(world.questions)
        here, there = answers(world), answers(backwards)
        assert (here[:count], here[count:]) == (there[:count][::-1], there[count:][::-1])


def test_decision_time_does_not_grow_with_the_number_of_lists() -> None:
    """Each decision is about another name, so that the cache has none."""

    def seconds(lists: int) -> float:
        authorizer = AclAuthorizer()
        entries = frozenset(
            {AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)}
        )
        for number in range(lists):
            name = f"topic-{number:05}"
            kind = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
            authorizer.follow({ResourcePattern(ResourceType.TOPIC, kind, name): entries})
        began = time.process_time()
        for number in range(3000):
            asked = authorizer.ruling(
                "User:a", "10.0.0.7", AclOperation.READ, ResourceType.TOPIC, f"topic-{number:05}-x"
            )
            assert asked.allowed == (number % 2 == 1 and number < lists)
        return time.process_time() - began

    few = min(seconds(10) for _ in range(3))
    assert min(seconds(10_000) for _ in range(3)) < 6 * few
