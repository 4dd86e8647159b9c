"""The `min.insync.replicas` of a new cluster; expected answers are Apache Kafka 4.3.1's."""

from __future__ import annotations

from pathlib import Path

from kwire.cluster.decisions.feature_updates import SAFE_DOWNGRADE, UPGRADE
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.stores.local import FILE_NAME, LocalStore
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kwire.codecs.messages.describe_configs import DescribeConfigsResourceResult
from kwire.codecs.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.cluster.decisions.client import BROKER, DELETE, SET, TOPIC, AdminClient
from tests.cluster.decisions.conftest import OpenAdmin

OK = (ErrorCode.NONE, None)
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
DYNAMIC_DEFAULT, DEFAULT = 3, 5
MIN_ISR, RETENTION = "min.insync.replicas", "log.retention.ms"


async def test_new_cluster_keeps_its_min_insync_replicas_as_recorded_of_kafka_4_3_1(
    open_admin: OpenAdmin,
) -> None:
    kept = INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
    own = INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
    async with open_admin({MIN_ISR: "2"}) as admin:
        await admin.make("a")
        for validate_only in (True, False):
            for name, edit, answer in (
                ("", (MIN_ISR, DELETE, None), kept),
                ("1", (MIN_ISR, DELETE, None), own),
                ("1", (MIN_ISR, SET, "2"), own),
                (
                    "",
                    (MIN_ISR, SET, "0"),
                    (
                        INVALID_REQUEST,
                        f"Invalid value 0 for configuration {MIN_ISR}: Value must be at least 1",
                    ),
                ),
            ):
                given = await admin.alter(BROKER, name, edit, validate_only=validate_only)
                assert given == answer
        assert await replaced(admin, "") == kept
        assert await replaced(admin, "", ("log.retention.ms", "5")) == kept
        assert await replaced(admin, "1", (MIN_ISR, "3")) == own
        assert await replaced(admin, "1") == OK
        shown = await admin.config(BROKER, "", MIN_ISR, synonyms=True)
        assert described(shown) == ("2", DYNAMIC_DEFAULT, [("2", DYNAMIC_DEFAULT)])
        assert await admin.alter(BROKER, "", (MIN_ISR, SET, "3")) == OK
    async with open_admin() as admin:
        synonyms = [("3", DYNAMIC_DEFAULT), ("1", DEFAULT)]
        for kind, name in ((BROKER, "1"), (TOPIC, "a")):
            shown = await admin.config(kind, name, MIN_ISR, synonyms=True)
            assert described(shown) == ("3", DYNAMIC_DEFAULT, synonyms)
        assert await replaced(admin, "", (MIN_ISR, "1"), ("log.retention.ms", "5")) == OK
        assert await admin.alter(TOPIC, "a", (MIN_ISR, SET, "2")) == OK
        assert await admin.alter(TOPIC, "a", (MIN_ISR, DELETE, None)) == OK
        topic = await admin.config(TOPIC, "a", MIN_ISR, synonyms=True)
        assert described(topic) == ("1", DYNAMIC_DEFAULT, [("1", DYNAMIC_DEFAULT), ("1", DEFAULT)])


async def test_earlier_metadata_has_no_min_insync_replicas_of_the_cluster(
    open_admin: OpenAdmin, tmp_path: Path
) -> None:
    LocalStore(tmp_path / "data" / FILE_NAME).close()  # as it was made then
    async with open_admin() as admin:
        assert (await admin.describe(BROKER, "")).configs == []
        for name in ("", "1"):
            assert await admin.alter(BROKER, name, (MIN_ISR, SET, "2")) == OK
            assert await admin.alter(BROKER, name, (MIN_ISR, DELETE, None)) == OK


async def test_min_insync_replicas_of_the_cluster_come_with_the_feature(
    open_admin: OpenAdmin, tmp_path: Path
) -> None:
    """As in Apache Kafka 4.4.0: single brokers lose theirs, and the cluster keeps one it has."""
    LocalStore(tmp_path / "data" / FILE_NAME).close()
    async with open_admin({MIN_ISR: "4"}) as admin:
        assert await admin.alter(BROKER, "1", (MIN_ISR, SET, "2"), (RETENTION, SET, "5")) == OK
        await set_elr(admin, 1, UPGRADE, validate_only=True)
        assert (await admin.describe(BROKER, "")).configs == []
        await set_elr(admin, 1, UPGRADE)
        shown = await admin.config(BROKER, "", MIN_ISR, synonyms=True)
        assert described(shown)[:2] == ("4", DYNAMIC_DEFAULT)
        own = admin.broker.image.configs_of(BROKER, "1")
        assert own == {RETENTION: "5"}
        assert (await admin.alter(BROKER, "1", (MIN_ISR, SET, "2")))[0] == 40
        await set_elr(admin, 0, SAFE_DOWNGRADE)
        assert await admin.alter(BROKER, "1", (MIN_ISR, SET, "2")) == OK
        assert await admin.alter(BROKER, "", (MIN_ISR, SET, "3")) == OK
        await set_elr(admin, 1, UPGRADE)
        assert admin.broker.image.configs_of(BROKER, "") == {MIN_ISR: "3"}
        assert admin.broker.image.configs_of(BROKER, "1") == {RETENTION: "5"}


async def set_elr(
    admin: AdminClient, level: int, upgrade_type: int, *, validate_only: bool = False
) -> None:
    """Set the level of eligible.leader.replicas.version."""
    update = FeatureUpdateKey(ELR_VERSION, level, upgrade_type=upgrade_type)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)
    answer = await admin.ask(request, 2, UpdateFeaturesResponse)
    assert (answer.error_code, answer.error_message) == OK


async def replaced(
    admin: AdminClient, broker_name: str, *configs: tuple[str, str]
) -> tuple[int, str | None]:
    """The answer of AlterConfigs that sets only these configs of a broker."""
    settings = [AlterableConfig(*config) for config in configs]
    request = AlterConfigsRequest([AlterConfigsResource(BROKER, broker_name, settings)])
    [answer] = (await admin.ask(request, 2, AlterConfigsResponse)).responses
    return answer.error_code, answer.error_message


def described(
    config: DescribeConfigsResourceResult,
) -> tuple[str | None, int, list[tuple[str | None, int]]]:
    """Its value and source, and its synonyms."""
    synonyms = [(each.value, each.source) for each in config.synonyms]
    return config.value, config.config_source, synonyms
