"""Findings about the state of a cluster: brokers, disks, partitions, leaders.  No I/O.

They are the problems of `kwire cluster status` (kwire.client.inspection.health) with their
remedies, and some that status only shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding, brokers_text, listed, named
from kwire.client.cluster import TopicPartition
from kwire.client.inspection.health import NOBODY, BrokerHealth, ClusterHealth
from kwire.codecs.volumes import Volume

ON_TEMPORARY: Final = ("/tmp/", "/var/tmp/", "/dev/shm/")
"""Where systems remove files by themselves."""
LED_BY_OTHERS_MIN_SHARE: Final = 0.1
"""Below this share of partitions, leaders other than the preferred ones do not matter."""


def state_findings(health: ClusterHealth, unreachable: frozenset[int]) -> Iterator[ClusterFinding]:
    """Yield findings about brokers, their disks, and partitions.

    `unreachable` are brokers about whose addresses there are findings already.
    """
    yield from _controller_findings(health)
    for broker in health.brokers:
        yield from _broker_findings(broker, unreachable)
        for failed in broker.failed_dirs:
            yield ClusterFinding(
                CheckGrade.BROKEN,
                "failed-directory",
                f"broker {broker.broker}",
                f"the log directory {failed} has failed, and its replicas are offline",
                f"repair or replace the disk of {failed}, then restart broker {broker.broker}",
            )
        for volume in broker.volumes:
            yield from _disk_findings(broker, volume)
    yield from _temporary_findings(health.brokers)
    yield from _partition_findings(health)


def _controller_findings(health: ClusterHealth) -> Iterator[ClusterFinding]:
    if health.quorum_trouble is not None:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "quorum",
            "controllers",
            f"the brokers cannot describe the quorum of controllers: {health.quorum_trouble}",
            "start a majority of the controllers",
        )
    elif health.controller_id == NOBODY:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "no-controller",
            "cluster",
            "there is no controller, so no topic changes and no leader is elected",
            "start the brokers or controllers that are away: kwire cluster status",
        )
    for voter in health.quorum.silent_voters if health.quorum else ():
        yield ClusterFinding(
            CheckGrade.RISK,
            "silent-voter",
            f"controller {voter.member_id}",
            "it does not follow the leader of the quorum; without a majority of the controllers"
            " nothing can be changed",
            f"start controller {voter.member_id}, or read its log",
        )


def _broker_findings(broker: BrokerHealth, unreachable: frozenset[int]) -> Iterator[ClusterFinding]:
    about = f"broker {broker.broker}"
    if broker.address is None:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "absent-broker",
            about,
            f"it is not in the cluster, and {broker.replicas} replicas are on it",
            f"start it; if it will not come back: kwire cluster reassign --off {broker.broker}",
        )
    elif broker.trouble is not None and broker.broker not in unreachable:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "silent-broker",
            about,
            f"it does not answer as it should: {broker.trouble}",
            f"read the log of broker {broker.broker}; kwire ping shows when it answers again",
        )


def readiness_findings(
    broker_id: int, url: str, reasons: Sequence[str]
) -> Iterator[ClusterFinding]:
    """Yield a finding if the broker says, at its metrics endpoint, that it is not ready."""
    if reasons:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "not-ready",
            f"broker {broker_id}",
            f"it says that it is not ready for clients: {'; '.join(reasons)}",
            f"curl {url}/readyz until it is; the log of broker {broker_id} says more",
        )


def _disk_findings(broker: BrokerHealth, volume: Volume) -> Iterator[ClusterFinding]:
    """Yield a finding about the disk of a log directory."""
    about = f"broker {broker.broker}"
    room = "kwire topics alter TOPIC --set retention.ms=..., or a larger disk"
    if volume.log_dir in broker.full_dirs:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "full-disk",
            about,
            f"the disk of {volume.log_dir} is full, so records are refused",
            f"make room: {room}",
        )
    elif volume.log_dir in broker.nearly_full_dirs:
        percent = 100 * volume.usable_bytes / max(1, volume.total_bytes)
        yield ClusterFinding(
            CheckGrade.RISK,
            "nearly-full-disk",
            about,
            f"the disk of {volume.log_dir} has {percent:.0f} % left; when it is full, records are"
            " refused",
            f"make room: {room}",
        )


def _temporary_findings(brokers: Sequence[BrokerHealth]) -> Iterator[ClusterFinding]:
    """Yield one note about the log directories in folders for temporary files."""
    found = [
        (each.broker, volume.log_dir)
        for each in brokers
        for volume in each.volumes
        if volume.log_dir.startswith(ON_TEMPORARY)
    ]
    if found:
        folders = ", ".join(dict.fromkeys(folder for _, folder in found))
        yield ClusterFinding(
            CheckGrade.NOTE,
            "temporary-directory",
            brokers_text(sorted({broker_id for broker_id, _ in found})),
            "records are in a folder for temporary files, which many systems empty by themselves:"
            f" {folders}",
            "set log.dirs to another folder, unless the records may be lost",
        )


def _partition_findings(health: ClusterHealth) -> Iterator[ClusterFinding]:
    """Yield findings about partitions without leader, with too few in-sync replicas, and with
    leaders other than the preferred ones.  A partition is in one of them only."""
    offline, under_min = set(health.offline), set(health.under_min_isr)
    if health.offline:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "offline",
            _places(health.offline),
            "no leader, so nothing is read or written there",
            "start the brokers that are away; only if they are lost for good, with their records:"
            f" kwire cluster elect --unclean {_words(health.offline)}",
        )
    below = [each for each in health.under_min_isr if each not in offline]
    if below:
        yield ClusterFinding(
            CheckGrade.BROKEN,
            "under-min-isr",
            _places(below),
            "fewer replicas are in sync than min.insync.replicas, so acks=all is refused",
            "start the brokers that are away: kwire cluster status",
        )
    behind = [each for each in health.under_replicated if each not in offline | under_min]
    if behind:
        yield ClusterFinding(
            CheckGrade.RISK,
            "under-replicated",
            _places(behind),
            "some replicas are not in sync, so fewer copies exist than there should be",
            "kwire cluster status --watch shows who is behind, and by how much",
        )
    if len(health.not_preferred) > LED_BY_OTHERS_MIN_SHARE * health.partitions:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "not-preferred",
            _places(health.not_preferred),
            "not led by the preferred leader, although that one is in sync; some brokers may have"
            " more to do than others",
            "kwire cluster elect --all",
        )


def _places(places: Sequence[TopicPartition]) -> str:
    return named([str(each) for each in places], "partition")


def _words(places: Sequence[TopicPartition]) -> str:
    """Partitions as `kwire cluster elect` takes them."""
    return listed([f"{each.topic}:{each.partition}" for each in places])
