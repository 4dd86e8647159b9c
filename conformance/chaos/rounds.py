"""One round: a broker, its clients, the faults of the plan, and the verdict."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kwire.conformance.chaos.checks import Violation, violations
from kwire.conformance.chaos.disk import disk_at
from kwire.conformance.chaos.faults import Nemesis
from kwire.conformance.chaos.history import JUDGE, NEMESIS, History, Recorder, Type
from kwire.conformance.chaos.plan import FaultKind, Plan, Reading
from kwire.conformance.chaos.subject import Subject
from kwire.conformance.chaos.watchdog import native_stacks
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.chaos.workloads import WORKLOADS, Client, Stage, Workload
from kwire.conformance.chaos.workloads.workload import RECOVERY_S

HISTORY_FILE = "history.jsonl"
POLL_S = 0.05
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}

CLIENT_END_S = 3 * RECOVERY_S
"""Of a client that was told to stop: it waits RECOVERY_S for its answers, then closes."""


class ClientHangs(RuntimeError):
    """A client's thread did not end: the round cannot be judged."""


MakeSubject = Callable[[Path, Mapping[str, str]], Subject]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a round has found.

    `disk` is the way in which the disk could be filled; `not_ok` counts the operations that the
    faults made fail, or left in doubt.
    """

    plan: Plan
    disk: str
    operations: int
    not_ok: int
    seconds: float
    violations: list[Violation]

    @property
    def notes(self) -> str:
        """How the disk was filled, if it was."""
        filled = any(fault.kind is FaultKind.DISK for fault in self.plan.faults)
        return f"disk: {self.disk}" if filled else ""


def run(plan: Plan, make_subject: MakeSubject, directory: Path) -> Verdict:
    """Carry out a round in `directory`, which keeps history and broker log.

    Raises SubjectFailed when the broker does not start on a sound machine, ClientHangs.
    """
    began = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    with disk_at(_made(directory / "data")) as disk:
        settings = {**SETTINGS, **plan.broker_settings, **WORKLOADS[plan.workload].broker_settings}
        subject = make_subject(directory, settings)
        try:
            subject.start()
            stage = Stage(plan, (subject.address,), recorder)
            workload = WORKLOADS[plan.workload](stage)
            nemesis = Nemesis(subject, disk, recorder)
            load(workload, stage, lambda: nemesis.bring_all(plan.faults))
            _judge_the_end(workload, stage, subject, plan.reading)
        finally:
            subject.kill()
            history = recorder.close()
        return _verdict(plan, disk.name, history, workload, time.monotonic() - began)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _verdict(
    plan: Plan, disk: str, history: History, workload: Workload, seconds: float
) -> Verdict:
    found = violations(history, workload.checks)
    outcomes = [operation.ok for operation in history.all_operations()]
    return Verdict(plan, disk, len(outcomes), outcomes.count(False), seconds, found)


def load(workload: Workload, stage: Stage, bring_faults: Callable[[], None]) -> None:
    """Clients at work under faults; returns when all of them have finished."""
    with stage.linked() as link:
        patiently(stage, "prepare", lambda: workload.prepare(link) or True)
        with at_work(workload.readers()):
            with at_work(workload.writers()):
                over = time.monotonic() + stage.plan.load_s
                bring_faults()
                time.sleep(max(over - time.monotonic(), 0.0))
            patiently(
                stage,
                "catch_up",
                lambda: workload.caught_up(link),
                lambda: workload.progress(link),
            )


def patiently(
    stage: Stage, f: str, work: Callable[[], bool], progress: Callable[[], object] = lambda: None
) -> None:
    """Do what a broker that is well must allow sooner or later; a violation if it does not.

    It has RECOVERY_S from the last change of `progress` on.
    """
    begun = stage.recorder.invoke(JUDGE, f)
    deadline, seen = time.monotonic() + RECOVERY_S, None
    while True:
        error = "never came true"
        try:
            if work():
                stage.recorder.end(begun, Type.OK)
                return
            before, seen = seen, progress()
            if seen != before:
                deadline = time.monotonic() + RECOVERY_S
        except Refused as refused:
            error = refused.error
        if time.monotonic() > deadline:
            stage.recorder.note(JUDGE, "stuck", what=f, error=error)
            return
        time.sleep(POLL_S)


@contextmanager
def at_work(clients: list[Client]) -> Iterator[None]:
    """Each client in its thread; what one of them raises is raised here.

    Where the block itself fails, that is told and not what comes of it: clients of a broker that
    does not come up again do not end in time, either.
    """
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(client: Client) -> None:
        try:
            client.run(stop)
        except BaseException as failure:  # raised in the main thread, below
            failures.append(failure)

    threads = [
        threading.Thread(target=work, args=[each], name=each.name, daemon=True) for each in clients
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException:
        stop.set()
        with suppress(ClientHangs):
            _wait_for(threads)
        raise
    stop.set()
    _wait_for(threads)
    if failures:
        raise failures[0]


def _wait_for(threads: list[threading.Thread]) -> None:
    """Raises ClientHangs if one does not end, with all stacks on stderr, also of native threads."""
    deadline = time.monotonic() + CLIENT_END_S
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
        if thread.is_alive():
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
            sys.stderr.write(native_stacks(os.getpid()))
            raise ClientHangs(f"{thread.name} did not end within {CLIENT_END_S:g} s")


def _judge_the_end(workload: Workload, stage: Stage, subject: Subject, reading: Reading) -> None:
    if reading is Reading.KILLED:
        subject.kill()
        subject.start()
    elif reading is Reading.RESTARTED:
        _stop(stage, subject)
        subject.start()
    with stage.linked() as link:
        patiently(stage, "conclude", lambda: concluded(workload, link))
    end_subject(stage, subject)


def end_subject(stage: Stage, subject: Subject) -> None:
    """The broker's end, and what it has said that it should not have."""
    _stop(stage, subject)
    said = subject.log_file.read_text(errors="replace").splitlines()
    unhandled = [line for line in said if any(sign in line for sign in subject.unhandled)]
    stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)


def concluded(workload: Workload, link: Link) -> bool:
    workload.conclude(link)
    return True


def _stop(stage: Stage, subject: Subject) -> None:
    begun = stage.recorder.invoke(NEMESIS, "stop")
    status = subject.stop()
    clean = status in subject.stop_statuses
    stage.recorder.end(begun, Type.OK, status=status, clean=clean)
