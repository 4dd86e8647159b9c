"""Finds the places in which two trees of fields differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from kwire.testing.comparing.normal import Tree

ABSENT = "(nothing)"


class Difference(NamedTuple):
    """A place in which two trees differ: its path, as topics[0].error_code, and both values."""

    path: str
    left: Tree
    right: Tree


def differences(left: Tree, right: Tree, path: str = "") -> Iterator[Difference]:
    """The places where two trees differ, in the order of the fields."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = [*left, *(name for name in right if name not in left)]
        for name in names:
            below = f"{path}.{name}" if path else name
            yield from differences(left.get(name, ABSENT), right.get(name, ABSENT), below)
    elif isinstance(left, list) and isinstance(right, list):
        for index, (a, b) in enumerate(zip_longest(left, right, fillvalue=ABSENT)):
            yield from differences(a, b, f"{path}[{index}]")
    elif left != right or type(left) is not type(right):  # True == 1 in Python
        yield Difference(path, left, right)
