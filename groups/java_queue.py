"""Java's PriorityQueue, with its order of equal items: clients can see that order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap that sifts like Java's.

    The weight of an item must not change while the item is in the queue.
    """

    __slots__ = ("_items", "_weight")

    def __init__(self, weight: Callable[[T], float], items: Iterable[T] = ()) -> None:
        self._weight = weight
        self._items: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        """Add an item; it goes behind items of equal weight on its path to the root."""
        items, weight = self._items, self._weight(item)
        items.append(item)
        place = len(items) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if weight >= self._weight(items[parent]):
                break
            items[place] = items[parent]
            place = parent
        items[place] = item

    def poll(self) -> T | None:
        """Remove and return an item of the lowest weight, or None if the queue is empty."""
        items = self._items
        if not items:
            return None
        first, last = items[0], items.pop()
        if items:
            self._sift_down(last)
        return first

    def _sift_down(self, item: T) -> None:
        """Put `item` at the root, and move it down until no child is lighter."""
        items, weight = self._items, self._weight(item)
        place, half = 0, len(items) >> 1
        while place < half:
            child = 2 * place + 1
            right = child + 1
            if right < len(items) and self._weight(items[child]) > self._weight(items[right]):
                child = right
            if weight <= self._weight(items[child]):
                break
            items[place] = items[child]
            place = child
        items[place] = item
