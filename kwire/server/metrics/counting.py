"""Makes the functions that count what a response says: its errors, and its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.server.metrics.response_errors import count_errors
from kwire.server.metrics.topics import count_fetch, count_produce, count_share_fetch

if TYPE_CHECKING:
    from kwire.server.metrics.meters import CountResponse, Meters, RequestMeter
    from kwire.server.metrics.topics import NameOf

OF_FOLLOWERS: Final = 1 << 32
"""Added to the key of `Meters.counts` for fetches of followers, which have a meter of their own."""


def key_of(api_key: int, version: int) -> int:
    """Return the key of an API key and version in `Meters.counts`."""
    return api_key << 16 | version & 0xFFFF


def counting(
    meters: Meters, meter: RequestMeter, api_key: int, version: int, name_of: NameOf
) -> CountResponse:
    """Return what counts the responses of an API key at a version; `meter` is that of the requests.

    `name_of` returns the name of a topic by its id.
    """
    if api_key == ApiKey.PRODUCE:
        return lambda request, response: count_produce(
            meters, meter, request, response, version, name_of
        )
    if api_key == ApiKey.FETCH:
        return lambda _, response: count_fetch(meters, meter, response, version, name_of)
    errors = meter.errors
    if api_key == ApiKey.SHARE_FETCH:

        def count(_: Any, response: Any) -> None:  # noqa: ANN401 - any message
            count_errors(response, errors)
            count_share_fetch(meters, response, name_of)

        return count
    return lambda _, response: count_errors(response, errors)
