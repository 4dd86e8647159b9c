"""Reads a trace's file, one JSON event per line, into requests to send and responses to compare.

The head of kwire.testing.hooks.tracing.traces documents the fields of an event.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kwire.codecs.api_keys import ApiKey, request_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES, request_class, response_class
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import DecodeError, Message

KINDS: Final = {int: "a number", float: "a number", str: "text", dict: "an object"}
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)


class DamagedTrace(ValueError):
    """The file is not a trace that can be replayed; the message names the line and the problem."""


@dataclass(slots=True)
class Recorded:
    """One request of a trace, and its response."""

    line: int
    number: int
    broker: int | None
    """Id of the broker; None in traces without broker ids, which are of a single broker."""
    connection: str
    client: str | None
    api: str
    version: int
    time_ms: int
    duration_ms: float
    begun: int
    ended: int
    header: bytes
    """The bytes of the request header, which precede the body."""
    body: bytes
    request: Message
    response: Message | None
    unsent: str | None
    """Why it cannot be sent again, if so."""
    uncompared: str | None
    """Why its answer cannot be compared, if so."""

    @property
    def answered(self) -> bool:
        """Whether the protocol has an answer for it: all but Produce with acks=0."""
        return self.request.API_KEY != ApiKey.PRODUCE or getattr(self.request, "acks", 1) != 0

    def __str__(self) -> str:
        where = "" if self.broker is None else f" at broker {self.broker}"
        return f"line {self.line}, {self.api} v{self.version} of {self.client or 'nobody'}{where}"


def read_recording(path: Path) -> list[Recorded]:
    """The requests of a trace, in the order in which they came.

    Raises DamagedTrace, and OSError where the file cannot be read.
    """
    found: list[Recorded] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                found.append(_read_line(number, line))
            except _Damaged as why:
                raise DamagedTrace(f"{path}, line {number}: {why}") from None
    if not found:
        raise DamagedTrace(f"{path} holds no requests")
    _check_places(path, found)
    return sorted(found, key=lambda each: (each.begun, each.broker or 0))


class _Damaged(Exception):
    """A line is damaged; the message says how."""


def _check_places(path: Path, found: list[Recorded]) -> None:
    """Check that the numbers and positions of each broker are unique.  Raises DamagedTrace."""
    seen: dict[tuple[int | None, str, int], int] = {}
    for each in found:
        if each.begun >= each.ended:
            raise DamagedTrace(f"{path}, line {each.line}: it ended before it began")
        for what, value in (
            ("number", each.number), ("place", each.begun), ("place", each.ended),
        ):  # fmt: skip
            other = seen.setdefault((each.broker, what, value), each.line)
            if other != each.line:
                raise DamagedTrace(
                    f"{path}, line {each.line}: it has the {what} {value} of line {other}: "
                    "does the file hold two traces?"
                )


def _read_line(number: int, line: bytes) -> Recorded:
    """Parses one line of a trace.  Raises _Damaged if a field is missing or wrong, or if the trace
    was taken without bytes."""
    event = _event(line)
    withheld = _field(event, "withheld", dict, {})
    if "requestBytes" not in event and "request" not in withheld:
        raise _Damaged("it has no requestBytes: take the trace with --bytes, or keep_bytes=True")
    api_key = _api_key(_field(event, "api", str))
    version = _field(event, "version", int)
    header, body, request = _request(event, api_key, version)
    response = _response(event, api_key, version)
    ending = _field(event, "ending", str, "")
    return Recorded(
        line=number,
        number=_field(event, "number", int),
        broker=_field(event, "broker", int) if "broker" in event else None,
        connection=_field(event, "connection", str),
        client=event.get("client"),
        api=event["api"],
        version=version,
        time_ms=_field(event, "timeMs", int),
        duration_ms=_field(event, "durationMs", float),
        begun=_field(event, "begun", int),
        ended=_field(event, "ended", int),
        header=header,
        body=body,
        request=request,
        response=response,
        unsent=withheld.get("request") or _never_came(event, response, ending),
        uncompared=withheld.get("response") or _nothing_kept(response, ending),
    )


def _never_came(event: Mapping[str, Any], response: Message | None, ending: str) -> str | None:
    """Why the request is not sent: a fault ended it before it was carried out, or None."""
    ended_by_fault = "fault" in event and response is None and ending
    return f"a fault kept it from being carried out ({ending})" if ended_by_fault else None


def _nothing_kept(response: Message | None, ending: str) -> str | None:
    return f"there was no answer ({ending})" if ending and response is None else None


def _event(line: bytes) -> Mapping[str, Any]:
    """Parses a line as a JSON object.  Raises _Damaged if it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise _Damaged(f"it is not JSON: {problem}") from None
    if not isinstance(event, dict):
        raise _Damaged("it is not an event, which is a JSON object")
    return event


_MISSING: Final = object()


def _field(event: Mapping[str, Any], name: str, kind: type, default: object = _MISSING) -> Any:  # noqa: ANN401 - of that kind
    """Return a field of an event, or `default` if it is missing.  Raises _Damaged if it is
    required and missing, or is not of the type `kind`."""
    value = event.get(name, default)
    if value is _MISSING:
        raise _Damaged(f"it has no {name}")
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _Damaged(f"{name} must be {KINDS[kind]}, not {value!r}")
    return value


def _api_key(name: str) -> ApiKey:
    """Return the API key by its name in Kafka's protocol.  Raises _Damaged for an unknown name."""
    for key in ApiKey:
        if name == API_NAMES[key]:
            return key
    raise _Damaged(f"there is no request {name!r}")


def _bytes(event: Mapping[str, Any], name: str) -> bytes:
    """Decodes a field with base64.  Raises _Damaged if it is none."""
    try:
        return base64.b64decode(_field(event, name, str), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise _Damaged(f"{name} is not base64: {problem}") from None


def _request(
    event: Mapping[str, Any], api_key: ApiKey, version: int
) -> tuple[bytes, bytes, Message]:
    """Return the header bytes, the body bytes and the decoded request of an event.  All are empty
    if the trace withheld the bytes."""
    kind = request_class(api_key)
    if "requestBytes" not in event:
        return b"", b"", kind()
    data = _bytes(event, "requestBytes")
    try:
        header, start = RequestHeader.read(data, request_header_version(api_key, version))
        request, _ = kind.read(data, version, start)
    except DecodeError as problem:
        raise _Damaged(f"requestBytes cannot be read: {problem}") from None
    if (header.request_api_key, header.request_api_version) != (api_key, version):
        raise _Damaged(f"requestBytes are not {event['api']} v{version}")
    return data[:start], data[start:], request


def _response(event: Mapping[str, Any], api_key: ApiKey, version: int) -> Message | None:
    """Return the decoded response of an event, or None if the event has no bytes of it."""
    if "responseBytes" not in event:
        return None
    try:
        return read_response(_bytes(event, "responseBytes"), 0, api_key, version)
    except DecodeError as problem:
        raise _Damaged(f"responseBytes cannot be read: {problem}") from None


def read_response(data: bytes | bytearray, start: int, api_key: int, version: int) -> Message:
    """Decode the response message that begins at `start`.  Raises DecodeError."""
    unsupported = data[start : start + 2] == _UNSUPPORTED_VERSION
    if api_key == ApiKey.API_VERSIONS and unsupported:
        version = 0  # brokers refuse a too new ApiVersions in version 0 (KIP-511)
    message, end = response_class(api_key).read(data, version, start)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the message")
    return message
