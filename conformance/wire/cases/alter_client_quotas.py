"""Cases of AlterClientQuotas: entities and the quotas that they can have."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.conformance.wire.case import Cases, MakeRequest
from kwire.conformance.wire.cases.describe_client_quotas import EXACT, ask
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_CLIENT_QUOTAS)


def access_request(version: int, topic_id: bytes) -> AlterClientQuotasRequest:
    request = AlterClientQuotasRequest
    entry = RequestEntryData
    return request([entry([EntityData("user", "x")], [OpData("no.such", 1.0)])], True)


Entity = dict[str, str | None]


def entry(entity: Entity, *ops: tuple[str, float | None]) -> RequestEntryData:
    """Set quotas of one entity; None removes a quota."""
    operations = [OpData(key, value or 0.0, value is None) for key, value in ops]
    return RequestEntryData([EntityData(*each) for each in entity.items()], operations)


def alter(*entries: RequestEntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(list(entries), validate_only)


def _of(entity: Entity, *ops: tuple[str, float | None]) -> MakeRequest:
    """Make a request that is only validated, as its entity does not belong to the case alone."""
    return lambda stage: alter(entry(entity, *ops), validate_only=True)


_RATE = ("producer_byte_rate", 1024.0)

case.requests(
    {
        "nothing": lambda stage: alter(),
        "no entity": _of({}, _RATE),
        "an unknown type": _of({"group": "g"}, _RATE),
        "an empty type": _of({"": "g"}, _RATE),
        "an unknown type beside a known one": _of({"user": "a", "group": "g"}, _RATE),
        "an empty user": _of({"user": ""}, _RATE),
        "an empty client id": _of({"client-id": ""}, _RATE),
        "an empty address": _of({"ip": ""}, ("connection_creation_rate", 5.0)),
        "address and user": _of({"ip": "127.0.0.1", "user": "a"}, _RATE),
        "address and client id": _of({"ip": None, "client-id": None}, _RATE),
        "no operation": _of({"user": "a"}),
        "an unknown key": _of({"user": "a"}, ("producer_bytes", 1.0)),
        "an empty key": _of({"user": "a"}, ("", 1.0)),
        "a key of addresses on a user": _of({"user": "a"}, ("connection_creation_rate", 5.0)),
        "a key of users on an address": _of({"ip": "127.0.0.1"}, _RATE),
        "a SCRAM credential": _of({"user": "a"}, ("SCRAM-SHA-256", 1.0)),
        "removing an unknown key": _of({"user": "a"}, ("producer_bytes", None)),
        "zero": _of({"user": "a"}, ("producer_byte_rate", 0.0)),
        "less than zero": _of({"user": "a"}, ("producer_byte_rate", -1.0)),
        "a fraction of a byte": _of({"user": "a"}, ("producer_byte_rate", 1024.5)),
        "almost a whole number": _of({"user": "a"}, ("consumer_byte_rate", 1024.0000001)),
        "a fraction of a percent": _of({"user": "a"}, ("request_percentage", 12.5)),
        "more than every thread": _of({"user": "a"}, ("request_percentage", 1e9)),
        "zero percent": _of({"user": "a"}, ("request_percentage", 0.0)),
        "a fraction of a mutation": _of({"user": "a"}, ("controller_mutation_rate", 0.25)),
        "a fraction of a connection": _of({"ip": "127.0.0.1"}, ("connection_creation_rate", 1.5)),
        "no connections": _of({"ip": "127.0.0.1"}, ("connection_creation_rate", 0.0)),
        "more connections than an int": _of({"ip": None}, ("connection_creation_rate", 2.0**32)),
        "more than a long": _of({"user": "a"}, ("producer_byte_rate", 1e30)),
        "no number": _of({"user": "a"}, ("producer_byte_rate", float("nan"))),
        "no number of percent": _of({"user": "a"}, ("request_percentage", float("nan"))),
        "without end": _of({"user": "a"}, ("request_percentage", float("inf"))),
        "an address by its name": _of({"ip": "localhost"}, ("connection_creation_rate", 5.0)),
        "no address": _of({"ip": "not an address"}, ("connection_creation_rate", 5.0)),
        "an address of IPv6": _of({"ip": "::1"}, ("connection_creation_rate", 5.0)),
        "a key twice": _of({"user": "a"}, _RATE, ("producer_byte_rate", 5.0)),
        "a type twice": lambda stage: alter(
            RequestEntryData([EntityData("user", "a"), EntityData("user", "b")], [OpData(*_RATE)]),
            validate_only=True,
        ),
        "the default of each": lambda stage: alter(
            entry({"user": None}, _RATE),
            entry({"client-id": None}, _RATE),
            entry({"user": None, "client-id": None}, _RATE),
            entry({"ip": None}, ("connection_creation_rate", 5.0)),
            validate_only=True,
        ),
        "one right, one wrong": lambda stage: alter(
            entry({"user": stage.name()}, _RATE),
            entry({"user": stage.name("y")}, ("nope", 1.0)),
            validate_only=True,
        ),
        "an entity twice": lambda stage: alter(
            entry({"user": stage.name()}, _RATE),
            entry({"user": stage.name()}, ("consumer_byte_rate", 5.0)),
            validate_only=True,
        ),
    }
)


@case("set, changed, removed")
def life(stage: Stage) -> None:
    """Quotas of a user and client are set, changed and removed; each step is read back."""
    user: Entity = {"user": stage.name("user"), "client-id": stage.name("client")}
    shown = ask(("user", EXACT, user["user"]), ("client-id", EXACT, user["client-id"]))
    for ops in (
        [_RATE, ("request_percentage", 12.5)],
        [("producer_byte_rate", 2048.0)],
        [("consumer_byte_rate", 1.0), ("producer_byte_rate", None)],
        [("controller_mutation_rate", 0.5), ("controller_mutation_rate", None)],
        [("request_percentage", None), ("consumer_byte_rate", None)],
        [("request_percentage", None)],
    ):
        stage.send(alter(entry(user, *ops)))
        stage.await_cluster_changes()
        stage.send(shown)


@case("validated, not set")
def validated(stage: Stage) -> None:
    """A validated quota is not set."""
    user: Entity = {"user": stage.name("user")}
    stage.send(alter(entry(user, _RATE), validate_only=True))
    stage.await_cluster_changes()
    stage.send(ask(("user", EXACT, user["user"])))


@case("some set, some not")
def some(stage: Stage) -> None:
    """A valid entity keeps its quota when another entity of the same request has an unknown
    quota."""
    right: Entity = {"user": stage.name("right")}
    wrong: Entity = {"user": stage.name("wrong")}
    stage.send(alter(entry(right, _RATE), entry(wrong, _RATE, ("nope", 1.0))))
    stage.await_cluster_changes()
    for each in (right, wrong):
        stage.send(ask(("user", EXACT, each["user"])))
    stage.send(alter(entry(right, ("producer_byte_rate", None))))
