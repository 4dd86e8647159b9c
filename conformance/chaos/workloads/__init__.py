"""Workloads: what the clients do in a round.  A new one is a module here and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.conformance.chaos.workloads.bank import Bank
from kwire.conformance.chaos.workloads.chain import Chain
from kwire.conformance.chaos.workloads.epoch_bank import EpochBank
from kwire.conformance.chaos.workloads.keys import KeyWorkload
from kwire.conformance.chaos.workloads.stream import Stream
from kwire.conformance.chaos.workloads.workload import Workload, WorkloadClient, WorkloadStage

__all__ = ["WORKLOADS", "Workload", "WorkloadClient", "WorkloadStage"]

WORKLOADS: Mapping[str, type[Workload]] = {
    workload.name: workload for workload in (Stream, Bank, EpochBank, Chain, KeyWorkload)
}
