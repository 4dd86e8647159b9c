"""Replies as they go out: size, response header, body."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Frame, Message
from kwire.context import Context, InvalidFrame

if TYPE_CHECKING:
    from kwire.routes import Binding

log = logging.getLogger("kwire.network.connection")

_REPLY = struct.Struct(">ii")  # size, correlation id
_EMPTY_REPLY = b"\0\0\0\0\0\0\0\0"
_EMPTY_FLEXIBLE_REPLY = _EMPTY_REPLY + b"\0"  # a response header v1 ends with its tagged fields


def encode_reply(binding: Binding, correlation_id: int, response: Message) -> Frame:
    """The whole reply: size, response header, body."""
    frame = Frame()
    frame += _EMPTY_FLEXIBLE_REPLY if binding.flexible_response else _EMPTY_REPLY
    binding.write(frame, response)
    size_bytes = frame.wire_size if frame.regions else len(frame)
    _REPLY.pack_into(frame, 0, size_bytes - 4, correlation_id)
    return frame


def unsupported_api_versions(correlation_id: int) -> Frame:
    """What an ApiVersions of a version from the future is answered."""
    from kwire.handlers.api_versions import unsupported_version

    frame = Frame()
    frame += _EMPTY_REPLY
    unsupported_version().write(frame, 0)
    _REPLY.pack_into(frame, 0, len(frame) - 4, correlation_id)
    return frame


def failed(binding: Binding, context: Context) -> Message:
    """A handler failed: a defect of ours.  Tell it in the log and, if it can be, the client.

    To be called where the exception is handled.  Raises InvalidFrame where the response has no
    place for an error of the whole request.
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
    if not hasattr(response, "error_code"):
        raise InvalidFrame(f"{name} v{binding.api_version} could not be answered") from None
    # Not every response has the field, so the type checker cannot be asked.
    setattr(response, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)  # noqa: B010 - see above
    return response
