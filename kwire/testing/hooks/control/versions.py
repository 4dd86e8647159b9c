"""An older broker's versions: how high the requests are that clients are told of, API by API.

A release tells of all of them; a client may be told of some APIs alone, too.  Features that go by
newer requests than clients are told of are not told, either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.codecs.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.requests.routes import ROUTES, UnsupportedRequest
from kwire.testing.hooks.control.releases import CHANGES
from kwire.testing.hooks.faults.rules import BadRule, api_of

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.context import Context
    from kwire.requests.routes import Binding


NOT_SERVED: Final = -1
"""In the place of a highest version."""

TOLD_WITH_REFUSAL_SINCE: Final = 3
"""Brokers with this version of ApiVersions say up to which, where they refuse one (KIP-511)."""

TAKEN_BY_FEATURES: Final = {
    "transaction.version": (ApiKey.PRODUCE, 12),
    "group.version": (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1),
    "share.version": (ApiKey.SHARE_FETCH, 1),
    "streams.version": (ApiKey.STREAMS_GROUP_HEARTBEAT, 0),
    "metadata.version": (ApiKey.DESCRIBE_CLUSTER, 0),
}
"""What a client that goes by a feature asks: who is told of one and not of the other fails."""


def read_max_versions(said: Iterable[str]) -> dict[int, int]:
    """API key -> highest version, of `Produce=7` and of a release, as `2.8`.  Raises BadRule.

    Where both are said the release gives way.
    """
    release: dict[int, int] = {}
    found = {}
    for each in said:
        if each[:1].isdigit():
            if release:
                raise BadRule(f"{each!r}: a broker is of one release")
            release = of_release(each)
        else:
            key, version = _of_api(each)
            found[key] = version
    return {**release, **found}


def versions_of(release: str) -> dict[int, int]:
    """API key -> highest version.  KeyError if there is no such release."""
    versions: dict[int, int] = {}
    for each, changes in CHANGES.items():
        for change in changes.split():
            if change.startswith("-"):
                del versions[int(change[1:])]
            else:
                key, _, highest = change.partition(":")
                versions[int(key)] = int(highest)
        if each == release:
            return versions
    raise KeyError(release)


def of_release(release: str) -> dict[int, int]:
    """What a release of Apache Kafka tells of, of all that is served.  Raises BadRule.

    It is one by its first two numbers, or by more.
    """
    name = ".".join(release.split(".")[:2])
    if name not in CHANGES:
        raise BadRule(f"there is no release {release!r} here: there are {', '.join(CHANGES)}")
    told = versions_of(name)
    found = {}
    for route in ROUTES:
        high = told.get(route.api_key, NOT_SERVED)
        found[int(route.api_key)] = high if high >= route.min_version else NOT_SERVED
    return found


def _of_api(said: str) -> tuple[int, int]:
    name, _, number = said.partition("=")
    key = int(api_of(name))
    served = {int(route.api_key): route for route in ROUTES}
    if key not in served or key == ApiKey.API_VERSIONS:
        raise BadRule(f"{API_NAMES[key]} is served in all its versions or not at all")
    low, high = served[key].min_version, served[key].max_version
    if not number.isdigit() or not low <= int(number) <= high:
        raise BadRule(f"{said!r}: {API_NAMES[key]} is served from version {low} to {high}")
    return key, int(number)


class MaxVersions:
    """What a broker goes by that is to look older than it is."""

    def __init__(self, by_key: Mapping[int, int]) -> None:
        self._by_key = by_key

    def __bool__(self) -> bool:
        """Whether it is."""
        return bool(self._by_key)

    def bound(self, binding: Binding) -> Binding:
        """As `binding`, where that version is served; ApiVersions then tells of these alone.

        Raises UnsupportedRequest, as of an API or a version that there is not.
        """
        high = self._by_key.get(binding.api_key)
        is_beyond = high is not None and binding.api_version > high
        if binding.api_key == ApiKey.API_VERSIONS:
            return self._refusing(binding) if is_beyond else self._lowering(binding)
        if is_beyond:
            name = API_NAMES[binding.api_key]
            up_to = "" if high == NOT_SERVED else f": only up to {high}"
            raise UnsupportedRequest(f"{name} version {binding.api_version} is not served{up_to}")
        return binding

    def _refusing(self, binding: Binding) -> Binding:
        """ApiVersions of a version that is not there is answered in version 0."""
        high = self._by_key[binding.api_key]
        told = [ApiVersion(binding.api_key, 0, high)] if high >= TOLD_WITH_REFUSAL_SINCE else []

        def handle(broker: Broker, request: Any, context: Context) -> ApiVersionsResponse:  # noqa: ANN401 - a Handle
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=told)

        return replace(binding, handle=handle, write=ApiVersionsResponse.WRITERS[0])

    def _lowering(self, binding: Binding) -> Binding:
        serve = binding.handle

        def handle(broker: Broker, request: Any, context: Context) -> ApiVersionsResponse:  # noqa: ANN401 - a Handle
            response = serve(broker, request, context)
            assert isinstance(response, ApiVersionsResponse)
            return self._lowered(response)

        return replace(binding, handle=handle)

    def _lowered(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """Another response: its list is one that all connections share."""
        lowered = [
            replace(each, max_version=min(each.max_version, high))
            for each in response.api_keys
            if (high := self._by_key.get(each.api_key, each.max_version)) != NOT_SERVED
        ]
        return replace(
            response,
            api_keys=lowered,
            supported_features=[f for f in response.supported_features if self._has(f.name)],
            finalized_features=[f for f in response.finalized_features if self._has(f.name)],
        )

    def _has(self, feature: str) -> bool:
        key, version = TAKEN_BY_FEATURES[feature]
        return self._by_key.get(key, version) >= version
