"""Steps with configs of all kinds of resources, with cordoned directories, and with features."""

from __future__ import annotations

from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.conformance.kraft.asking import TIMEOUT_MS
from kwire.conformance.kraft.stage import ClusterStep, RecordsStage, StepFailed
from kwire.conformance.kraft.steps.requests import (
    APPEND,
    BROKER,
    GROUP,
    METRICS,
    SUBTRACT,
    TOPIC,
    alter,
    create,
    succeed,
)

UPGRADE, SAFE_DOWNGRADE = 1, 2


def _alter_topics(stage: RecordsStage) -> None:
    alter(stage, 1, TOPIC, "pair", {"segment.bytes": "1048576", "flush.ms": "1000"})
    alter(stage, 2, TOPIC, "pair", {"segment.bytes": None})
    alter(stage, 3, TOPIC, "pair", {"cleanup.policy": "compact"}, APPEND)
    alter(stage, 1, TOPIC, "pair", {"cleanup.policy": "delete"}, SUBTRACT)
    alter(stage, 2, TOPIC, "placed", {"min.insync.replicas": "1"})
    alter(stage, 3, TOPIC, "placed", {"min.insync.replicas": "2"})
    old = AlterConfigsResource(TOPIC, "pair", [AlterableConfig("retention.ms", "7200000")])
    succeed(stage.ask(2, AlterConfigsRequest([old])))


def _alter_brokers(stage: RecordsStage) -> None:
    for broker_id in (1, 2, 3):
        alter(stage, broker_id, BROKER, str(broker_id), {"log.cleaner.threads": "2"})
        alter(stage, broker_id, BROKER, str(broker_id), {"log.cleaner.threads": None})
    alter(stage, 2, BROKER, "", {"log.retention.ms": "123456789"})
    alter(stage, 3, BROKER, "", {"log.retention.ms": None})
    alter(stage, 3, BROKER, "3", {"max.connections": "1000"})
    of_another = AlterConfigsResource(BROKER, "3", [AlterableConfig("max.connections", "2000")])
    stage.ask(1, AlterConfigsRequest([of_another]))


def _alter_others(stage: RecordsStage) -> None:
    alter(stage, 1, METRICS, "all", {"interval.ms": "1000", "metrics": "org.apache.kafka"})
    alter(stage, 2, METRICS, "all", {"interval.ms": None, "metrics": None})
    alter(stage, 2, GROUP, "group", {"consumer.session.timeout.ms": "50000"})
    alter(stage, 3, GROUP, "group", {"consumer.session.timeout.ms": None})
    alter(stage, 3, GROUP, "shared", {"share.auto.offset.reset": "earliest"})


def _cordon(stage: RecordsStage) -> None:
    """Cordon a directory of broker 1, so that new replicas go to the other one."""
    first, other = stage.log_dirs(1)
    alter(stage, 1, BROKER, "1", {"cordoned.log.dirs": str(first)})
    stage.settle()
    create(stage, 2, "cordoned", [[1, 2], [1, 3]])
    stage.settle()
    for index in range(2):
        if not (other / f"cordoned-{index}").exists():
            raise StepFailed(f"cordoned-{index} is not in {other}, the only directory that may be")
    alter(stage, 1, BROKER, "1", {"cordoned.log.dirs": None})


def _change_features(stage: RecordsStage) -> None:
    for broker_id, level, kind in ((1, 1, SAFE_DOWNGRADE), (2, 2, UPGRADE)):
        update = FeatureUpdateKey("share.version", level, upgrade_type=kind)
        succeed(stage.ask(broker_id, UpdateFeaturesRequest(TIMEOUT_MS, [update])))
    stage.ask(3, UpdateFeaturesRequest(TIMEOUT_MS, [FeatureUpdateKey("unknown.version", 1)]))


STEPS = (
    ClusterStep("configs of topics are changed", _alter_topics),
    ClusterStep("configs of brokers are changed", _alter_brokers),
    ClusterStep("configs of groups and client metrics are changed", _alter_others),
    ClusterStep("a directory is cordoned", _cordon),
    ClusterStep("features are changed", _change_features),
)
