"""Mirrors: copies topics of one cluster to another, with the offsets of their consumer groups."""

from __future__ import annotations

from kwire.pipeline.mirroring.mirror_progress import GroupState, Mirrored
from kwire.pipeline.mirroring.mirror_settings import Mirror, Rename
from kwire.pipeline.mirroring.run import Mirroring, mirror

__all__ = ["GroupState", "Mirror", "Mirrored", "Mirroring", "Rename", "mirror"]
