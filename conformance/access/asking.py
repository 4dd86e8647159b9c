"""Sends requests as each sender, and extracts what the responses say about access."""

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
from kwire.conformance.wire.peer import Address, ClientConnection, Outcome, Reply

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
"""Apache Kafka prints the request with addresses and the hash of an object; both are removed."""
_NOT_REQUESTED = -(2**31)
NO_TOPIC_ID = bytes(16)
READY_TIMEOUT_S, POLL_S = 120.0, 0.05
_COORDINATED = ((0, GROUP, "heartbeat"), (1, TRANSACTION, "end_txn"))
"""Key type, key, and a request that the coordinator of the key answers."""

Response: TypeAlias = Any
Part: TypeAlias = Any
"""Any response, and any part of one; their classes differ by API key."""
Row = dict[str, str]
"""For each sender, what the response says about access."""


def connect(plain: Address, sasl: Address, sender: str) -> ClientConnection:
    """Return a new connection of that sender; an empty name connects to the listener without
    SASL."""
    if not sender:
        return ClientConnection(plain)
    peer = ClientConnection(sasl)
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


def ask(
    peer: ClientConnection, message: Message, version: int, *, answered: bool = True
) -> Outcome:
    """Send a request and return its outcome; `answered` is False if it has no response."""
    assert message.API_KEY is not None
    peer.send(message.API_KEY, version, message.encode(version), answered=answered)
    return peer.receive()


def create_acls(plain: Address, sasl: Address) -> None:
    """Create the ACL of each sender, once the broker accepts connections on both listeners."""
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
    assert not any(result.error_code for result in results), results
    peer.close()


def create_topic(plain: Address, sasl: Address) -> bytes:
    """Create the topic that requests name, and the coordinators' internal topics; return its topic
    id."""
    peer = connect(plain, sasl, ADMIN)
    reply = ask(peer, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 10_000), 7)
    topic_id: bytes = _message(reply).topics[0].topic_id
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not all(_is_ready(peer, *coordinated, topic_id) for coordinated in _COORDINATED):
        assert time.monotonic() < deadline, "the coordinators do not answer"
        time.sleep(POLL_S)
    peer.close()
    return topic_id


def create_token(plain: Address, sasl: Address) -> None:
    """Create a delegation token of the super user, and wait until the broker reports it."""
    peer = connect(plain, sasl, ADMIN)
    assert not _message(ask(peer, CreateDelegationTokenRequest(), 3)).error_code
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _message(ask(peer, DescribeDelegationTokenRequest(None), 3)).tokens:
        assert time.monotonic() < deadline, "the delegation token does not appear"
        time.sleep(POLL_S)
    peer.close()


def _is_ready(peer: ClientConnection, key_type: int, key: str, name: str, topic_id: bytes) -> bool:
    """Return whether the coordinator of this key exists and answers the request."""
    reply = ask(peer, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
    if _message(reply).coordinators[0].error_code:
        return False
    answer = access_text(ask(peer, request_of(name, 0, topic_id), 0))
    return "COORDINATOR" not in answer


def matrix(
    plain: Address,
    sasl: Address,
    requests: Mapping[str, range],
    request: Callable[[str, int], Message],
) -> Iterator[tuple[str, int, Row]]:
    """Yield each request in each version, with what each sender's response says about access."""
    peers = {sender: connect(plain, sasl, sender) for sender in SENDERS}
    for name, versions in requests.items():
        for version in versions:
            row = {}
            for sender in SENDERS:
                if not peers[sender].usable:
                    peers[sender] = connect(plain, sasl, sender)
                row[sender] = access_text(ask(peers[sender], request(name, version), version))
            yield name, version, row
    for peer in peers.values():
        peer.close()


def access_text(outcome: Outcome, topics: Mapping[bytes, str] | None = None) -> str:
    """Return what a response says about access, as one sorted line.

    `topics` gives names to topic ids, for requests whose response must not reveal some of them.
    """
    return "; ".join(access_lines(outcome, topics))


def access_lines(outcome: Outcome, topics: Mapping[bytes, str] | None = None) -> list[str]:
    """Return what a response says about access, one line for each thing that it names, sorted."""
    if not isinstance(outcome, Reply):
        return [type(outcome).__name__]
    if isinstance(outcome.message, ApiVersionsResponse):  # the names in it are features
        return [ErrorCode(outcome.message.error_code).name]
    return sorted(_lines(outcome.message, (), topics or {}))


def _lines(value: Part, within: tuple[str, ...], topics: Mapping[bytes, str]) -> Iterator[str]:
    """Yield a line for each part of a response that has a name, an error or a right.

    The line begins with the names of the parts around it, such as topic and partition.
    """
    if isinstance(value, list):
        for item in value:
            yield from _lines(item, within, topics)
        return
    if not is_dataclass(value):
        return
    names = tuple(_names(value, topics))
    within = (*within, *names)
    texts = [text for field in fields(value) if (text := _field(value, field.name))]
    if texts or names:
        yield " ".join(("/".join(within), *texts)).strip()
    for field in fields(value):
        yield from _lines(getattr(value, field.name), within, topics)


def _names(value: Part, topics: Mapping[bytes, str]) -> Iterator[str]:
    """Yield the names in this part of a response; a topic id is replaced by its topic's name."""
    for field in NAMES:
        if (name := getattr(value, field, None)) not in (None, ""):
            yield str(name)
    topic_id = getattr(value, "topic_id", None)
    if topics and topic_id not in (None, NO_TOPIC_ID):
        yield f"<{topics.get(topic_id, '?')}>"


def _field(value: Part, name: str) -> str:
    """Return the text of a field that says something about access; "" for all other fields."""
    content = getattr(value, name)
    if name.endswith("error_code"):
        return ErrorCode(content).name if content else ""
    if name == "error_message":
        return repr(_INSIDES.sub("Request needs", content)) if content else ""
    if name.endswith("authorized_operations"):
        return "" if content == _NOT_REQUESTED else f"{content:#x}"
    if name == "committed_offset":
        return f"at {content}" if content >= 0 else ""
    if name in ("records", "session_id"):
        return name if content else ""
    return ""
