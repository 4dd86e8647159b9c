"""Runs one round: a mixed cluster, its clients, the faults of the plan, and the checks."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path

from kwire.conformance.chaos.checks import Violation
from kwire.conformance.chaos.cluster import replicas
from kwire.conformance.chaos.cluster.rounds import expect, judge_the_end, verdict_of
from kwire.conformance.chaos.history import History, Recorder
from kwire.conformance.chaos.mixed.nemesis import MixedNemesis
from kwire.conformance.chaos.mixed.plan import MixedPlan
from kwire.conformance.chaos.rounds import HISTORY_FILE, load
from kwire.conformance.chaos.workloads import WORKLOADS, WorkloadStage
from kwire.conformance.kraft_cluster import HOST, KRaftCluster


@dataclass(frozen=True, slots=True)
class MixedVerdict:
    """The result of a round.

    `in_sync_s` is the time from the last fault until all replicas are in sync, and `pause_s` the
    longest time in which no producer got an acknowledgement.
    """

    operations: int
    not_ok: int
    in_sync_s: float
    pause_s: float
    seconds: float
    violations: list[Violation]

    @property
    def notes(self) -> str:
        return f"in sync after {self.in_sync_s:.1f} s, longest pause {self.pause_s:.1f} s"


def run(plan: MixedPlan, directory: Path) -> MixedVerdict:
    """Run a round in `directory`, which receives the history and the logs.

    Raises ApacheKafkaError, BrokerStartError, ClientHangs.
    """
    start = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    workload_type = WORKLOADS[plan.workload]
    settings = {**plan.broker_settings, **workload_type.broker_settings}
    cluster = KRaftCluster(directory, plan.kinds, controllers=plan.controllers, settings=settings)
    try:
        cluster.start()
        addresses = tuple((HOST, broker.port) for broker in cluster.brokers.values())
        stage = WorkloadStage(plan, addresses, recorder)
        workload = workload_type(stage)
        nemesis = MixedNemesis(cluster, addresses, recorder)

        def inject_and_heal() -> None:
            nemesis.inject_all(plan.faults)
            nemesis.heal()
            expect(stage, "in_sync", lambda: replicas.out_of_sync(stage.addresses))

        try:
            load(workload, stage, inject_and_heal)
        finally:
            nemesis.end_all()
        judge_the_end(workload, stage, cluster.brokers)
    finally:
        cluster.kill()
        history = recorder.close()
    verdict = verdict_of(plan, history, workload, time.monotonic() - start)
    return MixedVerdict(
        verdict.operations,
        verdict.not_ok,
        verdict.in_sync_s,
        longest_pause_s(history),
        verdict.seconds,
        verdict.violations,
    )


def longest_pause_s(history: History) -> float:
    """Return the longest time between two acknowledgements of any producers, in seconds."""
    ends = sorted(
        operation.ended_ns
        for operation in history.operations("produce")
        if operation.ok and operation.ended_ns is not None
    )
    return max((after - before for before, after in itertools.pairwise(ends)), default=0) / 1e9
