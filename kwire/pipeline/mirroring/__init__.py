"""Topics of one cluster kept the same in another, with the offsets of their groups."""

from __future__ import annotations

from kwire.pipeline.mirroring.asked import GroupState, Mirror, Mirrored, Rename
from kwire.pipeline.mirroring.run import Mirroring, mirror

__all__ = ["GroupState", "Mirror", "Mirrored", "Mirroring", "Rename", "mirror"]
