"""WrittenInSteps: a response that is too long to be written without a pause for other tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.codecs.primitives import Frame


class WrittenInSteps(ABC):
    """A base class for responses that handlers return from an awaitable.

    Such a class is also one of the generated messages, so that guards and gates see its fields.
    """

    __slots__ = ()

    @abstractmethod
    async def write_in_steps(self, out: Frame, version: int) -> None:
        """Write the response in this version; other tasks run between the steps."""
