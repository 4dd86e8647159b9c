"""The stored form of quotas: texts that Apache Kafka 3.9.2 writes and reads in ZooKeeper."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.entities import CLIENT_ID, IP, USER, Entity
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas.kinds import check_entity, java_double, text_of, values_of

TEXTS = [
    ({USER: "a"}, "producer_byte_rate", 1024.0, "1024"),
    ({USER: "a"}, "producer_byte_rate", 1024.0000001, "1024"),
    ({USER: "a"}, "consumer_byte_rate", 1023.9999999, "1024"),
    ({CLIENT_ID: None}, "consumer_byte_rate", 2.0**63, "9223372036854775807"),
    ({USER: "a"}, "request_percentage", 12.5, "12.5"),
    ({USER: "a"}, "request_percentage", 200.0, "200.0"),
    ({USER: "a", CLIENT_ID: "b"}, "controller_mutation_rate", 1e9, "1.0E9"),
    ({IP: "127.0.0.1"}, "connection_creation_rate", 5.0, "5"),
]

JAVA = {
    12.5: "12.5",
    0.001: "0.001",
    0.00099: "9.9E-4",
    1e7: "1.0E7",
    9999999.0: "9999999.0",
    12345678.25: "1.234567825E7",
    1.7976931348623157e308: "1.7976931348623157E308",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
    -12.5: "-12.5",
    -1e7: "-1.0E7",
    0.0: "0.0",
}
"""Doubles with the text of Java 17's Double.toString."""


@pytest.mark.parametrize(("entity", "quota", "value", "text"), TEXTS)
def test_quota_value_is_stored_as_java_writes_it(
    entity: Entity, quota: str, value: float, text: str
) -> None:
    assert text_of(entity, quota, value) == text


@pytest.mark.parametrize(("value", "text"), JAVA.items())
def test_java_double_matches_java(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(min_value=0, allow_infinity=False, allow_subnormal=False))
def test_java_double_round_trips(value: float) -> None:
    assert float(java_double(value)) == value


REFUSED = [
    ({USER: "a"}, "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
    ({USER: "a"}, "producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
    ({USER: "a"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
    (
        {USER: "a"},
        "producer_byte_rate",
        2.0**64,
        "Proposed value for producer_byte_rate is too large for a LONG.",
    ),
    (
        {IP: "::1"},
        "connection_creation_rate",
        2.0**31,
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
    (
        {USER: "a"},
        "connection_creation_rate",
        1.0,
        "Invalid configuration key connection_creation_rate",
    ),
    ({IP: "::1"}, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
]


@pytest.mark.parametrize(("entity", "quota", "value", "message"), REFUSED)
def test_invalid_quota_value_is_refused_with_kafkas_message(
    entity: Entity, quota: str, value: float, message: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        text_of(entity, quota, value)
    assert (refusal.value.error, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({USER: ""}, "Empty user not supported"),
        *[
            (
                {IP: "::1", kind: "a"},
                "Invalid quota entity combination, IP entity should"
                "not be combined with User or ClientId",
            )
            for kind in (USER, CLIENT_ID)
        ],
    ],
)
def test_invalid_quota_entity_is_refused_with_kafkas_message(entity: Entity, message: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_entity(entity)
    assert (refusal.value.error, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_integer_quotas_accept_their_largest_value() -> None:
    assert text_of({IP: "::1"}, "connection_creation_rate", 2.0**31 - 1) == "2147483647"


def test_values_of_ignores_credentials() -> None:
    configs = {"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "5", "consumer_byte_rate": "?"}
    assert values_of(configs) == {"producer_byte_rate": 5.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [(5.0000009, "5"), (4.9999991, "5"), (1.0, "1"), (0.9999995, "1"), (123456789.0, "123456789")],
)
def test_integer_quota_within_a_millionth_is_rounded(value: float, text: str) -> None:
    assert text_of({USER: "a"}, "producer_byte_rate", value) == text


@pytest.mark.parametrize("value", [5.00001, 4.99999, 0.5])
def test_fractional_value_of_an_integer_quota_is_refused(value: float) -> None:
    with pytest.raises(Refusal, match="cannot be a fractional value"):
        text_of({CLIENT_ID: "a"}, "consumer_byte_rate", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("quota", ["producer_byte_rate", "request_percentage"])
def test_quota_that_is_not_finite_is_refused(quota: str, value: float) -> None:
    """As Apache Kafka 4.4.0, which says so before it compares the value with 0."""
    with pytest.raises(Refusal, match=f"Quota {quota} must be a finite number"):
        text_of({USER: "a"}, quota, value)


@pytest.mark.parametrize("entity", [{IP: "::1"}, {IP: None}, {USER: None, CLIENT_ID: "a"}])
def test_valid_quota_entity_is_accepted(entity: Entity) -> None:
    check_entity(entity)
