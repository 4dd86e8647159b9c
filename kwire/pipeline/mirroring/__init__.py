"""Topics of one cluster kept the same in another, with the offsets of their groups."""

from __future__ import annotations

from kwire.pipeline.mirroring.mirror_progress import GroupState, Mirrored
from kwire.pipeline.mirroring.mirror_settings import Mirror, Rename
from kwire.pipeline.mirroring.run import Mirroring, mirror

__all__ = ["GroupState", "Mirror", "Mirrored", "Mirroring", "Rename", "mirror"]
