"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

C = TypeVar("C", bound=Callable[..., Any])


def with_options(command: C, options: Iterable[Callable[[Any], Any]]) -> C:
    """Add click's options and arguments to a command; its help lists them in this order."""
    for option in reversed([*options]):
        command = option(command)
    return command
