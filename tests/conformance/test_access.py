"""Who may ask what is as Apache Kafka 4.3.1 has it, of every API key in every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.access.brokers import answers, apache, kwire
from kwire.conformance.access.kept import text_of
from kwire.conformance.access.requests import ASKED
from kwire.routes import ROUTES, guard_of

KEPT = Path(__file__).parent / "data" / "access-4.3.1.txt"
BEFORE_THE_FIRST_REQUEST = {"sasl_handshake", "sasl_authenticate"}


def test_every_route_has_its_rows() -> None:
    for route in ROUTES:
        name = route.api_key.name.lower()
        if name not in BEFORE_THE_FIRST_REQUEST:
            served = range(route.min_version, route.max_version + 1)
            assert set(served) <= set(ASKED.get(name, ())), f"{name} has no row in {KEPT.name}"


def test_every_route_says_what_it_needs() -> None:
    for route in ROUTES:
        assert callable(guard_of(route)), route
    free = {route.api_key.name.lower() for route in ROUTES if route.needs is None}
    of_a_tokens_renewers = {"renew_delegation_token", "expire_delegation_token"}
    assert free == {"api_versions", *BEFORE_THE_FIRST_REQUEST, *of_a_tokens_renewers}


@pytest.mark.slow
def test_as_apache_kafka_was(tmp_path: Path) -> None:
    with kwire(tmp_path) as (plain, sasl):
        found = text_of(answers(plain, sasl))
    assert found.splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


@pytest.mark.long
@pytest.mark.java
def test_as_apache_kafka_is(tmp_path: Path, apache_kafka_libs: Path) -> None:
    with apache(tmp_path) as (plain, sasl):
        found = text_of(answers(plain, sasl))
    assert found.splitlines() == KEPT.read_text(encoding="utf-8").splitlines()
