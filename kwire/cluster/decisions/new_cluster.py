"""The first changes of the metadata of a new cluster.

A new KRaft cluster of Apache Kafka 4.1 or later has eligible leader replicas (KIP-966), and
therefore a `min.insync.replicas` for all brokers in its metadata.  kwire does not have such
replicas, but clients look for the setting, so it can be described and changed, and is refused, as
in Kafka.  Clusters on ZooKeeper, and metadata of earlier versions, have neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from kwire.cluster.metadata.changes import Change, Decision, SetConfigs, SetFeatures
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    LEVELS_WITHOUT_ELR,
    NEWEST_LEVELS,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigResourceType

MIN_ISR = "min.insync.replicas"


def first_changes(config: BrokerConfig) -> tuple[Change, ...]:
    """The changes that create a new cluster's metadata; `config` is its first broker's.

    They name the level of each feature, so that the levels stay when kwire supports higher ones.
    """
    configs = {MIN_ISR: str(config.min_insync_replicas)}
    return (
        SetConfigs(ConfigResourceType.BROKER, CLUSTER_DEFAULT, {}, configs),
        _set_levels(NEWEST_LEVELS),
    )


def first_changes_beside_logs() -> tuple[Change, ...]:
    """The changes that create new metadata in directories that have only logs of Apache Kafka."""
    return (_set_levels(LEVELS_WITHOUT_ELR),)


def _set_levels(levels: Mapping[str, int]) -> SetFeatures:
    unset = FinalizedFeatures()
    return SetFeatures(unset.epoch, FinalizedFeatures(levels, epoch=unset.epoch + 1))


def min_isr_decisions(image: ClusterImage, config: BrokerConfig) -> list[Decision]:
    """The decisions that ELR brings when an administrator turns it on.

    All brokers get a `min.insync.replicas` unless they have one, and single brokers lose theirs.
    """
    brokers = [name for kind, name in image.configs if kind == ConfigResourceType.BROKER]
    return [
        partial(_set_min_isr, str(config.min_insync_replicas)),
        *(partial(_delete_min_isr, name) for name in brokers if name != CLUSTER_DEFAULT),
    ]


def _set_min_isr(value: str, image: ClusterImage) -> SetConfigs | None:
    before = image.configs_of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    if MIN_ISR in before:
        return None
    after = {**before, MIN_ISR: value}
    return SetConfigs(ConfigResourceType.BROKER, CLUSTER_DEFAULT, before, after)


def _delete_min_isr(broker_name: str, image: ClusterImage) -> SetConfigs | None:
    before = image.configs_of(ConfigResourceType.BROKER, broker_name)
    if MIN_ISR not in before:
        return None
    after = {name: value for name, value in before.items() if name != MIN_ISR}
    return SetConfigs(ConfigResourceType.BROKER, broker_name, before, after)


def refuse_min_isr(
    image: ClusterImage, broker_name: str, named: Collection[str], after: Mapping[str, str]
) -> None:
    """Raise Refusal for configs of a broker, or of all brokers, that Apache Kafka refuses with ELR.

    `named` are the configs in the request; `after` are the configs that it would set.
    """
    if not image.features.level(ELR_VERSION):
        return
    if broker_name != CLUSTER_DEFAULT:
        if MIN_ISR in named:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
            )
    elif MIN_ISR not in after and (
        MIN_ISR in named or MIN_ISR in image.configs_of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    ):
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )
