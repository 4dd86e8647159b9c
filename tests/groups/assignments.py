"""Lines of Assignors.java: `assignor|topics|members|answer`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kwire.groups.assignment import Assignment, MemberSpec, as_read, in_java_order
from kwire.groups.java import HashTable, uuid_hash

ASSIGNORS: Final = Path(__file__).with_name("Assignors.java")
Listed = list[tuple[bytes, list[int]]]


class Case(NamedTuple):
    """A group to assign for, and what its members get; `topics` has what the line says of each."""

    assignor: str
    topics: dict[bytes, str]
    members: list[MemberSpec]
    homogeneous: bool
    answered: dict[str, Assignment]
    """In the order in which Java walks its maps and sets."""

    def check(self, assigned: Mapping[str, Assignment], *, ordered: bool) -> None:
        """`ordered`: with its topics and partitions in this order, which the records have and the
        next assignment goes by.  Who has what it had before is written no record."""
        found = {member_id: as_read(it.items()) for member_id, it in assigned.items()}
        expected = {member_id: as_read(it.items()) for member_id, it in self.answered.items()}
        assert found == expected, self
        for member in self.members if ordered and assigned else ():
            name = member.member_id
            assert list(found[name].items()) == list(expected[name].items()), self
            if assigned[name] is not member.assignment:
                assert list(assigned[name].items()) == list(self.answered[name].items()), self


def case_of(line: str) -> Case:
    name, described, members, answer = line.split("|")
    pairs = (each.partition("=") for each in described.split(" "))
    topics = {bytes.fromhex(topic_id): said for topic_id, _, said in pairs}
    in_order = list(topics)
    specs = in_java_order(_member_of(each, in_order) for each in members.split(" "))
    told = (each.partition(":") for each in answer.split())
    answered: dict[str, Assignment] = {
        member_id: {topic_id: tuple(these) for topic_id, these in _listed(rest, in_order)}
        for member_id, _, rest in told
    }
    homogeneous = len({frozenset(each.topic_ids) for each in specs}) == 1
    return Case(name, topics, specs, homogeneous, answered)


def _member_of(text: str, topics: list[bytes]) -> MemberSpec:
    member_id, instance_id, subscribed, assignment = text.split(":")
    topic_ids = HashTable(uuid_hash, (topics[int(each)] for each in subscribed.split(",") if each))
    has = as_read(_listed(assignment, topics))
    return MemberSpec(member_id, instance_id or None, dict.fromkeys(topic_ids), has)


def _listed(text: str, topics: list[bytes]) -> Listed:
    """`0=1.2,3=0`: topics by their place, and their partitions in the order that Java has them."""
    pairs = [each.partition("=") for each in text.split(",") if each]
    return [(topics[int(t)], [int(p) for p in ps.split(".") if p]) for t, _, ps in pairs]
