"""Faults that a test asks for: which requests they befall, and what becomes of those.

`rules` reads what is asked for, `machine` decides, request by request, and keeps what happened;
`parts` knows which topics and partitions a request names, and `refusing` answers some of them with
an error while the others are served.  No clock, no socket, no chance of its own in here: they are
arguments.  kwire.server.network.controlled is where connections ask.
"""

from __future__ import annotations
