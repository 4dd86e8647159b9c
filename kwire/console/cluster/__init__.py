"""What the pages show of a cluster, as dataclasses out of kwire.client: sync code without HTTP.

Each module is about one kind of thing and has functions that take a `Cluster`.  They raise
ClientError, whose message can be shown.
"""

from __future__ import annotations
