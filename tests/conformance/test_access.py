"""Who may ask what is as Apache Kafka 4.3.1 has it, of every API key in every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.access import of_brokers
from kwire.conformance.access.brokers import (
    answers,
    answers_to_brokers,
    apache,
    apache_on_zookeeper,
    kwire,
    kwire_on_zookeeper,
    scenes,
)
from kwire.conformance.access.kept import text_of, text_of_scenes
from kwire.conformance.access.requests import asked
from kwire.requests.routes import CLUSTER_ROUTES, ROUTES, guard_of
from kwire.testing import ZooKeeperProcess

DATA = Path(__file__).parent / "data"
KEPT = DATA / "access-4.3.1.txt"
KEPT_SCENES = DATA / "access-scenes-4.3.1.txt"
KEPT_OF_BROKERS = DATA / "access-brokers-3.9.2.txt"
BEFORE_THE_FIRST_REQUEST = {"sasl_handshake", "sasl_authenticate"}


def test_every_route_has_an_access_request_for_each_version() -> None:
    for route in ROUTES:
        name = route.api_key.name.lower()
        if name not in BEFORE_THE_FIRST_REQUEST:
            served = range(route.min_version, route.max_version + 1)
            assert set(served) <= set(asked().get(name, ())), f"{name} has no access_request"


def test_every_route_of_brokers_has_its_rows() -> None:
    served = {
        route.api_key.name.lower(): range(route.min_version, route.max_version + 1)
        for route in CLUSTER_ROUTES
    }
    assert served == of_brokers.ASKED


def test_every_route_says_what_it_needs() -> None:
    for route in ROUTES:
        assert callable(guard_of(route)), route
    free = {route.api_key.name.lower() for route in ROUTES if route.needs is None}
    of_a_tokens_renewers = {"renew_delegation_token", "expire_delegation_token"}
    who_tells_of_itself = {"get_telemetry_subscriptions", "push_telemetry"}
    assert free == {
        "api_versions", *BEFORE_THE_FIRST_REQUEST, *of_a_tokens_renewers, *who_tells_of_itself
    }  # fmt: skip


@pytest.mark.slow
def test_as_apache_kafka_was(tmp_path: Path) -> None:
    with kwire(tmp_path) as (plain, sasl):
        _is_kept(text_of(answers(plain, sasl)), KEPT)


@pytest.mark.slow
def test_where_several_are_named_hidden_or_taken_away(tmp_path: Path) -> None:
    with kwire(tmp_path) as (plain, sasl):
        _is_kept(text_of_scenes(scenes(plain, sasl)), KEPT_SCENES)


@pytest.mark.slow
@pytest.mark.java
def test_what_brokers_ask_of_each_other(
    tmp_path: Path, zookeeper: ZooKeeperProcess, unique: str
) -> None:
    with kwire_on_zookeeper(tmp_path, zookeeper.connect(f"/{unique}")) as (plain, sasl):
        _is_kept(text_of(answers_to_brokers(plain, sasl)), KEPT_OF_BROKERS)


@pytest.mark.long
@pytest.mark.java
def test_as_apache_kafka_is(tmp_path: Path, apache_kafka_libs: Path) -> None:
    with apache(tmp_path / "matrix") as (plain, sasl):
        _is_kept(text_of(answers(plain, sasl)), KEPT)
    with apache(tmp_path / "scenes") as (plain, sasl):
        _is_kept(text_of_scenes(scenes(plain, sasl)), KEPT_SCENES)


@pytest.mark.long
@pytest.mark.java
def test_as_brokers_of_apache_kafka_are_answered(
    tmp_path: Path, zookeeper: ZooKeeperProcess, zookeeper_libs: Path, unique: str
) -> None:
    with apache_on_zookeeper(tmp_path, zookeeper.connect(f"/{unique}")) as (plain, sasl):
        _is_kept(text_of(answers_to_brokers(plain, sasl)), KEPT_OF_BROKERS)


def _is_kept(found: str, kept: Path) -> None:
    assert found.splitlines() == kept.read_text(encoding="utf-8").splitlines()
