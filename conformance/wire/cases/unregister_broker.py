"""Cases of UnregisterBroker: brokers that are not registered.

Other cases use the broker at the same time, so that it cannot be unregistered itself;
tests/cli/hosting/test_unregistering.py does that.
"""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.UNREGISTER_BROKER)

NOBODY = 2_000_000_000
"""The id of no broker."""


def access_request(version: int, topic_id: bytes) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(NOBODY)


case.requests(
    {
        "a broker that does not exist": lambda stage: UnregisterBrokerRequest(NOBODY),
        "a negative id": lambda stage: UnregisterBrokerRequest(-1),
        "the lowest id": lambda stage: UnregisterBrokerRequest(-(2**31)),
    }
)
