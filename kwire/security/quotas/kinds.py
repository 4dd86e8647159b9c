"""The kinds of quotas: the entities and values that each may have."""

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
"""Clients send integers as doubles; a value this close to an integer counts as that integer."""

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java writes doubles in this range without an exponent."""


def check_entity(entity: Entity) -> None:
    """Raise Refusal, with Kafka's message, if the entity cannot have quotas."""
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
    """The quotas that an entity can have, with the types of their values."""
    return _OF_ADDRESSES if IP in entity else _OF_CLIENTS


def text_of(entity: Entity, quota: str, value: float) -> str:
    """Return a value as it is stored, in the form of Apache Kafka 3.9 in ZooKeeper.

    Raises Refusal if the quota cannot have the value.
    """
    kind = known_for(entity).get(quota)
    if kind is None:
        raise invalid(f"Invalid configuration key {quota}")
    if not math.isfinite(value):
        raise invalid(f"Quota {quota} must be a finite number")
    if value <= 0:
        raise invalid(f"Quota {quota} must be greater than 0")
    if kind == _DOUBLE:
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
    """Return the text of Java's Double.toString: `1.0E9` for Python's `1000000000.0`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return repr(value)
    digits, exponent = next(filter(lambda said: float("e".join(said)) == value, _rounded(value)))
    return f"{digits}E{int(exponent)}"


def _rounded(value: float) -> Iterator[tuple[str, str]]:
    """Digits and exponent of `value`, rounded to 2, 3, ... 18 digits."""
    for places in range(1, 18):
        digits, _, exponent = f"{value:.{places}e}".partition("e")
        yield digits, exponent


def values_of(configs: Mapping[str, str]) -> dict[str, float]:
    """The quotas among the configs of an entity; users also have credentials there."""
    values = ((quota, value_of(configs[quota])) for quota in configs.keys() & QUOTAS)
    return {quota: value for quota, value in values if value is not None}


def value_of(text: str) -> float | None:
    """Return the value of a stored quota, or None if it is not a number.

    Apache Kafka does not start with such a quota.
    """
    try:
        return float(text)
    except ValueError:  # edited by hand in ZooKeeper
        return None


def invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
