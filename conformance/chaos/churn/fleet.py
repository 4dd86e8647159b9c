"""The members' processes: starts, stops, kills and pauses them."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwire.conformance.chaos.churn.member import ChurnMember
from kwire.conformance.chaos.churn.plan import STREAMS
from kwire.conformance.chaos.churn.streams import Program
from kwire.conformance.chaos.history import NEMESIS
from kwire.conformance.chaos.rounds import CLIENT_END_S
from kwire.conformance.chaos.workloads.workload import WorkloadStage

MOST = 4
STREAMS_MOST = 2
WELL_ENDED = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit statuses of a member that was stopped; it may not have handled SIGTERM yet.

The last one is Java's.
"""
OUTPUT_CHARS = 400
POLL_S = 0.05


@dataclass
class MemberProcess:
    """The process of one member; `output` is the file of its standard output."""

    name: str
    kind: str
    process: subprocess.Popen[Any]
    output: Path
    resumes_at: float | None = None
    """When a paused member resumes, on the clock of `time.monotonic`."""
    leaves: bool = False

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


class Fleet:
    """All members' processes; `streams` is the program of Kafka Streams' instances, or None."""

    def __init__(
        self, stage: WorkloadStage, directory: Path, topic: str, streams: Program | None
    ) -> None:
        """Keep the members' histories and output in `directory`; without `streams` none is of
        Streams."""
        self._stage = stage
        self._directory = directory
        self._topic = topic
        self._streams = streams
        self._running: list[MemberProcess] = []
        self._number = 0

    def of(self, kind: str) -> list[MemberProcess]:
        """Return the members of a kind that have not been stopped, the oldest first."""
        return [member for member in self._running if member.kind == kind and not member.leaves]

    def room(self, kind: str) -> bool:
        return len(self.of(kind)) < (STREAMS_MOST if kind == STREAMS else MOST)

    @property
    def histories(self) -> list[Path]:
        return sorted(self._directory.glob("member-*.jsonl"))

    # Churn

    def join(self, kind: str) -> None:
        """Start a member of this kind in a process of its own."""
        self._number += 1
        name = self._slot() if kind == STREAMS else f"{kind}-{self._number}"
        output_path = self._directory / f"{name}.out"
        with output_path.open("ab") as output:
            process = subprocess.Popen(
                self._command(name, kind),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running.append(MemberProcess(name, kind, process, output_path))
        self._stage.recorder.note(NEMESIS, "join_member", member=name)

    def leave(self, member: MemberProcess) -> None:
        """Stop a member with SIGTERM; it leaves its group and ends in its own time."""
        self._resume(member)
        member.leaves = True
        member.signal(signal.SIGTERM)
        self._stage.recorder.note(NEMESIS, "leave_member", member=member.name)

    def kill(self, member: MemberProcess) -> None:
        """Kill a member with SIGKILL: it does not leave its group."""
        member.process.kill()
        member.process.wait()
        self._forget(member)
        self._stage.recorder.note(NEMESIS, "kill_member", member=member.name)

    def pause(self, member: MemberProcess, for_s: float) -> None:
        """Pause a member for `for_s` seconds; a second pause moves the end of the first."""
        if member.resumes_at is None:
            member.signal(signal.SIGSTOP)
            self._stage.recorder.note(NEMESIS, "pause_member", member=member.name, for_s=for_s)
        member.resumes_at = time.monotonic() + for_s

    def _command(self, name: str, kind: str) -> list[str]:
        """Return the command line of a member; it continues the clock of this round's history."""
        if kind == STREAMS:
            assert self._streams is not None
            return self._streams.command(name)
        stage = self._stage
        history = self._directory / f"member-{name}.jsonl"
        addresses, began_ns = stage.addresses, stage.recorder.began_ns
        return ChurnMember(
            name, kind, self._topic, addresses, stage.plan, str(history), began_ns, self._number
        ).command()

    def _slot(self) -> str:
        """Return the first state folder that no instance uses."""
        taken = {member.name for member in self._running}
        names = (f"{STREAMS}-{number}" for number in range(STREAMS_MOST + len(taken)))
        return next(name for name in names if name not in taken)

    # Supervision

    def tend(self) -> None:
        """Resume members whose pause is over, and record members that ended by themselves."""
        for member in list(self._running):
            if member.resumes_at is not None and time.monotonic() >= member.resumes_at:
                self._resume(member)
            status = member.process.poll()
            if status is not None:
                self._forget(member)
                if not (member.leaves and status in WELL_ENDED):
                    self._note_fatal(member, f"ended with status {status}")

    def resume_all(self) -> None:
        for member in self._running:
            self._resume(member)

    def end(self) -> None:
        """Stop all members and wait for their end; kill those that do not end in time."""
        for member in list(self._running):
            if not member.leaves:
                self.leave(member)
        self._wait(lambda: not self._running)
        for member in list(self._running):
            self._note_fatal(member, f"did not end within {CLIENT_END_S:g} s")
            self.kill(member)

    def kill_all(self) -> None:
        for member in list(self._running):
            self.kill(member)

    def _wait(self, is_over: Callable[[], bool]) -> None:
        """Wait until `is_over`, at most CLIENT_END_S seconds."""
        deadline = time.monotonic() + CLIENT_END_S
        while not is_over() and time.monotonic() < deadline:
            self.tend()
            time.sleep(POLL_S)

    def _resume(self, member: MemberProcess) -> None:
        if member.resumes_at is not None:
            member.resumes_at = None
            member.signal(signal.SIGCONT)

    def _forget(self, member: MemberProcess) -> None:
        self._running.remove(member)
        assert member.process.stdin is not None
        member.process.stdin.close()

    def _note_fatal(self, member: MemberProcess, what: str) -> None:
        output = member.output.read_text(errors="replace")[-OUTPUT_CHARS:]
        self._stage.recorder.note(member.name, "client_fatal", error=f"{what}: {output}")
