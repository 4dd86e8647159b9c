"""The bytes of all topics follow the topics as they come, change and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata import encoded
from kwire.cluster.metadata.encoded import EncodedTopics, write_around
from kwire.codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.codecs.primitives import Frame


class Topics:
    """Topics by name, and their bytes in one version."""

    def __init__(self, version: int) -> None:
        self.by_name: dict[str, MetadataResponseTopic] = {}
        self.encoded = EncodedTopics(version, lambda: sorted(self.by_name), self.by_name.get)

    def put(self, name: str, partitions: int) -> None:
        """Create or change a topic."""
        each = [MetadataResponsePartition(0, index) for index in range(partitions)]
        self.by_name[name] = MetadataResponseTopic(0, name, partitions=each)
        self.encoded.forget(name)

    def remove(self, name: str) -> None:
        self.by_name.pop(name, None)
        self.encoded.forget(name)

    def written(self) -> bytes:
        while not self.encoded.is_complete:
            self.encoded.write_block()
        frame = Frame()
        response = MetadataResponse(cluster_id="c", controller_id=7)
        write_around(frame, response, self.encoded.blocks, self.encoded.version)
        return frame.tobytes()

    def expected(self) -> bytes:
        topics = [self.by_name[name] for name in sorted(self.by_name)]
        response = MetadataResponse(cluster_id="c", controller_id=7, topics=topics)
        return response.encode(self.encoded.version)


changes = st.lists(
    st.tuples(st.integers(0, 30).map("t{}".format), st.none() | st.integers(1, 4)), max_size=60
)


@settings(max_examples=50)
@given(version=st.sampled_from([0, 8, 13]), changes=changes, reads=st.integers(1, 9))
def test_bytes_equal_those_of_all_topics_written_at_once(
    version: int, changes: list[tuple[str, int | None]], reads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "PARTITIONS_AT_ONCE", 4)
        topics = Topics(version)
        for number, (name, partitions) in enumerate(changes):
            if partitions is None:
                topics.remove(name)
            else:
                topics.put(name, partitions)
            if number % reads == 0:
                assert topics.written() == topics.expected()
        assert topics.written() == topics.expected()


def test_change_of_a_topic_writes_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "PARTITIONS_AT_ONCE", 4)
    topics = Topics(12)
    for number in range(40):
        topics.put(f"t{number:02}", 1)
    topics.written()
    before = topics.encoded.blocks
    assert [block.topics for block in before] == [4] * 8 + [8]
    topics.put("t04a", 1)
    topics.written()
    changed = [one is not two for one, two in zip(before, topics.encoded.blocks, strict=True)]
    assert changed == [False, True] + [False] * 7
