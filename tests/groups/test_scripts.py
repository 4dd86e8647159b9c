"""Group scenarios in scripts/, run on the machine alone.

The responses in the scripts are those of Apache Kafka 4.3.1 for the same lines.  If a script's head
says that Apache Kafka did not run it, they follow from its source and documents.  Lines:

    limits                        sets up a machine
    append ERROR|ok               makes appends fail
    log                           prints the records appended since the last time
    state                         prints the group after a replay of the whole log
    marker commit|abort           ends a producer's transaction
    resign                        makes another broker the leader
    restart [LIMIT=VALUE ...]     kills this broker and replays the log
    notes                         prints the operator's log
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.group_metadata import GroupMetadataValue
from kwire.conformance.group_script import GroupScript
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.classic.records import GroupMetadata
from kwire.groups.limits import GroupLimits
from kwire.groups.offset_record import CommittedOffset, OffsetCommit
from tests.coordinators.contract.simulation import START_MS
from tests.groups.simulation import GroupSimulation, classic_groups

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
GROUP_ID = "G"

CheckScript = Callable[[Path, Callable[[str], list[str]]], None]


class MachineScript:
    """The lines that only a machine understands, and the rest."""

    def __init__(self) -> None:
        self._start(GroupLimits(group_initial_rebalance_delay_ms=0))

    def _start(self, limits: GroupLimits) -> None:
        self.simulation = GroupSimulation(limits)
        self.script = GroupScript(self.simulation, GROUP_ID)
        self._shown = 0

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        simulation = self.simulation
        match command:
            case "limits":
                self._start(GroupLimits(**_limits(words)))
            case "restart":
                simulation.restart(replace(simulation.limits, **_limits(words)))
            case "append":
                simulation.append_error = None if words == ["ok"] else ErrorCode[words[0]]
            case "log":
                records, self._shown = simulation.records[self._shown :], len(simulation.records)
                return [line for record in records for line in self._show(record)]
            case "state":
                return self._state()
            case "notes":
                notes, simulation.notes = simulation.notes, []
                return notes
            case "resign":
                simulation.resign()
                return self.script.replies()
            case "marker":
                simulation.end_transaction(7, commit=words == ["commit"])
            case _:
                return self._ask(line)
        return []

    def _ask(self, line: str) -> list[str]:
        lines = self.script.run(line)
        if not line.startswith("wait"):
            self.simulation.wait(0)  # a first rebalance without delay completes by its timer
            lines += self.script.run("wait 0")
        self.simulation.check_timers()
        return lines

    def _show(self, record: MachineRecord) -> list[str]:
        if isinstance(record, GroupMetadata):
            return self._show_group(record.value)
        assert isinstance(record, OffsetCommit)
        place = f"offset {record.key.topic}:{record.key.partition}"
        return [place + _offset_value(record.value)]

    def _show_group(self, value: GroupMetadataValue | None) -> list[str]:
        if value is None:
            return ["group deleted"]
        alias = self.script.alias
        head = (
            f"group generation={value.generation} protocol={value.protocol_type}/{value.protocol}"
            f" leader={alias(value.leader or '')} since={value.current_state_timestamp - START_MS}"
        )
        return [head] + [
            f"  {alias(m.member_id)} instance={m.group_instance_id} client={m.client_id}"
            f" session={m.session_timeout} rebalance={m.rebalance_timeout}"
            f" subscription={m.subscription!r} assignment={m.assignment!r}"
            for m in value.members
        ]

    def _state(self) -> list[str]:
        machine = self.simulation.reloaded()
        group = classic_groups(machine).get(GROUP_ID)
        if group is None:
            return ["no group"]
        alias = self.script.alias
        members = [f"{alias(m)}={v.assignment!r}" for m, v in group.members.items()]
        offsets = [f"{t}:{p}={o.offset}" for t, p, o in machine.offsets.all_of(GROUP_ID)]
        lines = [f"{group.state.value} generation={group.generation_id} {' '.join(members)}"]
        return lines + [" ".join(offsets)] * bool(offsets)


def _limits(words: list[str]) -> dict[str, Any]:
    return {name: int(value) for name, _, value in (word.partition("=") for word in words)}


def _offset_value(value: CommittedOffset | None) -> str:
    if value is None:
        return " deleted"
    expiry_ms = value.expire_timestamp_ms
    expiry = "" if expiry_ms == -1 else f" expires={expiry_ms - START_MS}"
    return f"={value.offset} at={value.commit_timestamp_ms - START_MS}{expiry}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_classic_group_follows_the_script(path: Path, check_script: CheckScript) -> None:
    check_script(path, MachineScript().run)
