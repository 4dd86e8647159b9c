"""Configs of groups and client metrics subscriptions are written to and read from the log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.image import ClusterImage
from kwire.log.directory import kraft_records
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.settings import ConfigResourceType
from kwire.storage.takeover.kraft_changes import Replica, records_of
from kwire.storage.takeover.reconciling import from_kraft

ME = Replica(1)
KINDS = [ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS]


def written(kraft: KraftMetadata, change: SetConfigs) -> None:
    for record, version in list(records_of(change, ME, kraft)):
        kraft.note(*kraft_records.decode(kraft_records.encode(record, version)))


def all_of_them(_: int, __: str, configs: Mapping[str, str]) -> Mapping[str, str]:
    return configs


@pytest.mark.parametrize("kind", KINDS)
def test_config_is_read_from_the_metadata_log_as_written(kind: ConfigResourceType) -> None:
    kraft = KraftMetadata()
    written(kraft, SetConfigs(kind, "s", {}, {"a": "1", "b": "2"}))
    written(kraft, SetConfigs(kind, "s", {"a": "1", "b": "2"}, {"b": "3"}))
    (finding,) = from_kraft(ClusterImage("c"), kraft, 1, {}, all_of_them)
    assert finding.change == SetConfigs(kind, "s", {}, {"b": "3"})
    assert finding.says.endswith("s: b changed")


@pytest.mark.parametrize("kind", KINDS)
def test_config_removed_in_the_metadata_log_is_removed(kind: ConfigResourceType) -> None:
    image = ClusterImage("c").with_configs(kind, "s", {"a": "1"})
    (finding,) = from_kraft(image, KraftMetadata(), 1, {}, all_of_them)
    assert finding.change == SetConfigs(kind, "s", {"a": "1"}, {})
