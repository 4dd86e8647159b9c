"""The records that members of a share group hold now, which only metrics endpoints tell.

kwire has these metrics (`kwire serve --metrics`); Apache Kafka has none for single partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.cluster import TopicPartition
from kwire.client.metrics.scrape import ScrapeFailed, scrape_page

TIMEOUT_S: Final = 5.0
"""How long a page or a sample waits for one endpoint."""
RECORDS: Final = "kwire_share_partition_records"
DELIVERIES_MAX: Final = "kwire_share_partition_deliveries_max"


@dataclass(slots=True)
class RecordsInFlight:
    """The records of one partition that are in flight to a share group."""

    by_state: dict[str, int] = field(default_factory=dict)
    """How many records there are in each delivery state."""
    deliveries_max: int | None = None
    """The highest delivery count of one of them."""


def records_in_flight(
    urls: Sequence[str], group_id: str
) -> tuple[Mapping[TopicPartition, RecordsInFlight], str | None]:
    """What the endpoints tell of a share group, and why one of them cannot be read."""
    found: dict[TopicPartition, RecordsInFlight] = {}
    trouble = None
    for url in urls:
        try:
            scraped = scrape_page(url, (RECORDS, DELIVERIES_MAX), TIMEOUT_S)
        except ScrapeFailed as error:
            trouble = str(error)
            continue
        for name in scraped.values:
            for each in scraped.of(name, group=group_id):
                partition = each.labels.get("partition", "")
                if not partition.isdecimal():
                    continue
                place = TopicPartition(each.labels.get("topic", ""), int(partition))
                own = found.setdefault(place, RecordsInFlight())
                if name == RECORDS:
                    state = each.labels.get("state", "")
                    own.by_state[state] = own.by_state.get(state, 0) + int(each.value)
                else:
                    own.deliveries_max = max(own.deliveries_max or 0, int(each.value))
    return found, trouble
