"""The first changes of the metadata of a new cluster.

A new KRaft cluster of Apache Kafka 4.1 or later has eligible leader replicas (KIP-966), and
therefore a `min.insync.replicas` for all brokers in its metadata.  kwire does not have such
replicas, but clients look for the setting, so it can be described and changed, and is refused, as
in Kafka.  Clusters on ZooKeeper, and metadata of earlier versions, have neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kwire.cluster.metadata.changes import Change, SetConfigs, SetFeatures
from kwire.cluster.metadata.features import ELR_VERSION, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigResourceType

MIN_ISR = "min.insync.replicas"


def first_changes(config: BrokerConfig) -> tuple[Change, ...]:
    """The changes that create a new cluster's metadata; `config` is its first broker's."""
    configs = {MIN_ISR: str(config.min_insync_replicas)}
    unset = FinalizedFeatures()
    return (
        SetConfigs(ConfigResourceType.BROKER, CLUSTER_DEFAULT, {}, configs),
        SetFeatures(unset.epoch, FinalizedFeatures({ELR_VERSION: 1}, epoch=unset.epoch + 1)),
    )


def refuse_min_isr(
    image: ClusterImage, broker_name: str, named: Collection[str], after: Mapping[str, str]
) -> None:
    """Raise Refusal for configs of a broker, or of all brokers, that Apache Kafka refuses with ELR.

    `named` are the configs in the request; `after` are the configs that it would set.
    """
    if not image.features.asked.get(ELR_VERSION):
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
