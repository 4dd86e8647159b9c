"""Encodes replies: size, response header and body."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.codecs.api_keys import ApiKey, response_header_version
from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.primitives import Frame, Message
from kwire.requests.context import Context, InvalidFrame

if TYPE_CHECKING:
    from kwire.requests.in_steps import WrittenInSteps
    from kwire.requests.routes import Binding

log = logging.getLogger("kwire.network.connection")

_REPLY = struct.Struct(">ii")  # size, correlation id
_EMPTY_REPLY = b"\0\0\0\0\0\0\0\0"
_EMPTY_FLEXIBLE_REPLY = _EMPTY_REPLY + b"\0"  # a response header v1 ends with its tagged fields


class ReplyForm(NamedTuple):
    """The part of a Binding that a reply needs, for requests without a handler of their own."""

    write: Callable[[Frame, Any], None]
    flexible_response: bool


def form_of(response: Message, api_key: int, api_version: int) -> ReplyForm:
    flexible = response_header_version(api_key, api_version) >= 1
    return ReplyForm(response.WRITERS[api_version], flexible)


def encode_reply(form: ReplyForm | Binding, correlation_id: int, response: Message) -> Frame:
    """Return the reply as it is sent: size, response header and body."""
    frame = Frame()
    frame += _EMPTY_FLEXIBLE_REPLY if form.flexible_response else _EMPTY_REPLY
    form.write(frame, response)
    size_bytes = frame.wire_size if frame.regions else len(frame)
    _REPLY.pack_into(frame, 0, size_bytes - 4, correlation_id)
    return frame


async def encode_in_steps(binding: Binding, correlation_id: int, response: WrittenInSteps) -> Frame:
    """Return the reply like encode_reply; other tasks run while it is written."""
    frame = Frame()
    frame += _EMPTY_FLEXIBLE_REPLY if binding.flexible_response else _EMPTY_REPLY
    await response.write_in_steps(frame, binding.api_version)
    _REPLY.pack_into(frame, 0, frame.wire_size - 4, correlation_id)
    return frame


def unsupported_api_versions(correlation_id: int) -> Frame:
    """The reply to an ApiVersions request of an unknown version: an error, in version 0."""
    from kwire.requests.handlers.api_versions import unsupported_version

    response = unsupported_version()
    return encode_reply(form_of(response, ApiKey.API_VERSIONS, 0), correlation_id, response)


def failed(binding: Binding, context: Context) -> Message:
    """Return the response to a request whose handler raised, which is a defect; logs the exception.

    Call it in an `except` block.  Raises InvalidFrame if the response has no field for an error of
    the whole request.
    """
    name = ApiKey(binding.api_key).name
    log.exception(
        "unhandled error in %s v%d for client id %r on %s",
        name,
        binding.api_version,
        context.client_id,
        context.connection_id,
    )
    response = binding.response_class()
    if not put_error(response, ErrorCode.UNKNOWN_SERVER_ERROR):
        raise InvalidFrame(f"{name} v{binding.api_version} could not be answered") from None
    return response
