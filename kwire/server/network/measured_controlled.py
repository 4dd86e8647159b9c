"""Measured connections of a broker under a test's control, which have no shortcuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.server.network.controlled import ControlledConnection, ControlledTlsConnection
from kwire.server.network.measured import MeasuredPeer

if TYPE_CHECKING:
    from kwire.codecs.primitives import Message
    from kwire.requests.routes import Binding
    from kwire.server.network.connection import Outcome


class _MeasuredFaults(MeasuredPeer):
    """The base of both: a fault may call the handler later, or never."""

    def _handle(
        self, binding: Binding, correlation_id: int, request: Message, frame: memoryview
    ) -> Outcome:
        """As Connection._handle; chooses the counts for the request before a fault delays it."""
        self._counts_of(binding, request)
        return super()._handle(binding, correlation_id, request, frame)


class MeasuredControlledConnection(_MeasuredFaults, ControlledConnection):
    """A plain connection; `control` is set before it runs."""


class MeasuredControlledTlsConnection(_MeasuredFaults, ControlledTlsConnection):
    """A connection inside TLS; `control` is set before it runs."""
