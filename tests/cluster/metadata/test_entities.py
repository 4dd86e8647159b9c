"""Resource keys of users, clients and addresses, as Apache Kafka 3.9.2 names them in ZooKeeper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.entities import (
    CLIENT_ID,
    ENTITY_RESOURCE,
    IP,
    USER,
    entity_key,
    entity_of,
)

PATHS = [
    ({USER: "alice"}, "users/alice"),
    ({USER: None}, "users/<default>"),
    ({USER: "CN=a b,O=x/y*~"}, "users/CN%3Da%20b%2CO%3Dx%2Fy%2A%7E"),
    ({USER: "alice", CLIENT_ID: "app"}, "users/alice/clients/app"),
    ({USER: "alice", CLIENT_ID: None}, "users/alice/clients/<default>"),
    ({USER: None, CLIENT_ID: None}, "users/<default>/clients/<default>"),
    ({CLIENT_ID: "app"}, "clients/app"),
    ({IP: "10.0.0.1"}, "ips/10.0.0.1"),
    ({IP: None}, "ips/<default>"),
]


@pytest.mark.parametrize(("entity", "path"), PATHS)
def test_entity_key_is_the_path_below_config(entity: dict[str, str | None], path: str) -> None:
    assert entity_key(entity) == (ENTITY_RESOURCE, path)
    assert entity_of((ENTITY_RESOURCE, path)) == entity


@pytest.mark.parametrize("path", ["", "users", "topics/t", "clients/a/users/b", "ips/a/clients/b"])
def test_entity_of_a_wrong_path_is_none(path: str) -> None:
    assert entity_of((ENTITY_RESOURCE, path)) is None


def test_entity_of_a_topic_resource_is_none() -> None:
    assert entity_of((2, "users/alice")) is None


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "<default>"))
def test_entity_names_survive_the_round_trip(name: str) -> None:
    entity = {USER: name, CLIENT_ID: name}
    assert entity_of(entity_key(entity)) == entity
