"""The Helm chart of docker/kubernetes, without Helm: its values, and the manifests it renders.

`make kubernetes` has Helm check and render it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwire.cli.image.settings import container_settings
from kwire.settings import BrokerConfig, load
from tests.docker.test_compose import DOCKER, parsed
from tests.docker.test_kubernetes import FOLDER, stateful_set, variables

CHART = FOLDER / "chart"
PAGE = FOLDER.parents[1] / "docs" / "kubernetes.md"
MAPS = {"settings", "resources", "podAnnotations", "podLabels", "nodeSelector"}
"""Values that are a map as a whole, with any keys."""
GENERATED = ["cluster.yaml", "cluster-kraft.yaml"]
ORDINALS = [0, 1, 2]


def leaves(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values by their names, as `helm --set` has them."""
    for name, value in values.items():
        if isinstance(value, dict) and name not in MAPS:
            yield from leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def allowed(schema: dict[str, Any], before: str = "") -> Iterator[str]:
    """The names of the values that a schema describes."""
    for name, of in schema["properties"].items():
        if "properties" in of:
            assert of["additionalProperties"] is False
            yield from allowed(of, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def in_the_page() -> dict[str, Any]:
    """The defaults by value, in the table of docs/kubernetes.md."""
    _, _, rest = PAGE.read_text().partition("| value | default | meaning |\n")
    table = rest.partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    return {name.strip("`"): yaml.safe_load(default.strip("`")) for name, default, _ in cells}


def config_of(name: str, ordinal: int, folder: Path) -> BrokerConfig:
    given = variables(FOLDER / name, ordinal)
    return load(*container_settings(given, {}, folder / "server.properties"))


def test_chart_table_of_values_has_each_value_with_its_default() -> None:
    assert in_the_page() == dict(leaves(parsed(CHART / "values.yaml")))


def test_chart_schema_describes_each_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    described = set(allowed(schema)) - {"global"}
    assert described == {name for name, _ in leaves(parsed(CHART / "values.yaml"))}


def test_chart_starts_the_zookeeper_of_the_compose_file() -> None:
    image = parsed(DOCKER / "cluster.yaml")["services"]["zookeeper"]["image"]
    assert parsed(CHART / "values.yaml")["zookeeper"]["image"] == image


@pytest.mark.parametrize("name", GENERATED)
def test_rendered_brokers_have_known_settings_and_ids_of_their_own(
    name: str, tmp_path: Path
) -> None:
    configs = [config_of(name, ordinal, tmp_path) for ordinal in ORDINALS]
    for ordinal, config in zip(ORDINALS, configs, strict=True):
        assert config.notes == ()
        assert config.without_effect() == []
        assert config.node_id == ordinal
        assert [each.host for each in config.advertised_listeners] == [
            f"kwire-{ordinal}.kwire-pods.default.svc"
        ]
    assert {config.offsets_topic_replication_factor for config in configs} == {3}


def test_rendered_brokers_are_members_of_a_cluster(tmp_path: Path) -> None:
    on_zookeeper = config_of("cluster.yaml", 0, tmp_path)
    assert on_zookeeper.zookeeper_connect == "kwire-zookeeper:2181"
    assert (on_zookeeper.default_replication_factor, on_zookeeper.min_insync_replicas) == (3, 2)
    beside_controllers = config_of("cluster-kraft.yaml", 0, tmp_path)
    assert beside_controllers.process_roles == ("broker",)


@pytest.mark.parametrize("name", GENERATED)
def test_rendered_brokers_may_take_as_long_to_stop_as_a_controlled_shutdown(
    name: str, tmp_path: Path
) -> None:
    longest_s = config_of(name, 0, tmp_path).controller_socket_timeout_ms / 1000
    pod = stateful_set(FOLDER / name)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 2 * longest_s
