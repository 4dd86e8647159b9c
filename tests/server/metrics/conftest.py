"""Fixtures with brokers for the tests of metrics: those of the tests of handlers."""

from __future__ import annotations

from tests.requests.handlers.conftest import make_node, node

__all__ = ["make_node", "node"]
