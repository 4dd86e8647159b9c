"""The quotas there are, whom each may be set on, and what its value may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from kwire.cluster.metadata.entities import CLIENT_ID, IP, USER, Entity
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

_LONG, _DOUBLE, _INT = "LONG", "DOUBLE", "INT"
_OF_CLIENTS: Final = {PRODUCE: _LONG, FETCH: _LONG, REQUEST: _DOUBLE, MUTATION: _DOUBLE}
_OF_ADDRESSES: Final = {CONNECTION: _INT}
QUOTAS: Final = frozenset({*_OF_CLIENTS, *_OF_ADDRESSES})

_GREATEST: Final = {_LONG: 2**63 - 1, _INT: 2**31 - 1}

_ROUNDING: Final = 1e-6
"""Clients send what they mean to be whole as a double: what is this close to it is it."""

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Between these Java writes a double without an exponent."""


def check_entity(entity: Entity) -> None:
    """Raises Refusal where quotas cannot be set on such an entity; Kafka's words."""
    if not entity:
        raise invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in {USER, CLIENT_ID, IP}:
            raise invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise invalid(f"Empty {kind} not supported")
    if IP in entity and len(entity) > 1:
        raise invalid(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )


def known_for(entity: Entity) -> Mapping[str, str]:
    """The quotas that can be set on an entity."""
    return _OF_ADDRESSES if IP in entity else _OF_CLIENTS


def text_of(entity: Entity, quota: str, value: float) -> str:
    """A value as it is kept, which is as Apache Kafka 3.9 keeps it in ZooKeeper.

    Raises Refusal where the quota cannot have it.
    """
    kind = known_for(entity).get(quota)
    if kind is None:
        raise invalid(f"Invalid configuration key {quota}")
    if value <= 0:
        raise invalid(f"Quota {quota} must be greater than 0")
    if kind == _DOUBLE or math.isnan(value):
        return java_double(value)
    if value > float(_GREATEST[kind]):
        raise invalid(f"Proposed value for {quota} is too large for {_article(kind)} {kind}.")
    whole = math.floor(value + _ROUNDING)
    if abs(whole - value) > _ROUNDING:
        raise invalid(f"{quota} cannot be a fractional value.")
    return str(min(whole, _GREATEST[kind]))


def _article(kind: str) -> str:
    return "an" if kind == _INT else "a"


def java_double(value: float) -> str:
    """As Java's Double.toString: `1.0E9` where Python has `1000000000.0`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return repr(value)
    digits, exponent = next(filter(lambda said: float("e".join(said)) == value, _rounded(value)))
    return f"{digits}E{int(exponent)}"


def _rounded(value: float) -> Iterator[tuple[str, str]]:
    """Digits and exponent, with ever more digits."""
    for places in range(1, 18):
        digits, _, exponent = f"{value:.{places}e}".partition("e")
        yield digits, exponent


def values_of(configs: Mapping[str, str]) -> dict[str, float]:
    """The quotas among what is set on an entity: users have credentials beside them."""
    found = ((quota, value_of(configs[quota])) for quota in configs.keys() & QUOTAS)
    return {quota: value for quota, value in found if value is not None}


def value_of(text: str) -> float | None:
    """A quota as it is kept; None for no number, which Apache Kafka would not start with."""
    try:
        return float(text)
    except ValueError:  # somebody's hand in ZooKeeper
        return None


def invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
