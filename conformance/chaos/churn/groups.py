"""What the groups have come to, asked of the broker."""

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
from kwire.conformance.chaos.workloads.workload import Client, Stage, attempt

GROUP_RESOURCE, SET = 32, 0
LOOK_PAUSE_S = 0.5


def configure(link: Link, group: str, settings: dict[str, str]) -> None:
    """Settings of a group. Raises Refused."""
    configs = [AlterableConfig(name, SET, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)])
    for told in link.ask(request).responses:
        check(told.error_code)


def share_lags(link: Link, group: str, topic: str) -> dict[str, int]:
    """By partition: how many records a share group is not done with. Raises Refused."""
    try:
        return _share_lags(link, group, topic)
    except Refused:
        link.forget()
        raise


def _share_lags(link: Link, group: str, topic: str) -> dict[str, int]:
    wanted = DescribeShareGroupOffsetsRequestGroup(group, None)
    [told] = link.ask(DescribeShareGroupOffsetsRequest([wanted])).groups
    check(told.error_code)
    found = [each for given in told.topics for each in given.partitions]
    for partition in found:
        check(partition.error_code)
    return {f"{topic}-{each.partition_index}": each.lag for each in found}


def committed(link: Link, group: str, topic: str, partitions: range) -> Value:
    offsets = link.committed(group, topic, partitions)
    return {"offsets": [(f"{topic}-{index}", offset) for index, offset in offsets.items()]}


class Looker(Client):
    """Asks now and then what each group has committed."""

    def __init__(self, name: str, stage: Stage, topic: str, groups: list[str]) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._groups = groups
        self._partitions = range(stage.plan.partitions)

    def run(self, stop: threading.Event) -> None:
        with self.stage.linked() as link:
            while not stop.wait(LOOK_PAUSE_S):
                for group in self._groups:
                    self._look(link, group)

    def _look(self, link: Link, group: str) -> None:
        try:
            attempt(
                self.recorder,
                self.name,
                "committed",
                lambda: committed(link, group, self._topic, self._partitions),
                group=group,
            )
        except Refused:
            return  # it is in the history
