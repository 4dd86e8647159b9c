"""Cases of DescribeClientQuotas: the quotas that a filter matches."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kwire.conformance.wire.case import Cases, MakeRequest
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_CLIENT_QUOTAS)


def access_request(version: int, topic_id: bytes) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest([], True)


EXACT, DEFAULT, ANY = range(3)

Component = tuple[str, int, str | None]


def ask(*components: Component, strict: bool = False) -> DescribeClientQuotasRequest:
    """Build a filter: entity types, each with a kind of match and a name."""
    return DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)


def _of(*components: Component, strict: bool = False) -> MakeRequest:
    return lambda stage: ask(*components, strict=strict)


case.requests(
    {
        "a user that has none": _of(("user", EXACT, "wire-nobody")),
        "strictly a user that has none": _of(("user", EXACT, "wire-nobody"), strict=True),
        "an unknown type": _of(("group", EXACT, "g")),
        "an unknown type beside a known one": _of(("user", ANY, None), ("group", ANY, None)),
        "an empty type": _of(("", EXACT, "g")),
        "a type twice": _of(("user", EXACT, "a"), ("user", DEFAULT, None)),
        "address and user": _of(("ip", ANY, None), ("user", ANY, None)),
        "address and client id": _of(("client-id", ANY, None), ("ip", ANY, None)),
        "an unknown way to match": _of(("user", 3, None)),
        "a negative way to match": _of(("user", -1, None)),
        "exactly nothing": _of(("user", EXACT, None)),
        "the default with a name": _of(("user", DEFAULT, "a")),
        "any with a name": _of(("user", ANY, "a")),
        "exactly an empty name": _of(("user", EXACT, "")),
    }
)


@case("found by filters")
def found(stage: Stage) -> None:
    """Filters find quotas of a user, a client, both, and an address, with and without `strict`.

    The address is derived from the case's prefix, so that cases do not change each other's quotas.
    """
    user, client = stage.name("user"), stage.name("client")
    address = f"10.9.8.{sum(stage.prefix.encode()) % 250}"
    entities: list[dict[str, str]] = [{"user": user}, {"client-id": client}]
    entities += [{"user": user, "client-id": client}, {"ip": address}]
    for number, entity in enumerate(entities):
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        stage.ask(_set(entity, key, 1024.0 + number))
    stage.await_cluster_changes()
    for strict in (False, True):
        for components in (
            [("user", EXACT, user)],
            [("client-id", EXACT, client)],
            [("user", EXACT, user), ("client-id", EXACT, client)],
            [("user", EXACT, user), ("client-id", ANY, None)],
            [("user", EXACT, user), ("client-id", DEFAULT, None)],
            [("client-id", EXACT, client), ("user", ANY, None)],
            [("client-id", EXACT, client), ("user", DEFAULT, None)],
            [("ip", EXACT, address)],
        ):
            stage.send(ask(*components, strict=strict))
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        stage.ask(_set(entity, key, None))


def _set(entity: dict[str, str], key: str, value: float | None) -> AlterClientQuotasRequest:
    """Return a request that sets a quota of this entity; None removes it."""
    of = [EntityData(*each) for each in entity.items()]
    return AlterClientQuotasRequest(
        [RequestEntryData(of, [OpData(key, value or 0.0, value is None)])]
    )
