"""Scenarios of groups of all kinds, in told_scripts/, with all effects of each request.

Below each line are the complete responses; then the appended records (`+`, with the producer of a
transaction; `~`: not in one batch), the timers that were set or cancelled (`@`), and the operator's
log (`#`).  Fields are those of the messages, without default values; times count from the start.
After each line a second machine that replays the log must have the same groups and offsets.

    topic NAME PARTITIONS [BROKER+BROKER ...]    untopic NAME    racks [BROKER=RACK ...]
    settings KIND NAME=VALUE ...    limits NAME=VALUE ...
    consumer|share|streams MEMBER [joins] [FIELD=VALUE ...]
    describe-consumer|describe-share|describe-streams [GROUP]    listed    hosted
    answered [badly]    alter TOPIC:PARTITION=OFFSET ...    forget TOPIC ...    forgotten    known
    restart [NAME=VALUE ...]    resign    append ERROR|ok    marker commit|abort
    late TIMER ...    rewritten MEMBER [state=N epochs=none|short]    rewritten partition-metadata
    rewritten MEMBER warmup=SUBTOPOLOGY:PARTITION+...,...

(`late`: a timer that was cancelled or belongs to another group; `rewritten`: records as other
brokers write them) and the lines of `conformance.group_script`, where v=10 names topics by id.
Heartbeats have the epoch of the member's last response, and the member's name as client id;
`epoch=` and `group=` set others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_heartbeat as streams
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.coordinator.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.group_script import GroupScript
from kwire.coordinators.contract.driver import AnyEffects
from kwire.coordinators.contract.effects import TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.kind import AssignedKind
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.state import ClassicState
from kwire.groups.classic.timers import InitialJoinTimer, JoinTimer, SyncTimer
from kwire.groups.consumer import validation as of_consumers
from kwire.groups.consumer.records import PartitionMetadata
from kwire.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer, PatternTimer
from kwire.groups.effects import GroupEffects
from kwire.groups.group import Group
from kwire.groups.limits import GroupLimits, MigrationPolicy
from kwire.groups.share import validation as of_shares
from kwire.groups.share.decision import ShareInitialization
from kwire.groups.share.offsets import OffsetDeletion
from kwire.groups.streams import target
from kwire.groups.streams import validation as of_streams
from kwire.groups.streams.records import StreamsTargetAssignment
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.surroundings import FixedSurroundings
from kwire.groups.timers import RebalanceTimer, SessionTimer
from tests.groups import telling
from tests.groups.consumer.test_heartbeat import AT_ONCE as CONSUMER
from tests.groups.images import deleted, put
from tests.groups.share.simulation import AT_ONCE as SHARE
from tests.groups.simulation import GroupSimulation
from tests.groups.streams.simulation import AT_ONCE as STREAMS
from tests.groups.told_fields import FIELDS, JOINS, listed, numbers, tasks_by_id

SCRIPTS = sorted((Path(__file__).parent / "told_scripts").glob("*.txt"))
GROUP_ID = "G"
LIMITS = GroupLimits(group_initial_rebalance_delay_ms=0)
ASSIGNORS = ("uniform", "range")

CheckScript = Callable[[Path, Callable[[str], list[str]]], None]
Words = dict[str, str]


TOPIC_IDS_SINCE = 10
"""OffsetCommit, OffsetFetch"""
PARTITION_METADATA = ConsumerGroupPartitionMetadataValue()
TIMERS: dict[str, Any] = {
    "session": SessionTimer,
    "rebalance": RebalanceTimer,
    "first-join": InitialJoinTimer,
    "join": JoinTimer,
    "sync": SyncTimer,
    "member-join": ClassicJoinTimer,
    "member-sync": ClassicSyncTimer,
    "pattern": lambda group_id: PatternTimer(group_id, None),
    "initial": InitialDelayTimer,
}


class Named(frozenset[str]):
    """The topics that somebody may know of."""

    __call__ = frozenset.__contains__


class Waiting:
    """A request without a reply."""

    reply: Any = None

    def resolve(self, reply: object) -> None:
        assert self.reply is None, "one reply each"
        self.reply = reply

    def refuse(self, error: ErrorCode) -> object:
        return f"not written: {error.name}"


class Watched(GroupSimulation):
    """The simulation, and what became of records and timers since it was looked at last."""

    def __init__(self, limits: GroupLimits, surroundings: FixedSurroundings) -> None:
        self.record_lines: list[str] = []
        self.timer_lines: list[str] = []
        self.names: dict[bytes, str] = {}
        """Of topics, by their ids."""
        super().__init__(limits, surroundings=surroundings)

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        error = super().append(effects, proof)
        if error is ErrorCode.NONE:
            of = "" if effects.producer is None else "of {}/{}: ".format(*effects.producer)
            sign = "+" if effects.atomic else "~"
            told = [telling.record(each, self.names) for each in effects.records]
            self.record_lines += [f"{sign} {of}{each}" for each in told]
        return error

    def send(self, name: str, api: ApiKey, version: int, request: Any) -> None:  # noqa: ANN401 - of any kind
        by_id = version >= TOPIC_IDS_SINCE and api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
        if by_id or api is ApiKey.TXN_OFFSET_COMMIT:  # the handler adds ids to older versions
            known = self.surroundings.image.topics
            asked = request.groups[0] if api is ApiKey.OFFSET_FETCH else request
            for topic in asked.topics or ():
                topic.topic_id = known[topic.name].id if topic.name in known else ZERO_UUID
        super().send(name, api, version, request)

    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        for key, timer, delay_ms in timers:
            name = "/".join(map(str, key))
            if timer is not None:
                self.timer_lines.append(f"@ {name} in {delay_ms}{telling.timer(timer)}")
            elif self.has_timer(key):
                self.timer_lines.append(f"@ {name} ended")
            super().set_timers([(key, timer, delay_ms)])


class ToldScript:
    """See the module."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.epochs: dict[str, int] = {}
        """What members were told last."""
        self.asked: list[ShareInitialization] = []
        self.deletion: OffsetDeletion | None = None
        image = ClusterImage(cluster_id="c")
        self.surroundings = FixedSurroundings(image, CONSUMER, SHARE, STREAMS)
        self._start(LIMITS)

    def _start(self, limits: GroupLimits) -> None:
        self.simulation = Watched(limits, self.surroundings)
        self.simulation.names = self.names
        self.script = GroupScript(self.simulation, GROUP_ID)
        self.simulation.timer_lines.clear()

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        own = getattr(self, "_" + command.replace("-", "_"), None)
        if own is None:
            self.script.send(line)
            lines: list[str] = []
        else:
            plain = [word for word in words if "=" not in word]
            lines = own(plain, dict(word.split("=", 1) for word in words if "=" in word)) or []
        lines += [f"{name}: {self._say(reply)}" for name, reply in self.script.messages()]
        self._check_log()
        return [*lines, *self._happened()]

    def _happened(self) -> list[str]:
        simulation = self.simulation
        lines = simulation.record_lines + simulation.timer_lines
        lines += ["# " + note for note in simulation.notes]
        for each in (simulation.record_lines, simulation.timer_lines, simulation.notes):
            each.clear()
        return lines

    def _check_log(self) -> None:
        """What the log says is what there is, but for what is lost with the broker."""
        machine = self.simulation.machine
        again = self.simulation.reloaded()
        assert again.groups.keys() == machine.groups.keys()
        for group_id, group in machine.groups.items():
            assert durable(again.groups[group_id], group) == durable(group, group)
        assert again.offsets.by_group == machine.offsets.by_group

    def _say(self, reply: object) -> str:
        return reply if isinstance(reply, str) else telling.told(reply, self.names)

    # -- the cluster

    def _topic(self, words: list[str], _: Words) -> None:
        surroundings, replicas = self.surroundings, [numbers(each) for each in words[2:]]
        partitions = int(words[1])
        surroundings.image, topic_id = put(surroundings.image, words[0], partitions, replicas)
        self.names[topic_id] = words[0]

    def _racks(self, words: list[str], given: Words) -> None:
        racks = {int(each): None for each in words} | {int(n): rack for n, rack in given.items()}
        brokers = {number: BrokerImage(number, (), rack) for number, rack in racks.items()}
        self.surroundings.image = replace(self.surroundings.image, brokers=brokers)

    def _untopic(self, words: list[str], _: Words) -> None:
        surroundings, name = self.surroundings, words[0]
        topic_id = surroundings.image.topics[name].id
        surroundings.image = deleted(surroundings.image, name)
        simulation = self.simulation
        simulation.carry_out(
            simulation.machine.topics_deleted([(name, topic_id)], simulation.now_ms)
        )

    def _settings(self, words: list[str], given: Words) -> None:
        attribute = {"consumer": "consumer_settings"}.get(words[0], words[0])
        before = getattr(self.surroundings, attribute)
        values = {n: int(v) if v.isdigit() else v for n, v in given.items()}
        setattr(self.surroundings, attribute, replace(before, **values))

    def _limits(self, _: list[str], given: Words) -> None:
        values: dict[str, Any] = {name: int(value) for name, value in given.items()}
        if "group_consumer_migration_policy" in values:
            policy = MigrationPolicy(values["group_consumer_migration_policy"])
            values["group_consumer_migration_policy"] = policy
        self._start(replace(LIMITS, **values))

    def _restart(self, _: list[str], given: Words) -> None:
        self.asked.clear()
        values = {name: int(value) for name, value in given.items()}
        self.simulation.restart(replace(self.simulation.limits, **values))  # type: ignore[arg-type] # of one kind

    def _resign(self, _: list[str], __: Words) -> None:
        self.simulation.resign()

    def _late(self, words: list[str], given: Words) -> None:
        name, *rest = words
        numbers = [int(each) if each.isdigit() else each for each in rest]
        timer = TIMERS[name](given.get("group", GROUP_ID), *numbers)
        simulation = self.simulation
        simulation.carry_out(simulation.machine.timer_fired(timer, simulation.now_ms))

    def _rewritten(self, words: list[str], given: Words) -> None:
        if words == ["partition-metadata"]:
            key, value = ConsumerGroupPartitionMetadataKey(GROUP_ID), PARTITION_METADATA
            self._write(PartitionMetadata(key, value))
            return
        group: Any = self.simulation.machine.groups[GROUP_ID]
        if "warmup" in given:
            wanted = replace(group.target[words[0]], warmup=tasks_by_id(given["warmup"]))
            planned = target.value(wanted)
            self._write(StreamsTargetAssignment.of(GROUP_ID, words[0], value=planned))
            return
        record = group.members[words[0]].to_assignment(GROUP_ID)
        record.value.state = int(given.get("state", record.value.state))
        parts: Any = getattr(record.value, "assigned_partitions", None)
        for each in record.value.active_tasks if parts is None else parts:
            epochs = {"none": None, "short": each.assignment_epochs[1:]}
            each.assignment_epochs = epochs.get(given.get("epochs", ""), each.assignment_epochs)
        self._write(record)

    def _write(self, record: MachineRecord) -> None:
        self.simulation.carry_out(GroupEffects(records=[record]))

    def _marker(self, words: list[str], _: Words) -> None:
        self.simulation.end_transaction(7, commit=words == ["commit"])

    def _append(self, words: list[str], _: Words) -> None:
        self.simulation.append_error = None if words == ["ok"] else ErrorCode[words[0]]

    # -- heartbeats

    def _fields(self, kind: str, words: list[str], given: Words) -> dict[str, Any]:
        member, group_id = words[0], given.pop("group", GROUP_ID)
        epoch = self.epochs.get(f"{group_id}/{member}", 0)
        if words[1:] == ["joins"]:
            epoch, given = 0, JOINS[kind] | given
        values = {
            "group_id": group_id,
            "member_id": given.pop("id", member),
            "member_epoch": int(given.pop("epoch", epoch)),
        }
        for name, text in given.items():
            field, read = FIELDS[name]
            values[field] = read(self.surroundings.image, text)
        return values

    def _heard(self, member: str, fields: dict[str, Any], reply: object) -> list[str]:
        response: Any = getattr(reply, "response", reply)
        if getattr(response, "error_code", 1) == ErrorCode.NONE:
            self.epochs[f"{fields['group_id']}/{member}"] = max(response.member_epoch, 0)
        return [f"{member}: {self._say(response)}"]

    def _refused(
        self,
        member: str,
        fields: dict[str, Any],
        kind: AssignedKind[Any, Any, Any, Any],
        refusal: Refusal,
    ) -> list[str]:
        """What the handler answers if a request is invalid."""
        reply = kind.reply(error_code=refusal.error, error_message=refusal.message)
        return self._heard(member, fields, reply)

    def _consumer(self, words: list[str], given: Words) -> list[str]:
        member, version = words[0], int(given.pop("v", 1))
        may_describe = None if "may" not in given else Named(listed(given.pop("may")))
        client_id, host = given.pop("client", member), given.pop("host", "/host")
        caller = HeartbeatCaller(client_id, host, may_describe)
        fields = self._fields("consumer", words, given)
        request = ConsumerGroupHeartbeatRequest(**fields)
        refusal = of_consumers.refused(request, version, ASSIGNORS)
        if refusal is not None:
            return self._refused(member, fields, self.simulation.machine.consumer, refusal)
        ticket, simulation = Waiting(), self.simulation
        request.member_id = request.member_id or f"new-{member}"
        effects = simulation.machine.consumer.heartbeat(request, caller, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        return self._heard(member, fields, ticket.reply)

    def _share(self, words: list[str], given: Words) -> list[str]:
        member = words[0]
        caller = HeartbeatCaller(given.pop("client", member), given.pop("host", "/host"))
        fields = self._fields("share", words, given)
        request = ShareGroupHeartbeatRequest(**fields)
        refusal = of_shares.refused(request)
        if refusal is not None:
            return self._refused(member, fields, self.simulation.machine.share, refusal)
        ticket, simulation = Waiting(), self.simulation
        effects = simulation.machine.share.heartbeat(request, caller, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        lines = self._heard(member, fields, ticket.reply)
        initialization = getattr(ticket.reply, "initialization", None)
        if initialization is not None:
            self.asked.append(initialization)
            places = self._places(initialization.topics.partitions)
            group = f"{initialization.group_id} in epoch {initialization.group_epoch}"
            lines.append(f"> the share coordinator: {group} reads {places}")
        return lines

    def _streams(self, words: list[str], given: Words) -> list[str]:
        member = words[0]
        caller = HeartbeatCaller(given.pop("client", member), given.pop("host", "/host"))
        fields = self._fields("streams", words, given)
        request = streams.StreamsGroupHeartbeatRequest(**fields)
        refusal = of_streams.refused_topics(request.topology) or of_streams.refused(request)
        if refusal is not None:
            return self._refused(member, fields, self.simulation.machine.streams, refusal)
        ticket, simulation = Waiting(), self.simulation
        effects = simulation.machine.streams.heartbeat(request, caller, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        lines = self._heard(member, fields, ticket.reply)
        to_create = getattr(ticket.reply, "to_create", {})
        return lines + [f"> to be made: {each}" for each in to_create.values()]

    # -- looking

    def _described(self, words: list[str], kind: Any) -> list[str]:  # noqa: ANN401 - of groups
        return [self._say(kind.describe(words[0] if words else GROUP_ID))]

    def _describe_consumer(self, words: list[str], _: Words) -> list[str]:
        return self._described(words, self.simulation.machine.consumer)

    def _describe_share(self, words: list[str], _: Words) -> list[str]:
        return self._described(words, self.simulation.machine.share)

    def _describe_streams(self, words: list[str], _: Words) -> list[str]:
        return self._described(words, self.simulation.machine.streams)

    def _listed(self, _: list[str], given: Words) -> list[str]:
        states, types = (listed(given.get(name, "")) for name in ("states", "types"))
        return [self._say(each) for each in self.simulation.machine.list_groups(states, types)]

    def _hosted(self, _: list[str], __: Words) -> list[str]:
        return [str(self.simulation.machine.classic.is_hosted(GROUP_ID))]

    # -- what share groups tell the share coordinator

    def _places(self, partitions: Any) -> str:  # noqa: ANN401 - a mapping of any integers
        return " ".join(f"{self.names[t]}:{sorted(these)}" for t, these in partitions.items())

    def _answered(self, words: list[str], _: Words) -> None:
        asked, ticket, share = self.asked.pop(0), Waiting(), self.simulation.machine.share
        say = share.not_initialized if words == ["badly"] else share.initialized
        self.simulation.carry_out(say(asked.group_id, asked.topics, ticket), ticket)

    def _alter(self, words: list[str], given: Words) -> list[str]:
        wanted: dict[str, list[tuple[int, int]]] = {}
        for place, offset in given.items():
            topic, _, partition = place.partition(":")
            wanted.setdefault(topic, []).append((int(partition), int(offset)))
        ticket, simulation = Waiting(), self.simulation
        group_id = words[0] if words else GROUP_ID
        share, now_ms = simulation.machine.share, simulation.now_ms
        simulation.carry_out(share.alter_offsets(group_id, wanted, ticket, now_ms), ticket)
        decided = ticket.reply
        offsets = " ".join(f"{self.names[t]}:{p}={at}" for (t, p), at in decided.offsets.items())
        if decided.offsets:
            self.asked.append(ShareInitialization(group_id, decided.group_epoch, decided.topics))
        return [self._say(decided.response), f"> epoch {decided.group_epoch} {offsets}"]

    def _forget(self, words: list[str], given: Words) -> list[str]:
        ticket, simulation = Waiting(), self.simulation
        share = simulation.machine.share
        group_id = given.get("group", GROUP_ID)
        simulation.carry_out(share.delete_offsets(group_id, words, ticket), ticket)
        self.deletion = ticket.reply
        assert self.deletion is not None
        places = self._places(self.deletion.topics.partitions)
        return [self._say(self.deletion.response), f"> the share coordinator forgets {places}"]

    def _forgotten(self, _: list[str], __: Words) -> None:
        assert self.deletion is not None
        ticket, share = Waiting(), self.simulation.machine.share
        effects = share.offsets_deleted(GROUP_ID, self.deletion.topics, ticket)
        self.simulation.carry_out(effects, ticket)

    def _known(self, words: list[str], _: Words) -> list[str]:
        """What the share coordinator keeps, and what it may keep of a group that nobody is in."""
        share, group_id = self.simulation.machine.share, words[0] if words else GROUP_ID
        kept, left = share.offsets_known(group_id), share.state_to_delete(group_id)
        may = "nothing may be forgotten" if left is None else self._places(left.partitions)
        return [f"kept: {self._places(kept.partitions)}", f"to forget: {may}"]


def durable(group: Group, now: Group) -> object:
    """The group without what no record says of it, as it is `now`."""
    if isinstance(group, ClassicGroup):
        if not isinstance(now, ClassicGroup) or now.state is not ClassicState.STABLE:
            return group.type_name
        record = group.to_record({name: each.assignment for name, each in group.members.items()})
        assert record.value is not None
        record.value.current_state_timestamp = 0  # of the state before, in the log
        return record
    session = getattr(group, "session", None)
    if session is not None:
        return replace(group, session=type(session)())  # type: ignore[type-var] # streams'
    return group


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_group_machine_follows_the_recorded_script(path: Path, check_script: CheckScript) -> None:
    check_script(path, ToldScript().run)
