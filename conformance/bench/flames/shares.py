"""What each function's share of the samples is, from the stacks that py-spy counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

SHOWN = 12
"""Functions of a row that a table shows, those with the largest shares of their own."""
FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)")


class Share(NamedTuple):
    """A function's part of all samples: itself, and with all that it calls."""

    function: str
    own: float
    total: float


def of_stacks(raw: str) -> list[Share]:
    """Return the shares of all functions, the largest of their own first.

    `raw` has a line for each stack, outermost frame first: frames with `;` between, then a space
    and the number of samples.  A function that calls itself counts once in a stack.
    Raises ValueError for a line of another form.
    """
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdigit():
            raise ValueError(f"not a stack with its number of samples: {line!r}")
        functions = [_name(frame) for frame in stack.split(";")]
        samples += int(count)
        own[functions[-1]] += int(count)
        for function in set(functions):
            total[function] += int(count)
    shares = [Share(name, own[name] / samples, total[name] / samples) for name in total]
    return sorted(shares, key=lambda share: (-share.own, -share.total, share.function))


def _name(frame: str) -> str:
    """Return a frame as the last two parts of its file's path and the function."""
    if (found := FRAME.fullmatch(frame.strip())) is None:
        return frame.strip()
    return f"{'/'.join(found['file'].split('/')[-2:])} {found['function']}"


def table(title: str, shares: Sequence[Share]) -> str:
    """Return a row's section in Markdown, with the largest shares."""
    lines = [f"## {title}", "", "| function | self | total |", "| --- | ---: | ---: |"]
    lines += [
        f"| {share.function.replace('<', '&lt;')} | {share.own:.1%} | {share.total:.1%} |"
        for share in shares[:SHOWN]
    ]
    return "\n".join(lines) + "\n"
