"""Cases of every API key: default fields, messages that are too short or too long."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import request_class
from kwire.codecs.messages.produce import ProduceRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.turns import in_turn
from kwire.conformance.wire.stage import NotApplicable, Stage

VERSION_OF_NOBODY = 1000
UNKNOWN_TAG = bytes.fromhex("01 63 02 ab cd")  # one tagged field: tag 99, two bytes

CHANGES_EVERYTHING: frozenset[ApiKey] = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,  # authenticates nobody on a plain listener
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
"""These keys only have cases of their own: default fields could change the broker."""

BY_SUBSCRIPTIONS = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""The responses to these keys change while another case has a client metrics subscription."""


def _empty_body(stage: Stage) -> bytes:
    """Encode the request with all fields at their defaults; Produce has acks=1 for a response."""
    request = request_class(int(stage.api_key))()
    if isinstance(request, ProduceRequest):
        request.acks = 1
    return request.encode(stage.version)


def defaults(stage: Stage) -> None:
    """All fields have their defaults: empty lists, empty strings, zeros."""
    stage.send_bytes(_empty_body(stage))


def no_client_id(stage: Stage) -> None:
    """The header's client id is null."""
    stage.send_bytes(_empty_body(stage), client_id=None)


def odd_client_ids(stage: Stage) -> None:
    """The header's client id is empty, long, or has unusual characters."""
    for client_id in ("", "c" * 3000, "caf\u00e9 \U00010348", "a/b c"):
        stage.send_bytes(_empty_body(stage), client_id=client_id)


def bytes_after(stage: Stage) -> None:
    """Two bytes follow the message; the connection is used again."""
    stage.send_bytes(_empty_body(stage) + b"\0\0")
    stage.send_bytes(_empty_body(stage))


def cut_short(stage: Stage) -> None:
    """The last byte of the message is missing."""
    body = _empty_body(stage)
    if not body:
        raise NotApplicable
    stage.send_bytes(body[:-1])


def unknown_tag(stage: Stage) -> None:
    """An unknown tagged field must be skipped."""
    flexible_since = request_class(int(stage.api_key)).FLEXIBLE_SINCE
    if flexible_since is None or stage.version < flexible_since:
        raise NotApplicable
    stage.send_bytes(_empty_body(stage)[:-1] + UNKNOWN_TAG)


def unknown_version(stage: Stage) -> None:
    """A version that does not exist; sent once, when the lowest version is played."""
    if stage.version != stage.broker.served[stage.api_key][0] or stage.api_key == 18:
        raise NotApplicable
    stage.send_bytes(b"\0" * 8, VERSION_OF_NOBODY)


_PLAYS = {
    "every field at its default": defaults,
    "null client id": no_client_id,
    "client ids that are odd": odd_client_ids,
    "bytes after the message": bytes_after,
    "message cut short": cut_short,
    "unknown tagged field": unknown_tag,
    "a version that does not exist": unknown_version,
}


def cases_of(key: ApiKey) -> Cases:
    """Return the cases of one key."""
    case = Cases(key)
    if key in CHANGES_EVERYTHING:
        return case
    take = in_turn if key in BY_SUBSCRIPTIONS else lambda play: play
    for name, play in _PLAYS.items():
        case(name)(take(play))
    return case
