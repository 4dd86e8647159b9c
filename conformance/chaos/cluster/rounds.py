"""One round: a cluster, its clients, the faults of the plan, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kwire.conformance.chaos.checks import Violation, violations
from kwire.conformance.chaos.checks.commits import refused_commits_do_not_show
from kwire.conformance.chaos.cluster import replicas
from kwire.conformance.chaos.cluster.members import (
    Ground,
    Members,
    on_one_machine,
    on_zookeeper,
)
from kwire.conformance.chaos.cluster.nemesis import Nemesis
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterPlan, Store
from kwire.conformance.chaos.history import JUDGE, NEMESIS, History, Recorder, Type
from kwire.conformance.chaos.rounds import HISTORY_FILE, concluded, load, patiently
from kwire.conformance.chaos.workloads import WORKLOADS, Stage, Workload

UNHANDLED = (
    "Traceback (most recent call last)",
    "ERROR unhandled",
    "before its high watermark",  # what was committed is cut off
)
IN_SYNC_S = 120.0
"""From the end of the last fault until all copies are in sync, and the same, at the latest."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a round has found; `in_sync_s` is how long the copies took after the last fault."""

    plan: ClusterPlan
    operations: int
    not_ok: int
    in_sync_s: float
    seconds: float
    violations: list[Violation]

    @property
    def notes(self) -> str:
        return f"in sync after {self.in_sync_s:.1f} s"


def run(plan: ClusterPlan, ground: Ground, directory: Path) -> Verdict:
    """Carry out a round in `directory`, which keeps history and logs.

    Raises BrokerStartError, ClientHangs.
    """
    began = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    chroot = f"/round-{plan.seed}-{time.time_ns()}"  # ZooKeeper serves other rounds as well
    workload_type = WORKLOADS[plan.workload]
    settings = {**plan.broker_settings, **workload_type.broker_settings}
    try:
        with members_of(plan, ground, directory, chroot, settings) as members:
            stage = Stage(plan, members.addresses, recorder)
            workload = workload_type(stage)
            session_s = int(settings["zookeeper.session.timeout.ms"]) / 1000
            nemesis = Nemesis(ground, members, chroot, session_s, recorder)
            try:
                load(workload, stage, lambda: _trouble(plan, stage, nemesis))
            finally:
                nemesis.heal()
            _judge_the_end(workload, stage, members)
    finally:
        history = recorder.close()
    return _verdict(plan, history, workload, time.monotonic() - began)


def members_of(
    plan: ClusterPlan, ground: Ground, directory: Path, chroot: str, settings: dict[str, str]
) -> AbstractContextManager[Members]:
    if plan.store is Store.SHARED:
        return on_one_machine(directory, BROKERS, settings)
    return on_zookeeper(ground, directory, chroot, settings)


def _trouble(plan: ClusterPlan, stage: Stage, nemesis: Nemesis) -> None:
    """All faults, and the time in which the cluster gets over them, under load."""
    nemesis.bring_all(plan.faults)
    nemesis.heal()
    _expect(stage, "in_sync", lambda: replicas.out_of_sync(stage.addresses))


def _expect(stage: Stage, f: str, ask: Callable[[], list[str]]) -> None:
    """Wait until nothing is wrong; a violation if something is for too long."""
    begun = stage.recorder.invoke(JUDGE, f)
    deadline = time.monotonic() + IN_SYNC_S
    while wrong := ask():
        if time.monotonic() > deadline:
            stage.recorder.note(JUDGE, "stuck", what=f, error="; ".join(wrong[:5]))
            break
        time.sleep(POLL_S)
    stage.recorder.end(begun, Type.OK)


def _judge_the_end(workload: Workload, stage: Stage, members: Members) -> None:
    with stage.linked() as link:
        patiently(stage, "conclude", lambda: concluded(workload, link))
    _expect(stage, "same_bytes", lambda: replicas.different(members.data_dirs()))
    for number, broker in members.cluster.brokers.items():
        begun = stage.recorder.invoke(NEMESIS, "stop", broker=number)
        status = broker.stop()
        stage.recorder.end(begun, Type.OK, status=status, clean=status == 0)
        said = broker.log.splitlines()
        unhandled = [line for line in said if any(sign in line for sign in UNHANDLED)]
        stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)


def _verdict(plan: ClusterPlan, history: History, workload: Workload, seconds: float) -> Verdict:
    """What the checks find, but for one that holds of a lone broker only.

    A coordinator that loses its replicas may refuse a commit which is in the log, and clients do
    not tell of it: librdkafka repeats the commit, and may hear then that its member is gone.
    """
    checks = [each for each in workload.checks if each is not refused_commits_do_not_show]
    found = violations(history, (*checks, brokers_live))
    outcomes = [operation.ok for operation in history.all_operations()]
    synced = [each for each in history.operations("in_sync") if each.ended_ns is not None]
    in_sync_s = sum(((each.ended_ns or 0) - each.invoked_ns) / 1e9 for each in synced)
    return Verdict(plan, len(outcomes), outcomes.count(False), in_sync_s, seconds, found)


def brokers_live(history: History) -> list[Violation]:
    """No fault ends a broker that is not killed."""
    return [
        Violation("died", f"{each.asked['broker']} ended with status {each.asked['status']}")
        for each in history.operations("died")
    ]
