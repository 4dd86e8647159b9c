"""The HTTP control of a broker for tests in any language: `kwire serve --control PORT`.

`service` holds the state (faults, traces, clock, snapshots, forks), `api` handles requests,
`server` speaks HTTP on the loopback address, and `openapi` describes the API.  A broker without
--control imports nothing of this package.
"""

from __future__ import annotations
