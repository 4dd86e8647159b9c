"""The topics of a Metadata response as bytes, for responses with thousands of topics.

To write 10,000 topics takes some 30 ms, and each client that asks for all topics gets the same
bytes.  So a view keeps them, in blocks of neighbouring names.  A change of a topic makes one block
stale.  `write_block` writes one stale block; the caller lets other tasks run between two of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from kwire.codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from kwire.codecs.primitives import Frame, put_varint

PARTITIONS_AT_ONCE = 250
"""Partitions in a block, some 0.7 ms of work for topics of one partition; more if a topic has more.
"""

FindTopic = Callable[[str], MetadataResponseTopic | None]
"""Returns a topic's part of the response by the topic's name."""


class _Layout(NamedTuple):
    """The sizes of what is around the topics in one version, in bytes.

    before   the fields before the count of topics, without brokers and cluster id
    empty    the count of no topics
    after    the fields behind the topics
    """

    before: int
    empty: int
    after: int


def _written(topics: list[MetadataResponseTopic], version: int) -> Frame:
    frame = Frame()
    MetadataResponse.WRITERS[version](frame, MetadataResponse(topics=topics))
    return frame


@cache
def _layout(version: int) -> _Layout:
    """Find the layout: with one topic more, the last byte of the count is the first to differ."""
    none, one = _written([], version), _written([MetadataResponseTopic()], version)
    last = next(at for at, (a, b) in enumerate(zip(none, one, strict=False)) if a != b)
    empty = len(_count(0, version))
    return _Layout(last + 1 - empty, empty, len(none) - last - 1)


def _count(topics: int, version: int) -> bytes | bytearray:
    """Return the count of an array with so many elements."""
    flexible = MetadataResponse.FLEXIBLE_SINCE
    if flexible is None or version < flexible:
        return topics.to_bytes(4)
    frame = Frame()
    put_varint(frame, topics + 1)
    return frame


class Block(NamedTuple):
    """The bytes of some topics in a response, and their number."""

    data: memoryview
    topics: int


def block_of(topics: list[MetadataResponseTopic], version: int) -> Block:
    """Write these topics as they are in a response of that version."""
    layout, frame = _layout(version), _written(topics, version)
    start = layout.before + len(_count(len(topics), version))
    return Block(memoryview(frame)[start : len(frame) - layout.after], len(topics))


def write_around(
    out: Frame, response: MetadataResponse, blocks: Sequence[Block], version: int
) -> None:
    """Write a response whose topics are in `blocks`, which are not copied."""
    layout = _layout(version)
    topics, response.topics = response.topics, []
    try:
        around = Frame()
        MetadataResponse.WRITERS[version](around, response)
    finally:
        response.topics = topics
    out += around[: len(around) - layout.after - layout.empty]
    out += _count(sum(block.topics for block in blocks), version)
    out.regions += [(len(out), block.data) for block in blocks]
    out += around[len(around) - layout.after :]


def blocks_of(topics: Sequence[MetadataResponseTopic]) -> Iterator[list[MetadataResponseTopic]]:
    """Yield the topics in blocks of about PARTITIONS_AT_ONCE partitions."""
    block: list[MetadataResponseTopic] = []
    partitions = 0
    for topic in topics:
        block.append(topic)
        partitions += max(1, len(topic.partitions))
        if partitions >= PARTITIONS_AT_ONCE:
            yield block
            block, partitions = [], 0
    if block:
        yield block


class EncodedTopics:
    """All topics of a view in one version; complete when no block is stale.

    version   that of the Metadata requests
    """

    __slots__ = ("_blocks", "_find", "_firsts", "_names", "version")

    def __init__(self, version: int, names: Callable[[], list[str]], find: FindTopic) -> None:
        """`names` returns all topic names, sorted, and `find` the topic with a name."""
        self.version = version
        self._names = names
        self._find = find
        # A block has the names from its first one up to the first one of the next block.
        self._firsts = [""]
        self._blocks: list[Block | None] = [None]

    def forget(self, name: str) -> None:
        """Make the block of a changed, new or deleted topic stale."""
        self._blocks[bisect_right(self._firsts, name) - 1] = None

    @property
    def is_complete(self) -> bool:
        return None not in self._blocks

    @property
    def blocks(self) -> list[Block]:
        """All topics, in the order of their names, if this is complete."""
        return [block for block in self._blocks if block is not None]

    @property
    def size_bytes(self) -> int:
        return sum(len(block.data) for block in self.blocks)

    def write_block(self) -> None:
        """Write the first stale block, or the first part of one that has become too large."""
        at = self._blocks.index(None)
        names = self._names()
        start = bisect_left(names, self._firsts[at])
        end = len(names)
        if at + 1 < len(self._firsts):
            end = bisect_left(names, self._firsts[at + 1])
        if start == end and len(self._firsts) > 1:  # its topics are deleted
            del self._firsts[at], self._blocks[at]
            self._firsts[0] = ""
            return
        topics, cut = self._some(names, start, end)
        if cut < end:
            self._firsts.insert(at + 1, names[cut])
            self._blocks.insert(at + 1, None)
        self._blocks[at] = block_of(topics, self.version)

    def _some(
        self, names: list[str], start: int, end: int
    ) -> tuple[list[MetadataResponseTopic], int]:
        """Return the topics of a block, and the index of the first name that is not of it.

        All of the names, if they have at most twice PARTITIONS_AT_ONCE partitions: so blocks stay
        the same while topics come and go.
        """
        topics: list[MetadataResponseTopic] = []
        partitions, full = 0, end
        for index in range(start, end):
            topic = self._find(names[index])
            assert topic is not None, "the view has all names"
            topics.append(topic)
            partitions += max(1, len(topic.partitions))
            if full == end and partitions >= PARTITIONS_AT_ONCE:
                full = index + 1
            if partitions > 2 * PARTITIONS_AT_ONCE:
                return topics[: full - start], full
        return topics, end
