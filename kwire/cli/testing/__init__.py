"""Commands that control a broker started with `--control`, for tests."""

from __future__ import annotations
