"""The live tail: records that arrive, in pieces of bounded size.

A tail has a Cluster of its own, since its fetches wait for new records.  Between two steps it holds
nothing but the positions, so that it cannot grow; if records arrive faster than a piece may have,
the newest are in it, and it says how many it left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.fetcher import Fetcher, OffsetOutOfRange
from kwire.client.offsets import Isolation, end_offsets, start_offsets
from kwire.console.decoding.decoder import Decoder
from kwire.console.messages.query import MessageQuery
from kwire.console.messages.record import MessageRecord
from kwire.console.messages.rows import cell
from kwire.console.text import time_text, visible

STEP_S: Final = 0.25
"""How long a step collects records."""
ROWS_MAX: Final = 200
"""Rows in a piece; the page has room for a few times as many."""
CELL_LENGTH_MAX: Final = 240


class Tail:
    """Follows a topic from its end on."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        query: MessageQuery,
        decoder: Decoder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cluster` belongs to the tail.  Nothing is asked yet."""
        self._cluster = cluster
        self._topic = topic
        self._query = query
        self._decoder = decoder
        self._clock = clock
        self._fetcher = Fetcher(
            cluster,
            Isolation.READ_COMMITTED if query.is_committed else Isolation.READ_UNCOMMITTED,
        )
        self._positions: dict[TopicPartition, int] = {}

    def start(self) -> None:
        """Go to the end of the partitions.  Raises ClientError if the topic does not exist."""
        indexes = {each.partition_index for each in self._cluster.topic(self._topic).partitions}
        wanted = self._query.partitions
        if wanted is not None and not wanted <= indexes:
            raise Misuse(f"topic {self._topic} has no partition {min(wanted - indexes)}")
        places = [TopicPartition(self._topic, index) for index in sorted(wanted or indexes)]
        self._positions = end_offsets(self._cluster, places)

    def step(self) -> dict[str, Any]:
        """The records that arrive within STEP_S, as a piece: `rows`, and the counts `seen`,
        `found` and `left_out`."""
        until = self._clock() + STEP_S
        newest: deque[MessageRecord] = deque(maxlen=ROWS_MAX)
        seen = found = 0
        while (left_s := until - self._clock()) > 0:
            try:
                fetched = self._fetcher.poll(self._positions, left_s)
            except OffsetOutOfRange as problem:
                start = start_offsets(self._cluster, [problem.partition])
                self._positions |= start
                continue
            for part in fetched:
                self._positions[part.partition] = part.next_offset
                for record in part.records:
                    seen += 1
                    shown = MessageRecord(
                        record, self._decoder, self._query.key_form, self._query.value_form
                    )
                    if self._query.expression is None or self._query.expression.test(shown):
                        found += 1
                        newest.append(shown)
        rows = [tail_row(shown) for shown in newest]
        return {"rows": rows, "seen": seen, "found": found, "left_out": found - len(rows)}

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()
        self._cluster.close()


def tail_row(shown: MessageRecord) -> dict[str, Any]:
    """A record as the page's script shows it: text without characters that a browser obeys."""
    key, value = cell(shown.key, is_value=False), cell(shown.value, is_value=True)
    return {
        "partition": shown.partition,
        "offset": shown.offset,
        "time": time_text(shown.timestamp_ms),
        "key": visible(key.text, CELL_LENGTH_MAX),
        "key_word": key.word,
        "value": visible(value.text, CELL_LENGTH_MAX),
        "value_word": value.word,
        "headers": len(shown.record.headers),
    }
