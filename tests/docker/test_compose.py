"""The compose files give brokers settings that exist, and clients addresses that are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.cli.container import container_settings
from kwire.settings import BrokerConfig, load

DOCKER = Path(__file__).resolve().parents[2] / "docker"
FILES = sorted(path.name for path in DOCKER.glob("*.yaml"))


def parsed(path: Path) -> dict[str, Any]:
    """The YAML of these files: mappings and lists by indentation, and flow lists."""
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in path.read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    found, rest = block(lines)
    assert not rest, rest[0]
    assert isinstance(found, dict)
    return found


Lines = list[tuple[int, str]]


def block(lines: Lines) -> tuple[dict[str, Any] | list[Any], Lines]:
    """What is indented as the first line, and what follows."""
    indent, first = lines[0]
    items: list[Any] = []
    mapping: dict[str, Any] = {}
    while lines and lines[0][0] == indent:
        text = lines.pop(0)[1]
        if first.startswith("- "):
            items.append(scalar(text.removeprefix("- ")))
            continue
        name, colon, value = text.partition(":")
        assert colon, text
        assert name not in mapping, f"{name} stands there twice"
        if value.strip():
            mapping[name] = scalar(value.strip())
        elif lines and lines[0][0] > indent:
            mapping[name], lines = block(lines)
        else:
            mapping[name] = None
    return items or mapping, lines


def scalar(text: str) -> Any:  # noqa: ANN401 - a string or a list of them
    return json.loads(text) if text[0] in '"[' else text


def brokers(name: str) -> dict[str, dict[str, Any]]:
    services = parsed(DOCKER / name)["services"]
    return {each: of for each, of in services.items() if "KAFKA_LISTENERS" in str(of)}


def config_of(service: dict[str, Any], folder: Path) -> BrokerConfig:
    return load(*container_settings(service["environment"], {}, folder / "server.properties"))


@pytest.mark.parametrize("name", FILES)
def test_settings_are_known_and_addresses_published(name: str, tmp_path: Path) -> None:
    published: list[str] = []
    for service, of in brokers(name).items():
        config = config_of(of, tmp_path)
        assert config.notes == ()
        assert config.without_effect() == []
        told = {each.listener: (each.host, each.port) for each in config.advertised_listeners}
        (port,) = of["ports"]
        outside, inside = port.split(":")
        assert told["HOST"] == ("localhost", int(outside))
        assert int(inside) in {each.port for each in config.listeners}
        assert told["DOCKER"] == (service, 19092)
        assert config.inter_broker_listener_name == "DOCKER"
        published.append(outside)
    assert len(set(published)) == len(published) > 0


@pytest.mark.parametrize("name", FILES)
def test_volumes_are_declared_and_everyones_own(name: str) -> None:
    file = parsed(DOCKER / name)
    used = [
        each.split(":")[0] for of in file["services"].values() for each in of.get("volumes", [])
    ]
    assert sorted(used) == sorted(file["volumes"])


def test_the_cluster_is_three_brokers_on_one_zookeeper(tmp_path: Path) -> None:
    configs = [config_of(of, tmp_path) for of in brokers("cluster.yaml").values()]
    assert [config.node_id for config in configs] == [1, 2, 3]
    assert {config.broker_rack for config in configs} == {"a", "b", "c"}
    assert {config.zookeeper_connect for config in configs} == {"zookeeper:2181"}
    assert {config.offsets_topic_replication_factor for config in configs} == {3}
    assert parsed(DOCKER / "cluster.yaml")["services"]["zookeeper"]["image"] == "zookeeper:3.9"
