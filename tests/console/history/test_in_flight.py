"""The records in flight to a share group, out of metrics endpoints."""

from __future__ import annotations

from kwire.client.cluster import TopicPartition
from kwire.console.history.in_flight import RecordsInFlight, records_in_flight
from tests.console.history.endpoint import served

METRICS = """\
kwire_share_partition_records{group="g",topic="t",partition="0",state="acquired"} 5
kwire_share_partition_records{group="g",topic="t",partition="0",state="available"} 2
kwire_share_partition_records{group="other",topic="t",partition="0",state="acquired"} 9
kwire_share_partition_deliveries_max{group="g",topic="t",partition="0"} 3
kwire_share_partition_deliveries_max{group="g",topic="t",partition="1"} 1
"""


def test_records_in_flight_of_one_group_come_from_all_endpoints() -> None:
    with served(METRICS) as first, served(METRICS) as second:
        found, trouble = records_in_flight([first, second], "g")
    assert trouble is None
    assert found == {
        TopicPartition("t", 0): RecordsInFlight({"acquired": 10, "available": 4}, 3),
        TopicPartition("t", 1): RecordsInFlight({}, 1),
    }


def test_endpoint_that_is_away_is_told_beside_what_others_say() -> None:
    with served(METRICS) as gone:
        pass
    with served(METRICS) as url:
        found, trouble = records_in_flight([gone, url], "g")
    assert trouble is not None
    assert gone in trouble
    assert len(found) == 2
