"""An archive's records back into topics, at full speed or at a multiple of the original pace."""

from __future__ import annotations

from kwire.pipeline.replaying.asked import Range, Replay, Replayed
from kwire.pipeline.replaying.run import replay

__all__ = ["Range", "Replay", "Replayed", "replay"]
