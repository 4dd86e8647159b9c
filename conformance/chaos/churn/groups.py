"""Requests about the groups of a churn test: configs, committed offsets, lags."""

from __future__ import annotations

import threading

from kwire.codecs.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.conformance.chaos.history import Value
from kwire.conformance.chaos.wire import Link, Refused, check
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt

GROUP_RESOURCE, SET = 32, 0
LOOK_PAUSE_S = 0.5


def configure(link: Link, group: str, settings: dict[str, str]) -> None:
    """Set configs of a group. Raises Refused."""
    configs = [AlterableConfig(name, SET, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)])
    for response in link.ask(request).responses:
        check(response.error_code)


def share_lags(link: Link, group: str, topic: str) -> dict[str, int]:
    """Return the number of records without an end in a share group, by partition.

    Raises Refused.
    """
    try:
        return _share_lags(link, group, topic)
    except Refused:
        link.forget()
        raise


def _share_lags(link: Link, group: str, topic: str) -> dict[str, int]:
    """Return each partition's number of records that the share group has not ended."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group, None)
    [described] = link.ask(DescribeShareGroupOffsetsRequest([wanted])).groups
    check(described.error_code)
    partitions = [partition for entry in described.topics for partition in entry.partitions]
    for partition in partitions:
        check(partition.error_code)
    return {f"{topic}-{partition.partition_index}": partition.lag for partition in partitions}


def committed(link: Link, group: str, topic: str, partitions: range) -> Value:
    offsets = link.committed(group, topic, partitions)
    return {"offsets": [(f"{topic}-{index}", offset) for index, offset in offsets.items()]}


class Looker(WorkloadClient):
    """Reads the committed offsets of each group now and then."""

    def __init__(self, name: str, stage: WorkloadStage, topic: str, groups: list[str]) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._groups = groups
        self._partitions = range(stage.plan.partitions)

    def run(self, stop: threading.Event) -> None:
        """Record the committed offsets of all groups again and again until `stop` is set."""
        with self.stage.linked() as link:
            while not stop.wait(LOOK_PAUSE_S):
                for group in self._groups:
                    self._look(link, group)

    def _look(self, link: Link, group: str) -> None:
        """Record the group's committed offsets; an error ends up in the history only."""
        try:
            attempt(
                self.recorder,
                self.name,
                "committed",
                lambda: committed(link, group, self._topic, self._partitions),
                group=group,
            )
        except Refused:
            return  # the error is in the history
