"""The rules of access control lists, compared with Apache Kafka's class (AskAuthorizer.java)."""

from __future__ import annotations

import ipaddress
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
from kwire.conformance.apache_kafka import source_command
from kwire.security import host_ranges
from kwire.security.authorizer import AclAuthorizer
from kwire.security.host_ranges import HostRange, InvalidRange, holds, is_range, parse_range

SOURCE = Path(__file__).with_name("AskAuthorizer.java")
WORLDS, QUESTIONS = 600, 25
PRINCIPALS = ("User:a", "User:b", "User:root", "Group:a", "User:*")
HOSTS = ("127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1", "10.9.0.0", "0.0.0.0", "fe80:0:0:0:0:0:0:9")
RANGES = (
    "10.0.0.0/8",
    "10.0.0.1/29",
    "10.0.0.7/32",
    "0.0.0.0/0",
    "0:0:0:0:0:0:0:1/127",
    "::/0",
    "::10.0.0.0/104",
    "::ffff:10.0.0.0/104",
    "[fe80::1]/10",
    "10.0.0.7/33",
)
"""Hosts of entries; the last range and that of mapped addresses are none, and compared as text."""
NAMES = ("a", "ab", "abc", "abd", "b", "*", "hardcode", "há", "kafka-cluster")
OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
TYPES = [each for each in ResourceType if each > ResourceType.ANY]
SPELLINGS = (
    "::01.2.3.4/128",
    "::1.02.3.0004/128",
    "::1.2.3.256/8",
    "::a.2.3.4/128",
    "0:0:0:0:0:0:1.2.3.4/120",
    "::0.0.0.00001/128",
    "::1/+8",
    "::1/0128",
    "::1/99999999999",
    "2001:DB8::/32",
)
"""Texts that some parsers read as an IPv6 range and others do not."""

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
    host = rng.choice(("*", "*", *HOSTS, *RANGES))
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
        source_command(SOURCE, jars=apache_kafka_libs),
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


def drawn_range(rng: random.Random) -> str:
    """A range, or a text that is almost one."""
    if rng.random() < 0.5:
        bits = rng.choice((8, 16, 24, 32))
        address = ipaddress.ip_address(rng.randrange(2**32 >> 32 - bits))
        text = f"{address}/{rng.randrange(-1, 36)}"
    else:
        address = ipaddress.ip_address(rng.getrandbits(128) & rng.getrandbits(128))
        words = [rng.choice(("0", "00", "")) + word for word in address.exploded.split(":")]
        spelt = rng.choice((str(address), ":".join(words), f"[{address}]", f"{address}%3"))
        text = f"{spelt}/{rng.randrange(-1, 132)}"
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randrange(1, len(text))
        text = text[:at] + rng.choice("019f:./%]+") + text[at + rng.randrange(2) :]
    return text


@pytest.mark.java
@pytest.mark.slow
def test_ranges_are_those_of_apache_kafka(apache_kafka_libs: Path, rng: random.Random) -> None:
    """Each text is a range or not, with the same message, and has the same addresses."""
    texts = [*RANGES, *SPELLINGS, *filter(is_range, (drawn_range(rng) for _ in range(5000)))]
    pairs = [(text, host) for text in texts for host in HOSTS]
    done = subprocess.run(
        source_command(SOURCE, jars=apache_kafka_libs),
        input="".join(f"range\t{text}\t{host}\n" for text, host in pairs),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr

    def answer(text: str, host: str) -> str:
        try:
            return str(holds(parse_range(text), host)).lower()
        except InvalidRange as error:
            return str(error)

    theirs = dict(zip(pairs, done.stdout.splitlines(), strict=True))
    different = {pair: said for pair, said in theirs.items() if answer(*pair) != said}
    assert different == {}
    assert {"true", "false"} < set(theirs.values())


@pytest.mark.parametrize(
    ("host", "concerned"),
    [("10.1.2.3/8", True), ("11.0.0.0/8", False), ("::/0", False), ("10.0.0.7/33", False)],
)
def test_range_in_an_entry_concerns_its_addresses_only(host: str, concerned: bool) -> None:
    question = ("User:a", "10.0.0.7", AclOperation.READ, ResourceType.TOPIC, "t")
    topic = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    allow = AccessControlEntry("User:a", host, AclOperation.READ, AclPermissionType.ALLOW)
    deny = allow._replace(permission=AclPermissionType.DENY)
    authorizer = AclAuthorizer()
    authorizer.follow({topic: frozenset({allow})})
    assert authorizer.ruling(*question).allowed is concerned
    assert authorizer.allows_any(*question[:4]) is concerned
    authorizer.follow({topic: frozenset({deny, allow._replace(host="*")})})
    assert authorizer.ruling(*question).allowed is not concerned
    assert authorizer.allows_any(*question[:4]) is not concerned


def test_authorizer_without_ranges_compares_them_as_text() -> None:
    """Apache Kafka 3.9.2, on ZooKeeper, does so."""
    authorizer = AclAuthorizer(with_ranges=False)
    topic = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    entry = AccessControlEntry("User:a", "0.0.0.0/0", AclOperation.READ, AclPermissionType.ALLOW)
    authorizer.follow({topic: frozenset({entry})})
    for host, allowed in (("10.0.0.7", False), ("0.0.0.0/0", True)):
        question = ("User:a", host, AclOperation.READ, ResourceType.TOPIC, "t")
        assert authorizer.ruling(*question).allowed is allowed


def test_ranges_are_parsed_once_and_not_for_each_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []

    def parse(host: str) -> HostRange:
        parsed.append(host)
        return parse_range(host)

    monkeypatch.setattr(host_ranges, "parse_range", parse)
    authorizer = AclAuthorizer()
    topic = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    entry = AccessControlEntry("User:a", "10.0.0.0/8", AclOperation.READ, AclPermissionType.ALLOW)
    authorizer.follow({topic: frozenset({entry})})
    for number in range(100):
        question = ("User:a", f"10.0.0.{number}", AclOperation.READ, ResourceType.TOPIC, "t")
        assert authorizer.ruling(*question).allowed
    assert parsed == ["10.0.0.0/8"]


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
