"""Runs a blocking function in a thread, on trio and on asyncio."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def in_thread(function: Callable[[], R]) -> R:
    """Run `function` in a thread of the running event loop; returns its result."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        result: R = await trio.to_thread.run_sync(function)
        return result
    import asyncio

    return await asyncio.to_thread(function)
