"""Keys go to the partitions that the Java producer sends them to."""

from __future__ import annotations

import pytest

from kwire.client.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("data", "java"),  # as `Utils.murmur2` of Apache Kafka 4.3.1 returns it: a signed int
    [
        (b"", 275646681),
        (b"a", -1563381124),
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (bytes(range(256)), -1948347274),
    ],
)
def test_murmur2_returns_javas_hash(data: bytes, java: int) -> None:
    assert murmur2(data) == java % 2**32


def test_partition_for_ignores_the_sign_of_the_hash() -> None:
    assert partition_for(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
