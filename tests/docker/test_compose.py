"""Tests that compose files have valid settings, and advertise published addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kwire.cli.image.settings import container_settings
from kwire.codecs.uuids import uuid_bytes
from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.metrics.prometheus import RELEASE as PROMETHEUS_VERSION
from kwire.settings import BrokerConfig, load

DOCKER = Path(__file__).resolve().parents[2] / "docker"
FILES = sorted(path.name for path in DOCKER.glob("*.yaml"))


def parsed(path: Path) -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load(path.read_text())
    return file


def brokers(name: str) -> dict[str, dict[str, Any]]:
    services = parsed(DOCKER / name)["services"]
    return {
        name: of
        for name, of in services.items()
        if of["image"] == "kwire" and "KAFKA_LISTENERS" in of.get("environment", {})
    }


def config_of(service: dict[str, Any], folder: Path) -> BrokerConfig:
    return load(*container_settings(service["environment"], {}, folder / "server.properties"))


@pytest.mark.parametrize("name", FILES)
def test_compose_settings_are_known_and_addresses_published(name: str, tmp_path: Path) -> None:
    published: list[str] = []
    for service, of in brokers(name).items():
        config = config_of(of, tmp_path)
        assert config.notes == ()
        assert config.without_effect() == []
        advertised = {
            endpoint.listener: (endpoint.host, endpoint.port)
            for endpoint in config.advertised_listeners
        }
        (port,) = of["ports"]
        outside, inside = port.split(":")
        assert advertised["HOST"] == ("localhost", int(outside))
        assert int(inside) in {listener.port for listener in config.listeners}
        assert advertised["DOCKER"] == (service, 19092)
        assert config.inter_broker_listener_name == "DOCKER"
        published.append(outside)
    assert len(set(published)) == len(published) > 0


@pytest.mark.parametrize("name", FILES)
def test_compose_volumes_are_declared_and_not_shared(name: str) -> None:
    file = parsed(DOCKER / name)
    used = [
        volume.split(":")[0]
        for service in file["services"].values()
        for volume in service.get("volumes", [])
    ]
    mounted = [source for source in used if source.startswith("./")]
    assert all((DOCKER / source).exists() for source in mounted)
    assert sorted(set(used) - set(mounted)) == sorted(file["volumes"])
    assert len(set(used)) == len(used)


def test_compose_cluster_has_three_brokers_on_one_zookeeper(tmp_path: Path) -> None:
    configs = [config_of(of, tmp_path) for of in brokers("cluster.yaml").values()]
    assert [config.node_id for config in configs] == [1, 2, 3]
    assert {config.broker_rack for config in configs} == {"a", "b", "c"}
    assert {config.zookeeper_connect for config in configs} == {"zookeeper:2181"}
    assert {config.offsets_topic_replication_factor for config in configs} == {3}
    assert parsed(DOCKER / "cluster.yaml")["services"]["zookeeper"]["image"] == "zookeeper:3.9"


def test_compose_cluster_has_three_brokers_beside_one_controller(tmp_path: Path) -> None:
    name = "cluster-kraft.yaml"
    configs = [config_of(of, tmp_path) for of in brokers(name).values()]
    assert [config.node_id for config in configs] == [1, 2, 3]
    assert {config.broker_rack for config in configs} == {"a", "b", "c"}
    assert {config.process_roles for config in configs} == {("broker",)}
    assert {config.offsets_topic_replication_factor for config in configs} == {3}
    controller = parsed(DOCKER / name)["services"]["controller"]
    assert controller["image"] == f"apache/kafka:{VERSION}"
    of_controller = controller["environment"]
    voters = of_controller["KAFKA_CONTROLLER_QUORUM_VOTERS"]
    assert voters == f"{of_controller['KAFKA_NODE_ID']}@controller:9093"
    assert {config.controller_quorum_voters for config in configs} == {(voters,)}
    assert len(uuid_bytes(of_controller["CLUSTER_ID"])) == 16


SERVICE_KEYS = {
    "build",
    "command",
    "depends_on",
    "environment",
    "image",
    "ports",
    "profiles",
    "restart",
    "volumes",
}
"""Keys of the Compose specification that these files use; docker compose refuses unknown ones."""
ZOOKEEPER_VOLUMES = {"/data", "/datalog"}
"""The volumes that the official zookeeper image declares: snapshots, and the transaction log."""


@pytest.mark.parametrize("name", FILES)
def test_compose_services_have_known_keys_and_dependencies(name: str) -> None:
    services = parsed(DOCKER / name)["services"]
    for of in services.values():
        assert of.keys() <= SERVICE_KEYS
        assert set(of.get("depends_on", ())) <= services.keys()


def test_compose_zookeeper_stores_data_in_the_volumes_of_its_image() -> None:
    volumes = parsed(DOCKER / "cluster.yaml")["services"]["zookeeper"]["volumes"]
    assert {volume.split(":")[1] for volume in volumes} == ZOOKEEPER_VOLUMES


def test_compose_monitoring_reads_the_metrics_of_its_broker(tmp_path: Path) -> None:
    services = parsed(DOCKER / "monitoring.yaml")["services"]
    metrics = config_of(services["kafka"], tmp_path).metrics
    (job,) = parsed(DOCKER / "grafana" / "prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"kafka:{metrics.metrics_port}"]}]
    assert metrics.metrics_host == "0.0.0.0"
    assert services["prometheus"]["image"] == f"prom/prometheus:{PROMETHEUS_VERSION}"


def test_compose_monitoring_provisions_the_dashboard_and_its_datasource() -> None:
    services = parsed(DOCKER / "monitoring.yaml")["services"]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    provisioning = DOCKER / "grafana" / "provisioning"
    (provider,) = parsed(provisioning / "dashboards" / "kwire.yaml")["providers"]
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    (source,) = parsed(provisioning / "datasources" / "prometheus.yaml")["datasources"]
    (port,) = services["prometheus"]["ports"]
    assert source["url"] == f"http://prometheus:{port.split(':')[1]}"
