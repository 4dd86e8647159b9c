"""Waiting in a thread, whichever loop runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def in_thread(function: Callable[[], R]) -> R:
    """What `function` returns, on trio or asyncio."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        done: R = await trio.to_thread.run_sync(function)
        return done
    import asyncio

    return await asyncio.to_thread(function)
