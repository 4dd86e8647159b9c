"""Compares kwire's authorization of every API key and version with Apache Kafka 4.4.0."""

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
from kwire.conformance.access.requests import requested_versions
from kwire.conformance.apache_kafka import VERSION, ZOOKEEPER_VERSION
from kwire.requests.routes import CLUSTER_ROUTES, ROUTES, guard_of
from kwire.testing import ZooKeeperProcess

DATA = Path(__file__).parent / "data"
RECORDED = DATA / f"access-{VERSION}.txt"
RECORDED_SCENES = DATA / f"access-scenes-{VERSION}.txt"
RECORDED_BROKER_REQUESTS = DATA / f"access-brokers-{ZOOKEEPER_VERSION}.txt"
BEFORE_AUTHENTICATION = {"sasl_handshake", "sasl_authenticate"}


def test_every_route_has_an_access_request_for_each_version() -> None:
    for route in ROUTES:
        name = route.api_key.name.lower()
        if name not in BEFORE_AUTHENTICATION:
            served = range(route.min_version, route.max_version + 1)
            assert set(served) <= set(requested_versions().get(name, ())), (
                f"{name} has no access_request"
            )


def test_broker_requests_cover_every_served_version() -> None:
    served = {
        route.api_key.name.lower(): range(route.min_version, route.max_version + 1)
        for route in CLUSTER_ROUTES
    }
    assert served == of_brokers.REQUESTED_VERSIONS


def test_routes_without_a_required_right_are_the_listed_ones() -> None:
    for route in ROUTES:
        assert callable(guard_of(route)), route
    free = {route.api_key.name.lower() for route in ROUTES if route.needs is None}
    for_token_owners = {"renew_delegation_token", "expire_delegation_token"}
    for_any_client = {"get_telemetry_subscriptions", "push_telemetry"}
    assert free == {
        "api_versions", *BEFORE_AUTHENTICATION, *for_token_owners, *for_any_client
    }  # fmt: skip


@pytest.mark.slow
def test_access_matches_recorded_kafka_responses(tmp_path: Path) -> None:
    with kwire(tmp_path) as (plain, sasl):
        _assert_as_recorded(text_of(answers(plain, sasl)), RECORDED)


@pytest.mark.slow
def test_access_scenes_match_recorded_kafka_responses(tmp_path: Path) -> None:
    with kwire(tmp_path) as (plain, sasl):
        _assert_as_recorded(text_of_scenes(scenes(plain, sasl)), RECORDED_SCENES)


@pytest.mark.slow
@pytest.mark.java
def test_access_of_broker_requests_matches_recorded_kafka_responses(
    tmp_path: Path, zookeeper: ZooKeeperProcess, unique: str
) -> None:
    with kwire_on_zookeeper(tmp_path, zookeeper.connect(f"/{unique}")) as (plain, sasl):
        _assert_as_recorded(text_of(answers_to_brokers(plain, sasl)), RECORDED_BROKER_REQUESTS)


@pytest.mark.long
@pytest.mark.java
def test_recorded_access_matches_apache_kafka(tmp_path: Path, apache_kafka_libs: Path) -> None:
    with apache(tmp_path / "matrix") as (plain, sasl):
        _assert_as_recorded(text_of(answers(plain, sasl)), RECORDED)
    with apache(tmp_path / "scenes") as (plain, sasl):
        _assert_as_recorded(text_of_scenes(scenes(plain, sasl)), RECORDED_SCENES)


@pytest.mark.long
@pytest.mark.java
def test_recorded_access_of_broker_requests_matches_apache_kafka(
    tmp_path: Path, zookeeper: ZooKeeperProcess, zookeeper_libs: Path, unique: str
) -> None:
    with apache_on_zookeeper(tmp_path, zookeeper.connect(f"/{unique}")) as (plain, sasl):
        _assert_as_recorded(text_of(answers_to_brokers(plain, sasl)), RECORDED_BROKER_REQUESTS)


def _assert_as_recorded(responses: str, recording: Path) -> None:
    assert responses.splitlines() == recording.read_text(encoding="utf-8").splitlines()
