"""Asking a broker as each of the senders, and what its answers say of access."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsResponse
from kwire.codecs.messages.create_acls import CreateAclsRequest
from kwire.codecs.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import Message
from kwire.conformance.access.requests import GROUP, TOPIC, TRANSACTION, request_of
from kwire.conformance.access.senders import ADMIN, RIGHTS, SENDERS
from kwire.conformance.wire.peer import Address, Outcome, Peer, Reply

NAMES = (
    "principal_name",
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "resource_name",
    "key",
)
_INSIDES = re.compile(r"^Request .*needs", re.DOTALL)
"""Apache Kafka prints the request, with addresses and the hash of an object."""
_NOT_ASKED = -(2**31)
NO_TOPIC_ID = bytes(16)
READY_TIMEOUT_S, POLL_S = 120.0, 0.05
_COORDINATED = ((0, GROUP, "heartbeat"), (1, TRANSACTION, "end_txn"))
"""Kind of key, a key, and a request that its coordinator answers."""

Response: TypeAlias = Any
Part: TypeAlias = Any
"""Any response, and any part of one."""
Row = dict[str, str]
"""Sender to what is told."""


def connect(plain: Address, sasl: Address, sender: str) -> Peer:
    """A connection of that sender's own."""
    if not sender:
        return Peer(plain)
    peer = Peer(sasl)
    for message, version in (
        (SaslHandshakeRequest("PLAIN"), 1),
        (SaslAuthenticateRequest(f"\0{sender}\0{sender}".encode()), 2),
    ):
        reply = ask(peer, message, version)
        assert not _message(reply).error_code, reply
    return peer


def _message(outcome: Outcome) -> Response:
    assert isinstance(outcome, Reply), outcome
    return outcome.message


def ask(peer: Peer, message: Message, version: int, *, answered: bool = True) -> Outcome:
    assert message.API_KEY is not None
    peer.send(message.API_KEY, version, message.encode(version), answered=answered)
    return peer.receive()


def give_rights(plain: Address, sasl: Address) -> None:
    """Have each sender have its right, as soon as the broker listens by all its listeners."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            peer = connect(plain, sasl, ADMIN)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "the broker does not listen"
            time.sleep(POLL_S)
    reply = ask(peer, CreateAclsRequest([right.acl() for right in RIGHTS]), 3)
    results = _message(reply).results
    assert not any(each.error_code for each in results), results
    peer.close()


def make_topic(plain: Address, sasl: Address) -> bytes:
    """Make the topic that is asked about, and the coordinators' topics; its id."""
    peer = connect(plain, sasl, ADMIN)
    reply = ask(peer, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 10_000), 7)
    topic_id: bytes = _message(reply).topics[0].topic_id
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not all(_is_ready(peer, *asked, topic_id) for asked in _COORDINATED):
        assert time.monotonic() < deadline, "the coordinators do not answer"
        time.sleep(POLL_S)
    peer.close()
    return topic_id


def make_token(plain: Address, sasl: Address) -> None:
    """Have the super user have a delegation token, as soon as all of the broker knows of it."""
    peer = connect(plain, sasl, ADMIN)
    assert not _message(ask(peer, CreateDelegationTokenRequest(), 3)).error_code
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _message(ask(peer, DescribeDelegationTokenRequest(None), 3)).tokens:
        assert time.monotonic() < deadline, "the delegation token does not appear"
        time.sleep(POLL_S)
    peer.close()


def _is_ready(peer: Peer, key_type: int, key: str, name: str, topic_id: bytes) -> bool:
    found = ask(peer, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
    if _message(found).coordinators[0].error_code:
        return False
    answer = told(ask(peer, request_of(name, 0, topic_id), 0))
    return "COORDINATOR" not in answer


def matrix(
    plain: Address,
    sasl: Address,
    asked: Mapping[str, range],
    request: Callable[[str, int], Message],
) -> Iterator[tuple[str, int, Row]]:
    """Each request in each version, and what each sender was told."""
    peers = {sender: connect(plain, sasl, sender) for sender in SENDERS}
    for name, versions in asked.items():
        for version in versions:
            row = {}
            for sender in SENDERS:
                if not peers[sender].usable:
                    peers[sender] = connect(plain, sasl, sender)
                row[sender] = told(ask(peers[sender], request(name, version), version))
            yield name, version, row
    for peer in peers.values():
        peer.close()


def told(outcome: Outcome, topics: Mapping[bytes, str] | None = None) -> str:
    """What an answer says of access, in an order of its own.

    `topics` are names for topic ids, where it matters which are told.
    """
    return "; ".join(told_of_each(outcome, topics))


def told_of_each(outcome: Outcome, topics: Mapping[bytes, str] | None = None) -> list[str]:
    """What an answer says of each thing that it names."""
    if not isinstance(outcome, Reply):
        return [type(outcome).__name__]
    if isinstance(outcome.message, ApiVersionsResponse):  # its names are those of features
        return [ErrorCode(outcome.message.error_code).name]
    return sorted(_said(outcome.message, (), topics or {}))


def _said(value: Part, within: tuple[str, ...], topics: Mapping[bytes, str]) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _said(each, within, topics)
        return
    if not is_dataclass(value):
        return
    names = tuple(_names(value, topics))
    within = (*within, *names)
    said = [text for field in fields(value) if (text := _field(value, field.name))]
    if said or names:
        yield " ".join(("/".join(within), *said)).strip()
    for field in fields(value):
        yield from _said(getattr(value, field.name), within, topics)


def _names(value: Part, topics: Mapping[bytes, str]) -> Iterator[str]:
    for field in NAMES:
        if (name := getattr(value, field, None)) not in (None, ""):
            yield str(name)
    topic_id = getattr(value, "topic_id", None)
    if topics and topic_id not in (None, NO_TOPIC_ID):
        yield f"<{topics.get(topic_id, '?')}>"


def _field(value: Part, name: str) -> str:
    found = getattr(value, name)
    if name.endswith("error_code"):
        return ErrorCode(found).name if found else ""
    if name == "error_message":
        return repr(_INSIDES.sub("Request needs", found)) if found else ""
    if name.endswith("authorized_operations"):
        return "" if found == _NOT_ASKED else f"{found:#x}"
    if name == "committed_offset":
        return f"at {found}" if found >= 0 else ""
    if name in ("records", "session_id"):
        return name if found else ""
    return ""
