"""An archive's records back into topics, at full speed or at a multiple of the original pace."""

from __future__ import annotations

from kwire.pipeline.replaying.replay_progress import Replayed
from kwire.pipeline.replaying.replay_settings import Range, Replay
from kwire.pipeline.replaying.run import replay

__all__ = ["Range", "Replay", "Replayed", "replay"]
