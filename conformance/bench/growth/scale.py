"""What a scale is: something of which a broker has more and more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar

from kwire.conformance.bench.brokers import BenchBroker

Step = Callable[[], int]
"""Sends requests, checks their responses, and returns the number of measured requests."""
Steps = dict[str, Step]
"""The measured requests by name."""


class Scale(ABC):
    """Something that grows, and the requests whose cost should not grow with it."""

    key: ClassVar[str]
    title: ClassVar[str]
    """The heading of the report, with `{}` for the size."""
    full: ClassVar[int]
    """The full size."""
    is_stored: ClassVar[bool] = True
    """Whether it survives a restart, so that the start is measured too."""

    @abstractmethod
    def build(self, broker: BenchBroker, size: int) -> None:
        """Create what is stored at this size."""

    @abstractmethod
    def opened(self, broker: BenchBroker, size: int) -> AbstractContextManager[Steps]:
        """Connect to the broker; the block gets the measured requests."""

    def wait_until_served(self, broker: BenchBroker, size: int) -> None:
        """Wait after a restart until everything is served; by default, until each step succeeds
        once."""
        with self.opened(broker, size) as steps:
            for step in steps.values():
                step()
