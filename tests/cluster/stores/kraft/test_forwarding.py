"""Requests of clients in envelopes to the controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.kraft.controllers import ControllerChannel
from kwire.cluster.stores.kraft.forwarding import (
    TIMEOUT_MS,
    Forwarding,
    NotForwarded,
    address_bytes,
    principal_bytes,
)
from kwire.codecs.api_keys import request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import Message
from kwire.requests.context import Context

REQUEST = CreateTopicsRequest([CreatableTopic("t", 3, 1)], timeout_ms=5000)
ANSWER = CreateTopicsResponse(throttle_time_ms=7, topics=[CreatableTopicResult("t", b"i" * 16)])


@dataclass
class Channel:
    """Answers each envelope by a function, and keeps the envelopes."""

    answer: Callable[[EnvelopeRequest], EnvelopeResponse]
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    envelopes: list[EnvelopeRequest] = field(default_factory=list)

    async def call(self, request: EnvelopeRequest, timeout_ms: float) -> EnvelopeResponse:
        assert timeout_ms == TIMEOUT_MS
        self.envelopes.append(request)
        return self.answer(request)


def forwarding(channel: Channel) -> Forwarding:
    return Forwarding(cast(ControllerChannel, channel))


def client(**given: Any) -> Context:  # noqa: ANN401 - fields of a context
    chosen = {"client_host": "127.0.0.1", "principal": "User:alice", "client_id": "c"} | given
    return Context("PLAINTEXT", connection_id="a:1-b:2-3", **chosen)


def answering(response: Message, version: int) -> Callable[[EnvelopeRequest], EnvelopeResponse]:
    """Answer with a response of that version, whose header has the request's correlation id."""

    def answer(envelope: EnvelopeRequest) -> EnvelopeResponse:
        header = RequestHeader.decode(envelope.request_data, 1)
        api_key = header.request_api_key
        head = ResponseHeader(header.correlation_id)
        data = head.encode(response_header_version(api_key, version)) + response.encode(version)
        return EnvelopeResponse(data)

    return answer


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_envelope_has_the_request_as_the_client_sent_it(version: int) -> None:
    channel = Channel(answering(ANSWER, version))
    await forwarding(channel).forward(REQUEST, version, client())
    [envelope] = channel.envelopes
    data = envelope.request_data
    header, position = RequestHeader.read(data, request_header_version(19, version))
    assert (header.request_api_key, header.request_api_version) == (19, version)
    assert header.client_id == "c"
    assert data[position:] == REQUEST.encode(version)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_answer_in_the_envelope_is_the_answer_to_the_client(version: int) -> None:
    answer = await forwarding(Channel(answering(ANSWER, version))).forward(
        REQUEST, version, client()
    )
    assert answer.encode(version) == ANSWER.encode(version)


async def test_client_without_an_id_has_none_in_the_envelope() -> None:
    channel = Channel(answering(ANSWER, 7))
    await forwarding(channel).forward(REQUEST, 7, client(client_id=None))
    header = RequestHeader.decode(channel.envelopes[0].request_data, 2)
    assert header.client_id is None


async def test_each_envelope_has_a_correlation_id_of_its_own() -> None:
    channel = Channel(answering(ANSWER, 7))
    sending = forwarding(channel)
    for _ in range(3):
        await sending.forward(REQUEST, 7, client())
    headers = [RequestHeader.decode(each.request_data, 2) for each in channel.envelopes]
    assert len({each.correlation_id for each in headers}) == 3


async def test_envelope_names_the_client_and_not_the_broker() -> None:
    channel = Channel(answering(ANSWER, 7))
    sender = client(principal="User:CN=a:b", by_token=True, client_host="::1")
    await forwarding(channel).forward(REQUEST, 7, sender)
    [envelope] = channel.envelopes
    assert envelope.request_principal == principal_bytes("User:CN=a:b", by_token=True)
    assert envelope.client_host_address == bytes(15) + b"\x01"


def test_principal_is_written_as_apache_kafka_writes_it() -> None:
    # A version, then the bytes of DefaultPrincipalData 0.
    assert principal_bytes("User:alice", by_token=False) == b"\0\0\x05User\x06alice\0\0"
    assert principal_bytes("User:CN=a:b", by_token=True) == b"\0\0\x05User\x07CN=a:b\x01\0"


@pytest.mark.parametrize(
    ("host", "as_bytes"),
    [
        ("10.0.0.1", b"\x0a\0\0\1"),
        ("::1", bytes(15) + b"\1"),
        ("::ffff:10.0.0.1", b"\x0a\0\0\1"),  # Java has no such IPv6 address
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
    ],
)
def test_address_of_a_client_has_the_bytes_that_java_has(host: str, as_bytes: bytes) -> None:
    assert address_bytes(host) == as_bytes


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (EnvelopeResponse(None, ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (
            EnvelopeResponse(None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (EnvelopeResponse(b"\0\0"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(bytes(6)), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_failed_envelope_says_what_the_client_is_told(
    answer: EnvelopeResponse, error: ErrorCode
) -> None:
    with pytest.raises(NotForwarded, match="CREATE_TOPICS v7") as raised:
        await forwarding(Channel(lambda _: answer)).forward(REQUEST, 7, client())
    assert raised.value.error is error


async def test_request_that_no_controller_answers_times_out() -> None:
    def fail(envelope: EnvelopeRequest) -> EnvelopeResponse:
        raise PeerError("the controllers", "no leader of them is known")

    with pytest.raises(NotForwarded, match="no leader") as raised:
        await forwarding(Channel(fail)).forward(REQUEST, 7, client())
    assert raised.value.error is ErrorCode.REQUEST_TIMED_OUT


async def test_answer_to_another_request_is_read_as_that_one() -> None:
    request = CreateAclsRequest([AclCreation(2, "t", 3, "User:b", "*", 3, 3)])
    answer = CreateAclsResponse()
    got = await forwarding(Channel(answering(answer, 3))).forward(request, 3, client())
    assert isinstance(got, CreateAclsResponse)
