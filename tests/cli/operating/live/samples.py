"""Samples of a made-up cluster, for the tests of `kwire top`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.cli.operating.live.from_metrics import NAMES
from kwire.cli.operating.live.sample import BrokerMetrics, TopSample
from kwire.client.cluster import ClusterNode, TopicPartition
from kwire.client.inspection.many_groups import GroupPosition, with_lag
from kwire.client.inspection.progress import ClusterProgress, GroupProgress
from kwire.client.inspection.survey import Sizes
from kwire.client.metrics.scrape import BrokerScrape, parse
from kwire.codecs.messages.metadata import MetadataResponsePartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A0: 1, A1: 2, B0: 1}


def group(
    name: str,
    committed: Mapping[TopicPartition, int],
    *,
    kind: str = "consumer",
    lags: Mapping[TopicPartition, int] | None = None,
) -> GroupProgress:
    """A group with offsets; its lags are added by `sample`, but for those that are given."""
    known = lags or {}
    positions = {
        place: GroupPosition(offset, lag=known.get(place)) for place, offset in committed.items()
    }
    return GroupProgress(name, kind, "Stable", 1, 2, positions)


def sample(
    at_s: float,
    ends: Mapping[TopicPartition, int],
    *groups: GroupProgress,
    sizes: Mapping[TopicPartition, int] | None = None,
    metrics: Mapping[int, BrokerMetrics] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> TopSample:
    """A cluster of brokers 1 and 2, at `at_s` seconds; all partitions are on both."""
    states = {
        place: MetadataResponsePartition(
            leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1, 2], offline_replicas=[]
        )
        for place, leader in {**LEADERS, **(leaders or {})}.items()
    }
    for each in groups:
        each.positions = with_lag(each.positions, ends)
    progress = ClusterProgress(
        at_s,
        "id",
        1,
        {number: ClusterNode(number, "h", 9090 + number) for number in (1, 2)},
        states,
        dict(ends),
        {each.group_id: each for each in groups},
        {number: Sizes(dict(sizes or {}), []) for number in (1, 2)},
    )
    return TopSample(progress, metrics or {}, 1000.0 + at_s)


def metrics(at_s: float, text: str, slow: Mapping[str, Any] | None = None) -> BrokerMetrics:
    """What an endpoint answers at `at_s` seconds, from lines of Prometheus' text."""
    return BrokerMetrics(BrokerScrape(at_s, parse(text, NAMES)), slow or {})
