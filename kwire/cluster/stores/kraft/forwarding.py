"""Forwarding: requests of clients that only the controllers answer (KIP-590).

The broker sends such a request in an Envelope, with the client's principal, address and client id,
and gives the answer to the client as it is.  The controllers check the client's rights; they trust
the broker, whose own right is CLUSTER_ACTION.

The client's correlation id stays here: the broker writes it into the client's answer, so the
controllers get a number of this broker.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.cluster.peers.error import PeerError
from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import response_class
from kwire.codecs.messages.default_principal_data import DefaultPrincipalData
from kwire.codecs.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError

if TYPE_CHECKING:
    from kwire.cluster.stores.kraft.controllers import ControllerChannel
    from kwire.codecs.primitives import Message

TIMEOUT_MS: Final = 60_000
"""How long a request waits for a controller, as on Apache Kafka."""

_PRINCIPAL_VERSION: Final = 0


class RequestSender(Protocol):
    """The client that sent a request: `kwire.requests.context.Context` is one."""

    @property
    def principal(self) -> str:
        """Such as `User:alice`."""

    @property
    def by_token(self) -> bool:
        """Whether it authenticated with a delegation token."""

    @property
    def client_host(self) -> str:
        """Its IP address."""

    @property
    def client_id(self) -> str | None:
        """From the header of the request."""


class NotForwarded(Exception):
    """No controller has answered the request as such; `error` is the client's."""

    def __init__(self, error: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.error = error


class Forwarding:
    """See the module."""

    def __init__(self, channel: ControllerChannel, timeout_ms: int = TIMEOUT_MS) -> None:
        """`channel` is for forwarded requests only."""
        self._channel = channel
        self._timeout_ms = timeout_ms
        self._next_correlation_id = 0

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The versions of each API key that the controllers serve.

        Empty before the first forwarded request: then they are not known.
        """
        return self._channel.versions

    async def forward(self, request: Message, version: int, sender: RequestSender) -> Any:  # noqa: ANN401 - the request's
        """Return the controllers' answer to a client's request in that version.

        Raises NotForwarded; its error is UNSUPPORTED_VERSION if the controllers do not know this
        version, REQUEST_TIMED_OUT if none answers in time, and otherwise UNKNOWN_SERVER_ERROR.
        """
        assert request.API_KEY is not None
        api_key = request.API_KEY
        self._next_correlation_id = self._next_correlation_id + 1 & 0x7FFFFFFF
        envelope = EnvelopeRequest(
            request_data=_framed(request, version, self._next_correlation_id, sender.client_id),
            request_principal=principal_bytes(sender.principal, by_token=sender.by_token),
            client_host_address=address_bytes(sender.client_host),
        )
        try:
            answer: EnvelopeResponse = await self._channel.call(envelope, self._timeout_ms)
        except PeerError as error:
            raise NotForwarded(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        name = ApiKey(api_key).name
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise NotForwarded(
                ErrorCode.UNSUPPORTED_VERSION, f"the controllers do not serve {name} v{version}"
            )
        if answer.error_code or answer.response_data is None:
            raise NotForwarded(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the controllers answer {name} v{version} with error {answer.error_code}",
            )
        return _unframed(answer.response_data, api_key, version)


def principal_bytes(principal: str, *, by_token: bool) -> bytes:
    """Return a principal such as `User:alice` as Apache Kafka's default class serialises it."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(kind, name, by_token)
    return _PRINCIPAL_VERSION.to_bytes(2) + data.encode(_PRINCIPAL_VERSION)


def address_bytes(host: str) -> bytes:
    """Return an IP address as the 4 or 16 bytes that Java has of it, without a zone."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).packed


def _framed(request: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its header, as a client sends it after its size."""
    assert request.API_KEY is not None
    header = RequestHeader(request.API_KEY, version, correlation_id, client_id)
    header_version = request_header_version(request.API_KEY, version)
    return header.encode(header_version) + request.encode(version)


def _unframed(data: bytes, api_key: int, version: int) -> Any:  # noqa: ANN401 - the API key's
    """Return the response in a whole response with its header.

    Raises NotForwarded if it is none.
    """
    try:
        _, position = ResponseHeader.read(data, response_header_version(api_key, version))
        return response_class(api_key).decode(data, version, position)
    except DecodeError as error:
        raise NotForwarded(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the controllers' answer to {ApiKey(api_key).name} v{version} cannot be read: {error}",
        ) from error
