"""Commands on what a broker that was started with `--control` offers to tests."""

from __future__ import annotations
