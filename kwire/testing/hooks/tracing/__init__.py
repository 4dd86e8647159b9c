"""Traces: decoded requests and responses of a broker, recorded for tests.

`describe` converts a message to JSON, and `traces` keeps the events of each trace.  Nothing in here
reads a clock or a socket: times are arguments.  The caller is kwire.server.network.controlled.
"""

from __future__ import annotations
