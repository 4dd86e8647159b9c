"""Client quotas: what the clients with a quota use of it, and how long they are throttled now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.metrics.samples import Samples


def collect(broker: Broker, samples: Samples) -> None:
    """Give the rate and the throttle time of each user and client id that has a quota."""
    quotas = broker.configs.quotas
    if quotas is None:
        return
    bytes_of = samples.series("kafka_server_quota_byte_rate")
    time_of = samples.series("kafka_server_quota_request_time")
    throttle_of = samples.series("kafka_server_quota_throttle_time")
    limit_of = samples.series("kwire_quota_limit")
    for resource, used in quotas.measured():
        labels = resource, used.shared_by.user or "", used.shared_by.client_id or ""
        rates = time_of if resource == "Request" else bytes_of
        rates[labels] = used.rate
        throttle_of[labels] = used.throttle_ms
        limit_of[labels] = used.limit
