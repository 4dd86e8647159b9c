"""Measured connections of a broker under a test's control, which have no shortcuts."""

from __future__ import annotations

from kwire.server.network.controlled import ControlledConnection, ControlledTlsConnection
from kwire.server.network.measured import MeasuredPeer


class MeasuredControlledConnection(MeasuredPeer, ControlledConnection):
    """A plain connection; `control` is set before it runs."""


class MeasuredControlledTlsConnection(MeasuredPeer, ControlledTlsConnection):
    """A connection inside TLS; `control` is set before it runs."""
