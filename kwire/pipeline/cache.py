"""The folder for what jobs keep between runs: jars that were resolved, classes that were read."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """kwire's folder in the user's cache directory (XDG_CACHE_HOME); it may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire")
