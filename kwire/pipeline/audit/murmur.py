"""The hash of Kafka's default partitioner for many keys at once, for Spark's Python workers.

This module is sent to the workers by value, so it imports nothing of kwire.
`kwire.client.partitioner` computes the same hash for one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_Words = npt.NDArray[np.uint32]


def with_murmur2(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches with a column `murmur2`, the hash of column `key`, which must not be null."""
    for batch in batches:
        keys = batch.column("key")
        hashes = pa.array(murmur2(keys).astype(np.int64))
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, hashes], names=[*batch.schema.names, "murmur2"]
        )


def murmur2(keys: pa.BinaryArray) -> _Words:
    """The MurmurHash2 of each key with Kafka's seed, in 32-bit numbers that wrap around."""
    octets, starts, sizes = _parts(keys)
    words = sizes // 4
    h = _SEED ^ sizes.astype(np.uint32)
    for word in range(int(words.max(initial=0))):
        at = np.flatnonzero(words > word)
        k = _word(octets, starts[at] + 4 * word) * _M
        h[at] = h[at] * _M ^ (k ^ k >> np.uint32(24)) * _M
    for place in (2, 1, 0):  # the up to three octets after the last word
        at = np.flatnonzero(sizes % 4 > place)
        octet = octets[starts[at] + 4 * words[at] + place].astype(np.uint32)
        h[at] ^= octet << np.uint32(8 * place)
    at = np.flatnonzero(sizes % 4)
    h[at] *= _M
    h = (h ^ h >> np.uint32(13)) * _M
    mixed: _Words = h ^ h >> np.uint32(15)
    return mixed


def _parts(
    keys: pa.BinaryArray,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All octets in one array, and the start and length of each key in it."""
    wide = keys.cast(pa.large_binary())
    _, offsets, octets = wide.buffers()
    edges = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = np.frombuffer(octets or b"", np.uint8)
    return data, edges[:-1], np.diff(edges)


def _word(octets: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> _Words:
    """The 32-bit numbers at these positions, in little-endian order."""
    word = octets[at].astype(np.uint32)
    for place in (1, 2, 3):
        word |= octets[at + place].astype(np.uint32) << np.uint32(8 * place)
    return word
