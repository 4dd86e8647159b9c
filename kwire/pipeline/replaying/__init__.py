"""Replays: writes an archive's records back to topics, at full speed or a multiple of real time."""

from __future__ import annotations

from kwire.pipeline.replaying.replay_progress import Replayed
from kwire.pipeline.replaying.replay_settings import Range, Replay
from kwire.pipeline.replaying.run import replay

__all__ = ["Range", "Replay", "Replayed", "replay"]
