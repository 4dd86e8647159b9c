"""Every request and its answer, decoded, for whoever asked to see them.

`describe` turns a message into what JSON can say, `traces` keeps what each trace has seen.  No
clock and no socket in here: times are arguments.  kwire.server.network.controlled is where they are
told.
"""

from __future__ import annotations
